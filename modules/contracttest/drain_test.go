package contracttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// halfway begins a stream of each shape whose route waits in the middle of its text, and reads it so far.
func halfway(t *testing.T, g *scripted) map[string]*liveReply {
	t.Helper()
	streams := make(map[string]*liveReply)
	for _, sh := range shapes {
		c := g.rich(t)
		c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait("drain"), upstream.Text("lo")))
		l := c.Open(t, sh)
		l.Start(sh)
		require.Equal(t, "Hel", l.Text(sh))
		streams[sh.Name] = l
	}
	return streams
}

// TestDrain proves what a shutdown does to live streams (GAP-98).
func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("GAP-98 SSE-36 streams finish", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{})
		streams := halfway(t, g)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			g.Engine.Drain()
		}()
		require.Eventually(t, func() bool { return g.Engine.Ready() != nil }, time.Minute, time.Millisecond)
		select {
		case <-drained:
			require.Fail(t, "drained with live streams")
		default:
		}
		g.Upstream.Open("drain")
		requireClosed(t, drained)
		for _, sh := range shapes {
			l := streams[sh.Name]
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.Equal(t, "Hello", v.Text)
		}
	})
	t.Run("GAP-98 SSE-30 ERR-33 BILL-25 the drain timeout is over", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Gateway: `drain_timeout = "20ms"`})
		streams := halfway(t, g)
		whole := g.rich(t)
		whole.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Wait(whole.Mark), upstream.Silence()}})
		ctx, leave := context.WithCancel(within(t))
		defer leave()
		waiting := whole.Send(t, ctx, shapes[0])
		require.NoError(t, g.Upstream.AtGate(ctx, whole.Mark, 1))
		g.Engine.Drain()
		for _, sh := range shapes {
			l := streams[sh.Name]
			l.End()
			v := judge(t, sh, l)
			require.Equal(t, "stream_error", v.Error.Code)
			require.Equal(t, []string{"Hel"}, v.Pieces)
			line := g.Access(l.Header.Get("X-Request-Id"))
			require.InDelta(t, 0, line["microcents"], 0)
			require.Equal(t, "shutdown", line["reason"])
		}
		requireError(t, shapes[0], waiting.Answer(), 502, "upstream_error")
		require.NoError(t, g.Engine.Store().Accounts(within(t), "", func(a ledger.Account) error {
			require.Zero(t, a.Balance.Held)
			require.Equal(t, int64(1_000_000_000_000), a.Balance.Net(), "a shutdown is free")
			return nil
		}))
	})
	t.Run("GAP-98 BILL-25 GAP-57 the drain timeout is over while an end waits for its receipt", func(t *testing.T) {
		t.Parallel()
		g := startLater(t, setup{Gateway: `drain_timeout = "20ms"`})
		streams := make(map[string]*liveReply)
		for _, sh := range shapes {
			l := g.rich(t).Open(t, sh)
			l.Start(sh)
			require.NoError(t, g.Asked(within(t), ledger.AttemptID(l.Header.Get("X-Request-Id"), 1), 1))
			streams[sh.Name] = l
		}
		g.Engine.Drain()
		for _, sh := range shapes {
			l := streams[sh.Name]
			l.End()
			require.Equal(t, "stream_error", judge(t, sh, l).Error.Code)
			request := l.Header.Get("X-Request-Id")
			require.Equal(t, "shutdown", g.Access(request)["reason"])
			r, err := g.Engine.Store().Request(within(t), request)
			require.NoError(t, err)
			require.True(t, r.Free)
			require.False(t, r.Pending, "no receipt is charged later")
		}
	})
}
