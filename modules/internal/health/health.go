// Package health judges from the outcomes of attempts how each route does: which are to be called, which only where
// nothing else is left, and which not at all. It is pure: clocks are handed in, nothing runs by itself, and what
// has become of time is seen when somebody looks.
//
// # Circuit breaker
//
// A route is closed at first. It opens when the last Failures attempts failed within the window, and those that
// failed are half of its latest ones, or the last 2 x Failures all did: a route that is busy and mostly well stays
// closed, and one that has died on a busy day is noticed at once. Open, it is not called. After OpenFor it is
// half-open: one light request at a time is let through to try it, and after as long again any request. The first
// token of such a probe closes it; a probe that fails opens it for twice as long, up to mostOpen. What nobody has
// tried for long is forgotten: it is closed, for nothing is known of it any more.
//
// Failures that only one account has met, where others use the route, keep that account off it for OpenFor, and nobody
// else (byAccount). So does a probe that failed, where others used the route until it opened: another account's may
// try it, and opens it when it fails as well. Failures to connect count whoever met them.
//
// Only what is the route's own doing counts (Outcome): a request that was refused for its form, its length or what
// it is about, and a client that left, say nothing about it.
//
// # Outliers
//
// A route that serves, and worse than it did and than the others do, is ejected for a while: it is called where
// nothing else is left. Errors: at least outlierLeast and outlierErrors of its latest attempts failed, and the
// share of the other routes is less than half of its own. Latency: as many first tokens, and outlierSlow of the
// latest, came later than is usual for the route itself and requests of that size (lateFrom), and the others have
// not become slower likewise. First tokens that have not come yet count as soon as they are late. At most half of
// the routes are out at a time, and never the last one. Each time doubles the next, until the route has done well
// for forgetAfter (compare Envoy's outlier detection).
//
// # No library
//
// sony/gobreaker and failsafe-go have breakers for calls that are alike: neither takes a clock, a choice of which
// request may be the probe, or gives a probe back that said nothing.
package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Settings are what an operator says of a route.
type Settings struct {
	Failures int64         // that open the breaker; 0: never
	Window   time.Duration // in which they count
	OpenFor  time.Duration
	Outliers bool // it can be ejected
	Adaptive bool // how many attempts run at a time follows from how it does
}

// State is how a route is to be used.
type State string

const (
	Serves   State = "serves"
	Open     State = "open"      // not called
	HalfOpen State = "half_open" // called by one light request at a time
	Ejected  State = "ejected"   // called where nothing else is left
)

// Outcome is what an attempt says of its route.
type Outcome int

const (
	// Nothing: the client's own mistake, a client that left, or anything else that would have been so on any route.
	Nothing Outcome = iota
	Succeeded
	Failed
	// Unreached: there was no connection (name, address, TLS): a failure whoever met it.
	Unreached
	// Refused: the upstream takes no more at the moment.
	Refused
	// Outrun: another attempt beside it was faster. It would have taken at least so long.
	Outrun
)

// Standing is how a route stands at a moment.
type Standing struct {
	State State
	Until time.Time // of one that is open or ejected
	Why   string    // in words, of one that does not serve
}

// Change is one of a route's changes of state.
type Change struct {
	Route    string
	From, To State
	Until    time.Time
	Why      string
}

// Group is routes that stand in for each other. The zero value is not usable; see NewGroup.
type Group struct {
	start   time.Time
	changed func(Change)
	routes  atomic.Pointer[[]*Route]
	mu      sync.Mutex // of whoever ejects, so that not all are
}

// NewGroup makes a group without routes. changed is told of each change, with nothing locked; nil for nobody.
func NewGroup(now time.Time, changed func(Change)) *Group {
	if changed == nil {
		changed = func(Change) {}
	}
	g := &Group{start: now, changed: changed}
	g.routes.Store(new([]*Route))
	return g
}

// Use makes routes those of the group, from now on. Those that are no more go on for attempts that run.
func (g *Group) Use(routes []*Route) { g.routes.Store(&routes) }

// Route makes a route that nothing is known of. It is in the group when Use says so.
func (g *Group) Route(name string, s Settings) *Route {
	r := &Route{name: name, group: g, told: Serves}
	r.settings.Store(&s)
	r.limit.begin()
	return r
}

// Route is what is known of one route. Its methods can be called from anywhere at the same time.
type Route struct {
	name     string
	group    *Group
	settings atomic.Pointer[Settings]
	// trouble is what Look sees: nil when nothing is the matter, which is read without a lock.
	trouble atomic.Pointer[trouble]

	mu       sync.Mutex
	breaker  breaker
	outlier  outlier
	outcomes ring
	series   [kinds]series
	limit    limit
	running  int64
	accounts byAccount
	holds    atomic.Bool // an account is kept off, or was: read without a lock
	shares   shares      // that others compare themselves with
	told     State       // the last one that was told of
}

// trouble is what is the matter with a route. It is never changed.
type trouble struct {
	breaker breaker
	ejected time.Duration // until when; 0 for never
	slow    bool          // why: first tokens, not errors
}

// Configure changes what the operator says of the route.
func (r *Route) Configure(s Settings) { r.settings.Store(&s) }

// Name is the route's name.
func (r *Route) Name() string { return r.name }

// at is a moment as the time since the group began.
func (r *Route) at(now time.Time) time.Duration { return now.Sub(r.group.start) }

func (r *Route) time(at time.Duration) time.Time { return r.group.start.Add(at) }

// Look says how the route stands for a request, which is light when it costs little.
func (r *Route) Look(now time.Time, light bool) Standing {
	t := r.trouble.Load()
	if t == nil {
		return Standing{State: Serves}
	}
	s := r.settings.Load()
	at := r.at(now)
	switch state := t.breaker.state(at, s); state {
	case Open:
		return Standing{Open, r.time(t.breaker.until), "its breaker is open, for attempts failed"}
	case HalfOpen:
		if t.breaker.letsThrough(at, light, s) {
			return Standing{State: HalfOpen, Why: "its breaker is half-open: a request tries it"}
		}
		if at < t.breaker.trial {
			return Standing{Open, r.time(t.breaker.trial), "its breaker is half-open, and another request tries it"}
		}
		return Standing{Open, r.time(t.breaker.until + s.OpenFor),
			"its breaker is half-open, to be tried by a small request first"}
	}
	if s.Outliers && at < t.ejected {
		why := "ejected: more of its attempts fail than of the others'"
		if t.slow {
			why = "ejected: its first tokens come later than they did, and than the others' do"
		}
		return Standing{Ejected, r.time(t.ejected), why}
	}
	return Standing{State: Serves}
}

// publish lets Look see what is the matter. It is called with the lock held.
func (r *Route) publish(at time.Duration) {
	if r.breaker.closed() && at >= r.outlier.until {
		r.trouble.Store(nil)
		return
	}
	r.trouble.Store(&trouble{r.breaker, r.outlier.until, r.outlier.slow})
}

// Attempt is an attempt on a route that runs.
type Attempt struct {
	route   *Route
	account string
	began   time.Duration
	kind    kind
	epoch   uint64 // of the breaker
	probe   bool
	waiting bool // for its first token, in the queue
	first   bool // it has come
	over    bool

	earlier, later *Attempt // in the queue
}

// Call is what is asked of a route.
type Call struct {
	Account string // whose it is; "" for nobody's
	Input   int64  // tokens, about
	Light   bool   // it costs little
	Whole   bool   // the reply comes in one piece
}

// Begin begins an attempt. It is nil when the route is not to be called by such a request after all, for another one
// was faster.
func (r *Route) Begin(now time.Time, c Call) *Attempt {
	r.mu.Lock()
	a, changes := r.begin(r.at(now), c)
	r.mu.Unlock()
	r.tell(changes)
	return a
}

// begin is Begin with the lock held.
func (r *Route) begin(at time.Duration, c Call) (a *Attempt, changes []Change) {
	if at < r.accounts.held[c.Account] {
		return nil, nil
	}
	s := r.settings.Load()
	r.accounts.use(c.Account, at)
	changes = r.countLateTokens(at)
	probe := false
	if !r.breaker.closed() {
		switch r.breaker.state(at, s) {
		case Open:
			return nil, changes
		case HalfOpen:
			if !r.breaker.letsThrough(at, c.Light, s) {
				return nil, changes
			}
			probe = true
			r.breaker.trial = at + max(s.OpenFor, leastTrial)
			changes = r.becomes(changes, HalfOpen, 0, "one request tries it")
		default: // forgotten
			r.breaker = breaker{epoch: r.breaker.epoch + 1}
			changes = r.becomes(changes, Serves, 0, "nothing was known of it for long")
		}
		r.publish(at)
	} else if at >= r.outlier.until && r.trouble.Load() != nil {
		r.publish(at)
		changes = r.becomes(changes, Serves, 0, "its time is over")
	}
	a = &Attempt{route: r, account: c.Account, began: at, kind: kindOf(c), epoch: r.breaker.epoch, probe: probe}
	r.series[a.kind].queue.push(a)
	r.running++
	return a, changes
}

// becomes adds a change of state, if it is one. It is called with the lock held.
func (r *Route) becomes(changes []Change, to State, until time.Duration, why string) []Change {
	if r.told == to {
		return changes
	}
	c := Change{Route: r.name, From: r.told, To: to, Why: why}
	if until > 0 {
		c.Until = r.time(until)
	}
	r.told = to
	return append(changes, c)
}

func (r *Route) tell(changes []Change) {
	for _, c := range changes {
		r.group.changed(c)
	}
}

// First notes the first token of the reply, once.
func (a *Attempt) First(now time.Time) {
	if a == nil || a.first {
		return
	}
	r, at := a.route, a.route.at(now)
	r.mu.Lock()
	changes := a.arrived(at)
	r.mu.Unlock()
	r.tell(changes)
}

// arrived is First with the lock held.
func (a *Attempt) arrived(at time.Duration) []Change {
	a.first = true
	r := a.route
	s := r.settings.Load()
	var changes []Change
	took := at - a.began
	sr := &r.series[a.kind]
	from, ok := r.lateFrom(a.kind)
	sr.past.add(took)
	if s.Adaptive {
		r.limit.sample(at, took, a.kind, r.running)
	}
	if a.waiting { // otherwise it counts as late already
		sr.queue.remove(a)
		late := ok && took > from
		if sr.recent.add(at, late); late {
			changes = r.judge(at)
		}
	}
	if a.epoch == r.breaker.epoch && !r.breaker.closed() { // it tries it: nothing else begins while it is open
		r.breaker.close()
		a.epoch = r.breaker.epoch
		r.outcomes = ring{}
		r.publish(at)
		changes = r.becomes(changes, Serves, 0, "the request that tried it is answered")
	}
	return changes
}

// End notes how the attempt ended, once.
func (a *Attempt) End(now time.Time, o Outcome) {
	if a == nil || a.over {
		return
	}
	r, at := a.route, a.route.at(now)
	s := r.settings.Load()
	r.mu.Lock()
	a.over = true
	r.running--
	var changes []Change
	if o == Succeeded && !a.first {
		changes = a.arrived(at) // a reply without any text is one
	}
	if a.waiting {
		if from, ok := r.lateFrom(a.kind); ok && at-a.began > from {
			r.series[a.kind].recent.add(at, true)
			changes = append(changes, r.judge(at)...)
		}
		r.series[a.kind].queue.remove(a)
	}
	if o == Outrun && !a.first {
		// Left out, the times that are remembered would only be those of attempts that came in time.
		past := &r.series[a.kind].past
		if usual, ok := past.quantile(0.5); ok && at-a.began > usual {
			past.add(at - a.began)
		}
	}
	if s.Adaptive && (o == Refused || (o == Failed || o == Unreached) && !a.first) {
		r.limit.drop(at, r.running+1)
	}
	if o == Succeeded || o == Failed || o == Unreached {
		changes = append(changes, r.countOutcome(a, at, o, s)...)
	} else if a.probe && !a.first && r.breaker.epoch == a.epoch {
		r.breaker.trial = 0 // it said nothing; another one may try
		r.publish(at)
	}
	r.mu.Unlock()
	r.tell(changes)
}

// countOutcome counts an outcome. It is called with the lock held.
func (r *Route) countOutcome(a *Attempt, at time.Duration, o Outcome, s *Settings) []Change {
	failed := o != Succeeded
	if a.epoch != r.breaker.epoch {
		return nil // it began before the breaker opened, and says nothing of what came after
	}
	if a.probe {
		switch {
		case o == Failed && r.breaker.failsAlone(a.account, &r.accounts, s.Window):
			r.breaker.alone, r.breaker.trial = a.account, 0
			r.accounts.hold(a.account, at, at+s.OpenFor)
			r.holds.Store(true)
			r.publish(at)
			return nil
		case failed:
			return r.open(at, s, "the request that tried it failed")
		case r.breaker.closed():
			r.breaker.pause = 0 // it held to the end
		}
	}
	if o == Failed {
		all := r.accounts.failed(a.account, at, s)
		r.holds.Store(len(r.accounts.held) > 0)
		if len(all) == 0 {
			return nil // of this account alone
		}
		for _, earlier := range all[:len(all)-1] {
			r.outcomes.add(earlier, true)
			r.breaker.count(true)
		}
	}
	r.outcomes.add(at, failed)
	r.breaker.count(failed)
	if !failed {
		r.accounts.served(a.account)
		if r.outcomes.next%shareEvery == 0 {
			r.judgeShares(at)
		}
		return nil
	}
	if r.breaker.closed() && r.breaker.trips(at, &r.outcomes, s) {
		return r.open(at, s, "too many attempts failed")
	}
	return r.judge(at)
}

// open opens the breaker. It is called with the lock held.
func (r *Route) open(at time.Duration, s *Settings, why string) []Change {
	r.breaker.open(at, s.OpenFor)
	r.outcomes = ring{}
	r.publish(at)
	return r.becomes(nil, Open, r.breaker.until, why)
}

// Limit is how many attempts may run at a time on a route that adapts.
func (r *Route) Limit() int64 { return r.limit.most() }

// FirstToken is the time in which so large a share of the first tokens came of calls like this one; false while too
// few have.
func (r *Route) FirstToken(c Call, share float64) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.series[kindOf(c)].past.quantile(share)
}
