package endpoint_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

// serve answers all requests so, at the address that comes back.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

const (
	wholeReply = `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	streamedReply = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2}}` +
		"\n\ndata: [DONE]\n\n"
)

// TestFormOfAReply: what a reply is shows in what it begins with, whatever its type says, and whatever was asked for
// (GAP-63).
func TestFormOfAReply(t *testing.T) {
	t.Parallel()
	pretty := strings.NewReplacer(",", ",\n  ", "{", "{\n ").Replace(wholeReply)
	for name, body := range map[string]string{
		"JSON": wholeReply, "JSON on several lines": pretty, "JSON behind blanks": "\r\n \t" + wholeReply,
		"JSON behind a mark": "\xEF\xBB\xBF" + wholeReply, "a stream": streamedReply,
		"a stream that begins with a comment": ": OPENROUTER PROCESSING\n\n" + streamedReply,
		"a stream that begins with a name":    "event: x\n" + streamedReply,
		"a stream behind blank lines":         "\n\n" + streamedReply,
	} {
		for _, kind := range []string{"", "application/json", "application/json; charset=utf-8", "text/plain", "text/html",
			"application/octet-stream", "application/vnd.api+json", "text/event-stream", "application/x-ndjson", ";;;"} {
			for _, asked := range []string{"a stream", "one piece"} {
				if kind == "text/event-stream" && strings.HasPrefix(name, "JSON") && asked == "a stream" {
					continue // its lines are no events
				}
				t.Run(name+" as "+kind+" for "+asked, func(t *testing.T) {
					t.Parallel()
					c := start(t, endpoint.Endpoint{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header()["Content-Type"] = nil
						if kind != "" {
							w.Header().Set("Content-Type", kind)
						}
						_, _ = io.WriteString(w, body)
					})})
					req := ask("x")
					req.Whole = asked == "one piece"
					events, err := generate(t, c, req)
					checkOrder(t, events, err)
					require.NoError(t, err)
					reply := fold(events)
					require.Equal(t, "hi", reply.Text())
					require.Equal(t, &llm.Usage{Input: llm.Count(3), Output: llm.Count(2)}, reply.Usage)
				})
			}
		}
	}
	for _, kind := range []string{"text/html", "text/plain", ""} {
		t.Run("a web page as "+kind, func(t *testing.T) {
			t.Parallel()
			c := start(t, endpoint.Endpoint{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{kind}
				_, _ = io.WriteString(w, "\n<!doctype html><title>secret</title>")
			})})
			_, err := generate(t, c, ask("x"))
			require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
			require.ErrorContains(t, err, "web page; check that base_url")
			require.ErrorContains(t, err, "status 200")
			require.NotContains(t, err.Error(), "secret")
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		for _, body := range []string{"", strings.Repeat(" ", 4096)} {
			c := start(t, endpoint.Endpoint{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/octet-stream")
				_, _ = io.WriteString(w, body)
			})})
			_, err := generate(t, c, ask("x"))
			require.Equal(t, llm.ErrBroken, llm.KindOf(err))
		}
	})
}

// deflated and zipped compress a text.
func deflated(text string) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}

// TestCompressionThatNobodyAskedFor is that of proxies that compress whatever passes.
func TestCompressionThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	answer := func(status int, encoding, kind string, body []byte) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				status = http.StatusTeapot // it was asked for
			}
			w.Header().Set("Content-Encoding", encoding)
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	}
	for name, tt := range map[string]struct {
		encoding string
		pack     func(string) []byte
	}{
		"gzip": {"gzip", zipped}, "GZIP": {" GZIP", zipped}, "x-gzip": {"x-gzip", zipped}, "deflate": {"deflate", deflated},
		"identity": {"identity", func(s string) []byte { return []byte(s) }},
	} {
		for kind, body := range map[string]string{"application/json": wholeReply, "text/event-stream": streamedReply} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				t.Parallel()
				c := start(t, endpoint.Endpoint{URL: serve(t, answer(200, tt.encoding, kind, tt.pack(body)))})
				req := ask("x")
				req.Whole = kind == "application/json"
				events, err := generate(t, c, req)
				require.NoError(t, err)
				require.Equal(t, "hi", fold(events).Text())
			})
		}
		t.Run(name+" of a refusal", func(t *testing.T) {
			t.Parallel()
			refusal := `{"error":{"code":"context_length_exceeded","message":"too long"}}`
			c := start(t, endpoint.Endpoint{URL: serve(t, answer(400, tt.encoding, "application/json", tt.pack(refusal)))})
			_, err := generate(t, c, ask("x"))
			require.Equal(t, llm.ErrContext, llm.KindOf(err))
		})
	}
	for name, tt := range map[string]struct {
		encoding string
		body     []byte
		kind     llm.ErrorKind
	}{
		"one that is not known": {"br", []byte("xyz"), llm.ErrUpstream},
		"two of them":           {"gzip, br", []byte("xyz"), llm.ErrUpstream},
		"gzip that is none":     {"gzip", []byte(wholeReply), llm.ErrBroken},
		"gzip that is cut":      {"gzip", zipped(wholeReply)[:30], llm.ErrBroken},
		"gzip of nothing":       {"gzip", nil, llm.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, endpoint.Endpoint{URL: serve(t, answer(200, tt.encoding, "application/json", tt.body))})
			req := ask("x")
			req.Whole = true
			_, err := generate(t, c, req)
			require.Equal(t, tt.kind, llm.KindOf(err), err)
		})
	}
	t.Run("what comes is shown at once", func(t *testing.T) {
		t.Parallel()
		shown := make(chan struct{})
		c := start(t, endpoint.Endpoint{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/event-stream")
			z := gzip.NewWriter(w)
			for i, event := range strings.SplitAfter(streamedReply, "\n\n") {
				_, _ = io.WriteString(z, event)
				_ = z.Flush()
				w.(http.Flusher).Flush()
				if i == 0 {
					select {
					case <-shown:
					case <-r.Context().Done():
					}
				}
			}
			_ = z.Close()
		})})
		var text string
		require.NoError(t, c.Generate(withTimeout(t), ask("x"), func(ev llm.Event) error {
			if text += ev.Text; ev.Kind == llm.EventText {
				close(shown)
			}
			return nil
		}))
		require.Equal(t, "hi", text)
	})
}

// TestHTTP2Only: a server that speaks nothing but HTTP/2, with TLS or without.
func TestHTTP2Only(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 10)
	unsecured := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, streamedReply)
	}))
	unsecured.Config.Protocols = new(http.Protocols)
	unsecured.Config.Protocols.SetUnencryptedHTTP2(true)
	unsecured.Start()
	t.Cleanup(unsecured.Close)

	c := start(t, endpoint.Endpoint{URL: unsecured.URL, HTTP2: true})
	for range 2 {
		events, err := generate(t, c, ask("x"))
		require.NoError(t, err)
		require.Equal(t, "hi", fold(events).Text())
		require.Equal(t, "HTTP/2.0", <-protocols)
	}
	_, err := generate(t, start(t, endpoint.Endpoint{URL: unsecured.URL}), ask("x"))
	require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
	require.ErrorContains(t, err, "set http2 = true")

	secured := httptest.NewUnstartedServer(unsecured.Config.Handler)
	secured.EnableHTTP2 = true
	secured.Config.Protocols = new(http.Protocols)
	secured.Config.Protocols.SetHTTP2(true)
	secured.StartTLS()
	t.Cleanup(secured.Close)
	for _, always := range []bool{false, true} {
		events, err := generate(t, start(t, endpoint.Endpoint{URL: secured.URL, HTTP2: always,
			TLS: endpoint.TLS{CA: authority(secured)}}), ask("x"))
		require.NoError(t, err)
		require.Equal(t, "hi", fold(events).Text())
		require.Equal(t, "HTTP/2.0", <-protocols)
	}

	e := endpoint.Endpoint{URL: "http://models.test/v1", HTTP2: true, Proxy: "http://proxy.test:3128"}
	require.ErrorContains(t, e.CheckConnection(time.Time{}), "leave http2 out")
	e.Proxy = "socks5://proxy.test:1080"
	require.NoError(t, e.CheckConnection(time.Time{}))
	e.URL, e.Proxy = "https://models.test/v1", "http://proxy.test:3128"
	require.NoError(t, e.CheckConnection(time.Time{}))
}
