package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/http3/qlog"
	"golang.org/x/time/rate"

	"github.com/fareway/fareway/modules/internal/connections"
)

// HTTP/3 at the process's sockets is served here and not by Caddy, whose listener lets nobody see connections come or
// end, and chooses their ids itself. Caddy gets a socket that nothing comes to: it knows so that HTTP/3 is to be had
// (Alt-Svc), and closes it when it is over. Its servers answer the requests.

const (
	// verifyAbove is how many handshakes a second may begin without a proof that their addresses are not made up.
	verifyAbove = 1000
	// closeQUICWithin is how long clients may take to close connections on which nothing runs, when they have been told
	// that the server goes. What they have not acknowledged by then they do not get.
	closeQUICWithin = 2 * time.Second
)

var errManyConnections = errors.New("there are too many connections")

// quicSocket is one address for HTTP/3.
type quicSocket struct {
	net.PacketConn // the process's
	verify         *rate.Limiter
	serving        atomic.Pointer[quicServer]

	mu        sync.Mutex
	transport *quic.Transport // nil until somebody serves
	listener  *quic.EarlyListener
	closed    bool
}

// quicServer serves an address in one configuration.
type quicServer struct {
	http3.Server
	tls    *tls.Config
	limits *Connections // nil: there are none
	grace  time.Duration

	mu      sync.Mutex
	running int           // requests
	ending  bool          // it takes no more
	ended   chan struct{} // closed when it ends and none is running
}

// quicSockets are those of the process, by the addresses that configurations have.
var quicSockets struct {
	sync.Mutex
	at map[caddy.NetworkAddress]*quicSocket
}

// listenQUIC takes an address for HTTP/3, and returns what Caddy gets of it.
func listenQUIC(ctx context.Context, at caddy.NetworkAddress, config net.ListenConfig) (net.PacketConn, error) {
	conn, err := listening.ListenPacket(ctx, "udp"+at.Network[len(sharedPackets):], at.JoinHostPort(0), config)
	if err != nil {
		return nil, err
	}
	s := &quicSocket{PacketConn: conn, verify: rate.NewLimiter(verifyAbove, verifyAbove)}
	quicSockets.Lock()
	defer quicSockets.Unlock()
	if quicSockets.at == nil {
		quicSockets.at = map[caddy.NetworkAddress]*quicSocket{}
	}
	quicSockets.at[at] = s
	return &silentConn{socket: s, at: at, closed: make(chan struct{})}, nil
}

// silentConn is what Caddy has of an address: nothing comes, and nothing has to go.
type silentConn struct {
	socket  *quicSocket
	at      caddy.NetworkAddress
	closed  chan struct{}
	closing sync.Once
}

// Close implements net.PacketConn. It returns when what runs has ended: Caddy waits for that when it exits.
func (c *silentConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		quicSockets.Lock()
		if quicSockets.at[c.at] == c.socket {
			delete(quicSockets.at, c.at)
		}
		quicSockets.Unlock()
		c.socket.end()
	})
	return nil
}

// ReadFrom implements net.PacketConn.
func (c *silentConn) ReadFrom([]byte) (int, net.Addr, error) {
	<-c.closed
	return 0, nil, net.ErrClosed
}

// WriteTo implements net.PacketConn.
func (c *silentConn) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }

// LocalAddr implements net.PacketConn.
func (c *silentConn) LocalAddr() net.Addr { return c.socket.LocalAddr() }

// SetDeadline implements net.PacketConn; that there are no buffers to set would have quic-go warn.
func (*silentConn) SetDeadline(time.Time) error      { return nil }
func (*silentConn) SetReadDeadline(time.Time) error  { return nil }
func (*silentConn) SetWriteDeadline(time.Time) error { return nil }
func (*silentConn) SetReadBuffer(int) error          { return nil }
func (*silentConn) SetWriteBuffer(int) error         { return nil }

// serveQUIC has the servers of an app that Caddy has started answer requests over HTTP/3. Connections of the
// configuration before are told that they end; what runs over them goes on.
func serveQUIC(ctx caddy.Context, app *caddyhttp.App) error {
	if app == nil {
		return nil
	}
	for _, server := range app.Servers {
		var tlsConfig *tls.Config
		for _, address := range server.Listen {
			addr, err := caddy.ParseNetworkAddress(address)
			if err != nil {
				continue
			}
			for offset := range addr.PortRangeSize() {
				s := quicSocketAt(addr.At(offset))
				if s == nil {
					continue
				}
				if tlsConfig == nil {
					tlsConfig = server.TLSConnPolicies.TLSConfig(ctx)
				}
				next := newQUICServer(app, server, server.ServeHTTP, tlsConfig, limitsAt(s.LocalAddr()))
				if err := s.serve(next, server.Allow0RTT); err != nil {
					return fmt.Errorf("serving HTTP/3 at %s: %w", s.LocalAddr(), err)
				}
			}
		}
	}
	return nil
}

// quicSocketAt is that for HTTP/3 at an address of a server, nil for none.
func quicSocketAt(address caddy.NetworkAddress) *quicSocket {
	if len(address.Network) < len(sharedNetwork) || address.Network[:len(sharedNetwork)] != sharedNetwork {
		return nil
	}
	address.Network = sharedPackets + address.Network[len(sharedNetwork):]
	quicSockets.Lock()
	defer quicSockets.Unlock()
	return quicSockets.at[address]
}

// newQUICServer is one that has the settings of Caddy's, and a handler.
func newQUICServer(app *caddyhttp.App, server *caddyhttp.Server, handle http.HandlerFunc, config *tls.Config,
	limits *Connections) *quicServer {
	s := &quicServer{tls: config, limits: limits, grace: time.Duration(app.GracePeriod), ended: make(chan struct{})}
	s.Server = http3.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.change(1)
			defer s.change(-1)
			handle(w, r)
		}),
		MaxHeaderBytes: server.MaxHeaderBytes,
		IdleTimeout:    time.Duration(server.IdleTimeout),
	}
	return s
}

// serve puts a server in the place of the one before.
func (s *quicSocket) serve(server *quicServer, early *bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // by a configuration after this one
	}
	before := s.serving.Swap(server)
	if s.transport == nil {
		if err := s.open(cmp.Or(early, &yes)); err != nil {
			return err
		}
	}
	go func() { _ = server.ServeListener(s.listener) }() // it ends when the server is shut down
	if before != nil {
		go before.end()
	}
	return nil
}

var yes = true

// open begins to read. The lock is held.
func (s *quicSocket) open(early *bool) error {
	s.transport = &quic.Transport{Conn: s.PacketConn, ConnectionIDGenerator: ownIDs, ConnContext: s.count,
		VerifySourceAddress: s.hasToProveAddress}
	config := http3.ConfigureTLSConfig(&tls.Config{ //nolint:gosec // the versions are those of the configurations
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return s.serving.Load().tls.GetConfigForClient(hello)
		},
		GetEncryptedClientHelloKeys: func(hello *tls.ClientHelloInfo) ([]tls.EncryptedClientHelloKey, error) {
			if keys := s.serving.Load().tls.GetEncryptedClientHelloKeys; keys != nil {
				return keys(hello)
			}
			return nil, nil
		},
	})
	// As Caddy has it.
	listener, err := s.transport.ListenEarly(config, &quic.Config{InitialPacketSize: 1200, Allow0RTT: *early,
		Tracer: qlog.DefaultConnectionTracer})
	if err != nil {
		return err
	}
	s.listener = listener
	return nil
}

// count counts a connection for as long as there is one, or refuses it. It implements quic.Transport's ConnContext.
func (s *quicSocket) count(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	limits := s.serving.Load().limits
	if limits == nil {
		return ctx, nil
	}
	from := addressIn(client.RemoteAddr)
	release, refused := limits.table.Take(from, limits.limits)
	if refused != connections.None {
		limits.tell(from, refused)
		return nil, errManyConnections
	}
	context.AfterFunc(ctx, release)
	return ctx, nil
}

// hasToProveAddress reports whether who begins a handshake has to prove that its address is its own, which takes it one
// more round trip: or anybody could fill the places of another one's address.
func (s *quicSocket) hasToProveAddress(from net.Addr) bool {
	if !s.verify.Allow() {
		return true
	}
	limits := s.serving.Load().limits
	return limits != nil && limits.table.IsFilling(addressIn(from), limits.limits)
}

// end tells clients that the server goes, waits for what runs, and closes the socket.
func (s *quicSocket) end() {
	s.mu.Lock()
	s.closed = true
	server := s.serving.Load()
	if s.listener != nil {
		_ = s.listener.Close() // those that shake hands are refused
	}
	s.mu.Unlock()
	if server != nil {
		server.end()
	}
	_ = s.Close()
	if s.transport != nil {
		_ = s.transport.Close()
	}
}

// end has a server take nothing more, and waits until what runs has ended, for Caddy's grace_period where there is one.
func (s *quicServer) end() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.grace > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.grace)
		defer cancel()
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.change(0)
	go func() {
		select {
		case <-s.ended:
			time.AfterFunc(closeQUICWithin, cancel) // Caddy would wait until they do, or their idle time-out
		case <-ctx.Done():
		}
	}()
	_ = s.Shutdown(ctx) // at the end of ctx it closes what is left
}

// change counts requests that begin and end.
func (s *quicServer) change(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += by
	if !s.ending || s.running > 0 {
		return
	}
	select {
	case <-s.ended: // one had begun that came before
	default:
		close(s.ended)
	}
}

// addressIn is the IP address of a UDP address, or none.
func addressIn(a net.Addr) netip.Addr {
	if udp, is := a.(*net.UDPAddr); is {
		return udp.AddrPort().Addr()
	}
	return netip.Addr{}
}

// connectionIDs are those of this process's QUIC connections. They begin alike, so that two processes which have a
// socket can tell whose packet it is.
type connectionIDs struct{ ours [4]byte }

const connectionIDLength = 12

var ownIDs = newConnectionIDs()

func newConnectionIDs() (ids connectionIDs) {
	_, _ = rand.Read(ids.ours[:]) // it cannot fail
	return ids
}

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (ids connectionIDs) GenerateConnectionID() (quic.ConnectionID, error) {
	id := make([]byte, connectionIDLength)
	_, err := rand.Read(id[copy(id, ids.ours[:]):])
	return quic.ConnectionIDFromBytes(id), err
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (connectionIDs) ConnectionIDLen() int { return connectionIDLength }

// isOf reports whether a packet is of a connection with such an id, which it has behind its first byte, or, where its
// header is a long one, behind a version and the id's length (RFC 8999).
func (ids connectionIDs) isOf(packet []byte) bool {
	at := 1
	if len(packet) > 0 && packet[0]&0x80 != 0 {
		at = 6
		if len(packet) < at || packet[at-1] != connectionIDLength {
			return false
		}
	}
	return len(packet) >= at+connectionIDLength && bytes.HasPrefix(packet[at:], ids.ours[:])
}

// packetSocket is where the newest process takes packets that come to one before it.
const packetSocket = "packets.sock"

// divertPackets passes packets of connections that this process does not have on to the newest one.
func divertPackets(data string, log *slog.Logger) {
	path, err := MakeSocketPath(data, packetSocket)
	if err != nil {
		log.Error("HTTP/3 waits for the end of the process before", "error", err)
		return
	}
	listening.DivertPackets(ownIDs.isOf, func() (io.WriteCloser, error) {
		return new(net.Dialer).DialContext(context.Background(), "unix", path)
	})
}

// takePackets takes packets that processes before this one read, until alone is closed.
func (a *App) takePackets(alone <-chan struct{}) error {
	ln, err := a.listenToPredecessors(packetSocket, alone)
	if err != nil {
		return fmt.Errorf("taking packets of the process before this one: %w", err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // it is closed
			}
			go listening.ReceivePackets(conn)
		}
	}()
	return nil
}
