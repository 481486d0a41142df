package exchange

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/plugins/llm"
)

// lesson is what an exchange tells of its routes, nil where there is nothing to learn for: there is one route.
type lesson struct {
	kinds outcome.Kinds
	turn  outcome.Turn
}

// lookBack finds what the request shows of the turn before it, and what kinds of work it is of.
func (x *exchange) lookBack(plan *routing.Itinerary) {
	if len(x.tariff.Routes) < 2 {
		return
	}
	var turn outcome.Turn
	if x.conversation != nil {
		turn = outcome.TurnOf(x.conversation.key, x.req.LLM)
	} else {
		key := x.engine.Conversations().Key(x.call.Principal.Account.ID, x.req.profile, x.req.LLM)
		turn = outcome.TurnOf(key, x.req.LLM)
	}
	before, verdict := x.engine.Outcomes().Look(turn, x.req.LLM)
	for i := range x.gen.Config.Routes {
		if r := &x.gen.Config.Routes[i]; r.Name == before.Route && r.Model == before.Model {
			x.noteOutcome(r, &before.Kinds, verdict)
		}
	}
	x.lesson = &lesson{outcome.KindsOf(plan.Kinds, &before, len(x.req.LLM.Tools) > 0), turn}
}

// concludeAttempts counts what came of the attempts.
func (x *exchange) concludeAttempts() {
	if x.lesson == nil {
		return
	}
	for _, a := range x.attempts {
		verdict := verdict(a)
		whole := verdict == outcome.Worked
		if whole && !a.callsFit(x.req.LLM.Tools) {
			verdict = outcome.Mismatch
		}
		x.noteOutcome(a.route, &x.lesson.kinds, verdict)
		switch {
		case verdict == outcome.InvalidCall:
			x.teach(a.route, 0, journal.Call, false)
		case whole && len(a.reply.fold.Calls()) > 0 && a.reply.finish != llm.FinishLength:
			x.teachVerdict(a.route, verdict == outcome.Worked, journal.Call)
		}
		if whole && a == x.current {
			x.engine.Outcomes().Remember(outcome.Request{ID: x.call.ID, Route: a.route.Name, Model: a.route.Model,
				Kinds: x.lesson.kinds, Turn: x.lesson.turn, Judged: verdict != outcome.Worked})
		}
	}
}

// callsFit reports whether the calls of a whole reply are as their tools ask for. One that was cut short is not
// judged.
func (a *attempt) callsFit(tools []llm.Tool) bool {
	return a.reply.finish == llm.FinishLength || !slices.ContainsFunc(a.reply.fold.Calls(),
		func(c *llm.ToolCall) bool { return !outcome.Fits(tools, c) })
}

func (x *exchange) noteOutcome(route *config.Route, kinds *outcome.Kinds, verdict outcome.Verdict) {
	if verdict == outcome.None {
		return
	}
	x.engine.Outcomes().Note(route, x.call.Principal.Account.ID, kinds, verdict)
	x.engine.Metrics().Outcome(route.Name, verdict.String())
}

// verdict is what an attempt tells of its route. What the request, the client, the service or the operator's access to
// the upstream was at fault for says nothing.
func verdict(a *attempt) outcome.Verdict {
	switch {
	case a.failure == noVisibleText && a.reply.finish != llm.FinishLength:
		return outcome.Empty
	case a.failure != "":
		return consequences[a.failure].lesson
	case a.outcome != ledger.Finished:
		return outcome.None
	case a.reply.finish == llm.FinishPolicy:
		return outcome.Refused
	case a.unaccepted:
		return outcome.Unaccepted
	}
	return outcome.Worked
}
