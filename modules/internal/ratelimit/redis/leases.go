package redis

import (
	"strconv"
	"sync"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// leases are the permits of this process: those that are out, and those that were given back and of which the server
// has not heard yet.
type leases struct {
	node string

	mu       sync.Mutex
	last     ratelimit.Permit
	out      map[ratelimit.Permit]lease
	released map[string][]ratelimit.Permit // by the semaphore's key
	waiting  int
}

type lease struct {
	semaphore string // its key
	local     ratelimit.Permit
}

// mostReleased bounds those of which the server has not heard. Without a word they lapse there.
const mostReleased = 100_000

func (l *leases) open(node string) {
	l.node, l.out, l.released = node, make(map[ratelimit.Permit]lease), make(map[string][]ratelimit.Permit)
}

// member is what stands for a permit in the server.
func (l *leases) member(p ratelimit.Permit) string {
	return l.node + ":" + strconv.FormatUint(uint64(p), 36)
}

// next is a permit that was not there before.
func (l *leases) next() (ratelimit.Permit, string) {
	l.mu.Lock()
	l.last++
	p := l.last
	l.mu.Unlock()
	return p, l.member(p)
}

// add notes that one is out.
func (l *leases) add(p ratelimit.Permit, semaphore string, local ratelimit.Permit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out[p] = lease{semaphore, local}
}

// release takes one back; false when it is not out.
func (l *leases) release(p ratelimit.Permit) (local ratelimit.Permit, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.out[p]
	if !ok {
		return 0, false
	}
	delete(l.out, p)
	l.note(p, at.semaphore)
	return at.local, true
}

// giveBack notes that the server has to be told of one that may be out there only.
func (l *leases) giveBack(p ratelimit.Permit, semaphore string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(p, semaphore)
}

func (l *leases) note(p ratelimit.Permit, semaphore string) {
	if l.waiting < mostReleased {
		l.released[semaphore] = append(l.released[semaphore], p)
		l.waiting++
	}
}

// mostCarried is how many a question takes along: what is left over the server hears of soon.
const mostCarried = 1000

// releasedOf are the members of a semaphore that were given back. They stay until told: a renewal that is on its way
// may take them again.
func (l *leases) releasedOf(semaphore string) (members []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.released[semaphore] {
		if len(members) == mostCarried {
			break
		}
		members = append(members, l.member(p))
	}
	return members
}

// batch is members of one semaphore.
type batch struct {
	semaphore string
	members   []any
}

// mostInBatch is how many members one command has.
const mostInBatch = 1000

// toTell are those that were given back, which told forgets once the server knows.
func (l *leases) toTell() (all []batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for semaphore, permits := range l.released {
		all = l.batches(all, semaphore, permits)
	}
	return all
}

func (l *leases) batches(all []batch, semaphore string, permits []ratelimit.Permit) []batch {
	for len(permits) > 0 {
		n := min(len(permits), mostInBatch)
		b := batch{semaphore: semaphore, members: make([]any, n)}
		for i, p := range permits[:n] {
			b.members[i] = l.member(p)
		}
		all, permits = append(all, b), permits[n:]
	}
	return all
}

// told forgets what the server has heard of: the first of each semaphore, as toTell returned them.
func (l *leases) told(all []batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range all {
		rest := l.released[b.semaphore][len(b.members):]
		l.waiting -= len(b.members)
		if len(rest) == 0 {
			delete(l.released, b.semaphore)
		} else {
			l.released[b.semaphore] = rest
		}
	}
}

// held are those that are out.
func (l *leases) held() (all []batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	permits := make(map[string][]ratelimit.Permit)
	for p, at := range l.out {
		permits[at.semaphore] = append(permits[at.semaphore], p)
	}
	for semaphore, p := range permits {
		all = l.batches(all, semaphore, p)
	}
	return all
}
