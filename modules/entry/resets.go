package entry

import (
	"sync"
	"time"
)

// resetsEvery is how often a request that its client gave up before it had come is worth a line.
const resetsEvery = time.Second

// resets bounds the lines about requests that their clients gave up before they had come. Over HTTP/2 such a request
// costs a client two frames, so that one connection could fill the log with them. They are counted all the same.
type resets struct {
	mu     sync.Mutex
	last   time.Time
	silent int
}

// line reports whether this one gets a line, and how many had none since the last that did.
func (r *resets) line(now time.Time) (silent int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < resetsEvery {
		r.silent++
		return 0, false
	}
	silent, r.last, r.silent = r.silent, now, 0
	return silent, true
}
