package endpoint_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// closing is a body that notes that it was closed.
type closing struct {
	io.ReadCloser
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return c.ReadCloser.Close()
}

// TestOwnFormats: a provider that makes its calls itself has of an endpoint what the calls of a dialect have.
func TestOwnFormats(t *testing.T) {
	t.Parallel()
	const key = "geheim-zq11"
	left := make(chan struct{}, 8)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /say", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", "req-1")
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type")+" "+
			r.Header.Get("Accept")+" "+string(body)+"\n")
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/say", http.StatusFound)
	})
	mux.HandleFunc("GET /full", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Request-Id", "req-2")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	mux.HandleFunc("GET /hang", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		left <- struct{}{}
	})
	mux.HandleFunc("GET /half", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	})
	coded := make(chan struct{})
	mux.HandleFunc("GET /coded", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "rot13")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(coded)
	})
	mux.HandleFunc("GET /cut", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	at := func(limits endpoint.Timeouts) *endpoint.Endpoint {
		return &endpoint.Endpoint{URL: server.URL, Headers: bearer(key), Timeouts: limits}
	}
	request := func(ctx context.Context, path, body string) *http.Request {
		method, reader := http.MethodGet, io.Reader(nil)
		if body != "" {
			method, reader = http.MethodPost, strings.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, reader)
		require.NoError(t, err)
		return req
	}
	line := func(resp *http.Response) (string, error) { return bufio.NewReader(resp.Body).ReadString('\n') }

	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		e := at(endpoint.Timeouts{FirstByte: time.Hour, Idle: time.Hour})
		require.NoError(t, e.CheckConnection(time.Time{}))
		require.ErrorContains(t, e.Check(time.Time{}), "dialect", "the gateway cannot make such calls")
		req := request(withTimeout(t), "/say", "x")
		req.Header.Set("Accept", "application/x-ndjson")
		resp, err := client.Do(e, req)
		require.NoError(t, err)
		defer resp.Body.Close()
		said, err := line(resp)
		require.NoError(t, err)
		require.Equal(t, "Bearer "+key+" application/json application/x-ndjson x\n", said)
		require.Equal(t, "req-1", e.RequestID(resp.Header))
	})
	t.Run("a reply that has ended leaves its connection to the next", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		for i := range 5 {
			var used httptrace.GotConnInfo
			back := make(chan error, 1)
			ctx, leave := context.WithCancel(httptrace.WithClientTrace(withTimeout(t), &httptrace.ClientTrace{
				GotConn:     func(info httptrace.GotConnInfo) { used = info },
				PutIdleConn: func(err error) { back <- err },
			}))
			resp, err := client.Do(at(endpoint.Timeouts{}), request(ctx, "/say", "x"))
			require.NoError(t, err)
			_, err = line(resp)
			require.NoError(t, err)
			endpoint.Finish(resp)
			leave()
			require.NoError(t, resp.Body.Close())
			require.NoError(t, <-back)
			require.Equal(t, i > 0, used.Reused)
		}
		endpoint.Finish(&http.Response{Body: io.NopCloser(strings.NewReader(""))})
	})
	t.Run("no redirect is followed, and a refusal says what the upstream says", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		for path, want := range map[string]llm.Error{
			"/moved": {Kind: llm.ErrUpstream, Status: http.StatusFound, Unreached: true},
			"/full": {Kind: llm.ErrCapacity, Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second,
				RequestID: "req-2"},
		} {
			resp, err := client.Do(at(endpoint.Timeouts{}), request(withTimeout(t), path, ""))
			require.NoError(t, err)
			body := &closing{ReadCloser: resp.Body}
			resp.Body = body
			failed := at(endpoint.Timeouts{}).Refusal(resp, reply.Refusal)
			require.True(t, body.closed)
			require.NotContains(t, failed.Error(), key)
			failed.Message = ""
			require.Equal(t, want, *failed)
		}
	})
	t.Run("the time-outs", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		alarms := make(chan *alarm, 8)
		client.AfterFunc = func(d time.Duration, f func()) endpoint.Timer {
			a := &alarm{set: make(chan time.Duration, 64), ring: f}
			a.set <- d
			alarms <- a
			return a
		}
		go func() { (<-alarms).ring() }()
		_, err := client.Do(at(endpoint.Timeouts{FirstByte: time.Minute}), request(withTimeout(t), "/hang", ""))
		require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
		require.ErrorContains(t, err, "first_byte_timeout (1m0s)")
		<-left

		resp, err := client.Do(at(endpoint.Timeouts{Idle: time.Hour}), request(withTimeout(t), "/half", ""))
		require.NoError(t, err)
		defer resp.Body.Close()
		(<-alarms).ring()
		_, err = io.ReadAll(resp.Body)
		require.Equal(t, llm.ErrBroken, llm.KindOf(err))
		require.ErrorContains(t, err, "idle_timeout (1h0m0s)")
		<-left

		_, err = client.Do(at(endpoint.Timeouts{FirstByte: time.Hour}), request(withTimeout(t), "/say", "x"))
		require.NoError(t, err)
	})
	t.Run("a caller who leaves takes the connection along", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(mux)
		defer server.Close()
		var client endpoint.Client
		ctx, leave := context.WithCancelCause(withTimeout(t))
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/half", nil)
		require.NoError(t, err)
		resp, err := client.Do(at(endpoint.Timeouts{}), req)
		require.NoError(t, err)
		gone := errors.New("gone")
		leave(gone)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, gone)
		require.NoError(t, resp.Body.Close())
		_, err = client.Do(at(endpoint.Timeouts{}), req)
		require.ErrorIs(t, err, gone)
	})
	t.Run("a reply whose body does not end behind its end marker loses its connection", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "end\n") // the client reads it, or the test fails
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(gone)
		}))
		t.Cleanup(server.Close)
		asked := make(chan time.Duration, 1)
		client := endpoint.Client{AfterFunc: func(d time.Duration, f func()) endpoint.Timer {
			asked <- d
			go f() // its time is over at once
			return &alarm{}
		}}
		ctx := withTimeout(t)
		req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(&endpoint.Endpoint{URL: server.URL}, req)
		require.NoError(t, err)
		_, err = line(resp)
		require.NoError(t, err)
		endpoint.Finish(resp)
		require.Equal(t, time.Second, <-asked)
		select {
		case <-gone:
		case <-ctx.Done():
			server.CloseClientConnections()
			require.Fail(t, "it is kept for ever")
		}
	})
	t.Run("a reply in a coding that nobody knows loses its connection", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		resp, err := client.Do(at(endpoint.Timeouts{}), request(withTimeout(t), "/coded", ""))
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		require.ErrorContains(t, err, "compresses its replies")
		<-coded
	})
	t.Run("a reply that breaks off", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		resp, err := client.Do(at(endpoint.Timeouts{}), request(withTimeout(t), "/cut", ""))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.Equal(t, "half\n", string(body))
		require.Equal(t, llm.ErrBroken, llm.KindOf(err))
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		var client endpoint.Client
		req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, "http://127.0.0.1:1/?key="+key, nil)
		require.NoError(t, err)
		_, err = client.Do(at(endpoint.Timeouts{}), req)
		require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
		require.ErrorContains(t, err, "base_url is right")
		require.NotContains(t, err.Error(), key)
		for _, e := range []*endpoint.Endpoint{{URL: server.URL, Proxy: "x"}, {URL: "http://[::1"}} {
			_, err = client.Do(e, req)
			require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
		}
	})
}
