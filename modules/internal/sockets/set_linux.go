package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Set is the sockets of a process. The zero Set has none.
type Set struct {
	mu      sync.Mutex
	held    []*socket // those that were given are first, in their order: whoever counts descriptors counts on it
	taking  []*listener
	settled bool            // no inherited socket waits any more for somebody to listen at it
	resumed chan struct{}   // closed when connections are taken again; nil while they are
	gate    <-chan struct{} // of packets: see GatePackets

	diverting atomic.Pointer[diversion] // of packets: see DivertPackets
}

// socket is one that this process has open, beside the copies of those who listen at it.
type socket struct {
	file  *os.File
	local net.Addr // *net.TCPAddr or *net.UDPAddr
	from  origin
	users int

	diverted chan packet // by the process before this one, where it is a UDP socket
}

// origin is whose a socket is.
type origin int

const (
	bound     origin = iota // by this process
	given                   // by a service manager, which has it open, too: it stays when nobody here listens
	inherited               // of the process before this one, which has it open for as long as it drains
)

// Give adds sockets that a service manager has handed to this process. It owns them from then on. Those that are not
// of TCP or UDP are kept open, in their places, for whoever knows them by number.
func (s *Set) Give(files ...*os.File) error { return s.take(given, files) }

// Inherit adds sockets of the process whose place this one takes. Those at which nobody listens are closed by Settle.
func (s *Set) Inherit(files ...*os.File) error { return s.take(inherited, files) }

// Settle is for a process whose first configuration listens: sockets that were inherited for others are closed.
func (s *Set) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	for _, k := range slices.Clone(s.held) {
		s.leave(k)
	}
}

func (s *Set) take(from origin, files []*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		k := &socket{file: f, from: from}
		s.held = append(s.held, k)
		if ln, err := net.FileListener(f); err == nil {
			k.local = ln.Addr()
			_ = ln.Close()
			continue
		}
		conn, err := net.FilePacketConn(f)
		if err != nil {
			return fmt.Errorf("taking the socket %s that was given to this process: %w", f.Name(), err)
		}
		k.local = conn.LocalAddr()
		k.diverted = make(chan packet, maxDiverted)
		_ = conn.Close()
	}
	return nil
}

// Listen listens at a TCP address, as net.ListenConfig does. Port 0 is a free one, which nobody shares.
func (s *Set) Listen(ctx context.Context, network, address string, config net.ListenConfig) (net.Listener, error) {
	want, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find(want)
	if k == nil {
		config.Control = reusePort
		ln, err := config.Listen(ctx, network, address)
		if err != nil {
			return nil, s.hint(err)
		}
		k, err = newSocket(ln.(*net.TCPListener), ln.Addr())
		_ = ln.Close() // k has a copy
		if err != nil {
			return nil, err
		}
		s.held = append(s.held, k)
	}
	ln, err := net.FileListener(k.file)
	if err != nil {
		s.leave(k)
		return nil, fmt.Errorf("listening on %s: %w", k.local, err)
	}
	k.users++
	l := &listener{TCPListener: ln.(*net.TCPListener), set: s, socket: k, keepAlive: config.KeepAliveConfig,
		done: make(chan struct{})}
	if s.resumed != nil {
		_ = l.SetDeadline(past)
	}
	s.taking = append(s.taking, l)
	return l, nil
}

// ListenPacket listens at a UDP address, as net.ListenConfig does. While packets are gated, it reads none.
func (s *Set) ListenPacket(ctx context.Context, network, address string, config net.ListenConfig) (net.PacketConn,
	error) {
	want, err := net.ResolveUDPAddr(network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find(want)
	if k == nil {
		config.Control = reusePort
		pc, err := config.ListenPacket(ctx, network, address)
		if err != nil {
			return nil, s.hint(err)
		}
		k, err = newSocket(pc.(*net.UDPConn), pc.LocalAddr())
		_ = pc.Close() // k has a copy
		if err != nil {
			return nil, err
		}
		s.held = append(s.held, k)
	}
	pc, err := net.FilePacketConn(k.file)
	if err != nil {
		s.leave(k)
		return nil, fmt.Errorf("listening on %s: %w", k.local, err)
	}
	k.users++
	conn := newPacketConn(pc.(*net.UDPConn), s, k)
	if k.from != bound {
		conn.gate = s.gate
	}
	return conn, nil
}

// find is the socket that listens at an address, or at all addresses of its port where that is what is wanted. The
// lock is held.
func (s *Set) find(want net.Addr) *socket {
	_, ip, port := split(want)
	if port == 0 {
		return nil
	}
	i := slices.IndexFunc(s.held, func(k *socket) bool {
		if k.local == nil || k.local.Network() != want.Network() {
			return false
		}
		_, has, at := split(k.local)
		return at == port && (has.Equal(ip) || isWildcard(has) && isWildcard(ip))
	})
	if i < 0 {
		return nil
	}
	return s.held[i]
}

// split is the parts of an address of TCP or UDP.
func split(a net.Addr) (network string, ip net.IP, port int) {
	switch a := a.(type) {
	case *net.TCPAddr:
		return "tcp", a.IP, a.Port
	case *net.UDPAddr:
		return "udp", a.IP, a.Port
	}
	return "", nil, 0
}

func isInternet(a net.Addr) bool {
	network, _, _ := split(a)
	return network != ""
}

// isWildcard reports whether an address is all of the machine's. A socket for IPv6 is one for IPv4 as well.
func isWildcard(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }

// hint adds to an error which sockets were given to this process and wait for somebody who listens at them.
func (s *Set) hint(err error) error {
	var unused []string
	for _, a := range s.unused() {
		unused = append(unused, a.Network()+" "+a.String())
	}
	if len(unused) == 0 {
		return err
	}
	return fmt.Errorf("%w; the service manager gave this process other sockets, at which no site is: %s", err,
		strings.Join(unused, ", "))
}

// Unused are the sockets of TCP and UDP that were given to this process and that nobody listens at.
func (s *Set) Unused() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unused()
}

func (s *Set) unused() (addresses []net.Addr) {
	for _, k := range s.held {
		if k.from == given && k.users == 0 && isInternet(k.local) {
			addresses = append(addresses, k.local)
		}
	}
	return addresses
}

// newSocket is a copy of one that was just bound.
func newSocket(from interface{ File() (*os.File, error) }, local net.Addr) (*socket, error) {
	f, err := from.File()
	if err != nil {
		return nil, fmt.Errorf("keeping the socket at %s: %w", local, err)
	}
	return &socket{file: f, local: local}, nil
}

// leave closes a socket that nobody uses. The lock is held.
func (s *Set) leave(k *socket) {
	if k.users > 0 || k.from == given || k.from == inherited && !s.settled {
		return
	}
	_ = k.file.Close()
	s.held = slices.DeleteFunc(s.held, func(other *socket) bool { return other == k })
}

// release is for a user of a socket who has closed its copy.
func (s *Set) release(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.users--
	s.leave(k)
}

// Lend calls use with the descriptors of all sockets, in the order in which a process that is started has to take
// them: as many as were given to this one, and then those that it inherits. They stay this process's.
//
// os.File.Fd is of no use here: it makes the socket a blocking one, for everybody who has a copy of it.
func (s *Set) Lend(use func(descriptors []uintptr, given int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []uintptr
	ofManager := 0
	for _, k := range s.held {
		if k.from == given {
			ofManager++
		}
		raw, err := k.file.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { all = append(all, fd) })
		}
		if err != nil {
			return fmt.Errorf("finding the socket at %v: %w", k.local, err)
		}
	}
	return use(all, ofManager)
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// Pause leaves connections in the queues of their sockets: to whoever shares them, or until Resume.
func (s *Set) Pause() { s.pause(func(*socket) bool { return true }) }

// PauseGiven is Pause of the sockets that were given to this process, for its end: whoever gave them keeps the queues.
func (s *Set) PauseGiven() { s.pause(func(k *socket) bool { return k.from == given }) }

func (s *Set) pause(which func(*socket) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resumed == nil {
		s.resumed = make(chan struct{})
	}
	for _, l := range s.taking {
		if which(l.socket) {
			_ = l.SetDeadline(past)
		}
	}
}

// HasGiven reports whether somebody listens at a socket that was given to this process.
func (s *Set) HasGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(k *socket) bool { return k.from == given && k.local != nil })
}

// Resume takes connections again.
func (s *Set) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resumed == nil {
		return
	}
	for _, l := range s.taking {
		_ = l.SetDeadline(time.Time{})
	}
	close(s.resumed)
	s.resumed = nil
}

// whenResumed is closed when connections are taken again; nil where they are.
func (s *Set) whenResumed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed
}

// GatePackets leaves packets of the sockets that were given to this process to the one that gave them, until open is
// closed: each packet of a connection has to come to the process that has the connection. What that one passes on is
// read (ReceivePackets).
func (s *Set) GatePackets(open <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = open
}

// reusePort lets a process be started beside one that drains, as Caddy's listeners do.
func reusePort(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, set)
}

// listener is one user of a socket.
type listener struct {
	*net.TCPListener
	set       *Set
	socket    *socket
	keepAlive net.KeepAliveConfig
	closing   sync.Once
	done      chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err == nil {
			_ = c.SetKeepAliveConfig(l.keepAlive) // it is a matter of comfort
			return c, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		if resumed := l.set.whenResumed(); resumed != nil {
			select {
			case <-resumed:
			case <-l.done:
			}
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	err := l.TCPListener.Close()
	l.closing.Do(func() {
		close(l.done)
		l.set.mu.Lock()
		l.set.taking = slices.DeleteFunc(l.set.taking, func(other *listener) bool { return other == l })
		l.set.mu.Unlock()
		l.set.release(l.socket)
	})
	return err
}
