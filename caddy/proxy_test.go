//go:build linux

package main_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// impatientProxy stands between clients and a gateway, as load balancers do, and closes a connection on which the
// gateway has said nothing for a time. It returns its address.
func impatientProxy(t testing.TB, gateway string, limit time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() { pass(client, gateway, limit) })
		}
	})
	return listener.Addr().String()
}

// pass carries one connection until either side closes it or the gateway is silent for too long.
func pass(client net.Conn, gateway string, limit time.Duration) {
	defer client.Close()
	server, err := net.Dial("tcp", gateway)
	if err != nil {
		return // the client sees it closed
	}
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	defer up.Wait()
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 16<<10)
	for {
		if err := server.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return
		}
		n, err := server.Read(buf)
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestImpatientProxy is a proxy that closes after 20 seconds of silence and keep-alives every 15, faster.
func TestImpatientProxy(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  keepalive = \"100ms\"\n}\n" + hcl(up)})
	key := g.account(t, 1_000_000)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	proxied := "http://" + impatientProxy(t, strings.TrimPrefix(g.URL, "http://"), 3*time.Second)

	streams := map[string]*live{}
	for _, s := range shapes {
		streams[s.name] = s.send(t, client, proxied, key, "be quiet until go", true)
		line, _ := s.keepAlive()
		streams[s.name].until(t, line)
	}
	require.NoError(t, up.AtGate(withTimeout(t), "go", len(shapes)))
	// Replies that are no streams are as silent, and tell when the proxy has lost its patience.
	for _, s := range shapes {
		require.Contains(t, s.send(t, client, proxied, key, "hello", false).all(t), `"hello"`)
	}
	_, err := client.Do(shapes[0].request(t, proxied, key, "be quiet until go", false))
	require.Error(t, err)

	for _, s := range shapes {
		_, clause := s.keepAlive()
		t.Run(clause+" SSE-28 "+s.name, func(t *testing.T) {
			require.NotContains(t, streams[s.name].read.String(), "at last")
			up.Open("go")
			require.Equal(t, quietCost, streams[s.name].whole(t, s))
		})
	}
	g.settled(t)
}
