package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// TestWordsAloneBenchNoKey: what a client can bring about by its texts costs no key, unless the key fails in a request
// of the gateway's own.
func TestWordsAloneBenchNoKey(t *testing.T) {
	t.Parallel()
	worded := func(kind llm.ErrorKind, status int) *llm.Error {
		return &llm.Error{Kind: kind, Status: status, Basis: llm.ByWording, Message: "it says so"}
	}
	for name, c := range map[string]struct {
		failure, probe *llm.Error
		state          KeyState
		probes         int
	}{
		"GAP-126 the probe serves": {worded(llm.ErrCredentials, 400), nil, KeyServes, 1},
		"GAP-126 the probe is refused": {worded(llm.ErrCredentials, 400), worded(llm.ErrCredentials, 400),
			KeyRefused, 1},
		"GAP-126 quota in words":             {worded(llm.ErrQuota, 400), worded(llm.ErrQuota, 400), KeyExhausted, 1},
		"GAP-126 the probe says which":       {worded(llm.ErrQuota, 400), refused, KeyRefused, 1},
		"GAP-126 the probe is busy":          {worded(llm.ErrQuota, 429), limitedFor(0), KeyServes, 1},
		"GAP-126 the status says it as well": {worded(llm.ErrCredentials, 401), nil, KeyRefused, 0},
		"GAP-126 paid for":                   {worded(llm.ErrQuota, 402), nil, KeyExhausted, 0},
		"GAP-126 403 and a code": {&llm.Error{Kind: llm.ErrCredentials, Status: 403, Basis: llm.ByCode}, nil,
			KeyRefused, 0},
		"GAP-126 403 alone": {&llm.Error{Kind: llm.ErrCredentials, Status: 403}, nil, KeyServes, 0},
		"GAP-126 larger than a limit": {&llm.Error{Kind: llm.ErrAllowance, Status: 429, RetryAfter: time.Minute}, nil,
			KeyServes, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newKeyring(1, 1)
			req := saying("your credit balance is too low")
			own := r.own(req)
			r.accounts[own].fails = c.failure
			seen := r.accounts[own].probesWith(c.probe)
			key, err := r.ask(t, req)
			require.NoError(t, err, "the other key serves")
			require.Equal(t, r.keys[1-own].key.name, key)
			require.Equal(t, c.state, r.keys[own].key.health().State)
			require.Len(t, *seen, c.probes)
			if c.probes == 0 {
				return
			}
			probe := (*seen)[0]
			require.Equal(t, "m", probe.Model)
			require.EqualValues(t, 1, probe.MaxTokens)
			require.Len(t, probe.Messages, 1)
			require.NotContains(t, probe.Messages[0].Text(), "credit", "nothing of a client is in it")
			_, err = r.ask(t, req)
			require.NoError(t, err)
			require.Len(t, *seen, 1, "not for each request")
			if c.probe != nil && c.state == KeyServes {
				return
			}
			r.now = r.now.Add(quotaPause)
			_, err = r.ask(t, req)
			require.NoError(t, err)
			if c.state == KeyServes {
				require.Len(t, *seen, 2, "after a while again")
			} else {
				require.Len(t, *seen, 1, "it is known not to serve")
				require.Equal(t, c.failure.Kind == llm.ErrQuota, r.keys[own].key.health().State == KeyExhausted)
			}
		})
	}
}
