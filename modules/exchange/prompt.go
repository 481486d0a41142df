package exchange

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// prompt is how long the input is, as far as that is known, and what upstreams want back with it.
type prompt struct {
	*scope
	input  input
	states map[string]routeStates // by route
	hash   uint64                 // of what the client has said, see clientHash
	hashed bool                   // there is one
}

// guessedBytes is how many bytes a token is taken to have where routes are compared.
const guessedBytes = 4

// input is how many tokens the input has, counted no earlier than somebody needs it: in most requests, never.
type input struct {
	bound    int64 // at most
	exact    bool  // bound is as low as can be proven
	estimate int64 // as clients see it; 0: not counted, for no prompt is empty
}

// measure finds out as much as routing needs.
func (p *prompt) measure(ask *routing.Input) {
	most := p.req.roughBound()
	if routing.Decided(*ask, most) {
		p.input.bound, ask.InputTokens = most, most/guessedBytes
		return
	}
	p.input.bound = most
	p.tightenBound()
	ask.InputTokens = p.estimate()
}

// estimate is how many tokens the input has as clients see it.
func (p *prompt) estimate() int64 {
	if p.input.estimate == 0 {
		p.input.estimate = p.req.estimate()
	}
	return p.input.estimate
}

// tightenBound makes the bound exact; false when it was.
func (p *prompt) tightenBound() bool {
	if p.input.exact {
		return false
	}
	p.input.exact, p.input.bound = true, p.req.bound()
	return true
}

// headroom is how many times a request's worst case must be covered for it to be held: by the roughest bound so many
// times that nobody is refused, and hardly anybody kept waiting, for what the exact one would save.
func (p *prompt) headroom() int64 {
	if p.input.exact {
		return 0
	}
	return 100
}

// forget lets go of the request, and counts before what a limit of the service may ask for yet (GAP-113).
func (p *prompt) forget() {
	p.estimate()
	p.input.exact = true
	p.clientHash()
	p.req.LLM, p.req.described = &llm.Request{MaxTokens: p.req.LLM.MaxTokens}, nil
}

// copied is the prompt for an exchange beside this one, which outlives it.
func (p *prompt) copied() prompt {
	return prompt{input: p.input, states: p.states, hash: p.clientHash(), hashed: true}
}

// worst is the most that one call can come to, by the bound of the input that is known.
func (p *prompt) worst(c *routing.Candidate) routing.Worst {
	return worstOf(c.PromptBound(p.bound(c.Route)), c)
}

// worstOf is the most that an attempt can come to.
func (p *prompt) worstOf(a *attempt) routing.Worst {
	return routing.Worst{Microcents: a.worst, Tokens: p.worst(a.candidate()).Tokens}
}

// maxReply is how many tokens a reply can have: the output allowance, or on a route that can bill past it the longest
// reply there is (BILL-11).
func maxReply(r *config.Route, allowance int64) int64 {
	if r.BillsPastAllowance {
		return max(allowance, r.MaxOutput)
	}
	return allowance
}

// worstOf is the most that one call can come to, for a prompt of at most bound tokens: all of it in its dearest
// class, and the longest reply (GAP-49).
func worstOf(bound int64, c *routing.Candidate) routing.Worst {
	output := maxReply(c.Route, c.Allowance)
	return routing.Worst{Microcents: ledger.HoldFor(bound, output, c.Route.Price), Tokens: routing.Sum(bound, output)}
}

// beyondBound is how many tokens more an attempt's prompt is reported to have than it can have, 0 for none.
func (p *prompt) beyondBound(a *attempt) int64 {
	u := a.proven()
	if u == nil {
		return 0
	}
	return max(0, u.Prompt()-routing.Sum(p.bound(a.route), a.extra))
}

// learnTemplates notes what the upstreams counted beyond the most that their prompts can have: their chat templates
// add that. The charge of the request has been computed, by the bounds that are known; a closer one is not looked for
// here.
func (p *prompt) learnTemplates(attempts []*attempt) {
	for _, a := range attempts {
		if a.route.TemplateTokens != nil {
			continue
		}
		if u := a.proven(); u != nil && !u.Estimated && u.Doubt == "" {
			p.engine.Templates().Note(a.route, p.beyondBound(a))
		}
	}
}

// bound is how many tokens the input of a route has at most: the prompt, and what its upstream gets back. A token of
// that has a byte at least.
func (p *prompt) bound(route *config.Route) int64 {
	return routing.Sum(p.input.bound, p.states[route.Name].bytes)
}

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

// What is known: the rough bound, the estimate (0: nobody has asked for it), and what a route's upstream wants back.
func (p *prompt) roughBound() int64                               { return p.input.bound }
func (p *prompt) counted() int64                                  { return p.input.estimate }
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
