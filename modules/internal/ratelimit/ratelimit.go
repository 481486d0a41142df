// Package ratelimit admits requests. It counts them in a sliding window that is exact to the request: of one Subject,
// at most Limit requests in any 60 seconds (LIM-01 to LIM-03, GAP-16); and it has semaphores, of which at most Limit
// permits are out at a time. A request asks once about everything that it is under. It is for the engine, which knows
// the plans.
//
// Exact means that the moment of every counted request is kept for 60 seconds. Counters for each minute, or for
// parts of one, would be smaller, and would let twice the limit pass around the turn of a minute or refuse what
// the plan allows; and Retry-After could only be guessed (LIM-06).
//
// Memory is the Limiter of one process. The suite in ratelimittest holds any other one to the same rules,
// and one that processes share to those of leases.
package ratelimit

import (
	"context"
	"time"
)

// Window is the time in which requests are counted: a request that was counted at a moment counts until just
// before that moment + Window.
const Window = 60 * time.Second

// SemaphoreWait is the Refusal's Wait for a permit of a semaphore: nobody can foresee when one is released.
const SemaphoreWait = time.Second

// LeaseTime is how long a permit of a process that has died is out at most: see Limiter.
const LeaseTime = 30 * time.Second

// MaxAsks is the most asks that one call takes.
const MaxAsks = 4

// Limiter admits requests. It is safe for concurrent use. An error means that nothing was taken and that nothing is
// known; it is not about the request.
//
// One that several processes share answers each call in one round trip, as a script in its server does. Its permits
// are leases there. It renews those of this process by itself, all in one message, often enough that none lapses
// while the process lives and reaches the server; one that was not renewed for LeaseTime is free again. A renewal
// takes a permit again that has lapsed meanwhile, also above the limit: what it stands for runs. What an Acquire has
// taken whose answer was lost is not renewed, and so lapses.
type Limiter interface {
	// Acquire takes one of each ask, or nothing of any when one of them has no room: a refused request counts
	// nowhere. Without a refusal and an error everything was taken; the permit is not 0 when a semaphore was asked.
	Acquire(ctx context.Context, asks []Ask) (Permit, *Refusal, error)
	// Release gives a permit back to its semaphore, for which the next Acquire of this process has room then. It does
	// not wait for an answer. A permit that is not out, such as 0 or one that was released, changes nothing.
	Release(p Permit)
	// Check says what Acquire would, and takes nothing.
	Check(ctx context.Context, asks []Ask) (*Refusal, error)
}

// Permit is a place in a semaphore, of one Limiter. 0 is none.
type Permit uint64

// Ask is one of the limits that a request is under. A call has at most MaxAsks, each about another Subject, and at
// most one about a semaphore.
type Ask struct {
	Subject Subject
	// Limit is the most requests in any Window, or permits at a time. It may be another one in each call: what was
	// taken before counts against the new one. With 0 or less there is no limit. Then requests are not counted;
	// permits are, for the next call may have one.
	Limit int64
}

// Refusal says why nothing was taken.
type Refusal struct {
	// Ask is the index of the first ask without room.
	Ask int
	// Wait is the time after which every ask has room, unless others take it first: whole seconds, rounded up,
	// 1 to 60 of them (GAP-16).
	Wait time.Duration
}

// Status is what a limiter says of the server in which it counts with others.
type Status struct {
	Address string    // without passwords
	Mode    string    // what is at the address
	Up      bool      // it answers; while it does not, each node admits its share of each limit
	Since   time.Time // when it came back, or went away
	Reason  string    // why it is away, and what to do about it; "" when it is not
	Nodes   int       // that share the limits, this one included

	Shares int64 // calls that were decided by this node's share
	Aways  int64 // how often the server went away
	Losses int64 // how often it had lost what was counted, or its clock was set
	Errors int64 // calls of the server that had no answer in time, or an error
}

// Reporter is a Limiter that counts in a server.
type Reporter interface {
	Limiter
	Status() Status
	// Usage is what this process remembers itself, of what it has admitted.
	Usage() Usage
}
