package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func newHousekeeper(room *waitingRoom, g *Generation, log *slog.Logger) *housekeeper {
	return &housekeeper{
		ledger: room, metrics: newMetrics(""), log: log, now: time.Now,
		acquire: func() (*Generation, func()) { return g, func() {} },
	}
}

// tidy runs the housekeeping until the test ends it.
func tidy(t *testing.T, h *housekeeper) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var b background
	b.loops = []*loop{{chores: h.chores(), log: h.log, now: time.Now, after: time.After}}
	b.start(ctx)
	return func() {
		cancel()
		b.wait()
	}
}

func TestHousekeeping(t *testing.T) {
	t.Parallel()
	t.Run("does everything in its interval", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			room := newWaitingRoom()
			g := &Generation{Config: &config.Config{Gateway: config.Gateway{ReceiptAge: 36 * time.Hour}}}
			begin := time.Now()
			end := tidy(t, newHousekeeper(room, g, slog.New(slog.DiscardHandler)))
			synctest.Wait()
			room.mu.Lock()
			require.Equal(t, 1, room.ended, "periods that ended while nothing ran")
			require.Empty(t, room.closed, "providers are asked for receipts first")
			room.mu.Unlock()

			<-time.After(time.Hour + time.Second)
			synctest.Wait()
			end()
			require.Equal(t, 61, room.ended)
			require.Equal(t, 6, room.marked)
			require.Len(t, room.closed, 60)
			require.Equal(t, begin.Add(time.Minute-36*time.Hour), room.closed[0], "receipt_age before now")
		})
	})
	t.Run("says an error once, and its end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			room := newWaitingRoom()
			room.down = errors.New("the disk is full")
			end := tidy(t, newHousekeeper(room, nil, slog.New(slog.NewTextHandler(&logged, nil))))
			<-time.After(time.Hour + time.Second)
			synctest.Wait()
			room.mu.Lock()
			room.down = nil
			room.mu.Unlock()
			<-time.After(time.Hour - 2*time.Second)
			end()
			require.Equal(t, 1, strings.Count(logged.String(), `msg="ending periods fails`))
			require.Equal(t, 1, strings.Count(logged.String(), `msg="ending periods works again"`))
			require.Contains(t, logged.String(), "the disk is full")
			require.Equal(t, 120, room.ended, "it is tried again and again")
			require.Empty(t, room.closed, "without a configuration nobody knows receipt_age")
		})
	})
}

// TestChoresGiveBack: a configuration that was replaced goes when the last chore has done with it, also one that
// failed.
func TestChoresGiveBack(t *testing.T) {
	t.Parallel()
	for _, down := range []error{nil, errors.New("the disk is full")} {
		log := new(safe)
		room := newWaitingRoom()
		room.down = down
		g := &Generation{Config: &config.Config{Gateway: config.Gateway{ReceiptAge: time.Hour}}}
		h := newHousekeeper(room, g, slog.New(slog.NewTextHandler(log, nil)))
		borrowed, given := 0, 0
		h.acquire = func() (*Generation, func()) {
			borrowed++
			return g, func() { given++ }
		}
		for _, c := range h.chores() {
			_ = c.do(t.Context())
		}
		require.Equal(t, 2, borrowed)
		require.Equal(t, borrowed, given)
		require.Equal(t, 1, log.count("attempts are closed at their estimates or at zero"), "the operator loses money there")
		values := h.metrics.values(t)
		require.EqualValues(t, 7, values[`fareway_charged_microcents_total{route="small"}`], "by a closing")
		require.EqualValues(t, 3, values[`fareway_over_microcents_total{route="large"}`])
	}
}

func TestChoreThatCloseInterrupts(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	l := &loop{log: slog.New(slog.NewTextHandler(&logged, nil)), now: time.Now, after: time.After}
	l.chores = []*chore{{name: "waiting", every: time.Hour, do: func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}}}
	l.run(ctx)
	require.Empty(t, logged.String(), "that is no failure")
}

// A clock that jumps neither stops the chores nor makes them run without end.
func TestChoresUnderClockJumps(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1_000_000, 0)}
	ctx, cancel := context.WithCancel(t.Context())
	ran, waits := 0, 0
	turn := make(chan time.Time)
	close(turn)
	l := &loop{
		chores: []*chore{{name: "counting", every: time.Minute, do: func(context.Context) error { ran++; return nil }}},
		log:    slog.New(slog.DiscardHandler), now: c.read,
		after: func(d time.Duration) <-chan time.Time {
			require.LessOrEqual(t, d, time.Minute)
			switch waits++; waits {
			case 1:
				require.Equal(t, 1, ran)
				c.now = c.now.Add(48 * time.Hour)
			case 2:
				require.Equal(t, 2, ran, "a jump ahead is one turn")
				c.now = c.now.Add(-96 * time.Hour)
			case 3:
				require.Equal(t, 3, ran, "a jump back does not wait until the old time is reached")
				c.now = c.now.Add(30 * time.Second)
			case 4:
				require.Equal(t, 3, ran)
				require.Equal(t, 30*time.Second, d)
				cancel()
			}
			return turn
		},
	}
	l.run(ctx)
	require.Equal(t, 4, waits)
}

func TestUnprovenAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	room := newWaitingRoom()
	room.enter("small", 3)
	gone := room.enter("gone", 1)
	g := &Generation{Config: &config.Config{Providers: []config.Provider{{Name: "small"}, {Name: "clean"}}}}
	h := newHousekeeper(room, g, slog.New(slog.DiscardHandler))
	count := func() map[string]float64 {
		require.NoError(t, h.countUnproven(t.Context()))
		return h.metrics.values(t)
	}
	values := count()
	for provider, want := range map[string]float64{"small": 3, "gone": 1, "clean": 0} {
		require.Contains(t, values, fmt.Sprintf("fareway_unproven_attempts{provider=%q}", provider))
		require.Equal(t, want, values[fmt.Sprintf("fareway_unproven_attempts{provider=%q}", provider)], provider)
	}

	g.Config = &config.Config{Providers: []config.Provider{{Name: "small"}}}
	require.NotContains(t, count(), `fareway_unproven_attempts{provider="clean"}`)
	require.Contains(t, count(), `fareway_unproven_attempts{provider="gone"}`, "one still waits")
	_, _, err := room.AddReceipt(t.Context(), gone[0], llm.Usage{})
	require.NoError(t, err)
	require.NotContains(t, count(), `fareway_unproven_attempts{provider="gone"}`)
	require.Contains(t, count(), `fareway_unproven_attempts{provider="small"}`)

	room.down = ledger.ErrUnavailable
	require.ErrorIs(t, h.countUnproven(t.Context()), ledger.ErrUnavailable)
}
