package endpoint_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var simple = &llm.Request{
	Model:     "m",
	MaxTokens: 10,
	Messages:  []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}},
}

func ignore(llm.Event) error { return nil }

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for name, startServer := range map[string]func(*httptest.Server){
		"TLS": (*httptest.Server).StartTLS, "plain": (*httptest.Server).Start,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := upstream.New(upstream.Options{})
			server := httptest.NewUnstartedServer(fake)
			var made atomic.Int64
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					made.Add(1)
				}
			}
			startServer(server)
			t.Cleanup(server.Close)
			c := start(t, endpoint.Endpoint{URL: server.URL, TLS: endpoint.TLS{CA: authority(server)}})
			for i := range 20 {
				if i%2 == 1 {
					fake.Enqueue(upstream.Refuse(upstream.Overloaded()))
				}
				back := make(chan error, 1)
				ctx, leave := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					PutIdleConn: func(err error) { back <- err },
				}))
				err := c.Generate(ctx, simple, ignore)
				leave() // as the gateway does once it has the last event
				require.Equal(t, i%2 == 1, err != nil)
				if name == "TLS" {
					require.NoError(t, <-back, "the connection is given back")
				} else {
					for c.client.Idle() == 0 {
						require.NoError(t, t.Context().Err())
						runtime.Gosched()
					}
				}
			}
			require.EqualValues(t, 1, made.Load())
		})
	}
}

// TestAWholeReplyLeavesItsConnectionAtOnce: whoever has the end of a reply whose body has been read to its end finds
// its connection ready, without a wait.
func TestAWholeReplyLeavesItsConnectionAtOnce(t *testing.T) {
	t.Parallel()
	_, c := pair(t, upstream.Options{})
	c.client.AfterFunc = func(d time.Duration, f func()) endpoint.Timer {
		t.Errorf("%s are waited for", d)
		return time.AfterFunc(d, f)
	}
	whole := *simple
	whole.Whole = true
	for i := range 20 {
		require.NoError(t, c.Generate(withTimeout(t), &whole, ignore))
		require.Equal(t, 1, c.client.Idle(), "reply %d", i)
	}
}

// TestHeadersAreBounded: an upstream's header may have 64 KiB, over connections of either kind.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	for name, startServer := range map[string]func(*httptest.Server){
		"TLS": (*httptest.Server).StartTLS, "plain": (*httptest.Server).Start,
	} {
		fake := upstream.New(upstream.Options{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size, _ := strconv.Atoi(r.Header.Get("X-Size"))
			w.Header().Set("X-Long", strings.Repeat("x", size))
			fake.ServeHTTP(w, r)
		}))
		startServer(server)
		t.Cleanup(server.Close)
		for size, fits := range map[int]bool{60 << 10: true, 70 << 10: false} {
			c := start(t, endpoint.Endpoint{URL: server.URL, TLS: endpoint.TLS{CA: authority(server)},
				Headers: []endpoint.Header{{Name: "X-Size", Value: strconv.Itoa(size)}}})
			err := c.Generate(withTimeout(t), simple, ignore)
			require.Equal(t, fits, err == nil, "%s, %d: %v", name, size, err)
		}
	}
}

// authority is the PEM of what a server's certificate is signed by, "" where it has none.
func authority(s *httptest.Server) string {
	if s.Certificate() == nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	var protocol atomic.Value
	fake := upstream.New(upstream.Options{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		fake.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := start(t, endpoint.Endpoint{URL: server.URL, TLS: endpoint.TLS{CA: authority(server)}})

	var reply llm.Reply
	require.NoError(t, c.Generate(t.Context(), simple, func(ev llm.Event) error { reply.Add(ev); return nil }))
	reply.Close()
	require.Equal(t, "You said: x", reply.Text())
	require.Equal(t, "HTTP/2.0", protocol.Load())

	fake.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Finish("stop"), upstream.Cut()}})
	err := c.Generate(t.Context(), simple, ignore)
	require.Equal(t, llm.ErrBroken, llm.KindOf(err), "a stream reset is a break too: %v", err)
}

// TestNoGoroutineIsLeft: goroutines inherit profiling labels, so those of this test can be told from others.
func TestNoGoroutineIsLeft(t *testing.T) {
	t.Parallel()
	const mark = "of the test for goroutines"
	left := errors.New("left")
	pprof.Do(t.Context(), pprof.Labels("what", mark), func(ctx context.Context) {
		fake := upstream.New(upstream.Options{})
		server := httptest.NewServer(fake)
		defer server.Close()
		c := start(t, endpoint.Endpoint{URL: server.URL})
		c.client.AfterFunc = func(d time.Duration, f func()) endpoint.Timer { return time.AfterFunc(d/1000, f) }
		for _, reply := range []upstream.Reply{
			upstream.Say("fine"), upstream.Refuse(upstream.Overloaded()), upstream.Refuse(upstream.BadGateway()),
			{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}},
			{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.ServerError())}},
			{Steps: []upstream.Step{upstream.Raw("data: nonsense\n\n"), upstream.Silence()}},
			// A service that never ends its body: the reply counts, and the connection is given up.
			{Steps: append(upstream.Say("fine").Steps, upstream.Silence())},
		} {
			fake.Enqueue(reply)
			_ = c.Generate(ctx, simple, ignore) // other tests say what comes back
		}
		fake.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Silence()}})
		require.ErrorIs(t, c.Generate(ctx, simple, func(ev llm.Event) error {
			if ev.Kind == llm.EventText {
				return left
			}
			return nil
		}), left)
		require.NoError(t, fake.Idle(ctx), "no upstream call goes on")
		require.Contains(t, goroutines(t), mark, "the profile tells them apart")
		c.client.CloseIdle()
	})
	require.Eventually(
		t,
		func() bool { return !strings.Contains(goroutines(t), mark) },
		10*time.Second,
		5*time.Millisecond,
	)
}

// goroutines describes all that run, with their labels.
func goroutines(t *testing.T) string {
	t.Helper()
	var profile strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	return profile.String()
}

// TestLargeRequests: what does not fit into a buffer comes as it was sent.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	s, c := pair(t, upstream.Options{})
	for i, size := range []int{1, 3 << 10, 4 << 10, 5 << 10, 100 << 10, 3 << 20} {
		text := strings.Repeat("x", size-1) + "y"
		require.NoError(t, c.Generate(withTimeout(t), ask(text), ignore))
		got, err := s.Request(withTimeout(t), int64(i+1))
		require.NoError(t, err)
		require.True(t, text == got.LastUser(), size)
	}
}
