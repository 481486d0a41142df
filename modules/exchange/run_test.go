package exchange

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
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

// TestForget: what was sent is let go of, once, when something of its reply was shown: the reply may take minutes.
func TestForget(t *testing.T) {
	t.Parallel()
	forgotten := 0
	x := &exchange{call: &gateway.Call{Body: make([]byte, keptPrompt+1), Forget: func() { forgotten++ }},
		req: &request{told: new(llm.Request), Request: &families.Request{
			LLM: &llm.Request{MaxTokens: 7, Messages: make([]llm.Message, 1)}}}}
	for range 2 {
		x.forget()
		require.Equal(t, 1, forgotten)
		require.Equal(t, &llm.Request{MaxTokens: 7}, x.req.LLM, "GAP-54 asks for the client's own allowance later")
		require.Nil(t, x.req.told)
	}
	require.Positive(t, x.input.estimate, "GAP-113 asks for it later")
	require.False(t, x.tighten(), "there is nothing left to count")

	short := &llm.Request{Messages: make([]llm.Message, 1)}
	x.req.LLM, x.input, x.call.Body, x.call.Forget = short, input{}, make([]byte, keptPrompt), func() { forgotten++ }
	x.forget()
	require.Equal(t, 2, forgotten)
	require.Same(t, short, x.req.LLM, "it is not worth counting")
	require.Zero(t, x.input.estimate)
}

// cancelled is a stream that tells how it was cancelled.
type cancelled struct {
	scriptedStream
	times int
	left  time.Duration
}

func (c *cancelled) Cancel(ctx context.Context) error {
	c.times++
	end, _ := ctx.Deadline()
	c.left = time.Until(end)
	return nil
}

// TestAwaitProof: an attempt whose time is over is heard out for its usage alone, and not for long.
func TestAwaitProof(t *testing.T) {
	t.Parallel()
	usage := &llm.Usage{Input: llm.Count(3), Output: llm.Count(2)}
	for _, proves := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			over, end := context.WithCancel(t.Context())
			end()
			a := &attempt{route: &standard}
			x := &exchange{ctx: over, attempts: []*attempt{a}}
			q, stream, begin := newQueue(&shared{max: 1 << 20}), new(cancelled), time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				x.awaitProof(a, stream, q)
			}()
			<-time.After(time.Second)
			require.True(t, q.push(batch{events: []llm.Event{{Kind: llm.EventUsage, Usage: usage}}}))
			synctest.Wait()
			require.False(t, isClosed(done))
			if proves {
				require.True(t, q.push(batch{end: &ended{}}))
			}
			<-done
			require.Equal(t, usage, a.usage)
			require.Equal(t, map[bool]time.Duration{true: time.Second, false: 3 * time.Second}[proves], time.Since(begin))
			require.Equal(t, 1, stream.times)
			require.Equal(t, 3*time.Second, stream.left)
		})
	}
}

// TestASettlementThatCannotBe: the ledger refuses what ends a request that panicked, of which the operator is told.
func TestASettlementThatCannotBe(t *testing.T) {
	t.Parallel()
	log := new(lines)
	e := enginetest.Start(t, new(config.Config), engine.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	call := &gateway.Call{ID: "req_" + strings.Repeat("0", 32), Work: e.Begin()}
	defer call.Work.Done()
	released := false
	x := &exchange{engine: e, gen: e.Current(), call: call, held: true, release: func() { released = true },
		request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)}
	x.end()
	require.True(t, released)
	require.Len(t, log.about("settling a request that panicked"), 1)
}
