// Package connections counts the connections that this process has, by the address that they come from, and says which
// is one too many. It reads nothing of them.
package connections

import (
	"net/netip"
	"sync"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// Limits bound what a Table has at a time.
type Limits struct {
	// Max is how many connections there are in all, PerAddress how many from one address: an IPv4 address, or an IPv6 /64
	// (GAP-88).
	Max, PerAddress int
	// Exempt are the networks of proxies, which have the connections of many. So are addresses of this machine.
	Exempt []netip.Prefix
}

// Refusal is why a connection is refused.
type Refusal string

const (
	None      Refusal = ""
	OfAddress Refusal = "address"
	OfAll     Refusal = "all"
)

// Refusals are all there are.
var Refusals = [...]Refusal{OfAddress, OfAll}

// Table has the connections of a process. The zero Table has none.
type Table struct {
	mu      sync.Mutex
	open    int
	of      map[netip.Prefix]int
	refused map[Refusal]int64
}

// Process has the connections of this process: they outlive the configuration under which they came.
var Process Table

// Take counts a connection from an address (the zero Addr: from a socket of this machine), until its release is called,
// once; or it says why there is no place for it.
func (t *Table) Take(from netip.Addr, l Limits) (release func(), refused Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	network := ratelimit.NetworkOf(from)
	if l.isExempt(from) {
		network = netip.Prefix{}
	}
	switch {
	case t.open >= l.Max:
		refused = OfAll
	case network.IsValid() && t.of[network] >= l.PerAddress:
		refused = OfAddress
	}
	if refused != None {
		if t.refused == nil {
			t.refused = map[Refusal]int64{}
		}
		t.refused[refused]++
		return nil, refused
	}
	t.open++
	if network.IsValid() {
		if t.of == nil {
			t.of = map[netip.Prefix]int{}
		}
		t.of[network]++
	}
	return func() { t.release(network) }, None
}

// IsFilling reports whether an address, or the table, has so many connections that its limit is not far: a quarter of
// an address's, or half of all.
func (t *Table) IsFilling(from netip.Addr, l Limits) bool {
	if l.isExempt(from) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	network := ratelimit.NetworkOf(from)
	return network.IsValid() && t.of[network] >= max(1, l.PerAddress/4) || t.open >= l.Max/2
}

func (l *Limits) isExempt(from netip.Addr) bool {
	from = from.Unmap()
	if from.IsLoopback() {
		return true
	}
	for _, network := range l.Exempt {
		if network.Contains(from) {
			return true
		}
	}
	return false
}

func (t *Table) release(network netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if !network.IsValid() {
		return
	}
	if t.of[network]--; t.of[network] == 0 {
		delete(t.of, network)
	}
}

// Open is how many connections there are.
func (t *Table) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// Refused is how many were refused for a reason.
func (t *Table) Refused(why Refusal) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused[why]
}
