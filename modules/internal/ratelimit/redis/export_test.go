package redis

import (
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

// ByClock lets the server's scripts go by a test's clock.
func (o Options) ByClock(c *ratelimittest.Clock) Options {
	o.Elapsed = c.Elapsed
	o.now = func() int64 { return base + c.Elapsed().Microseconds() }
	return o
}

// base is where the test's clock begins, in the server's microseconds.
const base = 1_800_000_000_000_000

// Renew does now what is done every so often, and Pulse what is done every second.
func (l *Limiter) Renew() { l.pulseAnd(true) }

// Pulse is Renew without leases.
func (l *Limiter) Pulse() { l.pulseAnd(false) }

func (l *Limiter) pulseAnd(renew bool) {
	l.keeper.Lock()
	defer l.keeper.Unlock()
	if l.state.isUp() {
		l.note(l.look(renew))
	}
	if !l.state.isUp() {
		l.tryResume()
	}
	l.Settle()
}

// Settle ends the time in which this node's share counts, too.
func (l *Limiter) Settle() { l.state.settleTo.Store(0) }

// Tell tells the server now what was given back.
func (l *Limiter) Tell() {
	l.keeper.Lock()
	defer l.keeper.Unlock()
	l.note(l.tell(l.ctx))
}

// WithWall lets this machine's clock be off.
func (o Options) WithWall(now func() time.Time) Options {
	o.wall = now
	return o
}

// SeedAgain gives the server what this node knows once more.
func (l *Limiter) SeedAgain() {
	l.keeper.Lock()
	defer l.keeper.Unlock()
	l.note(l.seed(l.ctx))
}

// ServerClock lets the server's scripts go by a clock that a test sets, apart from that of the process.
func (o Options) ServerClock(now func() int64) Options {
	o.now = now
	return o
}
