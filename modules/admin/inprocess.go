package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
)

// Local is the admin API of an engine of this process, for a part of it that lets people in by its own means. What is
// asked through it goes the same way as what commands ask: the same checks, the same audit trail.
type Local struct {
	transport *inProcess
}

// NewLocal makes the API of an engine. Nobody is asked for a token.
func NewLocal(e *engine.Engine) *Local {
	a := &API{}
	a.attach(e)
	h := newInProcess(a.handlers())
	h.recovered = func(p any, stack []byte) {
		what := fmt.Sprintf("a %T", p) // its value may hold anything
		if e, ok := p.(runtime.Error); ok {
			what = e.Error()
		}
		e.Logger().Error("recovered from a panic in the admin API", "panic", what, "stack", string(stack))
	}
	return &Local{h}
}

// As is a client that acts for somebody: the audit trail puts what it does down to that, as in "ann@example.com via
// portal".
func (l *Local) As(actor string) *Client {
	c := l.transport.client("this process")
	c.actor = actor
	return c
}

type localActorKey struct{}

// inProcess answers a client's requests in this process.
type inProcess struct {
	handler http.Handler
	running sync.WaitGroup
	// recovered is told of a panic, which is an answer with status 500 then. nil: it ends the process, as it does in a
	// command.
	recovered func(p any, stack []byte)
}

func newInProcess(routes []caddy.AdminRoute) *inProcess {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.Pattern, plain(route.Handler))
	}
	return &inProcess{handler: mux}
}

// InProcess has a handler of this process answer requests as if they had come over a network. An answer that breaks
// off is an error of who reads it; recovered is told of a panic.
func InProcess(h http.Handler, recovered func(p any, stack []byte)) http.RoundTripper {
	return &inProcess{handler: h, recovered: recovered}
}

// client asks it. source is what it asks, for people.
func (h *inProcess) client(source string) *Client {
	return &Client{Place: gateway.Place{Address: source, Network: "unix"}, Source: source,
		http: &http.Client{Transport: h}}
}

// serveHere serves the admin API's routes to a client in this process, for as long as ask takes.
func serveHere(routes []caddy.AdminRoute, path string, ask func(c *Client) error) error {
	h := newInProcess(routes)
	c := h.client(path)
	c.Offline = true
	err := ask(c)
	h.running.Wait()
	return err
}

// RoundTrip implements http.RoundTripper. The answer's body is read as it is written; who closes it ends the request.
func (h *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	w := &inProcessWriter{header: http.Header{}, out: out, begun: make(chan struct{})}
	h.running.Go(func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // what net/http compares
					if h.recovered == nil {
						panic(p)
					}
					h.recovered(p, debug.Stack())
				}
				w.WriteHeader(http.StatusInternalServerError) // where it had not begun
				_ = out.CloseWithError(io.ErrUnexpectedEOF)   // it never fails
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = out.Close() // it never fails
		}()
		if r.Body != nil {
			defer r.Body.Close()
		}
		inner := r.WithContext(ctx)
		if inner.Body == nil {
			inner.Body = http.NoBody
		}
		h.handler.ServeHTTP(w, inner)
	})
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.Close() // it never fails
		return nil, context.Cause(r.Context())
	}
	return &http.Response{Status: fmt.Sprint(w.status, " ", http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Body: inProcessBody{body, cancel},
		ContentLength: -1, Request: r}, nil
}

// inProcessBody is what a client reads.
type inProcessBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b inProcessBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// inProcessWriter is what a handler writes to.
type inProcessWriter struct {
	header, sent http.Header
	status       int
	out          *io.PipeWriter
	begun        chan struct{} // closed with the status
}

// Header implements http.ResponseWriter.
func (w *inProcessWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *inProcessWriter) WriteHeader(status int) {
	if w.sent == nil {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

// Write implements io.Writer. It waits for the client to read.
func (w *inProcessWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// plain answers errors as Caddy's admin endpoint does.
func plain(h caddy.AdminHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h.ServeHTTP(w, r)
		if err == nil {
			return
		}
		e := asAPIError(err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.HTTPStatus)
		// The client may be gone; there is nobody left to tell.
		_ = json.NewEncoder(w).Encode(adminError{Message: e.Err.Error()})
	}
}
