package sockets

import (
	"net"
	"sync"
	"syscall"
)

// packetConn is one user of a UDP socket. It has all that QUIC asks of a socket beyond net.PacketConn.
type packetConn struct {
	*net.UDPConn
	set     *Set
	socket  *socket
	closing sync.Once
}

// Close implements net.PacketConn.
func (c *packetConn) Close() error {
	err := c.UDPConn.Close()
	c.closing.Do(func() { c.set.release(c.socket) })
	return err
}

// gatedConn reads nothing until its gate is open. What QUIC reads by comes from SyscallConn.
type gatedConn struct {
	*packetConn
	open <-chan struct{}
	done chan struct{}
	end  sync.Once
}

func newGatedConn(user *packetConn, open <-chan struct{}) *gatedConn {
	return &gatedConn{packetConn: user, open: open, done: make(chan struct{})}
}

// await waits for the gate, or the end.
func (c *gatedConn) await() {
	select {
	case <-c.open:
	case <-c.done:
	}
}

// Close implements net.PacketConn.
func (c *gatedConn) Close() error {
	c.end.Do(func() { close(c.done) })
	return c.packetConn.Close()
}

// ReadFrom implements net.PacketConn.
func (c *gatedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.await()
	return c.UDPConn.ReadFrom(b)
}

// ReadMsgUDP is net.UDPConn's.
func (c *gatedConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	c.await()
	return c.UDPConn.ReadMsgUDP(b, oob)
}

// SyscallConn is net.UDPConn's.
func (c *gatedConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.UDPConn.SyscallConn()
	return gatedRaw{raw, c}, err
}

type gatedRaw struct {
	syscall.RawConn
	conn *gatedConn
}

func (r gatedRaw) Read(f func(fd uintptr) bool) error {
	r.conn.await()
	return r.RawConn.Read(f)
}
