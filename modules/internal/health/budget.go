package health

import (
	"math"
	"sync/atomic"
	"time"
)

// budgetSeconds is how many seconds of the latest traffic count.
const budgetSeconds = 10

// Budget bounds which share of the requests may be tried on another route, so that an outage is not doubled by those
// who try again (compare the retry budgets of Finagle and Linkerd). It is exact for callers that come one after the
// other; several at the turn of a second can be a few off. The zero value allows nothing.
type Budget struct {
	start   time.Time
	terms   atomic.Pointer[budgetTerms]
	seconds [budgetSeconds]budgetSecond
}

type budgetTerms struct {
	ratio float64
	floor float64 // a second
}

type budgetSecond struct {
	number   atomic.Int64
	requests atomic.Int64
	retries  atomic.Int64
}

// NewBudget makes a budget. ratio is how many retries there may be for each request, perSecond how many besides.
func NewBudget(now time.Time, ratio float64, perSecond int64) *Budget {
	b := &Budget{start: now}
	b.Configure(ratio, perSecond)
	return b
}

// Configure changes what is allowed.
func (b *Budget) Configure(ratio float64, perSecond int64) {
	b.terms.Store(&budgetTerms{ratio, float64(perSecond)})
}

// Request counts a request.
func (b *Budget) Request(now time.Time) { b.second(now).requests.Add(1) }

// Retry counts a retry, if one more is allowed.
func (b *Budget) Retry(now time.Time) bool {
	s := b.second(now)
	requests, retries := b.used(s.number.Load())
	terms := b.terms.Load()
	if float64(retries+1) > math.Floor(terms.ratio*float64(requests))+terms.floor*budgetSeconds {
		return false
	}
	s.retries.Add(1)
	return true
}

// used counts the latest requests and retries.
func (b *Budget) used(now int64) (requests, retries int64) {
	for i := range b.seconds {
		if s := &b.seconds[i]; now-s.number.Load() < budgetSeconds {
			requests += s.requests.Load()
			retries += s.retries.Load()
		}
	}
	return requests, retries
}

// second is the counters of a moment.
func (b *Budget) second(now time.Time) *budgetSecond {
	number := int64(now.Sub(b.start)/time.Second) + budgetSeconds // so that the zero value is long ago
	s := &b.seconds[((number%budgetSeconds)+budgetSeconds)%budgetSeconds]
	if was := s.number.Load(); was < number && s.number.CompareAndSwap(was, number) {
		s.requests.Store(0)
		s.retries.Store(0)
	}
	return s
}
