package book

import (
	"errors"
	"fmt"
	"math"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Payer is who pays for a request: the rows of an account and of the line of the key, and what bounds them.
type Payer struct {
	Account *Account
	Line    *Line
	Terms   ledger.Terms // the account's: ledger.Limits.Over its plan's
	Held    int64        // microcents that the running requests of the line's keys hold; only a Line with a Cap asks
}

// CheckPayer returns what a hold of so much would be refused with.
func CheckPayer(p Payer, microcents, tokens int64) error {
	if microcents < 0 || tokens < 0 {
		return fmt.Errorf("%w: an amount that is negative", ledger.ErrInvalid)
	}
	return p.admit(need{microcents: microcents, tokens: tokens, others: p.Held})
}

// need is a request's worst case.
type need struct {
	microcents int64 // what it comes to in all, as are tokens
	tokens     int64
	held       int64 // of its microcents, what is set aside already
	others     int64 // what the key, and those that it shares its cap with, hold for other requests
}

// admit decides whether the account can pay for a request's worst case. What it returns is a ledger.Refusal.
func (p Payer) admit(n need) error {
	if err := p.Account.Refuse(n.microcents-n.held, n.held); err != nil {
		return p.refuse(n, err)
	}
	return p.checkLimits(n)
}

// refuse is a refusal with what would be covered.
func (p Payer) refuse(n need, why error) error {
	now, limits := p.Account.CountPeriod(), ledger.Bounds{Held: n.held}
	if available := p.Account.Available(); available > 0 {
		limits.Available = available * ledger.MicrocentsPerCredit
	}
	if p.Terms.SpendCap > 0 {
		limits.SpendCap = new(p.Terms.SpendCap - now.Spent)
	}
	if p.Terms.TokenBudget > 0 {
		limits.TokenBudget = new(p.Terms.TokenBudget - now.Tokens)
	}
	if p.Line.Cap > 0 {
		limits.KeyCap = new(p.Line.Cap - p.Line.counted() - n.others)
	}
	refusal := limits.Refuse(why)
	refusal.Sum = p.sum(n, why)
	return refusal
}

// sum is what is left of what a refusal is about.
func (p Payer) sum(n need, why error) (s ledger.Sum) {
	now, more := p.Account.CountPeriod(), n.microcents
	switch {
	case errors.Is(why, ledger.ErrSpendCap):
		s.Limit, s.Used = p.Terms.SpendCap, now.Spent
	case errors.Is(why, ledger.ErrTokenBudget):
		s.Limit, s.Used, more = p.Terms.TokenBudget, now.Tokens, n.tokens
	case errors.Is(why, ledger.ErrKeySpendCap):
		s.Limit, s.Used, s.Held = p.Line.Cap, p.Line.counted(), n.others
	default:
		return ledger.Sum{Limit: p.Account.Credits * ledger.MicrocentsPerCredit, Used: p.Account.Accrued,
			Held: p.Account.Held}
	}
	if !errors.Is(why, ledger.ErrKeyHeld) && more <= s.Limit { // else a new period does not help
		s.Ends = p.Account.Period.End
	}
	return s
}

// checkLimits is admit for a request that holds enough already. Limits of the account are about what was settled
// (GAP-53); the cap of a key is strict, for it bounds what others than the account's owner can spend (GAP-115).
func (p Payer) checkLimits(n need) error {
	now, spent, own := p.Account.CountPeriod(), p.Line.counted(), max(n.microcents, n.held)
	switch {
	case crossesLimit(now.Spent, n.microcents, p.Terms.SpendCap):
		return p.refuse(n, ledger.ErrSpendCap)
	case crossesLimit(now.Tokens, n.tokens, p.Terms.TokenBudget):
		return p.refuse(n, ledger.ErrTokenBudget)
	case crossesLimit(spent, own, p.Line.Cap):
		return p.refuse(n, ledger.ErrKeySpendCap)
	case crossesLimit(spent, add(n.others, own), p.Line.Cap):
		return p.refuse(n, ledger.ErrKeyHeld)
	}
	return nil
}

// crossesLimit reports whether a limit is reached already, or would be passed; to reach it exactly is allowed
// (GAP-53). A limit of 0 is none.
func crossesLimit(settled, more, limit int64) bool {
	return limit > 0 && (settled >= limit || more > limit-settled)
}

// multiply multiplies what is not negative. What no balance covers stays so.
func multiply(n, amount int64) int64 {
	if amount > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * amount
}

// add adds what is not negative. What no balance covers stays so.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
