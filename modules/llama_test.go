package modules_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// llamaSetup is a gateway before a llama.cpp server.
func llamaSetup(s setup) setup {
	s.Settings, s.Carry = `preset = "llamacpp"`, "host"
	s.Script.Service = "llamacpp"
	return s
}

// TestLlamaCancel proves GAP-47 for a llama.cpp server, whose chunks say what it has done so far: whoever leaves is
// charged for that, and the server's slot is free at once.
func TestLlamaCancel(t *testing.T) {
	t.Parallel()
	const cost = 60*300 + 40*300 + 2*1500 // the cached part at the price of the input, for the route has no other
	stuck := upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Text("two"), upstream.Wait("stuck"),
		upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 5_000, Cached: llm.Count(40)}),
		upstream.Done()}}
	patient := startScripted(t, llamaSetup(setup{}))
	slow := startScripted(t, llamaSetup(setup{Routes: []route{{Name: "first", Timeout: "400ms"}}}))
	first := startScripted(t, llamaSetup(setup{}))
	for _, sh := range shapes {
		t.Run("BILL-22 GAP-47 a client leaves "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := patient.rich(t)
			c.Answers(stuck)
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			require.Equal(t, "one two", l.Text(sh)+l.Text(sh))
			leave()
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, "client_left", line["reason"])
			require.InDelta(t, cost, line["microcents"], 0)
			require.Equal(t, false, line["pending"])
			require.Equal(t, c.Credits*ledger.MicrocentsPerCredit-cost, c.Net())
			record, err := c.Upstream.Ended(within(t), c.Seen()[0].N)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeLeft, record.Outcome)
		})
		for _, mode := range modes {
			t.Run("GAP-47 GAP-113 the route's time is over "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := slow.rich(t)
				c.Answers(stuck)
				r := c.Record(t, reached(t, func() answer { return c.Ask(sh, mode.Field) }, called(c)))
				require.False(t, r.Pending)
				require.EqualValues(t, cost, r.Microcents+r.Waived)
				require.EqualValues(t, 40, *r.Attempts[0].Usage.CacheRead)
			})
			t.Run("BILL-21 the server crashes "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := patient.rich(t)
				c.Answers(upstream.Reply{Steps: append(stuck.Steps[:2:2], upstream.Cut(), stuck.Steps[4])})
				r := c.Record(t, c.Ask(sh, mode.Field))
				require.EqualValues(t, cost, r.Microcents)
				require.False(t, r.Pending)
			})
		}
	}
	t.Run("GAP-47 the first request of all", func(t *testing.T) {
		t.Parallel()
		c := first.rich(t)
		c.Answers(stuck)
		ctx, leave := context.WithCancel(within(t))
		l := c.Send(t, ctx, shapes[0], streamField).Live()
		l.Start(shapes[0])
		require.Equal(t, "one two", l.Text(shapes[0])+l.Text(shapes[0]))
		leave()
		require.InDelta(t, cost, c.Access(l.Header.Get("X-Request-Id"))["microcents"], 0)
	})
}
