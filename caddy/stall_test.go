//go:build linux

package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// narrow is how much the clients of TestStall take of a reply before they read it, in bytes. By default that is
// megabytes.
const narrow = 64 << 10

func dialNarrow(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if controlErr := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, narrow)
		}); controlErr != nil {
			return controlErr
		}
		return err
	}}
	return dialer.DialContext(ctx, network, address)
}

// paid is what an account has paid since it had so many credits, and whether anything is still held, as it sees
// itself.
func (g *gateway) paid(t testing.TB, client *http.Client, key string, credits int64) (microcents int64, held bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, g.URL+"/v1/account", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var account struct {
		Credits struct {
			Balance  int64 `json:"balance_credits"`
			Reserved int64 `json:"reserved_credits"`
			Accrued  int64 `json:"accrued_usage_microcents"`
		}
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&account))
	c := account.Credits
	return (credits-c.Balance)*1_000_000 + c.Accrued, c.Reserved != 0
}

// TestStall: a client that reads the beginning of a reply and no more pays for all of it, by every version of HTTP,
// with all that Caddy puts around a connection.
func TestStall(t *testing.T) {
	t.Parallel()
	const credits, tokens = 1_000_000, 500
	text := strings.Repeat("0123456789abcdef", 1<<10)
	up := upstream.Start(t, upstream.Options{Script: func(req *upstream.Request) upstream.Reply {
		return upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Wait(req.LastUser()),
			{Do: upstream.StepText, Text: text, Times: 150}, upstream.Text("two"), upstream.Finish("stop"),
			upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: tokens}), upstream.Done()}}
	}})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  client_stall = \"200ms\"\n}\n" + hcl(up), "Caddyfile": site})
	clients := g.clients(t, dialNarrow)
	clients["HTTP/2.0"].Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: narrow}
	clients["HTTP/3.0"].Transport.(*http3.Transport).QUICConfig = &quic.Config{
		InitialStreamReceiveWindow: narrow, MaxStreamReceiveWindow: narrow,
		InitialConnectionReceiveWindow: 2 * narrow, MaxConnectionReceiveWindow: 2 * narrow,
	}
	for proto, client := range clients {
		for _, s := range shapes {
			t.Run("GAP-112 BILL-22 "+s.name+" "+proto, func(t *testing.T) {
				t.Parallel()
				key := g.account(t, credits)
				ample := shape{s.name, s.path, func(prompt string) map[string]any {
					body := s.body(prompt)
					for _, name := range []string{"max_tokens", "max_output_tokens"} {
						body[name] = 64_000
					}
					if s.name == "chat" {
						delete(body, "max_output_tokens")
					}
					return body
				}, s.end}
				l := ample.send(t, client, g.URL, key, s.name+proto, true)
				require.Equal(t, proto, l.Proto)
				l.until(t, "one ") // the end of a stream of HTTP/3 takes what was not read before
				up.Open(s.name + proto)
				eventually(t, func() (bool, string) {
					microcents, held := g.paid(t, client, key, credits)
					return !held && microcents == 10*300+tokens*1500, fmt.Sprint(microcents, held)
				})
				// What the system took of a connection it may deliver to the end; otherwise the reply breaks off.
				rest, err := io.ReadAll(l.r)
				require.Equal(t, err == nil, strings.HasSuffix(string(rest), s.end))
				if proto != "HTTP/1.1" {
					require.Error(t, err)
				}
			})
		}
	}
}

// TestLongBodyUnsent: a request that is refused for what its header says is answered at once, whether its body comes
// or not; HTTP/1 ends the connection then, where the body is long (GAP-138).
func TestLongBodyUnsent(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  max_body = \"64KiB\"\n}\n" + hcl(up)})
	site, err := url.Parse(g.URL)
	require.NoError(t, err)
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		for name, c := range map[string]struct {
			key    string
			length int
			status int
		}{
			"HTTP-03 LIM-13 a length over the limit":        {key, 64<<10 + 1, http.StatusRequestEntityTooLarge},
			"HTTP-03 LIM-13 a length far over the limit":    {key, 1 << 40, http.StatusRequestEntityTooLarge},
			"AUTH-03 a long body of somebody unknown":       {mistyped(key), 1 << 20, http.StatusUnauthorized},
			"EP-10 a long body where there is no such path": {key, 1 << 20, http.StatusNotFound},
		} {
			t.Run(name+" "+s.name, func(t *testing.T) {
				t.Parallel()
				var d net.Dialer
				conn, err := d.DialContext(withTimeout(t), "tcp", site.Host)
				require.NoError(t, err)
				defer conn.Close()
				require.NoError(t, conn.SetDeadline(time.Now().Add(patience/2)))
				path := s.path
				if c.status == http.StatusNotFound {
					path += "/x"
				}
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n"+
					"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{", path, site.Host, c.key, c.length)
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, c.status, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.True(t, json.Valid(body), "%s", body)
				require.Equal(t, c.length > 256<<10, resp.Close, "a short rest may still come")
			})
		}
	}
}
