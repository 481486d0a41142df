//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// lingerHCL is a service that takes short bodies only, and of the plan "slow" one request a minute.
func lingerHCL(up *upstream.Server) string {
	return "gateway {\n  max_body = \"64KiB\"\n}\npre_auth {\n  failures_per_minute = 0\n}\n" + hcl(up) +
		strings.Replace(hcl(up)[:strings.Index(hcl(up), "provider ")], `"trial" {
  requests_per_minute {
    key     = 0`, `"slow" {
  requests_per_minute {
    key     = 1`, 1)
}

// sites are a gateway in clear and one as the world gets it, each with how a raw connection to it is made.
func sites(t *testing.T) map[string]lingerSite {
	t.Helper()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	config := lingerHCL(up)
	plain := startGateway(t, files{"gateway.hcl": config})
	secure := startGateway(t, files{"gateway.hcl": config, "Caddyfile": site})
	trust := secure.clients(t, nil)["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig
	return map[string]lingerSite{"http": {plain, nil}, "https": {secure, trust}}
}

type lingerSite struct {
	*gateway
	trust *tls.Config // nil without TLS
}

func (s lingerSite) dial(t testing.TB) net.Conn {
	t.Helper()
	at, err := url.Parse(s.URL)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", "127.0.0.1:"+at.Port())
	require.NoError(t, err)
	if s.trust != nil {
		conn = tls.Client(conn, s.trust)
	}
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// head is the header of a request by hand.
func head(method, path, key string, more ...string) string {
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: localhost", "Authorization: Bearer " + key,
		"Accept-Encoding: gzip"}, more...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// length is a header's line.
func length(n int) string { return fmt.Sprint("Content-Length: ", n) }

// send writes a body of n bytes, in chunks or not, up to its end: as a client does that looks at a reply only then.
func send(w io.Writer, n int, chunked bool) error {
	piece := bytes.Repeat([]byte(" "), 64<<10)
	for ; n > 0; n -= len(piece) {
		piece = piece[:min(n, len(piece))]
		if chunked {
			if _, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(piece), piece); err != nil {
				return err
			}
			continue
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	if chunked {
		_, err := io.WriteString(w, "0\r\n\r\n")
		return err
	}
	return nil
}

// TestRefusalsArrive proves GAP-138 for clients that send all before they read.
func TestRefusalsArrive(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	for name, s := range sites(t) {
		good := s.account(t, 1_000_000)
		slow := s.accountOn(t, "slow", 1_000_000)
		suspended := rand.Text()
		s.call(t, "POST", "/fareway/accounts", map[string]any{"name": suspended, "plan": "trial"}, nil)
		forbidden := s.key(t, suspended)
		s.cli(t, "account", "suspend", suspended)
		for _, test := range []struct {
			method, path, key, more string
			size, status            int
		}{
			{"POST", "/v1/messages", mistyped(good), "", 4 * mega, 401},
			{"POST", "/v1/chat/completions", "", "", 300 << 10, 401},
			{"POST", "/v1/responses", mistyped(good), "", 200 << 10, 401},
			{"POST", "/v1/none", "", "", 4 * mega, 404},
			{"POST", "/wp-login.php", good, "", 4 * mega, 404},
			{"POST", "/fareway/accounts", "", "", 4 * mega, 404},
			{"PUT", "/v1/messages/count_tokens", "", "", 4 * mega, 405},
			{"POST", "/v1/responses", good, "", 50 * mega, 413},
			{"POST", "/v1/messages", good, "Content-Encoding: br", 40 << 10, 400},
			{"POST", "/v1/messages/count_tokens", good, "Content-Encoding: gzip", 50 * mega, 413},
			{"POST", "/v1/messages", slow, "", 50 * mega, 429},
			{"POST", "/v1/chat/completions", forbidden, "", 50 * mega, 403},
			{"POST", "/v1/chat/completions", good, "Expect: 100-continue", 2 * mega, 413},
			{"GET", "/v1/models", good, "", 50 * mega, 200},
			{"GET", "/v1/models/none", good, "", 50 * mega, 404},
			{"DELETE", "/v1/models/service/auto", good, "", 4 * mega, 405},
		} {
			for _, chunked := range []bool{false, true} {
				test := test
				if chunked && strings.HasPrefix(test.more, "Content-Encoding") {
					test.status = 400 // nobody has said how long it is
				}
				t.Run(fmt.Sprintf("GAP-138 %s %d %s %s %s chunked %t", name, test.status, test.method, test.path, test.more,
					chunked), func(t *testing.T) {
					t.Parallel()
					if test.status == http.StatusTooManyRequests {
						s.once(t, test.key) // right before: a minute may end meanwhile
					}
					lines := []string{length(test.size)}
					if chunked {
						lines[0] = "Transfer-Encoding: chunked"
					}
					if test.more != "" {
						lines = append(lines, test.more)
					}
					conn := s.dial(t)
					_, err := io.WriteString(conn, head(test.method, test.path, test.key, lines...))
					require.NoError(t, err)
					require.NoError(t, send(conn, test.size, chunked))
					r := bufio.NewReader(conn)
					resp, err := http.ReadResponse(r, nil)
					require.NoError(t, err)
					if chunked && resp.StatusCode == 100 { // it was asked for, for nothing says that it is too long
						resp, err = http.ReadResponse(r, nil)
						require.NoError(t, err)
					}
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, test.status, resp.StatusCode, "%s", body)
					require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
					if test.status != 200 {
						require.Contains(t, string(body), `"error"`)
					}
					require.Equal(t, chunked || test.size > 256<<10, resp.Close)
					if resp.Close {
						_, err = r.ReadByte()
						require.ErrorIs(t, err, io.EOF, "the end, and no reset")
						return
					}
					_, err = io.WriteString(conn, head("GET", "/v1/account", good))
					require.NoError(t, err)
					next, err := http.ReadResponse(r, nil)
					require.NoError(t, err)
					require.Equal(t, 200, next.StatusCode, "the connection serves on")
				})
			}
		}
		t.Run("GAP-138 "+name+" a request behind a refused body", func(t *testing.T) {
			t.Parallel()
			conn := s.dial(t)
			_, err := io.WriteString(conn, head("POST", "/v1/messages", "", length(20<<10))+strings.Repeat(" ", 20<<10)+
				head("GET", "/v1/account", good))
			require.NoError(t, err)
			r := bufio.NewReader(conn)
			for _, status := range []int{401, 200} {
				resp, err := http.ReadResponse(r, nil)
				require.NoError(t, err)
				require.Equal(t, status, resp.StatusCode)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
			}
		})
		t.Run("GAP-119 "+name+" a body that is cut", func(t *testing.T) {
			t.Parallel()
			for _, start := range []string{
				head("POST", "/v1/messages", good, length(1000)) + "{",
				head("POST", "/v1/responses", good, "Transfer-Encoding: chunked") + "5\r\n{",
				head("POST", "/v1/chat/completions", good, "Transfer-Encoding: chunked") + "5\r\n     \r\n",
			} {
				conn := s.dial(t)
				_, err := io.WriteString(conn, start)
				require.NoError(t, err)
				require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, 400, resp.StatusCode)
				require.Empty(t, resp.Header.Values("X-Should-Retry"))
			}
		})
		t.Run("GAP-138 "+name+" more than is read, by a client that reads", func(t *testing.T) {
			t.Parallel()
			conn := s.dial(t)
			_, err := io.WriteString(conn, head("POST", "/v1/messages", "", length(1<<40)))
			require.NoError(t, err)
			cut := make(chan error, 1)
			go func() { cut <- send(conn, 1<<40, false) }()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, 401, resp.StatusCode)
			require.Error(t, <-cut, "it is not read for ever")
		})
		t.Run("GAP-138 "+name+" a trickle is cut", func(t *testing.T) {
			t.Parallel()
			for _, lines := range []string{length(1000), length(1 << 30), "Transfer-Encoding: chunked"} {
				conn := s.dial(t)
				_, err := io.WriteString(conn, head("POST", "/v1/messages", "", lines))
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err, "the refusal does not wait for the body")
				require.Equal(t, 401, resp.StatusCode)
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				for range tick.C {
					if _, err := io.WriteString(conn, "1"); err != nil {
						break
					}
				}
			}
		})
	}
}

// TestHeaders proves how long headers may be, and that the server's own setting decides.
func TestHeaders(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	narrow := strings.Replace(site, "servers {", "servers {\n\t\tmax_header_size 32KiB", 1)
	for name, test := range map[string]struct {
		caddyfile  string
		taken, not int
	}{
		"1 MiB by default": {site, 1000 << 10, 1100 << 10},
		"the server's own": {narrow, 30 << 10, 40 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, files{"gateway.hcl": lingerHCL(up), "Caddyfile": test.caddyfile})
			key := g.account(t, 1)
			for size, status := range map[int]int{test.taken: 200, test.not: 431} {
				req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, g.URL+"/v1/account", http.NoBody)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("X-Long", strings.Repeat("x", size))
				resp, err := g.clients(t, nil)["HTTP/1.1"].Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, status, resp.StatusCode, size)
			}
		})
	}
}

// once uses up what a key on the plan "slow" may ask in a minute: what follows is over.
func (s lingerSite) once(t testing.TB, key string) {
	t.Helper()
	for range 3 {
		conn := s.dial(t)
		_, err := io.WriteString(conn, head("GET", "/v1/account", key))
		require.NoError(t, err)
		_, err = http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
	}
}

// TestRefusalsArriveOnStreams proves GAP-138 for HTTP/2: the reply is whole, the stream ends without an error, and the
// connection serves on.
func TestRefusalsArriveOnStreams(t *testing.T) {
	t.Parallel()
	s := sites(t)["https"]
	good := s.account(t, 1_000_000)
	client := s.clients(t, nil)["HTTP/2.0"]
	for key, status := range map[string]int{good: 413, mistyped(good): 401} {
		for range 3 {
			body := io.LimitReader(zeros{}, 50<<20)
			req, err := http.NewRequestWithContext(withTimeout(t), http.MethodPost, s.URL+"/v1/messages", body)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.Equal(t, status, resp.StatusCode)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Contains(t, string(text), `"error"`)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
