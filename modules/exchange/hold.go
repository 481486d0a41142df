package exchange

import (
	"math"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// worst is the most that calls upstream can come to, by the bound that is known (input.go). The zero value is no call.
type worst struct {
	microcents int64
	tokens     int64 // input and output, for the token budget
}

// worstOf is the most that one call can come to, for a prompt of at most bound tokens: all of it in its dearest
// class, and the longest reply (GAP-49).
func worstOf(bound int64, c routing.Candidate) worst {
	output := longest(c.Route, c.Allowance)
	return worst{microcents: ledger.HoldFor(bound, output, c.Route.Price), tokens: sum(bound, output)}
}

// longest is how many tokens a reply can have: the output allowance, or on a route that can bill past it the longest
// reply there is (BILL-11).
func longest(r *config.Route, allowance int64) int64 {
	if r.BillsPastAllowance {
		return max(allowance, r.MaxOutput)
	}
	return allowance
}

// or is the most that one of two calls can come to, of which one is made.
func (w worst) or(o worst) worst {
	return worst{max(w.microcents, o.microcents), max(w.tokens, o.tokens)}
}

// and is the most that calls can come to which are all made.
func (w worst) and(o worst) worst {
	return worst{sum(w.microcents, o.microcents), sum(w.tokens, o.tokens)}
}

// sum adds what is not negative. What no balance covers stays so.
func sum(a, b int64) int64 {
	return a + min(b, math.MaxInt64-a)
}

// worst is the most that the request can come to on any of its candidates, of which one is to answer.
func (x *exchange) worst() worst {
	var w worst
	for _, c := range x.candidates {
		w = w.or(worstOf(x.bound(c.Route), c))
	}
	return w
}

// spent is what the attempts so far are proven to have come to, and at most what those may that a later proof can still
// add to (GAP-110).
func (x *exchange) spent() worst {
	var (
		bill ledger.Bill
		open worst
	)
	for _, a := range x.attempts {
		u := a.proven()
		if u == nil || bill.Add(false, *u, a.route.Price) != nil {
			if a.open() {
				open = open.and(worst{a.worst, sum(x.bound(a.route), longest(a.route, a.allowance))})
			}
		}
	}
	microcents, err := bill.Microcents(0)
	if err != nil {
		microcents = math.MaxInt64
	}
	return worst{microcents, bill.Tokens}.and(open)
}
