package engine

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/requestlog"
)

// The kinds of requests of which the latest are kept, each apart: what a flood of strangers sends drives out no
// customer's, and what went well drives out no failure.
const (
	recentStrangers = iota // that authenticated nobody
	recentFailed           // with 5xx, or broken off
	recentServed
)

// keptRecent is how many of each kind are kept.
const keptRecent = 256

// Ended is a request that has ended, as its access line tells of it: nothing in it was chosen by a client.
type Ended struct {
	N         uint64 // counts the requests that have ended in this process, from 1
	ID        string
	Endpoint  string
	Status    int // HTTP; 0: the client left before there was one
	At        time.Time
	Took      time.Duration
	First     time.Duration // until the reply's first byte; 0 where there was none
	Account   string        // name, "" where nobody was authenticated
	AccountID string
	Last4     string // of the key
	Stream    bool
	Profile   string
	Route     string // that answered, or was tried last
	Attempts  int
	Input     int64 // tokens
	Output    int64
	Charged   int64 // microcents
	Pending   bool
	Reason    string
	Aborted   bool
	Refused   *requestlog.Refused // nil where it was not, for money or a rate
}

func (e *Ended) kind() int {
	switch {
	case e.AccountID == "":
		return recentStrangers
	case e.Status >= http.StatusInternalServerError || e.Aborted:
		return recentFailed
	}
	return recentServed
}

// recent has the latest requests that have ended. Who adds one waits for nobody but who reads or writes that place, and
// takes no memory for it.
type recent struct {
	n     atomic.Uint64
	kinds [recentServed + 1]struct {
		next  atomic.Uint64
		slots [keptRecent]recentSlot
	}
}

type recentSlot struct {
	mu    sync.Mutex
	ended Ended
}

func (r *recent) add(e *Ended) {
	kind := &r.kinds[e.kind()]
	slot := &kind.slots[(kind.next.Add(1)-1)%keptRecent]
	slot.mu.Lock()
	slot.ended = *e
	slot.ended.N = r.n.Add(1)
	slot.mu.Unlock()
}

// after is what has ended since number n and is still kept, the newest first, and how many have ended in all.
func (r *recent) after(n uint64) (list []Ended, last uint64) {
	last = r.n.Load()
	for k := range r.kinds {
		for i := range r.kinds[k].slots {
			slot := &r.kinds[k].slots[i]
			slot.mu.Lock()
			if slot.ended.N > n && slot.ended.N <= last {
				list = append(list, slot.ended)
			}
			slot.mu.Unlock()
		}
	}
	slices.SortFunc(list, func(a, b Ended) int { return cmp.Compare(b.N, a.N) })
	return list, last
}

// NoteEnded remembers for a while that a request has ended. Its number is given here.
func (r *requests) NoteEnded(e *Ended) { r.recent.add(e) }

// Recent is what has ended after number n and is still kept, the newest first, and how many have ended in this process.
func (r *requests) Recent(n uint64) (list []Ended, last uint64) { return r.recent.after(n) }
