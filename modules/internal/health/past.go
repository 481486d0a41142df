package health

import (
	"math"
	"time"
)

const (
	// perOctave is how many buckets there are between a time and its double.
	perOctave = 4
	buckets   = 18*perOctave + 1 // from firstBucket to over four minutes
	// firstBucket bounds the first of them.
	firstBucket = time.Millisecond
	// rememberTokens is how many times are remembered before the older ones count half.
	rememberTokens = 1024
	// knownFrom is from how many times on something is known.
	knownFrom = 20
)

// firstTokenTimes is how long first tokens usually take: counts of times in buckets of a logarithmic scale.
type firstTokenTimes struct {
	counts [buckets]uint32
	total  uint32

	limit time.Duration // of from
	stale int           // how many came since it was computed
}

func (p *firstTokenTimes) add(took time.Duration) {
	i := 0
	if took > firstBucket {
		i = min(int(perOctave*math.Log2(float64(took)/float64(firstBucket)))+1, buckets-1)
	}
	p.counts[i]++
	p.total++
	p.stale++
	if p.total < 2*rememberTokens {
		return
	}
	p.total = 0
	for i := range p.counts {
		p.counts[i] /= 2
		p.total += p.counts[i]
	}
}

// quantile is a time that so large a share did not exceed, at most a quarter too long; false while too little is
// known.
func (p *firstTokenTimes) quantile(share float64) (time.Duration, bool) {
	if p.total < knownFrom {
		return 0, false
	}
	left := int64(math.Ceil(share * float64(p.total)))
	for i, n := range p.counts {
		if left -= int64(n); left <= 0 {
			return time.Duration(float64(firstBucket) * math.Exp2(float64(i)/perOctave)), true
		}
	}
	return time.Duration(math.MaxInt64), true
}

// from is the time that is so many times as long as the median, and at least some; false while too little is known.
func (p *firstTokenTimes) from(times float64, least time.Duration) (time.Duration, bool) {
	if p.total < knownFrom {
		return 0, false
	}
	const often = 16
	if p.stale >= often { // which it is before the first time: knownFrom is more
		median, _ := p.quantile(0.5)
		p.limit, p.stale = max(time.Duration(times*float64(median)), least), 0
	}
	return p.limit, true
}
