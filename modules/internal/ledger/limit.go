package ledger

import "slices"

// Limit names what can be set for one account, over its plan (GAP-118). The name is the audit trail's, too.
type Limit string

const (
	LimitSpendCap           Limit = "spend_cap_microcents"        // a period; 0: none
	LimitTokenBudget        Limit = "token_budget"                // a period, input and output; 0: none
	LimitFairUse            Limit = "fair_use_microcents"         // a period; 0: no free allowance
	LimitConcurrentRequests Limit = "concurrent_requests"         // 0: no limit
	LimitKeyRequests        Limit = "requests_per_minute.key"     // of each key; 0: no limit
	LimitAccountRequests    Limit = "requests_per_minute.account" // 0: no limit
	LimitAddressRequests    Limit = "requests_per_minute.address" // of each address; 0: no limit
)

// AllLimits is every Limit, in the order in which they are shown.
var AllLimits = [...]Limit{
	LimitSpendCap, LimitTokenBudget, LimitFairUse, LimitConcurrentRequests, LimitKeyRequests, LimitAccountRequests,
	LimitAddressRequests,
}

// Limits are what was set for one account, in the order of AllLimits; nil: its plan decides.
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

// Over are the terms of an account with these limits on a plan of those.
func (l Limits) Over(plan Terms) Terms {
	plan.SpendCap = l.Or(LimitSpendCap, plan.SpendCap)
	plan.TokenBudget = l.Or(LimitTokenBudget, plan.TokenBudget)
	plan.FairUse = l.Or(LimitFairUse, plan.FairUse)
	return plan
}
