package health

import "time"

const (
	// mostOpen is how long a breaker is open at most, where OpenFor is not longer.
	mostOpen = 5 * time.Minute
	// leastTrial is how long one probe keeps the others away at least, while it has said nothing.
	leastTrial = 5 * time.Second
	// forgetOpen is after how many times as long as it was open a breaker is closed that nobody has tried.
	forgetOpen = 20
)

// breaker is the state of a circuit breaker. The zero value is closed.
type breaker struct {
	until time.Duration // when it is half-open; 0: it is closed
	pause time.Duration // how long it was opened for, kept until a probe has held to its end
	trial time.Duration // until when a probe keeps others away
	since time.Duration // when it opened first, of the times that pause doubles
	alone string        // the account whose probe failed, which no other one's has
	epoch uint64        // counts changes: what began before one says nothing after it
	row   int64         // how many of the latest attempts failed
}

func (b *breaker) closed() bool { return b.until == 0 }

// state is Serves, Open or HalfOpen.
func (b *breaker) state(at time.Duration, s *Settings) State {
	switch {
	case b.until == 0, s.Failures == 0, at >= b.until+forgetOpen*max(b.pause, s.OpenFor):
		return Serves
	case at < b.until:
		return Open
	}
	return HalfOpen
}

// letsThrough reports whether a half-open breaker lets a request through.
func (b *breaker) letsThrough(at time.Duration, light bool, s *Settings) bool {
	return at >= b.trial && (light || at >= b.until+s.OpenFor)
}

// count counts the failures in a row.
func (b *breaker) count(failed bool) {
	if b.row++; !failed {
		b.row = 0
	}
}

// trips reports whether a closed breaker is to open. Of the failures in a row those count that the window has.
func (b *breaker) trips(at time.Duration, outcomes *ring, s *Settings) bool {
	if s.Failures == 0 {
		return false
	}
	all, failed := outcomes.since(at - s.Window)
	return min(failed, b.row) >= s.Failures && (2*failed >= all || b.row >= 2*s.Failures)
}

// open opens it: for twice as long as the last time, when it was tried too early.
func (b *breaker) open(at, openFor time.Duration) {
	pause, since := openFor, at
	if b.pause > 0 {
		pause, since = min(2*b.pause, max(mostOpen, openFor)), b.since
	}
	*b = breaker{until: at + pause, pause: pause, since: since, epoch: b.epoch + 1}
}

// close closes it after a probe's first token.
func (b *breaker) close() { *b = breaker{pause: b.pause, since: b.since, epoch: b.epoch + 1} }

// failsAlone reports whether a probe's failure is its account's alone (GAP-126): no other account's probe has failed,
// and others used the route until it opened, whom it keeps away since.
func (b *breaker) failsAlone(account string, accounts *byAccount, window time.Duration) bool {
	return account != "" && (b.alone == "" || b.alone == account) && accounts.othersUse(account, b.since-window)
}
