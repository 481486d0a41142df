package exchange

import (
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/validate"
)

func init() { registerStep((*exchange).runCascade) }

// runCascade does one call after the other, until a reply is accepted; that of the last one is the reply.
func (x *exchange) runCascade(s *routing.Cascade, live bool) (*attempt, *failure) {
	var last *failure
	for i, c := range s.Tries {
		final := i == len(s.Tries)-1
		a, f := x.callRoute(c, live && final)
		switch {
		case f != nil && (f.endsRequest() || x.delivery.shown):
			return nil, f
		case f != nil:
			last = f
		case a == nil: // at capacity
		case final:
			x.countOutcome(engine.StrategyLast)
			return a, nil
		default:
			accepted, f := x.isAccepted(s, a)
			if f != nil {
				return nil, f
			}
			if accepted {
				x.countOutcome(engine.StrategyAccepted)
				if live {
					x.reveal(a)
				}
				return a, nil
			}
		}
	}
	return nil, last
}

// isAccepted asks the validator of a cascade.
func (x *exchange) isAccepted(s *routing.Cascade, a *attempt) (bool, *failure) {
	why := a.finishKept()
	if why != nil {
		x.noteRejected(a, why.kind)
		return false, nil
	}
	if s.Asked != nil {
		accepted, f := x.askRoute(s.Asked, a)
		if f == nil && (accepted || a.unaccepted) { // it has said so
			x.teachVerdict(a.route, accepted, journal.Judged)
		}
		return accepted, f
	}
	if err := validate.Check(s.Validator, x.req.LLM, a.forValidation()); err != nil {
		a.unaccepted = true
		x.noteRejected(a, err)
		x.teachVerdict(a.route, false, journal.Validator)
		return false, nil
	}
	x.teachVerdict(a.route, true, journal.Validator)
	return true, nil
}

// noteRejected tells the operator that a reply was not accepted, without a word of it.
func (x *exchange) noteRejected(a *attempt, why any) {
	x.countOutcome(engine.StrategyRejected)
	x.engine.Logger().Info("a reply was not accepted", "request_id", x.call.ID, "attempt", a.id, "route", a.route.Name,
		"strategy", x.strategy, "reason", why)
}

// countOutcome counts what came of a strategy.
func (x *exchange) countOutcome(what string) { x.engine.Metrics().Strategy(x.strategy, what) }
