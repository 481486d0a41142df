package contracttest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// provenCost is what the provider "prover" (internal/testproviders) proves.
const provenCost = 10*300 + 7*1500

// called tells whether a caller's request came to its upstream.
func called(c *caller) func(answer) bool { return func(answer) bool { return len(c.Seen()) > 0 } }

// has tells whether a reply has a text.
func has(text string) func(answer) bool {
	return func(a answer) bool { return strings.Contains(string(a.Raw), text) }
}

// TestCancel proves GAP-47 for a provider that can prove usage after a cancel: whoever ends the attempt, client or
// gateway, it is stopped, and what it used is charged at once.
func TestCancel(t *testing.T) {
	t.Parallel()
	const slowly = `
request_timeout = "500ms"
keepalive       = "100ms"
`
	stuck := upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Text("Hel"), upstream.Silence()}}
	patient := startScripted(t, setup{Plugin: "prover"})
	slow := startScripted(t, setup{Plugin: "prover", Gateway: slowly})
	mute := startScripted(t, setup{Plugin: "prover", Gateway: slowly, Routes: []route{{Name: "mute"}}})
	two := startScripted(t, setup{Plugin: "prover", Routes: []route{
		{Name: "first", Quality: 0.9, Timeout: "300ms"}, {Name: "second", Quality: 0.1},
	}})
	stopped := func(t *testing.T, c *caller) {
		t.Helper()
		record, err := c.Upstream.Ended(within(t), c.Seen()[0].N)
		require.NoError(t, err)
		require.NotEqual(t, upstream.OutcomeWhole, record.Outcome)
	}
	for _, sh := range shapes {
		t.Run("BILL-22 GAP-47 a client leaves "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := patient.rich(t)
			c.Answers(stuck)
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			leave()
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, "client_left", line["reason"])
			require.InDelta(t, provenCost, line["microcents"], 0)
			require.Equal(t, false, line["pending"])
			require.Equal(t, c.Credits*ledger.MicrocentsPerCredit-provenCost, c.Net())
			stopped(t, c)
		})
		for _, mode := range modes {
			t.Run("GAP-47 GAP-18 BILL-26 the time is over "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := slow.rich(t)
				c.Answers(stuck)
				r := c.Record(t, reached(t, func() answer { return c.Ask(sh, mode.Field) }, called(c)))
				require.Equal(t, 504, r.Status)
				require.False(t, r.Pending)
				require.EqualValues(t, provenCost, r.Waived)
				require.Equal(t, ledger.Failed, r.Attempts[0].Outcome)
				stopped(t, c)
			})
			t.Run("BILL-28 GAP-47 GAP-113 the proof does not come "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := mute.rich(t)
				c.Answers(stuck)
				enough := called(c)
				if mode.Name != "json" {
					enough = has("Hel")
				}
				a := reached(t, func() answer { return c.Ask(sh, mode.Field) }, enough)
				if mode.Name == "json" {
					requireError(t, sh, a, 504, "upstream_error")
				}
				r := c.Record(t, a)
				require.Equal(t, 504, r.Status)
				if mode.Name == "json" {
					require.True(t, r.Pending, "a receipt may add it")
				} else {
					// Text was delivered: what it is taken to have used is free within fair use.
					require.False(t, r.Pending)
					require.Positive(t, r.Waived)
					require.True(t, r.Attempts[0].Usage.Estimated)
				}
				stopped(t, c)
			})
			t.Run("BILL-23 GAP-47 the route's time is over "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := two.rich(t)
				c.AnswersBy(byRoute(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}}, hello))
				a := c.Ask(sh, mode.Field)
				require.EqualValues(t, provenCost+helloCost, outcomeOf(t, sh, a).Billed(t))
				require.False(t, c.Record(t, a).Pending)
				stopped(t, c)
			})
		}
	}
}
