package contracttest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
)

// protocols are what clients speak to a gateway.
var protocols = []string{"HTTP/1.1", "HTTP/2", "HTTP/3"}

// narrowBuffer is about what a narrow client and the system take of a reply that nobody reads, in bytes; by default
// that is megabytes.
const narrowBuffer = 64 << 10

// Narrow serves the gateway once more, over the given protocol with small buffers: a client that does not read is felt
// soon. It returns the client too.
func (s *service) Narrow(t testing.TB, protocol string) (url string, c *http.Client) {
	t.Helper()
	switch protocol {
	case "HTTP/3":
		return s.narrowQUIC(t)
	case "HTTP/2":
		server, transport := s.narrowTCP(t)
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols = server.Config.Protocols
		transport.HTTP2 = &http.HTTP2Config{
			MaxReceiveBufferPerStream: narrowBuffer, MaxReceiveBufferPerConnection: narrowBuffer,
		}
		server.Start()
		return server.URL, &http.Client{Transport: transport}
	}
	server, transport := s.narrowTCP(t)
	server.Start()
	return server.URL, &http.Client{Transport: transport}
}

func (s *service) narrowTCP(t testing.TB) (*httptest.Server, *http.Transport) {
	server := httptest.NewUnstartedServer(s.handler)
	server.Listener = narrowListener{server.Listener}
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if controlErr := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, narrowBuffer)
		}); controlErr != nil {
			return controlErr
		}
		return err
	}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, ReadBufferSize: 4 << 10}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return server, transport
}

type narrowListener struct{ net.Listener }

func (l narrowListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetWriteBuffer(narrowBuffer)
}

func (s *service) narrowQUIC(t testing.TB) (url string, c *http.Client) {
	// Only its certificate is used.
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS()
	identity.Close()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	config := http3.ConfigureTLSConfig(&tls.Config{Certificates: identity.TLS.Certificates})
	server := &http3.Server{Handler: s.handler, TLSConfig: config}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(conn) // which always ends with an error
	}()
	window := quic.Config{
		InitialStreamReceiveWindow: narrowBuffer, MaxStreamReceiveWindow: narrowBuffer,
		InitialConnectionReceiveWindow: 2 * narrowBuffer, MaxConnectionReceiveWindow: 2 * narrowBuffer,
	}
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, QUICConfig: &window, DisableCompression: true,
		Dial: func(ctx context.Context, addr string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, addr, t, c)
		},
	}
	t.Cleanup(func() {
		_ = transport.Close() // the test is over
		_ = server.Close()
		<-done
		_ = conn.Close()
	})
	return "https://" + conn.LocalAddr().String(), &http.Client{Transport: transport}
}
