package health

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	outlierLeast  = 5   // attempts that failed, or first tokens that were late
	outlierErrors = 0.3 // of the latest attempts
	outlierSlow   = 0.5 // of the latest first tokens of one kind
	outlierTimes  = 2   // as large a share as the others'
	outlierWindow = time.Minute

	// shareEvery is after how many attempts that succeed the others see what share that is.
	shareEvery = 8

	firstEjection = 30 * time.Second
	mostEjection  = 5 * time.Minute
	// forgetAfter is how long a route has to do well until earlier ejections are forgotten.
	forgetAfter = 10 * time.Minute
)

// outlier is whether a route is ejected.
type outlier struct {
	until time.Duration
	slow  bool
	pause time.Duration // how long it was the last time
}

// shares are what the others compare themselves with: the shares of late and of failed attempts, 0 where too little is
// known. They are read without the route's lock.
type shares struct {
	failed, slow atomic.Uint64 // as float64
	at           atomic.Int64  // when they were published
}

// of is one of the shares, 0 when it was long ago.
func (s *shares) of(at time.Duration, slow bool) float64 {
	switch {
	case at-time.Duration(s.at.Load()) > outlierWindow:
		return 0
	case slow:
		return math.Float64frombits(s.slow.Load())
	}
	return math.Float64frombits(s.failed.Load())
}

// kind is one of Route.series: first tokens are compared with those of requests of about the same size, and replies in
// one piece, which have no first token, with each other.
type kind int

const (
	small kind = iota // at most smallInput tokens
	middle
	large // more than middleInput
	inOnePiece
	kinds
)

const (
	smallInput  = 4_000
	middleInput = 32_000
)

func kindOf(c Call) kind {
	switch {
	case c.Whole:
		return inOnePiece
	case c.Input <= smallInput:
		return small
	case c.Input <= middleInput:
		return middle
	}
	return large
}

// series is the first tokens of one kind of attempt; of replies in one piece, their ends.
type series struct {
	past   firstTokenTimes
	recent ring // late or not
	queue  queue
}

// lateFrom is the time from which on a first token is late: so much later than usual that nobody calls it chance,
// and late enough for somebody to mind. How long a reply is in one piece is the client's affair, so that more is
// left to it.
func (r *Route) lateFrom(k kind) (time.Duration, bool) {
	if k == inOnePiece {
		return r.series[k].past.from(10, 5*time.Second)
	}
	return r.series[k].past.from(3, 250*time.Millisecond)
}

// queue is the attempts that wait for their first token, in the order in which they began.
type queue struct{ first, last *Attempt }

func (q *queue) push(a *Attempt) {
	a.waiting, a.earlier, a.later = true, q.last, nil
	if q.last == nil {
		q.first = a
	} else {
		q.last.later = a
	}
	q.last = a
}

func (q *queue) remove(a *Attempt) {
	if a.earlier == nil {
		q.first = a.later
	} else {
		a.earlier.later = a.later
	}
	if a.later == nil {
		q.last = a.earlier
	} else {
		a.later.earlier = a.earlier
	}
	a.waiting, a.earlier, a.later = false, nil, nil
}

// countLateTokens counts the first tokens that should have come by now. It is called with the lock held.
func (r *Route) countLateTokens(at time.Duration) []Change {
	found := false
	for k := range kinds {
		s := &r.series[k]
		limit, ok := r.lateFrom(k)
		for ok && s.queue.first != nil && at-s.queue.first.began > limit {
			s.queue.remove(s.queue.first)
			s.recent.add(at, true)
			found = true
		}
	}
	if !found {
		return nil
	}
	return r.judge(at)
}

// judgeShares publishes what others compare themselves with. It is called with the lock held.
func (r *Route) judgeShares(at time.Duration) (failed, slow bool) {
	all, bad := r.outcomes.since(at - outlierWindow)
	r.shares.failed.Store(math.Float64bits(shareOf(bad, all)))
	failed = bad >= outlierLeast && float64(bad) >= outlierErrors*float64(all)
	worst := 0.0
	for i := range r.series {
		all, bad := r.series[i].recent.since(at - outlierWindow)
		worst = max(worst, shareOf(bad, all))
		slow = slow || bad >= outlierLeast && float64(bad) >= outlierSlow*float64(all)
	}
	r.shares.slow.Store(math.Float64bits(worst))
	r.shares.at.Store(int64(at))
	return failed, slow
}

func shareOf(bad, all int64) float64 {
	if all < outlierLeast {
		return 0
	}
	return float64(bad) / float64(all)
}

// judge ejects the route if it is an outlier. It is called with the lock held.
func (r *Route) judge(at time.Duration) []Change {
	failed, slow := r.judgeShares(at)
	if !failed && !slow || !r.settings.Load().Outliers || at < r.outlier.until || !r.breaker.closed() {
		return nil
	}
	o, pause := &r.outlier, firstEjection
	if o.pause > 0 && at-o.until <= forgetAfter {
		pause = min(2*o.pause, mostEjection)
	}
	if !r.group.eject(r, at, at+pause, !failed) {
		return nil
	}
	o.until, o.slow, o.pause = at+pause, !failed, pause
	r.outcomes = ring{}
	for i := range r.series {
		r.series[i].recent = ring{}
	}
	why := "more of its attempts fail than of the others'"
	if o.slow {
		why = "its first tokens come later than they did, and than the others' do"
	}
	r.publish(at)
	return r.becomes(nil, Ejected, o.until, why)
}

// eject ejects a route until a moment, if it does worse than the others, and enough of them are left.
func (g *Group) eject(r *Route, at, until time.Duration, slow bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := *g.routes.Load()
	out := 1 // with this one
	var others []float64
	for _, o := range all {
		if o == r {
			continue
		}
		if t := o.trouble.Load(); t != nil && (at < t.ejected || t.breaker.state(at, o.settings.Load()) != Serves) {
			out++
			continue
		}
		others = append(others, o.shares.of(at, slow))
	}
	if len(others) == 0 || 2*out > len(all) || !slices.Contains(all, r) {
		return false
	}
	slices.Sort(others)
	if r.shares.of(at, slow) < outlierTimes*others[len(others)/2] {
		return false
	}
	// Whoever is next in this lock sees that it is out.
	r.trouble.Store(&trouble{breaker: r.breaker, ejected: until})
	return true
}
