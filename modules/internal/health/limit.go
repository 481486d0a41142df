package health

import (
	"math"
	"sync/atomic"
	"time"
)

// How many attempts may run at a time on a route that adapts: more while first tokens come about as fast as when it
// is not busy, fewer when they come later or the upstream refuses (compare Netflix' concurrency-limits, and TCP's
// additive increase and multiplicative decrease).
const (
	firstLimit = 20
	leastLimit = 1
	mostLimit  = 1000
	// tolerance is how many times as long as an early one a usual first token may take: prompts differ, too.
	tolerance = 3
	// backOff is what is left of the limit when the upstream refuses, at most once in a dropEvery: what was under way
	// together is refused together.
	backOff   = 0.7
	dropEvery = time.Second
	// ceilingFor is how long it counts how many attempts ran when the upstream refused: from nearCeiling of them on
	// there are more only slowly.
	ceilingFor  = time.Minute
	nearCeiling = 0.8
	// Where half as many attempts are still so much of as late, it is not they who make it late: that is what is usual.
	unchanged = 0.75
	// earlyDoubles is how long an early time takes to be forgotten half.
	earlyDoubles = 10 * time.Minute
)

// firstTokenPace is how soon first tokens of one kind come, in seconds: the early ones, when the upstream is not
// busy, and the median of the latest.
type firstTokenPace struct {
	early, usual float64
	at           time.Duration // of the latest
}

func (p *firstTokenPace) sample(at, took time.Duration) {
	t := max(took.Seconds(), 0.001)
	if p.early == 0 {
		p.early, p.usual = t, t
	}
	p.early *= math.Exp2(float64(at-p.at) / float64(earlyDoubles))
	p.at = at
	const early, usual = 0.9, 1.2 // steps towards it, so that one alone does not count much
	p.early = min(p.early, max(p.early*early, t))
	if t > p.usual {
		p.usual = min(p.usual*usual, t)
	} else {
		p.usual = max(p.usual/usual, t)
	}
}

// limit is a concurrency limit that adapts.
type limit struct {
	value   float64
	paces   [kinds]firstTokenPace
	lowered time.Duration // when first tokens were late last
	from    struct {      // what it was when they began to be, and how late they were at worst
		value, usual float64
	}
	dropped time.Duration // when the upstream refused last
	ceiling float64       // how many ran then
	shown   atomic.Int64
}

func (l *limit) begin() { l.set(firstLimit) }

func (l *limit) set(v float64) {
	l.value = min(max(v, leastLimit), mostLimit)
	l.shown.Store(int64(l.value))
}

func (l *limit) most() int64 { return l.shown.Load() }

// sample moves the limit by a first token.
func (l *limit) sample(at, took time.Duration, k kind, running int64) {
	p := &l.paces[k]
	p.sample(at, took)
	most := float64(tolerance)
	if k == inOnePiece { // how long they are differs more
		most *= tolerance
	}
	if late := p.usual / (most * p.early); late > 1 {
		l.lower(at, late, p)
		return
	}
	l.from.value = 0
	switch {
	case 2*float64(running) < l.value: // nothing is known of more
	case l.ceiling > 0 && at-l.dropped < ceilingFor && l.value > nearCeiling*l.ceiling:
		l.set(l.value + 0.5/l.value)
	default:
		l.set(l.value + 1/math.Sqrt(l.value))
	}
}

// lower lowers the limit, at most once in twice the time that a first token takes: so long does it take to help.
func (l *limit) lower(at time.Duration, late float64, p *firstTokenPace) {
	if at-l.lowered < time.Duration(2*p.usual*float64(time.Second)) {
		return
	}
	l.lowered = at
	if l.from.value == 0 {
		l.from.value, l.from.usual = l.value, 0
	}
	l.from.usual = max(l.from.usual, p.usual)
	if 2*l.value <= l.from.value || l.value == leastLimit {
		if p.usual > unchanged*l.from.usual {
			p.early = p.usual
		}
		l.from.value = 0
		return
	}
	l.set(l.value * max(1/late, backOff))
}

// drop lowers the limit when the upstream refuses one of so many.
func (l *limit) drop(at time.Duration, running int64) {
	if l.dropped != 0 && at-l.dropped < dropEvery {
		return
	}
	l.dropped, l.ceiling = at, float64(running)
	l.set(min(l.value, float64(running)) * backOff)
}
