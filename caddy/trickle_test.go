//go:build linux

package main_test

import (
	"io"
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
				reply := do(t, client, req)
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
