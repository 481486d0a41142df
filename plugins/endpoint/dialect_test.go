package endpoint_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// fixed is a source of one endpoint.
func fixed(e endpoint.Endpoint) endpoint.Source {
	return endpoint.Source{Ask: func(context.Context, string, bool) (*endpoint.Endpoint, error) { return &e, nil }}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	for _, d := range []endpoint.Dialect{endpoint.Chat, endpoint.Responses, endpoint.Messages} {
		for _, whole := range []bool{false, true} {
			t.Run(string(d), func(t *testing.T) {
				t.Parallel()
				address, err := endpoint.Join("base_url", s.URL(), d)
				require.NoError(t, err)
				c := &caller{source: fixed(endpoint.Endpoint{Dialect: d, URL: address, References: true,
					Headers: []endpoint.Header{{Name: "x-api-key", Value: "k"}, {Name: "anthropic-version", Value: "2023-06-01"}}})}
				t.Cleanup(c.client.CloseIdle)
				req := ask("hello")
				req.Whole = whole
				call, err := c.client.Call(withTimeout(t), &c.source, req)
				require.NoError(t, err)
				defer call.Close()
				var reply llm.Reply
				var reference string
				for err == nil {
					var events []llm.Event
					events, err = call.Recv()
					for _, ev := range events {
						reply.Add(ev)
						if ev.Kind == llm.EventReference {
							reference += ev.ID
						}
					}
				}
				require.ErrorIs(t, err, io.EOF)
				_, err = call.Recv()
				require.ErrorIs(t, err, io.EOF, "the end stays the end")
				reply.Close()
				require.Equal(t, "You said: hello", reply.Text())
				require.True(t, reply.Usage.Complete())
				require.NotEmpty(t, reference, "what the upstream calls the reply")
			})
		}
	}
	_, err := endpoint.Join("base_url", s.URL()+"/v1/messages", endpoint.Messages)
	require.ErrorContains(t, err, "must end before /messages")
	_, err = endpoint.Join("base_url", "localhost:80", endpoint.Messages)
	require.ErrorContains(t, err, "setting base_url must begin with http://")
}

func TestIDsOfTheUpstream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, value, want string
	}{
		"of OpenAI":    {"X-Request-Id", "req_7", "req_7"},
		"of Anthropic": {"request-id", "req_8", "req_8"},
		"too long":     {"X-Request-Id", strings.Repeat("x", 300), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(c.header, c.value)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(server.Close)
			d := start(t, endpoint.Endpoint{URL: server.URL})
			call, err := d.client.Call(withTimeout(t), &d.source, ask("x"))
			require.NoError(t, err)
			defer call.Close()
			_, err = call.Recv()
			failed, ok := errors.AsType[*llm.Error](err)
			require.True(t, ok)
			require.Equal(t, llm.ErrUpstream, failed.Kind)
			require.Equal(t, c.want, failed.RequestID, "also of a call that failed")
		})
	}
}

// What the upstream calls a request comes with its acceptance; where it has a name for the reply only, that comes with
// the end. Nothing is named twice.
func TestNamesOfAReply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ head, id, accepted, finish string }{
		{"req_7", "gen-1", "req_7", ""},
		{"", "gen-1", "", "gen-1"},
		{"req_7", "", "req_7", ""},
		{"", "", "", ""},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q %q %t", c.head, c.id, whole), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Request-Id", c.head)
					const choice = `{"id":%q,"choices":[{"index":0,%q:{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`
					if whole {
						w.Header().Set("Content-Type", "application/json")
						_, _ = fmt.Fprintf(w, choice, c.id, "message")
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "data: "+choice+"\n\ndata: [DONE]\n\n", c.id, "delta")
				}))
				t.Cleanup(server.Close)
				req := ask("x")
				req.Whole = whole
				names := map[llm.EventKind]string{}
				require.NoError(t, start(t, endpoint.Endpoint{URL: server.URL}).Generate(withTimeout(t), req,
					func(ev llm.Event) error {
						names[ev.Kind] += ev.ID
						return nil
					}))
				require.Equal(t, c.accepted, names[llm.EventAccepted])
				require.Contains(t, names, llm.EventFinish)
				require.Equal(t, c.finish, names[llm.EventFinish])
			})
		}
	}
}

// A client certificate is shown, and the server's is checked against the endpoint's authorities.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}

	fake := upstream.New(upstream.Options{})
	seen := make(chan string, 4)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.TLS.PeerCertificates[0].Subject.CommonName
		fake.ServeHTTP(w, r)
	}))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(block("CERTIFICATE", der))))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it says that a client hung up
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.StartTLS()
	t.Cleanup(server.Close)

	secured := endpoint.TLS{CA: block("CERTIFICATE", server.Certificate().Raw), ServerName: "example.com",
		Certificate: block("CERTIFICATE", der), Key: block("PRIVATE KEY", rawKey)}
	c := start(t, endpoint.Endpoint{URL: server.URL, TLS: secured})
	require.NoError(t, c.Generate(withTimeout(t), ask("x"), ignore))
	require.Equal(t, "gateway", <-seen)

	secured.ServerName = "another.example"
	err = start(t, endpoint.Endpoint{URL: server.URL, TLS: secured}).Generate(withTimeout(t), ask("x"), ignore)
	require.ErrorContains(t, err, "verifying the upstream's certificate")
}

func TestProxy(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	target, err := url.Parse(s.URL())
	require.NoError(t, err)
	credentials := make(chan string, 4)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credentials <- r.Header.Get("Proxy-Authorization")
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	through, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	through.User = url.UserPassword("u", "geheim")
	c := start(t, endpoint.Endpoint{URL: "http://upstream.invalid", Proxy: through.String()})
	require.NoError(t, c.Generate(withTimeout(t), ask("x"), ignore))
	require.Equal(t, "Basic dTpnZWhlaW0=", <-credentials)

	proxy.Close()
	err = c.Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
	require.NotContains(t, err.Error(), "geheim")
}

func TestWhatAnEndpointRefusesIsLeftOut(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	c := start(t, endpoint.Endpoint{URL: s.BaseURL(), Refuses: []string{"temperature", "max_tokens"}})
	req := ask("x")
	half := 0.5
	req.Temperature, req.Stop, req.Unsupported = &half, []string{"a"}, []string{"stop"}
	require.NoError(t, c.Generate(withTimeout(t), req, ignore))
	got, err := s.Request(withTimeout(t), 1)
	require.NoError(t, err)
	for _, name := range []string{`"temperature"`, `"stop"`, `"max_tokens"`} {
		require.NotContains(t, string(got.Body), name)
	}
	require.Contains(t, string(got.Body), `"max_completion_tokens":100`)
	require.Equal(t, []string{"stop"}, req.Unsupported, "the request stays as it was")
}

// What comes together is returned together, and what is there is not kept back for what is not.
func TestBatches(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	many := upstream.Reply{Wire: upstream.Wire{Piece: 1 << 20}}
	for range 50 {
		many.Steps = append(many.Steps, upstream.Text("a"))
	}
	many.Steps = append(
		many.Steps,
		upstream.Comment("still here"),
		upstream.Wait("rest"),
		upstream.Finish("stop"),
		upstream.Done(),
	)
	s.Enqueue(many)
	c := start(t, endpoint.Endpoint{URL: s.BaseURL()})
	call, err := c.client.Call(withTimeout(t), &c.source, ask("x"))
	require.NoError(t, err)
	defer call.Close()
	var texts, batches int
	for texts < 50 { // it would wait for ever if it kept something back
		events, err := call.Recv()
		require.NoError(t, err)
		batches++
		for _, ev := range events {
			texts += len(ev.Text)
		}
	}
	require.Less(t, batches, 50)
	s.Open("rest")
	for err == nil {
		_, err = call.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
}

func TestACallThatIsClosedEnds(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Silence()}})
	c := start(t, endpoint.Endpoint{URL: s.BaseURL()})
	call, err := c.client.Call(withTimeout(t), &c.source, ask("x"))
	require.NoError(t, err)
	for text := ""; text == ""; {
		events, err := call.Recv()
		require.NoError(t, err)
		for _, ev := range events {
			text += ev.Text
		}
	}
	ended := make(chan error, 1)
	go func() { _, err := call.Recv(); ended <- err }()
	call.Close()
	call.Close()
	err = <-ended
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF))
	require.NoError(t, s.Idle(withTimeout(t)))
}

// TestLostCallIsAnObject: what a provider says is written into requests as it is.
func TestLostCallIsAnObject(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{"": true, `{}`: true, `{"a":{"b":"c"}}`: true, `[]`: false, `{`: false,
		` {}`: false, `{},{}`: false, `"{}"`: false, `null`: false} {
		e := endpoint.Endpoint{Dialect: endpoint.Chat, URL: "http://x", LostCall: text}
		if good {
			require.NoError(t, e.CheckConnection(time.Time{}), text)
		} else {
			require.ErrorContains(t, e.CheckConnection(time.Time{}), "lost call is not an object", text)
		}
	}
}
