package engine

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	e := &Engine{attempts: newSlots(nil)}
	old := &config.Route{Name: "small"}
	require.True(t, e.TakeSlot(old))
	require.True(t, e.TakeSlot(old))

	reloaded := &config.Route{Name: "small", MaxConcurrent: 3}
	require.True(t, e.TakeSlot(reloaded), "what runs on the old configuration counts")
	require.False(t, e.TakeSlot(reloaded))
	require.True(t, e.TakeSlot(old), "the old configuration has no limit")
	require.True(t, e.TakeSlot(&config.Route{Name: "other", MaxConcurrent: 1}))

	e.GiveSlot(old)
	require.False(t, e.TakeSlot(reloaded), "3 run")
	e.GiveSlot(reloaded)
	require.True(t, e.TakeSlot(reloaded))
	for range 3 {
		e.GiveSlot(old)
	}
	e.GiveSlot(&config.Route{Name: "other"})
	require.Empty(t, e.attempts.running)
}

func TestSlotsUnderContention(t *testing.T) {
	t.Parallel()
	e := &Engine{attempts: newSlots(nil)}
	route := &config.Route{Name: "small", MaxConcurrent: 4}
	var running, most, taken atomic.Int64
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range 200 {
				if !e.TakeSlot(route) {
					continue
				}
				taken.Add(1)
				for n := running.Add(1); ; {
					if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
						break
					}
				}
				running.Add(-1)
				e.GiveSlot(route)
			}
		})
	}
	workers.Wait()
	require.Positive(t, taken.Load())
	require.LessOrEqual(t, most.Load(), int64(4))
	require.Empty(t, e.attempts.running)
}
