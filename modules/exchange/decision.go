package exchange

import (
	"errors"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
)

// sampled is the last digit of one request id in eight.
const sampled = "2"

// traitsToKeep says what routing is to keep for the decision log. Where there is one route, the predictor is asked for
// the log's sake alone, and so for one request in eight.
func (x *exchange) traitsToKeep() routing.Keep {
	switch id := x.call.ID; {
	case x.gen.Config.DecisionLog.Mode != config.DecisionsOn && !x.mayCollect():
		return routing.KeepNothing
	case x.gen.Config.DecisionLog.Mode != config.DecisionsOn:
		return routing.KeepRead
	case len(x.tariff.Routes) == 1 && id[len(id)-1:] < sampled:
		return routing.KeepAll
	}
	return routing.KeepRead
}

// noteChoice begins what the decision log has of the request.
func (x *exchange) noteChoice(ask *routing.Input, plan *routing.Itinerary) {
	if x.gen.Config.DecisionLog.Mode != config.DecisionsOn {
		return
	}
	account, cfg := &x.call.Principal.Account, x.gen.Config
	r := &decisions.Record{
		ID: x.call.ID, Account: account.ID, Plan: account.Plan, Endpoint: x.call.Family.Name(), Profile: x.req.profile,
		Config: cfg.Hash[:min(len(cfg.Hash), decisions.ConfigDigits)], Begun: x.call.Start,
		InputTokens: ask.InputTokens, Allowance: ask.Allowance, Needs: ask.Needs, Graphics: ask.Graphics,
		Requires: ask.Requires, Traits: plan.Traits, Past: ask.Past, Stay: plan.Stay,
	}
	if len(plan.Candidates) > 0 {
		r.Choice = plan.Candidates[0].Route.Name
	}
	for _, rejected := range plan.Rejected {
		if busy := errors.Is(rejected.Why, routing.ErrBusy); busy || errors.Is(rejected.Why, routing.ErrNotReady) ||
			errors.Is(rejected.Why, routing.ErrUnfit) {
			r.Stood = append(r.Stood, decisions.Stood{Route: rejected.Route.Name, Why: rejected.Why.Error(), Busy: busy})
		}
	}
	for _, c := range plan.Candidates {
		if c.Behind != nil {
			r.Stood = append(r.Stood, decisions.Stood{Route: c.Route.Name, Why: c.Behind.Error(),
				Busy: errors.Is(c.Behind, routing.ErrBusy), Behind: true})
		}
	}
	if x.conversation != nil {
		r.Conversation = x.conversation.key
	} else {
		r.Conversation = x.engine.Conversations().Key(account.ID, x.req.profile, x.req.LLM)
	}
	x.decision = r
}

// noteFull notes that a route was full.
func (x *exchange) noteFull(route *config.Route) {
	if x.decision != nil {
		x.decision.Full = append(x.decision.Full, route.Name)
	}
}

// noteLeftOut notes the routes of calls that are not made any more, but for those that are called all the same.
func (x *exchange) noteLeftOut(calls []*routing.Candidate) {
	if x.decision == nil {
		return
	}
	for _, c := range calls {
		called := slices.Contains(x.decision.LeftOut, c.Route.Name)
		for kept := range x.plan.Calls() {
			called = called || kept.Route.Name == c.Route.Name
		}
		if !called {
			x.decision.LeftOut = append(x.decision.LeftOut, c.Route.Name)
		}
	}
}

// noteRefusal ends what the decision log has of a request that was not admitted.
func (x *exchange) noteRefusal(e *families.Error) {
	if r := x.decision; r != nil {
		r.Refused, r.Status = string(e.Code), e.Status
		x.noteEnd()
	}
}

// noteSettlement ends what the decision log has of a request that was settled.
func (x *exchange) noteSettlement(s *ledger.Settlement, charge ledger.Charge) {
	r := x.decision
	if r == nil {
		return
	}
	r.Status, r.Reason, r.Free = s.Status, s.Reason, s.Free
	r.Charge, r.Pending = charge.Microcents, charge.Pending
	var cost ledger.Bill
	r.Attempts = make([]decisions.Attempt, len(x.attempts))
	for i, a := range x.attempts {
		u := a.proven()
		outcome := a.outcome
		if i < len(s.Results) {
			outcome = s.Results[i].Outcome
		}
		if a.operator {
			outcome = decisions.Outrun
		}
		r.Attempts[i] = decisions.Attempt{Route: a.route.Name, Outcome: string(outcome), Usage: decisions.UsageOf(u)}
		if u != nil {
			_ = cost.Add(false, *u, a.route.Cost, -1) // what cannot be priced costs nothing that is known
		}
	}
	r.Cost, _ = cost.Microcents(0)
	x.noteEnd()
}

func (x *exchange) noteEnd() {
	x.decision.InputBound, x.decision.Ended = x.input.bound, x.engine.Now()
	x.decision.Waited = x.call.Record.Waited
	if x.shadow != nil {
		x.shadow.decision = x.decision // it says what came of that, too
	} else {
		x.engine.Decisions().Add(x.decision)
	}
	x.decision = nil
}
