package sqlite

import (
	"math"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// need is a request's worst case.
type need struct {
	microcents int64 // what it comes to in all, as are tokens
	tokens     int64
	held       int64 // of its microcents, what is set aside already
	others     int64 // what the key, and those that it shares its cap with, hold for other requests
}

// admit decides whether the account can pay for a request's worst case. What it returns is a ledger.Refusal.
func admit(a *account, l *line, terms ledger.Terms, n need) error {
	if err := a.Refuse(n.microcents-n.held, n.held); err != nil {
		return refuse(a, l, terms, n, err)
	}
	return within(a, l, terms, n)
}

// refuse is a refusal with what would be covered.
func refuse(a *account, l *line, terms ledger.Terms, n need, why error) error {
	now, limits := a.now(), ledger.Bounds{Held: n.held}
	if available := a.Available(); available > 0 {
		limits.Available = available * ledger.MicrocentsPerCredit
	}
	if terms.SpendCap > 0 {
		limits.SpendCap = new(terms.SpendCap - now.spent)
	}
	if terms.TokenBudget > 0 {
		limits.TokenBudget = new(terms.TokenBudget - now.tokens)
	}
	if l.cap > 0 {
		limits.KeyCap = new(l.cap - (l.spent - l.before) - n.others)
	}
	return limits.Refuse(why)
}

// within is admit for a request that holds enough already. Limits of the account are about what was settled (GAP-53);
// the cap of a key is strict, for it bounds what others than the account's owner can spend (GAP-115).
func within(a *account, l *line, terms ledger.Terms, n need) error {
	now, own := a.now(), max(n.microcents, n.held)
	switch {
	case crosses(now.spent, n.microcents, terms.SpendCap):
		return refuse(a, l, terms, n, ledger.ErrSpendCap)
	case crosses(now.tokens, n.tokens, terms.TokenBudget):
		return refuse(a, l, terms, n, ledger.ErrTokenBudget)
	case crosses(l.spent-l.before, own, l.cap):
		return refuse(a, l, terms, n, ledger.ErrKeySpendCap)
	case crosses(l.spent-l.before, sum(n.others, own), l.cap):
		return refuse(a, l, terms, n, ledger.ErrKeyHeld)
	}
	return nil
}

// crosses reports whether a limit is reached already, or would be passed; to reach it exactly is allowed
// (GAP-53). A limit of 0 is none.
func crosses(settled, more, limit int64) bool {
	return limit > 0 && (settled >= limit || more > limit-settled)
}

// times multiplies what is not negative. What no balance covers stays so.
func times(n, amount int64) int64 {
	if amount > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * amount
}

// sum adds what is not negative. What no balance covers stays so.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
