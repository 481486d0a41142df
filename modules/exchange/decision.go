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
func (f *feedback) traitsToKeep(routes int) routing.Keep {
	switch id, on := f.call.ID, f.gen.Config.DecisionLog.Mode == config.DecisionsOn; {
	case !on && !f.mayCollect():
		return routing.KeepNothing
	case on && routes == 1 && id[len(id)-1:] < sampled:
		return routing.KeepAll
	}
	return routing.KeepRead
}

// noteChoice begins what the decision log has of the request.
func (f *feedback) noteChoice(ask *routing.Input, plan *routing.Itinerary) {
	if f.gen.Config.DecisionLog.Mode != config.DecisionsOn {
		return
	}
	account, cfg := &f.call.Principal.Account, f.gen.Config
	r := &decisions.Record{
		ID: f.call.ID, Account: account.ID, Plan: account.Plan, Endpoint: f.call.Family.Name(), Profile: f.req.profile,
		Config: cfg.Hash[:min(len(cfg.Hash), decisions.ConfigDigits)], Begun: f.call.Start,
		InputTokens: ask.InputTokens, Allowance: ask.Allowance, Needs: ask.Needs, Graphics: ask.Graphics,
		Requires: ask.Requires, Traits: plan.Traits, Past: ask.Past, Stay: plan.Stay, Conversation: f.conversationKey(),
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
	f.decision = r
}

// noteFull notes that a route was full.
func (f *feedback) noteFull(route *config.Route) {
	if f.decision != nil {
		f.decision.Full = append(f.decision.Full, route.Name)
	}
}

// noteLeftOut notes the routes of calls that are not made any more, but for those that are called all the same.
func (f *feedback) noteLeftOut(calls []*routing.Candidate, steps *routing.First) {
	if f.decision == nil {
		return
	}
	for _, c := range calls {
		called := slices.Contains(f.decision.LeftOut, c.Route.Name)
		for kept := range steps.Calls() {
			called = called || kept.Route.Name == c.Route.Name
		}
		if !called {
			f.decision.LeftOut = append(f.decision.LeftOut, c.Route.Name)
		}
	}
}

// noteRefusal ends what the decision log has of a request that was not admitted.
func (f *feedback) noteRefusal(e *families.Error) {
	if r := f.decision; r != nil {
		r.Refused, r.Status = string(e.Code), e.Status
		f.noteEnd()
	}
}

// noteSettlement ends what the decision log has of a request that was settled.
func (f *feedback) noteSettlement(s *ledger.Settlement, charge ledger.Charge, all []*attempt) {
	r := f.decision
	if r == nil {
		return
	}
	r.Status, r.Reason, r.Free = s.Status, s.Reason, s.Free
	r.Charge, r.Pending = charge.Microcents, charge.Pending
	var cost ledger.Bill
	r.Attempts = make([]decisions.Attempt, len(all))
	for i, a := range all {
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
	f.noteEnd()
}

func (f *feedback) noteEnd() {
	f.decision.InputBound, f.decision.Ended = f.prompt.roughBound(), f.engine.Now()
	f.decision.Waited = f.call.Record.Waited
	if f.shadow != nil {
		f.shadow.decision = f.decision // it says what came of that, too
	} else {
		f.engine.Decisions().Add(f.decision)
	}
	f.decision = nil
}
