package exchange

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
)

type carried struct{}

// hooked is a context that knows how many wait for its end.
type hooked struct {
	context.Context
	hooks atomic.Int64
}

// Value hides that it is a context of package context, which would be waited for without AfterFunc.
func (h *hooked) Value(any) any { return nil }

func (h *hooked) AfterFunc(f func()) func() bool {
	h.hooks.Add(1)
	stop := context.AfterFunc(h.Context, func() {
		h.hooks.Add(-1)
		f()
	})
	return func() bool {
		stopped := stop()
		if stopped {
			h.hooks.Add(-1)
		}
		return stopped
	}
}

// TestLifetime: an exchange outlives its client's connection, and neither its time nor the process; and leaves nothing.
func TestLifetime(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	begin := func(t *testing.T) (ctx context.Context, end, leave, stop context.CancelFunc, h *hooked) {
		parent, leave := context.WithCancel(context.WithValue(t.Context(), carried{}, "carried"))
		stopping, stop := context.WithCancel(context.Background())
		h = &hooked{Context: stopping}
		ctx, end = lifetime(parent, h, time.Now().Add(limit))
		require.Equal(t, "carried", ctx.Value(carried{}))
		require.EqualValues(t, 1, h.hooks.Load())
		return ctx, end, leave, stop, h
	}
	for name, tc := range map[string]struct {
		end   func(end, leave, stop context.CancelFunc)
		cause error
		after time.Duration
	}{
		"GAP-47 the client leaves":       {func(_, leave, _ context.CancelFunc) { leave() }, errTimeLimit, limit},
		"GAP-18 the time is over":        {func(_, _, _ context.CancelFunc) {}, errTimeLimit, limit},
		"BILL-25 the service shuts down": {func(_, _, stop context.CancelFunc) { stop() }, engine.ErrShutdown, 0},
		"it is over":                     {func(end, _, _ context.CancelFunc) { end() }, context.Canceled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end, leave, stop, h := begin(t)
				defer leave()
				defer stop()
				started := time.Now()
				tc.end(end, leave, stop)
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), tc.cause)
				require.Equal(t, tc.after, time.Since(started))
				if !errors.Is(tc.cause, context.Canceled) {
					end()
				}
				require.Zero(t, h.hooks.Load())
			})
		})
	}
}
