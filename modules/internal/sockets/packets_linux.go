package sockets

import (
	"errors"
	"net"
	"sync"

	"golang.org/x/net/ipv4"
)

// packetConn is one user of a UDP socket. It has all that QUIC asks of a socket beyond net.PacketConn, and reads by
// ReadBatch.
type packetConn struct {
	*net.UDPConn
	batches *ipv4.PacketConn // of UDPConn
	set     *Set
	socket  *socket
	gate    <-chan struct{} // while it is open, packets come from the process before this one; nil: there is none
	done    chan struct{}
	closing sync.Once
}

func newPacketConn(conn *net.UDPConn, set *Set, of *socket) *packetConn {
	return &packetConn{UDPConn: conn, batches: ipv4.NewPacketConn(conn), set: set, socket: of, done: make(chan struct{})}
}

// Close implements net.PacketConn.
func (c *packetConn) Close() error {
	err := c.UDPConn.Close()
	c.closing.Do(func() {
		close(c.done)
		c.set.release(c.socket)
	})
	return err
}

// ReadBatch reads packets that are this process's, as ipv4.PacketConn does.
func (c *packetConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		n, err := c.readBatch(ms, flags)
		if n <= 0 || err != nil {
			return n, err
		}
		if n = c.set.keepOwn(c.socket, ms[:n]); n > 0 {
			return n, nil
		}
	}
}

func (c *packetConn) readBatch(ms []ipv4.Message, flags int) (int, error) {
	if c.gate == nil {
		return c.batches.ReadBatch(ms, flags)
	}
	select { // before what the socket has: it came before
	case p := <-c.socket.diverted:
		return 1, p.put(&ms[0])
	default:
	}
	select {
	case p := <-c.socket.diverted:
		return 1, p.put(&ms[0])
	case <-c.gate:
		return c.batches.ReadBatch(ms, flags)
	case <-c.done:
		return 0, net.ErrClosed
	}
}

// ReadFrom implements net.PacketConn.
func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	ms := []ipv4.Message{{Buffers: [][]byte{b}}}
	_, err := c.ReadBatch(ms, 0)
	return ms[0].N, ms[0].Addr, err
}

// ReadMsgUDP is net.UDPConn's.
func (c *packetConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	ms := []ipv4.Message{{Buffers: [][]byte{b}, OOB: oob}}
	if _, err = c.ReadBatch(ms, 0); err == nil {
		addr, _ = ms[0].Addr.(*net.UDPAddr)
	}
	return ms[0].N, ms[0].NN, ms[0].Flags, addr, err
}

// errShort is why a packet that was passed on cannot be read.
var errShort = errors.New("reading a packet that another process has passed on: it is longer than the room for it")
