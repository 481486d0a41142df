package ratelimit

import "net/netip"

// Kind says what is counted, so that one address can be counted for several reasons.
type Kind string

const (
	Key      Kind = "key"      // requests with an API key (LIM-01)
	Account  Kind = "account"  // requests of an account (LIM-02)
	Address  Kind = "address"  // requests from an address (LIM-03)
	Failures Kind = "failures" // failed authentications from an address (LIM-10, GAP-90)
	SignIns  Kind = "sign_ins" // to the portal, by a Name

	// The semaphores.
	Running  Kind = "running"  // charged requests of an account in progress (LIM-11)
	Attempts Kind = "attempts" // on a route, of all accounts (GAP-39)
)

// Semaphore reports whether it is permits that are limited, rather than requests in a Window.
func (k Kind) Semaphore() bool { return k == Running || k == Attempts }

// Subject is what a limit is about: an address by its Network, anything else by its Name.
type Subject struct {
	Kind    Kind
	Name    string       // the id of a key or an account, the name of a route
	Network netip.Prefix // of Address and Failures: see NetworkOf
	// Account is the one that a Key belongs to: where counts are spread over servers, those of both lie together. It
	// does not make another subject, and is the same, or left out, in all asks about a key.
	Account string
}

// NetworkOf is what is counted as one address: an IPv4 address is one, of IPv6 the /64 that a customer is given,
// so that nobody has 2^64 of them (GAP-88). IPv4 in IPv6 is IPv4. The zero Prefix stands for no address.
func NetworkOf(a netip.Addr) netip.Prefix {
	if !a.IsValid() {
		return netip.Prefix{}
	}
	a = a.Unmap()
	bits := 64
	if a.Is4() {
		bits = 32
	}
	network, _ := a.Prefix(bits) // fails for absurd bits only; a zone is left out
	return network
}

// name is any subject but an address.
type name struct {
	kind Kind
	id   string
}

// address is the subject of an address: the network's bits, 4 bytes of IPv4 or the 8 of IPv6 that are counted.
type address struct {
	bits [8]byte
	kind uint8 // addressV4 or addressV6, and failures
}

const (
	addressV4 uint8 = iota
	addressV6
	failures // added to one of them
)

// addressOf is false for anything but an address.
func addressOf(s Subject) (address, bool) {
	var a address
	switch s.Kind {
	case Address:
	case Failures:
		a.kind = failures
	default:
		return a, false
	}
	if ip := s.Network.Addr(); ip.Is4() {
		bits := ip.As4()
		copy(a.bits[:], bits[:])
	} else {
		bits := ip.As16()
		copy(a.bits[:], bits[:])
		a.kind += addressV6
	}
	return a, true
}
