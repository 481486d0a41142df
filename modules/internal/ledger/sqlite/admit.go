package sqlite

import (
	"github.com/fareway/fareway/modules/internal/ledger"
)

// admit decides whether the account can pay for a request's worst case: microcents and tokens are what it comes to in
// all, of which held microcents are set aside already.
func admit(a *account, l *line, terms ledger.Terms, held, microcents, tokens int64) error {
	if err := a.Refuse(microcents-held, held); err != nil {
		return err
	}
	return within(a, l, terms, microcents, tokens)
}

// within is admit for a request that holds enough already.
func within(a *account, l *line, terms ledger.Terms, microcents, tokens int64) error {
	now := a.now()
	switch {
	case crosses(now.spent, microcents, terms.SpendCap):
		return ledger.ErrSpendCap
	case crosses(now.tokens, tokens, terms.TokenBudget):
		return ledger.ErrTokenBudget
	case crosses(l.spent-l.before, microcents, l.cap):
		return ledger.ErrKeySpendCap
	}
	return nil
}

// crosses reports whether a limit is reached already, or would be passed; to reach it exactly is allowed
// (GAP-53). A limit of 0 is none.
func crosses(settled, more, limit int64) bool {
	return limit > 0 && (settled >= limit || more > limit-settled)
}
