package exchange

import (
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
func (p *prompt) findStates(steps *routing.First) {
	if len(p.req.LLM.Tools) == 0 {
		return
	}
	var calls []engine.StateCall
	for c := range steps.Calls() {
		holder := p.gen.StateHolder(p.call.Principal.Account.ID, c.Route)
		if !p.engine.States().Has(holder) {
			continue
		}
		if !p.hashed {
			calls = p.hashClient()
		}
		if found, size := p.engine.States().Find(holder, calls); len(found) > 0 {
			if p.states == nil {
				p.states = make(map[string]routeStates)
			}
			p.states[c.Route.Name] = routeStates{found, size}
		}
	}
}

// hashClient makes the hash of what the client has said, once, and returns the calls. It reads the whole request.
func (p *prompt) hashClient() (calls []engine.StateCall) {
	calls, p.hash = p.engine.States().Calls(p.req.LLM)
	p.hashed = true
	return calls
}

// clientHash is the hash of what the client has said, behind which states are kept. A request without tools has none.
func (p *prompt) clientHash() uint64 {
	if !p.hashed && len(p.req.LLM.Tools) > 0 {
		p.hashClient()
	}
	return p.hash
}

// statesFor is what a route's upstream wants back.
func (p *prompt) statesFor(route *config.Route) map[string][]byte { return p.states[route.Name].byCall }

// keepState keeps what the upstream wants back with the result of a call. An account whose plan demands that nothing
// is kept has no states.
func (p *prompt) keepState(a *attempt, call llm.Event) {
	if kept := p.req.requires.Retention; kept != nil && *kept == 0 {
		return
	}
	if len(call.State) > 0 {
		holder := p.gen.StateHolder(p.call.Principal.Account.ID, a.route)
		p.engine.States().Keep(holder, engine.StateCall{ID: call.ID, Before: p.clientHash()}, call.State)
	}
}
