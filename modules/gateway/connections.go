package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/internal/connections"
)

func init() {
	caddy.RegisterModule(new(Connections))
}

const (
	// defaultPerAddress is more than the clients of an office behind one address have at a time.
	defaultPerAddress = 512
	// assumedFiles are what a process may open whose system doesn't say.
	assumedFiles = 16384
	// toldEvery is how often the log tells of refused connections.
	toldEvery = 10 * time.Second
)

// Connections refuses connections beyond a number, in all and from one address, as soon as they are accepted: before
// TLS, and before anything is read from them. It is for servers that clients reach by themselves:
//
//	servers {
//		listener_wrappers {
//			fareway_connections {
//				max         20000
//				per_address 512
//				exempt      10.0.0.0/8 private_ranges
//			}
//			tls
//		}
//	}
//
// Connections of HTTP/3 to the same address are counted as well (on Linux), and refused with CONNECTION_REFUSED. From
// when a quarter of what one address may have is taken, and from 1,000 handshakes a second on, a client has to prove
// that its address is its own. A connection has at most 100 streams of HTTP/3, or 250 of HTTP/2.
type Connections struct {
	// Max is how many connections this process has at a time, over all listeners with such a wrapper. Default: three
	// quarters of the files that it may open.
	Max int `json:"max,omitempty"`
	// PerAddress is how many of them come from one IPv4 address, or one IPv6 /64. Default: 512.
	PerAddress int `json:"per_address,omitempty"`
	// Exempt are networks (CIDR, or single addresses) that PerAddress isn't for: those of proxies. Loopback always is one.
	Exempt []string `json:"exempt,omitempty"`

	limits connections.Limits
	table  *connections.Table // the process's
	log    *slog.Logger

	mu    sync.Mutex
	told  time.Time
	since int // how many were refused since then
}

// CaddyModule returns the Caddy module information.
func (*Connections) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.fareway_connections",
		New: func() caddy.Module { return new(Connections) }}
}

// Provision reads the networks and fills in what is not set.
func (c *Connections) Provision(ctx caddy.Context) error {
	c.log, c.table = ctx.Slogger(), &connections.Process
	c.limits = connections.Limits{Max: c.Max, PerAddress: c.PerAddress}
	if c.Max == 0 {
		c.limits.Max = maxFiles() / 4 * 3
	}
	if c.PerAddress == 0 {
		c.limits.PerAddress = defaultPerAddress
	}
	if c.Max < 0 || c.PerAddress < 0 {
		return errors.New("fareway_connections: max and per_address are numbers above 0")
	}
	for _, text := range c.Exempt {
		network, err := caddyhttp.CIDRExpressionToPrefix(text)
		if err != nil {
			return fmt.Errorf("fareway_connections: exempt %q is no network: write it like 10.0.0.0/8", text)
		}
		c.limits.Exempt = append(c.limits.Exempt, network)
	}
	return nil
}

// UnmarshalCaddyfile reads the block; see Connections.
func (c *Connections) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // its name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		switch name := d.Val(); name {
		case "max", "per_address":
			if !d.NextArg() {
				return d.ArgErr()
			}
			n, err := strconv.Atoi(d.Val())
			if err != nil || n <= 0 || d.NextArg() {
				return d.Errf("%s takes one number above 0, and not %q", name, d.Val())
			}
			if name == "max" {
				c.Max = n
			} else {
				c.PerAddress = n
			}
		case "exempt":
			networks := d.RemainingArgs()
			if len(networks) == 0 {
				return d.ArgErr()
			}
			for _, network := range networks {
				if network == "private_ranges" {
					c.Exempt = append(c.Exempt, caddyhttp.PrivateRangesCIDR()...)
					continue
				}
				c.Exempt = append(c.Exempt, network)
			}
		default:
			return d.Errf("fareway_connections has no option %q; it has max, per_address and exempt", name)
		}
	}
	return nil
}

// WrapListener implements caddy.ListenerWrapper.
func (c *Connections) WrapListener(l net.Listener) net.Listener {
	wrapped.Store(l.Addr().String(), c)
	return &listener{l, c}
}

// wrapped are the Connections of the process's addresses, by their texts: those for TCP are known only here, and HTTP/3
// is at the same.
var wrapped sync.Map

// limitsAt are the limits of connections to an address, nil where there are none.
func limitsAt(a net.Addr) *Connections {
	c, _ := wrapped.Load(a.String())
	limits, _ := c.(*Connections)
	return limits
}

type listener struct {
	net.Listener
	of *Connections
}

// Accept waits for the next connection that there is a place for. What another wrapper makes of one may have to be
// read before it knows its address (proxy_protocol), for which nobody else can wait: that is counted when it is read.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &countedConn{Conn: conn, of: l.of}
		switch conn.(type) {
		case *net.TCPConn, *net.UnixConn:
			if !c.count() {
				continue
			}
		}
		return c, nil
	}
}

func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil { // a socket's
		return netip.Addr{}
	}
	return at.Addr()
}

// tell tells the log of a connection that was refused: of one at once, and of more once in a while.
func (c *Connections) tell(from netip.Addr, why connections.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since++; time.Since(c.told) < toldEvery {
		return
	}
	c.log.Warn("connections are refused: there are too many", "of", why, "client_ip", from.String(), "count", c.since)
	c.told, c.since = time.Now(), 0
}

// countedConn is a connection that is counted, from when it is accepted or first read until it is closed.
type countedConn struct {
	net.Conn
	of *Connections

	counts  atomic.Bool // it is counted
	mu      sync.Mutex
	closed  bool
	release func() // nil: there is nothing to give back
}

// count counts the connection, or refuses and closes it so that nothing of it stays.
func (c *countedConn) count() bool {
	from := addressOf(c.Conn) // which may take a while
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts.Load() || c.closed {
		return !c.closed
	}
	release, refused := c.of.table.Take(from, c.of.limits)
	if refused == connections.None {
		c.release = release
		c.counts.Store(true)
		return true
	}
	c.closed = true
	c.of.tell(from, refused)
	if tcp, is := c.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
	return false
}

// NetConn is the connection itself, as tls.Conn has it.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Read(b []byte) (int, error) {
	if !c.counts.Load() && !c.count() {
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

func (c *countedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	release := c.release
	c.release = nil
	c.mu.Unlock()
	if release != nil {
		release()
	}
	return c.Conn.Close()
}

// Interface guards.
var (
	_ caddy.ListenerWrapper = (*Connections)(nil)
	_ caddy.Provisioner     = (*Connections)(nil)
	_ caddyfile.Unmarshaler = (*Connections)(nil)
)
