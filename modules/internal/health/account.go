package health

import "time"

// maxHeld bounds the accounts that are kept off one route.
const maxHeld = 1024

// byAccount keeps failures that only one account has met from closing a route to the others (GAP-126): such a one is
// kept off alone, until a second account meets them as well. Where nobody else uses the route they count as any.
type byAccount struct {
	users  [2]user         // who used it last, each once
	alone  string          // whose failures nobody else has met
	unmet  []time.Duration // when they were
	failer user            // whose failure last counted for all
	shared time.Duration   // when a second account last met failures
	met    bool            // one did
	held   map[string]time.Duration
}

type user struct {
	account string
	at      time.Duration
}

// use notes that an account uses the route.
func (b *byAccount) use(account string, at time.Duration) {
	if account == "" {
		return
	}
	if account != b.users[0].account {
		b.users[1] = b.users[0]
	}
	b.users[0] = user{account, at}
}

// othersUse reports whether another account has used the route since a moment.
func (b *byAccount) othersUse(account string, since time.Duration) bool {
	for _, u := range b.users {
		if u.account != "" && u.account != account && u.at >= since {
			return true
		}
	}
	return false
}

// failed notes a failure that an account met, and returns the moments of the failures that count for all now, with
// this one as the last; none where it is the account's alone.
func (b *byAccount) failed(account string, at time.Duration, s *Settings) []time.Duration {
	for len(b.unmet) > 0 && at-b.unmet[0] > s.Window {
		b.unmet = b.unmet[1:]
	}
	second := len(b.unmet) > 0 && b.alone != account ||
		b.failer.account != "" && b.failer.account != account && at-b.failer.at <= s.Window
	switch {
	case account == "" || b.met && at-b.shared <= s.Window || !second && !b.othersUse(account, at-s.Window):
		b.failer = user{account, at}
		return []time.Duration{at}
	case second:
		all := append(b.unmet, at)
		b.alone, b.unmet, b.shared, b.met, b.failer = "", nil, at, true, user{account, at}
		return all
	}
	if len(b.unmet) < ringSize {
		b.alone, b.unmet = account, append(b.unmet, at)
	}
	if s.Failures > 0 && int64(len(b.unmet)) >= s.Failures {
		b.hold(account, at, at+s.OpenFor)
	}
	return nil
}

// served notes that an account was served.
func (b *byAccount) served(account string) {
	if account == b.alone {
		b.alone, b.unmet = "", nil
	}
}

func (b *byAccount) hold(account string, at, until time.Duration) {
	if b.held == nil || len(b.held) >= maxHeld {
		b.held = make(map[string]time.Duration)
	}
	b.held[account] = until
	for other, until := range b.held {
		if at >= until {
			delete(b.held, other)
		}
	}
}

// HeldOff says until when an account is kept off the route, for what only it has met; false where it is not.
func (r *Route) HeldOff(now time.Time, account string) (until time.Time, ok bool) {
	if !r.holds.Load() {
		return time.Time{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	end, ok := r.accounts.held[account]
	return r.time(end), ok && r.at(now) < end
}
