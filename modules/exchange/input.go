package exchange

import (
	"github.com/fareway/fareway/modules/internal/routing"
)

// headroom is how many times a request's worst case must be covered for it to be held by the roughest bound: then
// nobody is refused, and hardly anybody kept waiting, for what the exact one would save.
const headroom = 100

// guessedBytes is how many bytes a token is taken to have where routes are compared.
const guessedBytes = 4

// input is how many tokens the input has, counted no earlier than somebody needs it: in most requests, never.
type input struct {
	bound    int64 // at most
	exact    bool  // bound is as low as can be proven
	estimate int64 // as clients see it; 0: not counted, for no prompt is empty
}

// measureInput finds out as much as routing needs.
func (x *exchange) measureInput(ask *routing.Input) {
	most := x.req.roughBound()
	if routing.Decided(*ask, most) {
		x.input.bound, ask.InputTokens = most, most/guessedBytes
		return
	}
	x.input.bound = most
	x.tightenBound()
	ask.InputTokens = x.estimate()
}

// estimate is how many tokens the input has as clients see it.
func (x *exchange) estimate() int64 {
	if x.input.estimate == 0 {
		x.input.estimate = x.req.estimate()
	}
	return x.input.estimate
}

// tightenBound makes the bound exact, and the current attempt's share of the hold; false when it was.
func (x *exchange) tightenBound() bool {
	if x.input.exact {
		return false
	}
	x.input.exact, x.input.bound = true, x.req.bound()
	if a := x.current; a != nil {
		a.worst = x.worst(&routing.Candidate{Route: a.route, Allowance: a.allowance, Extra: a.extra,
			Template: a.template}).Microcents
	}
	return true
}
