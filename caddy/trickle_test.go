//go:build linux

package main_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestTrickle sends bodies that never end, by every version of HTTP: whatever the site allows, request_timeout
// ends them.
func TestTrickle(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  request_timeout = \"300ms\"\n}\n" + hcl(up),
		"Caddyfile": site})
	key := g.account(t, 1_000_000)
	for proto, client := range g.clients(t, nil) {
		for _, s := range shapes {
			t.Run(s.name+" "+proto, func(t *testing.T) {
				t.Parallel()
				body, in := io.Pipe()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					tick := time.NewTicker(20 * time.Millisecond)
					defer tick.Stop()
					for range tick.C {
						if _, err := io.WriteString(in, " "); err != nil {
							return // nobody reads it any more
						}
					}
				}()
				req, err := http.NewRequestWithContext(withTimeout(t), http.MethodPost, g.URL+s.path, body)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+key)
				reply := early(t, client, req)
				require.Equal(t, proto, reply.Proto)
				require.Equal(t, http.StatusBadRequest, reply.StatusCode)
				require.Empty(t, reply.Header.Values("X-Should-Retry"), "GAP-119")
				require.Contains(t, reply.all(t), "did not arrive in time")
				require.NoError(t, reply.Body.Close())
				<-ended
			})
		}
	}
}

// early does a request whose reply comes before the end of its body. Over HTTP/1.1 Go's client may report that it can
// write no more in place of the reply that came before: there the two are apart.
func early(t testing.TB, client *http.Client, req *http.Request) *live {
	t.Helper()
	one, ok := client.Transport.(*http.Transport)
	if !ok || one.ForceAttemptHTTP2 {
		return do(t, client, req)
	}
	dialer := tls.Dialer{Config: one.TLSClientConfig}
	conn, err := dialer.DialContext(req.Context(), "tcp", net.JoinHostPort("127.0.0.1", req.URL.Port()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = req.Write(conn) // up to the end of the connection
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		<-written
	})
	return &live{Response: resp, r: bufio.NewReader(resp.Body)}
}
