package host

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
	// A process that ran this long was a good one: the next pause is short again.
	goodRun = time.Minute
)

// backoff says how long to wait before a plugin is started again. The zero value is ready to use.
type backoff struct{ failures int }

// ran notes how long the last process was of use.
func (b *backoff) ran(d time.Duration) {
	if d >= goodRun {
		b.failures = 0
	}
}

// next is the next pause: twice the last one up to maxPause, less up to a fifth, by chance, so that plugins
// that died together do not start together.
func (b *backoff) next() time.Duration {
	pause := maxPause
	if b.failures < 9 { // 100 ms << 9 is over half a minute
		pause = min(firstPause<<b.failures, maxPause)
	}
	b.failures++
	return pause - rand.N(pause/5)
}
