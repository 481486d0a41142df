//go:build clients && linux

package clients_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// seen is one request of a client and the status it got.
type seen struct {
	Method, Path string
	Status       int
	Model        string // of the body; "" for none
	Streamed     bool
	MaxTokens    int64    // of the reply, 0 where none are asked for
	Billed       bool     // the system prompt begins with a billing header
	Tools        []string // the names, or the types, of the tools in the body
	Stop         []string // the stop sequences
	ID           string   // the request id of the reply
	APIKey       string   // the header x-api-key
	Left         bool     // the client has left before the end
	Error        string   // the body of a refusal
}

// family is the request shape of a generating request, "" for all others.
func (s seen) family() string {
	if s.Method != http.MethodPost {
		return ""
	}
	return map[string]string{"/v1/chat/completions": "chat", "/v1/responses": "responses",
		"/v1/messages": "messages"}[s.Path]
}

// wire passes everything on to a gateway and writes down what it sees.
type wire struct {
	URL string
	// Streaming has the first requests for text of which something was shown, tools or none.
	Streaming chan seen

	mu     sync.Mutex
	active int
	idle   *sync.Cond // none is active
	all    []seen
}

func startWire(t testing.TB, gateway string) *wire {
	target, err := url.Parse(gateway)
	require.NoError(t, err)
	w := &wire{Streaming: make(chan seen, 100)}
	w.idle = sync.NewCond(&w.mu)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.begin()
		defer w.end()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		one := read(r, body)
		out := &statusWriter{ResponseWriter: rw, shown: func() {
			select {
			case w.Streaming <- one:
			default: // nobody waits for so many
			}
		}}
		defer w.note(r, &one, out) // also when the proxy panics: some clients leave at the end marker
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(s.Close)
	w.URL = s.URL
	return w
}

// read is what a request asks for.
func read(r *http.Request, body []byte) seen {
	var in struct {
		Model  string
		Stream bool
		// MaxTokens is chat's and messages' limit, MaxOutputTokens is that of responses.
		MaxTokens       int64 `json:"max_tokens"`
		MaxOutputTokens int64 `json:"max_output_tokens"`
		Tools           []struct {
			Name, Type string
			Function   struct{ Name string }
		}
		Stop          []string
		StopSequences []string `json:"stop_sequences"`
	}
	_ = json.Unmarshal(body, &in) // most requests without a model have no JSON body
	one := seen{Method: r.Method, Path: r.URL.Path, Model: in.Model, Streamed: in.Stream,
		MaxTokens: in.MaxTokens + in.MaxOutputTokens, Billed: bytes.Contains(body, []byte("x-anthropic-billing-header")),
		Stop: append(in.Stop, in.StopSequences...), APIKey: r.Header.Get("X-Api-Key")}
	for _, tool := range in.Tools {
		for _, name := range []string{tool.Function.Name, tool.Name, tool.Type} {
			if name != "" {
				one.Tools = append(one.Tools, name)
				break
			}
		}
	}
	return one
}

func (w *wire) note(r *http.Request, one *seen, out *statusWriter) {
	one.Status, one.ID, one.Error = out.status, out.Header().Get("X-Request-Id"), out.refusal.String()
	one.Left = r.Context().Err() != nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, *one)
}

func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active++
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active--; w.active == 0 {
		w.idle.Broadcast()
	}
}

// Seen are the requests so far. It waits for those that are not over: a client has its reply before its
// request has been written down.
func (w *wire) Seen() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.active > 0 {
		w.idle.Wait()
	}
	return append([]seen(nil), w.all...)
}

// statusWriter remembers the status, and the body of a refusal.
type statusWriter struct {
	http.ResponseWriter
	shown   func() // is called with the first text of a reply
	status  int
	refusal strings.Builder
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status >= 400 {
		w.refusal.Write(p)
	}
	if w.shown != nil && bytes.Contains(p, []byte("Hello.")) {
		w.shown()
		w.shown = nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController, with which the proxy flushes.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
