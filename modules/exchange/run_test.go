package exchange

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

// TestLifetime: an exchange outlives its client's connection, and neither its time nor the process; and leaves
// nothing.
func TestLifetime(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	begin := func(t *testing.T) (ctx context.Context, end, leave, stop context.CancelFunc, h *hooked) {
		parent, leave := context.WithCancel(context.WithValue(t.Context(), carried{}, "carried"))
		stopping, stop := context.WithCancel(context.Background())
		h = &hooked{Context: stopping}
		ctx, end = lifetime(parent, h, time.Now().Add(limit), newDelivery(t.Context(), httptest.NewRecorder(), false, limit,
			limit))
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
	x := (&exchange{scope: scope{call: &gateway.Call{Body: make([]byte, keptPrompt+1), Forget: func() { forgotten++ }},
		req: &request{described: new(llm.Request), Request: &families.Request{
			LLM: &llm.Request{MaxTokens: 7, Messages: make([]llm.Message, 1)}}}}}).connect()
	for range 2 {
		x.transport.forgetPrompt(new(attempt))
		require.Equal(t, 1, forgotten)
		require.Equal(t, &llm.Request{MaxTokens: 7}, x.req.LLM, "GAP-54 asks for the client's own allowance later")
		require.Nil(t, x.req.described)
	}
	require.Positive(t, x.prompt.input.estimate, "GAP-113 asks for it later")
	require.False(t, x.work.tightenBound(), "there is nothing left to count")

	short := &llm.Request{Messages: make([]llm.Message, 1)}
	x.req.LLM, x.prompt.input, x.call.Body, x.call.Forget = short, input{}, make([]byte,
		keptPrompt), func() { forgotten++ }
	x.transport.forgetPrompt(new(attempt))
	require.Equal(t, 2, forgotten)
	require.Same(t, short, x.req.LLM, "it is not worth counting")
	require.Zero(t, x.prompt.input.estimate)
}

// cancelled is a stream that tells how it was cancelled.
type cancelled struct {
	scriptedStream
	mu    sync.Mutex
	times int
	left  time.Duration
}

func (c *cancelled) Cancel(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times++
	if end, ok := ctx.Deadline(); ok {
		c.left = time.Until(end)
	}
	return nil
}

func (c *cancelled) cancels() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

// TestAwaitProof: an attempt is asked for what it used when its client has left, and when its time is over, for which
// it is heard out, and not for long.
func TestAwaitProof(t *testing.T) {
	t.Parallel()
	type scene struct {
		t      *testing.T
		stream *cancelled
		leave  context.CancelFunc
		broken chan struct{}
		over   context.CancelCauseFunc
		ended  chan struct{} // closed by the exchange
		hungUp chan struct{}
		done   chan struct{}
	}
	for name, play := range map[string]func(s *scene){
		"GAP-47 the reply ends": func(s *scene) {
			<-time.After(time.Hour)
			close(s.ended)
			<-s.done
			require.Zero(s.t, s.stream.times)
			require.False(s.t, isClosed(s.hungUp))
		},
		"GAP-47 the client leaves": func(s *scene) {
			s.leave()
			synctest.Wait()
			require.Equal(s.t, 1, s.stream.cancels())
			require.False(s.t, isClosed(s.done))
			close(s.ended)
			<-s.done
			require.False(s.t, isClosed(s.hungUp))
		},
		"GAP-112 a write fails": func(s *scene) {
			close(s.broken)
			synctest.Wait()
			require.Equal(s.t, 1, s.stream.cancels())
			<-time.After(time.Hour)
			require.False(s.t, isClosed(s.hungUp), "its time is not over")
			s.over(errTimeLimit)
			<-s.hungUp
			require.Equal(s.t, 2, s.stream.cancels())
		},
		"GAP-113 its time is over, and it proves": func(s *scene) {
			s.over(errAttemptTimeout)
			<-time.After(2 * time.Second)
			require.Equal(s.t, 1, s.stream.cancels())
			require.Equal(s.t, 3*time.Second, s.stream.left)
			require.False(s.t, isClosed(s.hungUp))
			close(s.ended)
			<-s.done
		},
		"GAP-113 and it does not": func(s *scene) {
			begin := time.Now()
			s.over(errTimeLimit)
			<-s.hungUp
			require.Equal(s.t, 3*time.Second, time.Since(begin))
			<-s.done
		},
		"BILL-25 a shutdown needs no proof": func(s *scene) {
			begin := time.Now()
			s.over(engine.ErrShutdown)
			<-s.hungUp
			require.Zero(s.t, time.Since(begin))
			<-s.done
			require.Zero(s.t, s.stream.times)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, leave := context.WithCancel(t.Context())
				defer leave()
				ctx, over := context.WithCancelCause(context.Background())
				defer over(nil)
				s := &scene{t: t, stream: new(cancelled), leave: leave, over: over, broken: make(chan struct{}),
					ended: make(chan struct{}), hungUp: make(chan struct{}), done: make(chan struct{})}
				x := (&exchange{delivery: &delivery{broken: s.broken},
					scope: scope{request: httptest.NewRequestWithContext(client, http.MethodPost, "/", nil)}}).connect()
				go func() {
					defer close(s.done)
					x.transport.awaitProof(ctx, new(attempt), s.stream, func() { close(s.hungUp) }, s.ended)
				}()
				play(s)
			})
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
	x := (&exchange{scope: scope{engine: e, gen: e.Current(), call: call,
		request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
			nil)}, books: books{held: true}, release: func() { released = true }}).connect()
	x.close()
	require.True(t, released)
	require.Len(t, log.about("settling a request that panicked"), 1)
}
