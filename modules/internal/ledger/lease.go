package ledger

import (
	"errors"
	"time"
)

// ErrLapsed: a lease is not its owner's any more. He may admit nothing, and write nothing, under it.
var ErrLapsed = errors.New("the lease of the ledger has lapsed")

// Lease is the right of one process at a time to admit requests on a ledger, or on its part of one. Its methods may be
// called at once by many.
//
// A store acquires its lease as it opens and releases it as it closes. One whose grants expire has to renew them in
// between, well before their end, and to stop at ErrLapsed. The store in a file does not: its grants never expire.
type Lease interface {
	// Acquire takes the lease for an owner, a boot id. ErrLocked while somebody has it, whoever it is.
	Acquire(owner string) (Grant, error)
	// Renew puts off its end. ErrLapsed where the end was reached, or the lease was given back, or is or may
	// be another's.
	Renew(g Grant) (Grant, error)
	// Release gives the lease back. One that is another's by now stays that.
	Release(g Grant) error
}

// Grant is a lease that was acquired.
type Grant struct {
	Owner string
	// Generation is higher than that of any grant before it that wrote: what is written under a lower one comes too
	// late.
	Generation int64
	// Expires is when somebody else may acquire it; zero: never, as long as its owner lives.
	Expires time.Time
}

// Holds reports whether the grant has not lapsed at a moment, by the clock of whoever granted it.
func (g Grant) Holds(now time.Time) bool { return g.Expires.IsZero() || now.Before(g.Expires) }
