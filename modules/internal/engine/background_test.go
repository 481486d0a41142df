package engine

import (
	"sync"
	"testing"
	"time"
)

// turned is a time that a test turns, for an engine with its loops.
type turned struct {
	mu      sync.Mutex
	change  *sync.Cond
	now     time.Time
	waiting []turnedWait
}

type turnedWait struct {
	until time.Time
	over  chan time.Time
}

func newTurned() *turned {
	c := &turned{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	c.change = sync.NewCond(&c.mu)
	return c
}

func (c *turned) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *turned) after(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := make(chan time.Time, 1)
	c.waiting = append(c.waiting, turnedWait{c.now.Add(d), over})
	c.change.Broadcast()
	return over
}

// settle returns when all loops of the engine wait, and the two of its alerts.
func (c *turned) settle(t *testing.T, e *Engine) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) < len(e.background.loops)+2 {
		c.change.Wait()
	}
}

// turn moves the time on, in steps of at most the reconciler's, and returns when all loops wait again.
func (c *turned) turn(t *testing.T, e *Engine, d time.Duration) {
	t.Helper()
	for d > 0 {
		step := min(d, receiptsEvery)
		d -= step
		c.jump(step)
		c.settle(t, e)
	}
}

// jump moves the time and wakes whoever has waited for it.
func (c *turned) jump(d time.Duration) {
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
