package ratelimit_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// TestOneAtATime: calls about one subject come one after the other. The clock is read with the locks held, so that it
// sees who else is inside.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	var inside, together atomic.Int64
	m := ratelimit.NewMemory(ratelimit.Options{Elapsed: func() time.Duration {
		if inside.Add(1) > 1 {
			together.Add(1)
		}
		for range 50 {
			runtime.Gosched()
		}
		inside.Add(-1)
		return time.Second
	}})
	ask := ratelimit.Ask{Subject: ratelimit.Subject{Kind: ratelimit.Key, Name: "key_1"}, Limit: 100}
	var counted atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if _, r, err := m.Acquire(t.Context(), []ratelimit.Ask{ask}); err == nil && r == nil {
					counted.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, together.Load(), "two calls about one subject at the same time")
	require.EqualValues(t, 100, counted.Load())
}
