package ledger

import (
	"slices"

	"github.com/fareway/fareway/config"
)

// Limit names what can be set for one account, over its plan (GAP-118): it is config.Limit's Trail.
type Limit string

// The limits that the ledger keeps itself, by its Terms. The others are kept by whoever admits requests.
const (
	LimitSpendCap    Limit = "spend_cap_microcents"
	LimitTokenBudget Limit = "token_budget"
	LimitFairUse     Limit = "fair_use_microcents"
	// LimitOwnSpendCap is the cap that an account's owner has set, of a period, in microcents. It bounds beside what the
	// operator and the plan say, and so it only ever lowers: see Limits.Over.
	LimitOwnSpendCap Limit = "own_spend_cap_microcents"
)

// AllLimits is every Limit, in the order of config.AccountLimits, and the owner's behind them.
var AllLimits = func() (all [len(config.AccountLimits) + 1]Limit) {
	for i := range config.AccountLimits {
		all[i] = Limit(config.AccountLimits[i].Trail())
	}
	all[len(config.AccountLimits)] = LimitOwnSpendCap
	return all
}()

// Limits are what was set for one account, in the order of AllLimits; nil: its plan decides, and of LimitOwnSpendCap
// there is none.
type Limits [len(AllLimits)]*int64

// index is the place of a limit; false when there is none of that name.
func (l Limit) index() (int, bool) {
	i := slices.Index(AllLimits[:], l)
	return i, i >= 0
}

// Of is what was set, nil for nothing and for a name that is no limit's.
func (l Limits) Of(name Limit) *int64 {
	if i, ok := name.index(); ok {
		return l[i]
	}
	return nil
}

// Or is what was set, and what the plan says where nothing was.
func (l Limits) Or(name Limit, plan int64) int64 {
	if own := l.Of(name); own != nil {
		return *own
	}
	return plan
}

// With are the limits with one of them changed; false when there is none of that name.
func (l Limits) With(name Limit, value *int64) (Limits, bool) {
	i, ok := name.index()
	if ok {
		l[i] = value
	}
	return l, ok
}

// Terms are what a plan gives its accounts and allows them, now. The zero Terms give nothing and limit nothing.
type Terms struct {
	MonthlyCredits int64 // credits added at the beginning of each period
	Periods        bool  // its accounts have periods also without credits
	SpendCap       int64 // microcents a period; 0: none
	TokenBudget    int64 // tokens a period, input and output; 0: none
	FairUse        int64 // microcents a period that requests which end at a limit of the service may cost free
}

// HasPeriods reports whether accounts on these terms have periods.
func (t Terms) HasPeriods() bool { return t.Periods || t.MonthlyCredits > 0 }

// TermsOf are the terms of a plan.
func TermsOf(p *config.Plan) Terms {
	return Terms{
		MonthlyCredits: p.MonthlyCredits,
		Periods:        p.Periods,
		SpendCap:       p.SpendCapCredits * MicrocentsPerCredit,
		TokenBudget:    p.TokenBudget,
		FairUse:        p.FairUseMicrocents,
	}
}

// Over are the terms of an account with these limits on a plan of those.
func (l Limits) Over(plan Terms) Terms {
	plan.SpendCap = l.LowerSpendCap(l.Or(LimitSpendCap, plan.SpendCap))
	plan.TokenBudget = l.Or(LimitTokenBudget, plan.TokenBudget)
	plan.FairUse = l.Or(LimitFairUse, plan.FairUse)
	return plan
}

// LowerSpendCap is a spend cap of the operator's, 0 for none, or the owner's own where that is lower.
func (l Limits) LowerSpendCap(most int64) int64 {
	if own := l.Of(LimitOwnSpendCap); own != nil && (most == 0 || *own < most) {
		return *own
	}
	return most
}
