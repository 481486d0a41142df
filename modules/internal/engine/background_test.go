package engine

import (
	"testing"
	"time"

	"github.com/fareway/fareway/modules/internal/clocktest"
)

// turned is a time that a test turns, for an engine with its loops.
type turned struct{ *clocktest.Clock }

func newTurned() turned {
	return turned{clocktest.New(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
}

// settle returns when all loops of the engine wait, and the two of its alerts.
func (c turned) settle(t *testing.T, e *Engine) {
	t.Helper()
	c.AwaitWaits(len(e.background.loops) + 2)
}

// turn moves the time on, in steps of at most the reconciler's, and returns when all loops wait again.
func (c turned) turn(t *testing.T, e *Engine, d time.Duration) {
	t.Helper()
	for d > 0 {
		step := min(d, receiptsEvery)
		d -= step
		c.Turn(step)
		c.settle(t, e)
	}
}
