//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// wrappedSite is the site with listener wrappers and time-outs of its own. What comes from 127.0.0.1 says in a PROXY
// header whom it comes from, for connections from this machine are not bounded.
func wrappedSite(limits string) string {
	return strings.Replace(site, "servers {\n\t\ttimeouts {", `servers {
		listener_wrappers {
			proxy_protocol {
				allow 127.0.0.0/8
			}
			fareway_connections {
				`+limits+`
			}
			tls
		}
		timeouts {
			read_header 300ms`, 1)
}

// dialFrom makes a connection that says that it comes from an address, up to the end of TLS's handshake.
func (s lingerSite) dialFrom(t testing.TB, address string) (*tls.Conn, error) {
	t.Helper()
	at, err := url.Parse(s.URL)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", "127.0.0.1:"+at.Port())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "PROXY TCP4 %s 127.0.0.1 4711 443\r\n", address)
	require.NoError(t, err)
	over := tls.Client(conn, s.trust)
	return over, over.Handshake()
}

// TestConnectionsAreBounded makes more connections than there may be, from one address and in all.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": wrappedSite("max 6\n\t\t\t\tper_address 2")})
	s := lingerSite{g, g.clients(t, nil)["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig}
	count := func(want float64, why string) {
		t.Helper()
		eventually(t, func() (bool, string) { return g.metrics(t)["fareway_connections"] == want, why })
	}
	count(0, "connections by which the site was waited for")
	dial := func(address string) *tls.Conn {
		t.Helper()
		conn, err := s.dialFrom(t, address)
		require.NoError(t, err)
		return conn
	}
	first := dial("192.0.2.1")
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
		dial(address)
	}
	_, err := s.dialFrom(t, "192.0.2.1")
	require.Error(t, err, "it has two")
	require.InDelta(t, 1, g.metrics(t)[`fareway_connections_refused_total{of="address"}`], 0)
	dial("192.0.2.2")
	_, err = s.dialFrom(t, "192.0.2.5")
	require.Error(t, err, "there are six")
	require.InDelta(t, 1, g.metrics(t)[`fareway_connections_refused_total{of="all"}`], 0)
	require.InDelta(t, 6, g.metrics(t)["fareway_connections"], 0)

	log, err := os.ReadFile(filepath.Join(g.Dir, "fareway.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "connections are refused: there are too many")
	require.NoError(t, first.Close())
	count(5, "one has ended")
	again := dial("192.0.2.1")
	_, err = io.WriteString(again, head("GET", "/v1/models", g.Key))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(again), nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
}

// TestSlowHeaders: who sends a header a byte at a time is cut off, and its place is free again.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": wrappedSite("max 3\n\t\t\t\tper_address 2")})
	s := lingerSite{g, g.clients(t, nil)["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig}
	for range 2 {
		conn, err := s.dialFrom(t, "192.0.2.1")
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET /v1/models HTTP/1.1\r\nHost: local")
		require.NoError(t, err)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(conn, "x"); err != nil {
				break
			}
		}
	}
	eventually(t, func() (bool, string) { return g.metrics(t)["fareway_connections"] == 0, "they are still there" })
}

// TestSmuggling sends requests of which two readers could think differently where they end, with another request in
// them. None is taken for two.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := sites(t)["http"]
	key := s.account(t, 1_000_000)
	hidden := head("GET", "/v1/account", key)
	for name, header := range map[string][]string{
		"both lengths":             {"Transfer-Encoding: chunked", length(5)},
		"two lengths":              {length(5), length(6)},
		"a length with a sign":     {"Content-Length: +5"},
		"a length of two numbers":  {"Content-Length: 5, 6"},
		"a length that is none":    {"Content-Length: 0x5"},
		"an encoding that is none": {"Transfer-Encoding: xchunked"},
		"two encodings":            {"Transfer-Encoding: chunked, identity"},
		"an encoding twice":        {"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"},
		"a tab before the value":   {"Transfer-Encoding:\tchunked", length(5)},
		"a space before the colon": {"Content-Length : 5"},
		"a folded line":            {"X-Folded: a", " Content-Length: 5"},
		"a bare carriage return":   {"X-A: a\rContent-Length: 5"},
		"a zero byte":              {"X-A: a\x00", length(5)},
		"two hosts":                {"Host: other", length(5)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := s.dial(t)
			_, err := io.WriteString(conn, head("POST", "/v1/nothing", key, header...)+"0\r\n\r\n"+hidden)
			require.NoError(t, err)
			if tcp, is := conn.(*net.TCPConn); is {
				require.NoError(t, tcp.CloseWrite())
			}
			said, _ := io.ReadAll(conn) // it may be reset
			require.Regexp(t, "^HTTP/1.1 [45]", string(said))
			require.NotContains(t, string(said), "HTTP/1.1 200", "the request in it was answered")
		})
	}
}

// TestRapidReset begins streams of HTTP/2 and takes each back at once, some thousands on a connection, as
// CVE-2023-44487 did: none of them is charged, others are served meanwhile, and nothing is left.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": site})
	key := g.account(t, 1_000_000)
	clients := g.clients(t, nil)
	trust := clients["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.NextProtos = []string{"h2"}
	at, err := url.Parse(g.URL)
	require.NoError(t, err)
	conn, err := tls.Dial("tcp", "127.0.0.1:"+at.Port(), trust)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, conn) }() // what the server says of it
	sent := 0
	err = resetStreams(conn, "localhost:"+at.Port(), key, 5_000, func(n int) {
		sent = n
		if sent%500 == 499 {
			req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, g.URL+"/v1/models", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := clients["HTTP/2.0"].Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.StatusCode)
		}
	})
	t.Logf("%d streams were begun: %v", sent+1, err)
	eventually(t, func() (bool, string) {
		m := g.metrics(t)
		return m["fareway_running_requests"] == 0 && m["fareway_held_microcents"] == 0, "requests run"
	})
	require.Empty(t, up.Records(), "none of them reached the service")
}

// resetStreams begins n streams over a connection of HTTP/2, takes each back at once, and calls each with its number.
// The error says why there were not so many, which the server may see to.
func resetStreams(conn io.Writer, authority, key string, n int, each func(int)) error {
	framer := http2.NewFramer(conn, nil)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for sent := range n {
		id := uint32(2*sent + 1)
		block, err := headerBlock(authority, key)
		if err != nil {
			return err
		}
		begin := http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}
		if err := framer.WriteHeaders(begin); err != nil {
			return err
		}
		if err := framer.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
		each(sent)
	}
	return nil
}

// headerBlock are the fields of a request for a reply, encoded without regard to those before.
func headerBlock(authority, key string) ([]byte, error) {
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	encoder.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/v1/chat/completions"},
		{":authority", authority}, {"authorization", "Bearer " + key}, {"content-type", "application/json"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return nil, err
		}
	}
	return fields.Bytes(), nil
}
