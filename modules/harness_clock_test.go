package modules_test

import (
	"sync/atomic"
	"time"
)

// clock is a gateway's clock that runs faster than the wall's and can be turned.
type clock struct {
	began time.Time
	speed int64
	ahead atomic.Int64 // nanoseconds
}

func newClock(speed int64) *clock { return &clock{began: time.Now(), speed: speed} }

// Now is the clock's time.
func (c *clock) Now() time.Time {
	return c.began.Add(time.Duration(c.speed*int64(time.Since(c.began)) + c.ahead.Load()))
}

// After is time.After by the clock's speed; turning the clock does not shorten it.
func (c *clock) After(d time.Duration) <-chan time.Time {
	return time.After(d / time.Duration(c.speed))
}

// Turn sets the clock forward, or back.
func (c *clock) Turn(d time.Duration) { c.ahead.Add(int64(d)) }
