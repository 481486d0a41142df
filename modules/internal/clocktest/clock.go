// Package clocktest has a time that tests turn. It is for tests only.
package clocktest

import (
	"sync"
	"time"
)

// Clock stands still until it is turned.
type Clock struct {
	mu      sync.Mutex
	change  *sync.Cond
	now     time.Time
	waiting []wait
}

type wait struct {
	until time.Time
	over  chan time.Time
}

// New makes one that shows a time.
func New(now time.Time) *Clock {
	c := &Clock{now: now}
	c.change = sync.NewCond(&c.mu)
	return c
}

// Now is the time that it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After is as time.After: whoever waits is woken by Turn.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := make(chan time.Time, 1)
	c.waiting = append(c.waiting, wait{c.now.Add(d), over})
	c.change.Broadcast()
	return over
}

// Turn moves the time, also back, and wakes whoever has waited for it.
func (c *Clock) Turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	left := c.waiting[:0]
	for _, w := range c.waiting {
		if w.until.After(c.now) {
			left = append(left, w)
		} else {
			w.over <- c.now
		}
	}
	c.waiting = left
}

// AwaitWaits returns when at least n wait for it.
func (c *Clock) AwaitWaits(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) < n {
		c.change.Wait()
	}
}

// Forget forgets who waits: they are gone.
func (c *Clock) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = nil
}
