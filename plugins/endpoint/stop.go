package endpoint

import (
	"errors"
	"sync/atomic"

	"github.com/fareway/fareway/plugins/llm"
)

// stop is whether a call is to end before its reply does. Its upstream says what it has done so far: before it has
// said that, nothing is cut off, for the work would be nobody's.
type stop struct {
	wanted atomic.Bool
	proven atomic.Bool // the upstream has said what it has done
}

// worker is a decoder of a dialect whose upstreams can say what they have done so far.
type worker interface{ Worked() bool }

var errStopped = errors.New("nobody wants more of the reply, and its usage is proven")

// Stop ends the call as soon as its upstream has said what it has done, where the endpoint is one that says so
// (Timings): usage comes then, and an error of kind llm.ErrCanceled. Otherwise the reply goes on. Any goroutine may
// call it, more than once.
func (c *Call) Stop() {
	c.stop.wanted.Store(true)
	if c.stop.proven.Load() {
		c.life.end(errStopped)
	}
}

// noteEvent notes what the upstream has said, and reports whether the call is to be cut off now.
func (s *stop) noteEvent(d decoder) bool {
	if !s.proven.Load() {
		w, ok := d.(worker)
		if !ok || !w.Worked() {
			return false
		}
		s.proven.Store(true)
	}
	return s.wanted.Load()
}

// stopped is how a call ends that was stopped.
func stopped() *llm.Error { return llm.Errorf(llm.ErrCanceled, "the attempt was cancelled") }
