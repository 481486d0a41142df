package contracttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/tokens"
)

// delivered is a text that clients get before their upstream falls silent, and what it is worth on a route where only
// output costs, $1,000 for a million tokens.
var (
	delivered      = strings.Repeat("The keeper wrote down every ship. ", 40)
	deliveredWorth = tokens.Text(delivered) * 100_000
)

// TestDeliveredText: a reply that a limit of time cuts off is work, whether its upstream proves it or not (GAP-113).
func TestDeliveredText(t *testing.T) {
	t.Parallel()
	costly := func(name, timeout string) route {
		return route{Name: name, Input: "0", Output: "1000", Timeout: timeout, Quality: 0.9}
	}
	const limit = "800ms" // in which a machine that is not too busy delivers a text
	estimating := costly("standard", limit)
	estimating.Metering = "estimate"
	const total = "request_timeout = \"" + limit + "\"\n"
	fair := fmt.Sprintf("fair_use_microcents = %d", deliveredWorth*3/2)
	setups := map[string]setup{
		"the route's time":          {Routes: []route{costly("standard", limit)}},
		"the route's time, metered": {Routes: []route{estimating}},
		"the total time":            {Gateway: total, Routes: []route{costly("standard", "5m")}},
	}
	text := upstream.Text(delivered)
	cut := upstream.Reply{Steps: []upstream.Step{upstream.Headers(), text, upstream.Silence()}}
	for name, s := range setups {
		s.Plan, s.Extra = "fair", capped("fair", fair)
		g := startScripted(t, s)
		for _, sh := range shapes {
			t.Run("GAP-113 GAP-54 GAP-135 BILL-26 BILL-27 "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(cut)
				for _, waived := range []int64{deliveredWorth, deliveredWorth*3/2 - deliveredWorth, 0} {
					a := reached(t, func() answer { return c.Ask(sh, streamField) }, has("ship. "))
					require.Contains(t, string(a.Raw), `"billing_pending":true`)
					r := c.Record(t, a)
					require.True(t, r.ServiceLimit)
					require.False(t, r.Pending)
					require.True(t, r.Attempts[0].Usage.Estimated)
					require.Equal(t, waived, r.Waived)
					require.Equal(t, deliveredWorth-waived, r.Microcents)
				}
				require.Positive(t, c.Credits*ledger.MicrocentsPerCredit-c.Net(), "it is not free without end")
			})
			t.Run("GAP-113 nothing was delivered: "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				if strings.HasSuffix(name, "metered") {
					return // the provider counts for itself
				}
				c := g.rich(t)
				c.Answers(cut)
				r := c.Record(t, reached(t, func() answer { return c.Ask(sh, `"stream":false`) }, called(c)))
				require.Zero(t, r.Microcents)
				require.True(t, r.Pending)
				require.Equal(t, name == "the total time", r.ServiceLimit)
			})
		}
	}
	failing := startScripted(t, setup{})
	late := startLater(t, setup{Gateway: total, Routes: []route{costly("standard", "5m")}})
	for _, sh := range shapes {
		t.Run("GAP-113 GAP-56 a failure of the upstream "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := failing.rich(t)
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), text, upstream.Fail(upstream.ServerError())}})
			r := c.Record(t, c.Ask(sh, streamField))
			require.True(t, r.Pending)
			require.False(t, r.ServiceLimit)
			require.False(t, r.Attempts[0].Usage.Known())
			require.Nil(t, r.Attempts[0].Estimate)
		})
		t.Run("GAP-113 GAP-56 a provider that can prove it later "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := late.rich(t)
			unproven := cut
			unproven.Usage = upstream.UsageAlways
			c.Answers(unproven)
			r := c.Record(t, reached(t, func() answer { return c.Ask(sh, streamField) }, has("ship. ")))
			require.True(t, r.Pending)
			require.True(t, r.ServiceLimit)
			require.Equal(t, ledger.Unproven, r.Attempts[0].Outcome)
			require.NotNil(t, r.Attempts[0].Estimate)
			require.Equal(t, tokens.Text(delivered), *r.Attempts[0].Estimate.Output)
			require.False(t, r.Attempts[0].Usage.Known())
		})
	}
}

// TestFlood: an upstream that sends many times what it was allowed to has failed, however fast it is.
func TestFlood(t *testing.T) {
	t.Parallel()
	const megabyte = 16 // pieces
	piece := strings.Repeat("0123456789abcdef", 4<<10)
	g := startScripted(t, setup{Routes: []route{{Name: "first", Quality: 0.9}}})
	two := startScripted(t, setup{Routes: twoRoutes})
	flood := func(step upstream.Step) upstream.Reply {
		return script(used(10, 50), "stop", slices.Repeat([]upstream.Step{step}, 300*megabyte)...)
	}
	for _, sh := range shapes {
		kinds := map[string]upstream.Step{"text": upstream.Text(piece), "reasoning": upstream.Reasoning(piece)}
		for name, step := range kinds {
			t.Run("GAP-96 ERR-20 "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(flood(step))
				a := c.Ask(sh, streamField, allowance(sh, 50))
				require.Less(t, len(a.Raw), 1<<20)
				require.Contains(t, string(a.Raw), `"upstream_error"`)
				record, err := c.Upstream.Ended(within(t), c.Seen()[0].N)
				require.NoError(t, err)
				require.NotEqual(t, upstream.OutcomeWhole, record.Outcome)
				requireError(t, sh, c.Ask(sh, askForCalls(sh), allowance(sh, 50)), 502, "upstream_error")
			})
		}
		t.Run("GAP-39 another route is tried "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := two.rich(t)
			c.AnswersBy(byRoute(flood(upstream.Reasoning(piece)), hello))
			outcomeOf(t, sh, c.Ask(sh, streamField, allowance(sh, 50)))
			require.Len(t, c.Seen(), 2)
		})
		t.Run("as much as a long reply may have "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 50), "stop", upstream.Text(strings.Repeat("word ", 12_000))))
			outcomeOf(t, sh, c.Ask(sh, streamField, allowance(sh, 50)))
		})
	}
}

// TestMaxStreams proves max_streams: how many charged requests are in progress, of all accounts.
func TestMaxStreams(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("LIM-12 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				g := startScripted(t, setup{Gateway: "max_streams = 2"})
				a, b, c := g.rich(t), g.rich(t), g.rich(t)
				var replies []<-chan answer
				for _, busy := range []*caller{a, b} {
					busy.Blocked(hello)
					replies = append(replies, busy.Start(t, sh, mode.Field))
				}
				require.EqualValues(t, 2, g.gauge(t, "fareway_running_requests"))
				requireFull(t, sh, c.Ask(sh, mode.Field))
				c.RequireUntouched(t)
				require.Equal(t, 200, c.Get("/v1/models", "Authorization", "Bearer "+c.Key).StatusCode, "it is not charged")
				g.Upstream.Open(a.Mark)
				outcomeOf(t, sh, <-replies[0])
				outcomeOf(t, sh, c.Ask(sh, mode.Field))
				g.Reload(func(hcl string) string { return strings.Replace(hcl, "max_streams = 2", "max_streams = 1", 1) })
				requireFull(t, sh, c.Ask(sh, mode.Field))
				g.Upstream.Open(b.Mark)
				outcomeOf(t, sh, <-replies[1])
				outcomeOf(t, sh, c.Ask(sh, mode.Field))
				requireError(t, sh, c.Ask(sh, `"temperature":"hot"`), 400, "invalid_request_error")
				outcomeOf(t, sh, c.Ask(sh, mode.Field)) // a refusal gives its place back
				require.Zero(t, g.gauge(t, "fareway_running_requests"))
			})
		}
	}
}

// TestOneAccountOfMany: slow readers of one account leave places to others.
func TestOneAccountOfMany(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("LIM-11 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := pace(t, limitedTo(0, 0, 0, ""), setup{Gateway: "max_streams = 8"})
			greedy, other := g.rich(t), g.rich(t)
			greedy.Blocked(hello)
			var replies []<-chan answer
			for range 2 {
				replies = append(replies, greedy.Start(t, sh, streamField))
			}
			require.NoError(t, g.Upstream.AtGate(within(t), greedy.Mark, 2))
			refused := greedy.Ask(sh, streamField)
			requireError(t, sh, refused, 429, "rate_limit_exceeded")
			require.Equal(t, concurrentReason, refused.Header.Get("X-RateLimit-Reason"), "a quarter of the places")
			outcomeOf(t, sh, other.Ask(sh))
			g.Upstream.Open(greedy.Mark)
			for _, reply := range replies {
				outcomeOf(t, sh, <-reply)
			}
			outcomeOf(t, sh, greedy.Ask(sh))
		})
	}
}

// TestHeldMetric: what is held for running requests is nothing when none runs, also when a fallback has raised it.
func TestHeldMetric(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("BILL-10 GAP-49 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Routes: []route{
				{Name: "first", Quality: 0.9, Max: 1000}, {Name: "second", Quality: 0.1, Output: "15", Max: 1000},
			}})
			c := g.rich(t)
			c.AnswersBy(byRoute(worked(used(3000, 900)), hello))
			outcomeOf(t, sh, c.Ask(sh))
			require.Len(t, c.Seen(), 2)
			require.Zero(t, g.gauge(t, "fareway_held_microcents"))
		})
	}
}

// TestUsageWithoutPrice: usage that nobody can price is a fault of the route's, which nobody pays.
func TestUsageWithoutPrice(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		t.Run("GAP-42 GAP-55 BILL-25 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, ledger.MaxTokens+1), "stop", upstream.Text("Hello")))
			json := c.Ask(sh)
			requireError(t, sh, json, 502, "upstream_error")
			stream := c.Ask(sh, streamField)
			require.Contains(t, string(stream.Raw), `"validator_failed"`)
			for _, a := range []answer{json, stream} {
				r := c.Record(t, a)
				require.Zero(t, r.Microcents)
				require.False(t, r.Pending)
			}
		})
	}
}
