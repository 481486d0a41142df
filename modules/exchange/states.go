package exchange

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// returned is what an upstream gave with calls of the conversation, for their results (GAP-117).
type returned struct {
	byCall map[string][]byte
	bytes  int64
}

// findStates finds out what the upstreams of the candidates want back. A request without tools has no calls.
func (x *exchange) findStates() {
	if len(x.req.LLM.Tools) == 0 {
		return
	}
	var calls []engine.StateCall
	for c := range x.plan.Calls() {
		holder := x.gen.StateHolder(x.call.Principal.Account.ID, c.Route)
		if !x.engine.States().Has(holder) {
			continue
		}
		if !x.heard {
			calls = x.hear()
		}
		if found, size := x.engine.States().Find(holder, calls); len(found) > 0 {
			if x.returned == nil {
				x.returned = make(map[string]returned)
			}
			x.returned[c.Route.Name] = returned{found, size}
		}
	}
}

// hear makes the hash of what the client has said, once, and returns the calls. It reads the whole request.
func (x *exchange) hear() (calls []engine.StateCall) {
	calls, x.said = x.engine.States().Calls(x.req.LLM)
	x.heard = true
	return calls
}

// behind is the hash of what the client has said, behind which states are kept. A request without tools has none.
func (x *exchange) behind() uint64 {
	if !x.heard && len(x.req.LLM.Tools) > 0 {
		x.hear()
	}
	return x.said
}

// upstream is the request as an attempt's route gets it, with what its upstream wants back.
func (x *exchange) upstream(a *attempt) *llm.Request {
	if a.racer != nil {
		sent := a.racer.sent
		a.racer.sent = nil
		return sent
	}
	up := a.upstream(x.req)
	up.States = x.returned[a.route.Name].byCall
	if a.shows != nil {
		up.Messages = append(slices.Clip(up.Messages), *a.shows)
	}
	if a.question {
		up.Stop, up.Format = nil, nil
		if len(up.Tools) > 0 { // they stay: some upstreams refuse calls in a conversation without any
			up.ToolChoice = llm.ToolChoice{Mode: llm.ToolNone}
		}
	}
	return up
}

// keepState keeps what the upstream wants back with the result of a call. An account whose plan demands that nothing is
// kept has no states.
func (x *exchange) keepState(a *attempt, call llm.Event) {
	if kept := x.req.requires.Retention; kept != nil && *kept == 0 {
		return
	}
	if len(call.State) > 0 {
		holder := x.gen.StateHolder(x.call.Principal.Account.ID, a.route)
		x.engine.States().Keep(holder, engine.StateCall{ID: call.ID, Before: x.behind()}, call.State)
	}
}

// bound is how many tokens the input of a route has at most: the prompt, and what its upstream gets back. A token of
// that has a byte at least.
func (x *exchange) bound(route *config.Route) int64 {
	return routing.Sum(x.input.bound, x.returned[route.Name].bytes)
}
