package sockets

import (
	"bufio"
	"encoding/gob"
	"io"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/ipv4"
)

// maxDiverted is how many packets wait for another process, or for their reader. More are lost, as on any way.
const maxDiverted = 1024

// packet is one on its way to another process, which has the socket it came to as well.
type packet struct {
	To   string // the socket's address
	From netip.AddrPort
	OOB  []byte // what the kernel said of it
	Data []byte
}

// put is the reading of a packet into a message.
func (p *packet) put(m *ipv4.Message) error {
	if len(p.Data) > len(m.Buffers[0]) {
		return errShort
	}
	m.N, m.NN, m.Addr = copy(m.Buffers[0], p.Data), copy(m.OOB, p.OOB), net.UDPAddrFromAddrPort(p.From)
	return nil
}

// diversion is where packets go that are another process's.
type diversion struct {
	isOwn func(packet []byte) bool
	queue chan packet
}

// DivertPackets passes packets that are not this process's on, for the rest of its life, to the process that dial
// reaches; again when that has ended. A process that has a socket together with another one cannot choose what it reads
// from it.
func (s *Set) DivertPackets(isOwn func(packet []byte) bool, dial func() (io.WriteCloser, error)) {
	d := &diversion{isOwn: isOwn, queue: make(chan packet, maxDiverted)}
	if s.diverting.CompareAndSwap(nil, d) {
		go d.pass(dial)
	}
}

func (d *diversion) pass(dial func() (io.WriteCloser, error)) {
	var to io.WriteCloser
	var encoder *gob.Encoder
	for p := range d.queue {
		if to == nil {
			conn, err := dial()
			if err != nil {
				continue // it is lost; its sender sends it again
			}
			to, encoder = conn, gob.NewEncoder(conn)
		}
		if encoder.Encode(p) != nil {
			_ = to.Close()
			to = nil
		}
	}
}

// ReceivePackets takes packets that a process before this one passes on, until from has no more.
func (s *Set) ReceivePackets(from io.ReadCloser) {
	defer from.Close()
	decoder := gob.NewDecoder(bufio.NewReader(from))
	for {
		var p packet
		if decoder.Decode(&p) != nil {
			return // it has ended
		}
		if k := s.at(p.To); k != nil {
			select {
			case k.diverted <- p:
			default:
			}
		}
	}
}

// at is the UDP socket at an address.
func (s *Set) at(address string) *socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.held, func(k *socket) bool {
		return k.local != nil && k.local.Network() == "udp" && k.local.String() == address
	})
	if i < 0 {
		return nil
	}
	return s.held[i]
}

// keepOwn passes on what is another process's of packets that came to a socket, moves the others to the front, and
// says how many those are.
func (s *Set) keepOwn(k *socket, ms []ipv4.Message) (kept int) {
	d := s.diverting.Load()
	if d == nil {
		return len(ms)
	}
	for i := range ms {
		m := &ms[i]
		data, oob := m.Buffers[0][:m.N], m.OOB[:m.NN]
		if d.isOwn(data) {
			if to := &ms[kept]; to != m { // its room belongs to its place
				to.N, to.NN, to.Addr, to.Flags = copy(to.Buffers[0], data), copy(to.OOB, oob), m.Addr, m.Flags
			}
			kept++
			continue
		}
		from, _ := m.Addr.(*net.UDPAddr)
		p := packet{To: k.local.String(), From: from.AddrPort(), OOB: slices.Clone(oob), Data: slices.Clone(data)}
		select {
		case d.queue <- p:
		default:
		}
	}
	return kept
}
