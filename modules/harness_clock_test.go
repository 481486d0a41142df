package modules_test

import (
	"sync/atomic"
	"time"
)

// clock is a gateway's clock that runs faster than the wall's and can be turned.
type clock struct {
	began time.Time
	speed time.Duration
	ahead atomic.Int64 // nanoseconds
}

func newClock(speed time.Duration) *clock { return &clock{began: time.Now(), speed: speed} }

// Now is the clock's time.
func (c *clock) Now() time.Time {
	return c.began.Add(c.speed*time.Since(c.began) + time.Duration(c.ahead.Load()))
}

// After is time.After by the clock's speed; turning the clock does not shorten it.
func (c *clock) After(d time.Duration) <-chan time.Time { return time.After(d / c.speed) }

// Turn sets the clock forward, or back.
func (c *clock) Turn(d time.Duration) { c.ahead.Add(int64(d)) }
