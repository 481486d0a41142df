package exchange

import (
	"math"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// worstOf is the most that one call can come to, for a prompt of at most bound tokens: all of it in its dearest
// class, and the longest reply (GAP-49).
func worstOf(bound int64, c *routing.Candidate) routing.Worst {
	output := maxReply(c.Route, c.Allowance)
	return routing.Worst{Microcents: ledger.HoldFor(bound, output, c.Route.Price), Tokens: routing.Sum(bound, output)}
}

// maxReply is how many tokens a reply can have: the output allowance, or on a route that can bill past it the longest
// reply there is (BILL-11).
func maxReply(r *config.Route, allowance int64) int64 {
	if r.BillsPastAllowance {
		return max(allowance, r.MaxOutput)
	}
	return allowance
}

// worst is the most that one call can come to, by the bound of the input that is known (input.go).
func (x *exchange) worst(c *routing.Candidate) routing.Worst {
	return worstOf(c.PromptBound(x.bound(c.Route)), c)
}

// worstOf is the most that an attempt can come to.
func (x *exchange) worstOf(a *attempt) routing.Worst {
	c := routing.Candidate{Route: a.route, Extra: a.extra, Template: a.template}
	return routing.Worst{Microcents: a.worst,
		Tokens: routing.Sum(c.PromptBound(x.bound(a.route)), maxReply(a.route, a.allowance))}
}

// promptBound is how many tokens an attempt's prompt has at most, without what its upstream adds.
func (x *exchange) promptBound(a *attempt) int64 { return routing.Sum(x.bound(a.route), a.extra) }

// sumSpent is what the attempts so far are proven to have come to, and at most what those may that have not ended or
// that a later proof can still add to (GAP-110). Of the attempts of a race the account pays for one.
func (x *exchange) sumSpent() routing.Worst {
	var (
		bill         ledger.Bill
		open, either routing.Worst
	)
	for _, a := range x.attempts {
		if a.operator {
			continue
		}
		if a.racer != nil && !a.racer.done { // its goroutine changes what it has used
			either = either.Or(x.worstOf(a))
			continue
		}
		if u := a.proven(); !a.running && u != nil && bill.Add(false, *u, a.route.Price, a.worst) == nil {
			continue
		}
		if a.running || a.isUnproven() {
			open = open.And(x.worstOf(a))
		}
	}
	due := routing.Worst{Microcents: bill.Ceiling(x.surcharge, math.MaxInt64), Tokens: bill.Tokens}
	return due.And(open).And(either)
}
