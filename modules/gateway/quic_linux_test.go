package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/fareway/fareway/modules/internal/connections"
)

// translated is a socket whose packets seem to come from the first byte of 127.0.0.1 replaced: connections from this
// machine are not bounded.
type translated struct{ net.PacketConn }

const seenAs = 203

func (translated) SetReadBuffer(int) error  { return nil }
func (translated) SetWriteBuffer(int) error { return nil }

func (c translated) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	if udp, is := from.(*net.UDPAddr); is {
		from = &net.UDPAddr{IP: net.IPv4(seenAs, 0, 0, 1), Port: udp.Port}
	}
	return n, from, err
}

func (c translated) WriteTo(b []byte, to net.Addr) (int, error) {
	return c.PacketConn.WriteTo(b, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: to.(*net.UDPAddr).Port})
}

// quicBench is an address for HTTP/3 with a server.
type quicBench struct {
	*quicSocket
	trust *tls.Config
}

func startQUIC(t *testing.T, limits *Connections, handler http.HandlerFunc) quicBench {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	own := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{http3.NextProtoH3},
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	b := quicBench{&quicSocket{PacketConn: translated{conn}, verify: rate.NewLimiter(verifyAbove, verifyAbove)},
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}} //nolint:gosec // it is this test's
	config := &tls.Config{MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return own, nil }}
	require.NoError(t, b.serve(newQUICServer(new(caddyhttp.App), new(caddyhttp.Server), handler, config, limits), nil))
	t.Cleanup(b.end)
	return b
}

func (b quicBench) dial(t *testing.T) (*quic.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := quic.DialAddr(ctx, b.LocalAddr().String(), b.trust, nil)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	}
	return conn, err
}

// TestQUICIsBounded: connections of HTTP/3 have the places that those over TCP have, and give them back.
func TestQUICIsBounded(t *testing.T) {
	t.Parallel()
	var table connections.Table
	limits := &Connections{log: slog.New(slog.DiscardHandler), table: &table,
		limits: connections.Limits{Max: 100, PerAddress: 2}}
	b := startQUIC(t, limits, http.NotFound)
	first, err := b.dial(t)
	require.NoError(t, err)
	require.False(t, b.hasToProveAddress(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}))
	require.True(t, b.hasToProveAddress(&net.UDPAddr{IP: net.IPv4(seenAs, 0, 0, 1)}), "or anybody could fill its places")
	_, err = b.dial(t)
	require.NoError(t, err)
	require.Equal(t, 2, table.Open())
	_, err = b.dial(t)
	var refused *quic.TransportError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, quic.ConnectionRefused, refused.ErrorCode)
	require.Positive(t, table.Refused(connections.OfAddress)) // each of the packets that it begins with

	require.NoError(t, first.CloseWithError(0, ""))
	require.Eventually(t, func() bool { return table.Open() == 1 }, time.Minute, time.Millisecond)
	_, err = b.dial(t)
	require.NoError(t, err)
}

// TestQUICEnds: what runs when an address is given up ends whole, and connections on which nothing runs keep nobody.
func TestQUICEnds(t *testing.T) {
	t.Parallel()
	running, open := make(chan struct{}), make(chan struct{})
	b := startQUIC(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("one "))
		_ = http.NewResponseController(w).Flush()
		close(running)
		<-open
		_, _ = w.Write([]byte("two"))
	})
	idle, err := b.dial(t)
	require.NoError(t, err)
	tr := &http3.Transport{TLSClientConfig: b.trust}
	t.Cleanup(func() { _ = tr.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.LocalAddr().String(), http.NoBody)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	<-running
	ended := make(chan struct{})
	go func() {
		b.end()
		close(ended)
	}()
	// Whoever comes now is not kept waiting for an answer that nobody gives.
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.closed
	}, time.Minute, time.Millisecond)
	close(open)
	reply, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "one two", string(reply))
	<-ended
	<-idle.Context().Done()
}

// TestQUICReload: what runs in the configuration before ends whole, and its connections' next requests are of the next.
func TestQUICReload(t *testing.T) {
	t.Parallel()
	running, open := make(chan struct{}), make(chan struct{})
	b := startQUIC(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("one "))
		_ = http.NewResponseController(w).Flush()
		close(running)
		<-open
		_, _ = w.Write([]byte("two"))
	})
	tr := &http3.Transport{TLSClientConfig: b.trust}
	t.Cleanup(func() { _ = tr.Close() })
	get := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.LocalAddr().String(), http.NoBody)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		return resp
	}
	first := get()
	<-running
	before := b.serving.Load()
	next := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("next")) }
	require.NoError(t, b.serve(newQUICServer(new(caddyhttp.App), new(caddyhttp.Server), next, before.tls, nil), nil))
	require.Eventually(t, func() bool {
		resp := get()
		defer resp.Body.Close()
		reply, err := io.ReadAll(resp.Body)
		return err == nil && string(reply) == "next"
	}, time.Minute, time.Millisecond)
	close(open)
	reply, err := io.ReadAll(first.Body)
	require.NoError(t, err)
	require.NoError(t, first.Body.Close())
	require.Equal(t, "one two", string(reply))
	<-before.ended
}

func TestConnectionIDs(t *testing.T) {
	t.Parallel()
	ours, others := newConnectionIDs(), newConnectionIDs()
	id, err := ours.GenerateConnectionID()
	require.NoError(t, err)
	require.Equal(t, ours.ConnectionIDLen(), id.Len())
	short := append([]byte{0x40}, id.Bytes()...)
	long := append([]byte{0xe0, 0, 0, 0, 1, byte(id.Len())}, id.Bytes()...)
	for _, packet := range [][]byte{short, long} {
		require.True(t, ours.isOf(packet))
		require.False(t, others.isOf(packet))
		for n := range packet {
			require.False(t, ours.isOf(packet[:n]))
		}
	}
	long[5] = 8
	require.False(t, ours.isOf(long), "an id that a client has made")
}
