package health

import "sync/atomic"

const (
	// shareUnit is one time that something is done.
	shareUnit = 1_000_000
	// shareKept is how many times are kept at most that nobody took: after a quiet while there is no rush.
	shareKept = 10
)

// Share bounds for how large a share of the requests something is done: however many there were, it was never done
// more often than that. The zero value allows nothing yet.
type Share struct{ left atomic.Int64 }

// Request counts a request, of which so large a share is allowed, 0 to 1.
func (s *Share) Request(share float64) {
	for {
		left := s.left.Load()
		if s.left.CompareAndSwap(left, min(left+int64(share*shareUnit), shareKept*shareUnit)) {
			return
		}
	}
}

// Take counts once, if once more is allowed.
func (s *Share) Take() bool {
	for {
		left := s.left.Load()
		if left < shareUnit {
			return false
		}
		if s.left.CompareAndSwap(left, left-shareUnit) {
			return true
		}
	}
}
