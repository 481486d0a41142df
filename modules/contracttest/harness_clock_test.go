package contracttest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock is a gateway's clock that runs faster than the wall's and can be turned.
type clock struct {
	began time.Time
	speed int64        // 0: it goes only when it is turned
	ahead atomic.Int64 // nanoseconds

	mu     sync.Mutex
	timers []clockTimer // of one that stands
}

type clockTimer struct {
	at time.Time
	ch chan time.Time
}

func newClock(speed int64) *clock { return &clock{began: time.Now(), speed: speed} }

// Now is the clock's time.
func (c *clock) Now() time.Time {
	return c.began.Add(time.Duration(c.speed*int64(time.Since(c.began)) + c.ahead.Load()))
}

// After is time.After by the clock's speed; turning a clock that goes does not shorten it.
func (c *clock) After(d time.Duration) <-chan time.Time {
	if c.speed > 0 {
		return time.After(d / time.Duration(c.speed))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := clockTimer{c.Now().Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, one)
	return one.ch
}

// Turn sets the clock forward, or back.
func (c *clock) Turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead.Add(int64(d))
	now := c.Now()
	c.timers = slices.DeleteFunc(c.timers, func(one clockTimer) bool {
		if one.at.After(now) {
			return false
		}
		one.ch <- now
		return true
	})
}

// Pass lets time pass until an answer comes.
func (c *clock) Pass(t testing.TB, until <-chan answer) (a answer) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.Turn(50 * time.Millisecond)
		select {
		case a = <-until:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	return a
}
