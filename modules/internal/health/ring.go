package health

import "time"

// ringSize is how many of the latest outcomes count at most. Settings.Failures is not larger.
const ringSize = 64

// ring is the latest outcomes of a route.
type ring struct {
	entries [ringSize]struct {
		at  time.Duration
		bad bool
	}
	next, used int
}

func (r *ring) add(at time.Duration, bad bool) {
	e := &r.entries[r.next]
	e.at, e.bad = at, bad
	r.next = (r.next + 1) % ringSize
	r.used = min(r.used+1, ringSize)
}

// since counts what came after a moment.
func (r *ring) since(at time.Duration) (all, bad int64) {
	for i := range r.used {
		if e := &r.entries[i]; e.at >= at {
			all++
			if e.bad {
				bad++
			}
		}
	}
	return all, bad
}
