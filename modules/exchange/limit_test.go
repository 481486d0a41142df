package exchange

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// TestHeldUp: only a client that kept its reply waiting loses fair use for it (GAP-112).
func TestHeldUp(t *testing.T) {
	t.Parallel()
	held := func(d time.Duration) *reader {
		r := new(reader)
		r.held.Store(int64(d))
		return r
	}
	for name, tc := range map[string]struct {
		stalled bool
		reader  *reader
		want    bool
	}{
		"nothing was called":   {},
		"it kept up":           {reader: held(0)},
		"a busy machine":       {reader: held(heldUpFrom - 1)},
		"it was slow":          {reader: held(heldUpFrom), want: true},
		"it was given up":      {stalled: true, reader: held(0), want: true},
		"before anything came": {stalled: true, want: true},
	} {
		t.Run("GAP-112 GAP-54 "+name, func(t *testing.T) {
			t.Parallel()
			x := (&exchange{delivery: &delivery{stalled: tc.stalled, shown: true},
				work: work{current: &attempt{reader: tc.reader}}}).connect()
			require.Equal(t, tc.want, x.work.clientHeldUp())
			for _, kind := range []failureKind{timeLimit, attemptTimeout} {
				require.Equal(t, !tc.want, x.work.serviceLimit(&failure{kind: kind}))
			}
			x.delivery.shown = false
			require.Equal(t, !tc.want, x.work.serviceLimit(&failure{kind: timeLimit}))
			require.False(t, x.work.serviceLimit(&failure{kind: attemptTimeout}), "nothing was delivered")
			require.False(t, x.work.serviceLimit(&failure{kind: llm.ErrUpstream}))
		})
	}
}

// TestNothingToEstimate: an estimate stands in only for what a limit of time cut off after text was delivered
// (GAP-113).
func TestNothingToEstimate(t *testing.T) {
	t.Parallel()
	known := &llm.Usage{Input: llm.Count(2), Output: llm.Count(1)}
	for name, tc := range map[string]struct {
		kind    failureKind
		shown   bool
		attempt attempt
	}{
		"another failure":       {llm.ErrUpstream, true, attempt{outcome: ledger.Failed}},
		"nothing was delivered": {timeLimit, false, attempt{outcome: ledger.Failed}},
		"it is proven":          {attemptTimeout, true, attempt{outcome: ledger.Failed, usage: known}},
		"no call was made":      {timeLimit, true, attempt{outcome: ledger.NotMade}},
	} {
		t.Run("GAP-113 "+name, func(t *testing.T) {
			t.Parallel()
			a := tc.attempt
			a.route = &standard
			x := (&exchange{delivery: &delivery{shown: tc.shown}, work: work{current: &a}}).connect()
			require.Nil(t, x.work.estimateUnproven(&failure{kind: tc.kind}))
			require.Equal(t, tc.attempt.usage, a.usage)
		})
	}
}
