package exchange

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/plugins/llm"
)

// outcomeSource is what an exchange tells of its routes, nil where there is nothing to learn for: there is one route.
type outcomeSource struct {
	kinds outcome.Kinds
	turn  outcome.Turn
}

// lookBack finds what the request shows of the turn before it, and what kinds of work it is of.
func (f *feedback) lookBack(plan *routing.Itinerary, routes int) {
	if f.conversation != nil {
		f.conversation.home, f.conversation.work = plan.Home, plan.Work
	}
	if routes < 2 {
		return
	}
	turn := outcome.TurnOf(f.conversationKey(), f.req.LLM)
	before, verdict := f.engine.Outcomes().Look(turn, f.req.LLM)
	for i := range f.gen.Config.Routes {
		if r := &f.gen.Config.Routes[i]; r.Name == before.Route && r.Model == before.Model {
			f.noteOutcome(r, &before.Kinds, verdict)
		}
	}
	f.lesson = &outcomeSource{outcome.KindsOf(plan.Kinds, &before, len(f.req.LLM.Tools) > 0), turn}
}

// concludeAttempts counts what came of the attempts.
func (f *feedback) concludeAttempts(all []*attempt, current *attempt) {
	if f.lesson == nil {
		return
	}
	for _, a := range all {
		verdict := verdict(a)
		whole := verdict == outcome.Worked
		if whole && !a.callsFit(f.req.LLM.Tools) {
			verdict = outcome.Mismatch
		}
		f.noteOutcome(a.route, &f.lesson.kinds, verdict)
		switch {
		case verdict == outcome.InvalidCall:
			f.teach(a.route, 0, journal.Call, false)
		case whole && len(a.reply.fold.Calls()) > 0 && a.reply.finish != llm.FinishLength:
			f.teachVerdict(a.route, verdict == outcome.Worked, journal.Call)
		}
		if whole && a == current {
			f.engine.Outcomes().Remember(outcome.Request{ID: f.call.ID, Route: a.route.Name, Model: a.route.Model,
				Kinds: f.lesson.kinds, Turn: f.lesson.turn, Judged: verdict != outcome.Worked})
		}
	}
}

// callsFit reports whether the calls of a whole reply are as their tools ask for. One cut short is not judged.
func (a *attempt) callsFit(tools []llm.Tool) bool {
	return a.reply.finish == llm.FinishLength || !slices.ContainsFunc(a.reply.fold.Calls(),
		func(c *llm.ToolCall) bool { return !outcome.Fits(tools, c) })
}

func (f *feedback) noteOutcome(route *config.Route, kinds *outcome.Kinds, verdict outcome.Verdict) {
	if verdict == outcome.None {
		return
	}
	f.engine.Outcomes().Note(route, f.call.Principal.Account.ID, kinds, verdict)
	f.engine.Metrics().Outcome(route.Name, verdict.String())
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

// feedback is what is kept of an exchange so that later ones are routed better: the decision log (decision.go), what
// predictors are trained by (training.go), calls for comparison (shadow.go), and here how routes did and where
// conversations are.
type feedback struct {
	*scope
	prompt       *prompt
	decision     *decisions.Record // nil where the decision log wants nothing, or has it
	lesson       *outcomeSource
	training     *training
	conversation *conversation
	shadow       *shadow // nil: nothing is compared
}

// copied is feedback for an exchange beside this one.
func (f *feedback) copied() (c feedback) {
	if f.training != nil {
		c.training = new(*f.training)
	}
	return c
}

// conversation is the one that a request is a turn of, nil where nothing is to be remembered: there is one route, or
// every turn is chosen afresh.
type conversation struct {
	key affinity.Key
	// loose is the key that it has as well once the assistant has said something, where isLoose.
	loose   affinity.Key
	isLoose bool

	home string // the route that is its own
	work routing.Work
}

// recallConversation finds what is remembered of the request's conversation.
func (f *feedback) recallConversation(ask *routing.Input) {
	if len(ask.Routes) < 2 || f.gen.Config.Affinity.Mode == config.AffinityOff {
		return
	}
	book, account := f.engine.Conversations(), f.call.Principal.Account.ID
	c := &conversation{}
	c.key, c.loose, c.isLoose = book.Keys(account, f.req.profile, f.req.LLM)
	if ask.Past = book.Past(f.ctx, c.key); ask.Past == nil && c.isLoose {
		ask.Past = book.Past(f.ctx, c.loose)
	}
	f.conversation = c
}

func (f *feedback) conversationKey() affinity.Key {
	if f.conversation != nil {
		return f.conversation.key
	}
	return f.engine.Conversations().Key(f.call.Principal.Account.ID, f.req.profile, f.req.LLM)
}

// rememberTurn notes which route has served a turn, and what its upstream can have in its cache now.
func (f *feedback) rememberTurn(a *attempt) {
	if f.conversation == nil {
		return
	}
	tokens := f.prompt.counted()
	if u := a.proven(); u != nil {
		tokens = u.Prompt() + outputOf(a)
	}
	book, c, ttl := f.engine.Conversations(), f.conversation, f.gen.Config.Affinity.TTL
	turn := affinity.Turn{Home: c.home, Served: a.route.Name, Tokens: tokens, Work: c.work}
	book.Note(f.ctx, c.key, turn, ttl)
	if c.isLoose {
		book.Note(f.ctx, c.loose, turn, min(ttl, affinity.LooseLifetime))
	}
}
