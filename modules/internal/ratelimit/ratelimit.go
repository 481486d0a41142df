// Package ratelimit counts requests in a sliding window that is exact to the request: of one Subject, at most
// Limit requests in any 60 seconds (contract, "Rate limits"; GAP-16). It is for the engine, which knows the plans.
//
// Exact means that the moment of every counted request is kept for 60 seconds. Counters for each minute, or for
// parts of one, would be smaller, and would let twice the limit pass around the turn of a minute or refuse what
// the plan allows; and Retry-After could only be guessed (LIM-06).
//
// Memory is the Limiter of one process. The suite in ratelimittest holds any other one to the same rules.
package ratelimit

import (
	"context"
	"time"
)

// Window is the time in which requests are counted: a request that was counted at a moment counts until just
// before that moment + Window.
const Window = 60 * time.Second

// MaxAsks is the most asks that one call takes.
const MaxAsks = 4

// Limiter counts requests. It is safe for concurrent use. An error means that nothing was counted and that
// nothing is known; it is not about the request.
type Limiter interface {
	// Take counts one request against all asks, or against none when one of them has no room: a refused
	// request counts nowhere. Nil means that it was counted.
	Take(ctx context.Context, asks []Ask) (*Refusal, error)
	// Check says what Take would, and counts nothing.
	Check(ctx context.Context, asks []Ask) (*Refusal, error)
}

// Ask is one of the limits that a request is under. A call has at most MaxAsks, each about another Subject.
type Ask struct {
	Subject Subject
	// Limit is the most requests in any Window. It may be another one in each call: what was counted before
	// counts against the new one. With 0 or less there is no limit, and nothing is counted.
	Limit int64
}

// Refusal says why a request was not counted.
type Refusal struct {
	// Ask is the index of the first ask without room.
	Ask int
	// Wait is the time after which every ask has room, unless others take it first: whole seconds, rounded up,
	// 1 to 60 of them (GAP-16).
	Wait time.Duration
}
