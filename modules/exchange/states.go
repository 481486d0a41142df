package exchange

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// routeStates is what an upstream gave with calls of the conversation, for their results (GAP-117).
type routeStates struct {
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
		if !x.hashed {
			calls = x.hashClient()
		}
		if found, size := x.engine.States().Find(holder, calls); len(found) > 0 {
			if x.states == nil {
				x.states = make(map[string]routeStates)
			}
			x.states[c.Route.Name] = routeStates{found, size}
		}
	}
}

// hashClient makes the hash of what the client has said, once, and returns the calls. It reads the whole request.
func (x *exchange) hashClient() (calls []engine.StateCall) {
	calls, x.hash = x.engine.States().Calls(x.req.LLM)
	x.hashed = true
	return calls
}

// clientHash is the hash of what the client has said, behind which states are kept. A request without tools has none.
func (x *exchange) clientHash() uint64 {
	if !x.hashed && len(x.req.LLM.Tools) > 0 {
		x.hashClient()
	}
	return x.hash
}

// upstreamRequest is the request as an attempt's route gets it, with what its upstream wants back.
func (x *exchange) upstreamRequest(a *attempt) *llm.Request {
	if a.racer != nil {
		sent := a.racer.request
		a.racer.request = nil
		return sent
	}
	up := a.upstreamRequest(x.req)
	up.States = x.states[a.route.Name].byCall
	if a.extraMessage != nil {
		up.Messages = append(slices.Clip(up.Messages), *a.extraMessage)
	}
	if a.isQuestion {
		up.Stop, up.Format = nil, nil
		if len(up.Tools) > 0 { // they stay: some upstreams refuse calls in a conversation without any
			up.ToolChoice = llm.ToolChoice{Mode: llm.ToolNone}
		}
	}
	return up
}

// keepState keeps what the upstream wants back with the result of a call. An account whose plan demands that nothing
// is kept has no states.
func (x *exchange) keepState(a *attempt, call llm.Event) {
	if kept := x.req.requires.Retention; kept != nil && *kept == 0 {
		return
	}
	if len(call.State) > 0 {
		holder := x.gen.StateHolder(x.call.Principal.Account.ID, a.route)
		x.engine.States().Keep(holder, engine.StateCall{ID: call.ID, Before: x.clientHash()}, call.State)
	}
}

// bound is how many tokens the input of a route has at most: the prompt, and what its upstream gets back. A token of
// that has a byte at least.
func (x *exchange) bound(route *config.Route) int64 {
	return routing.Sum(x.input.bound, x.states[route.Name].bytes)
}
