package exchange

import (
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/validate"
)

func init() { registerStep((*work).runCascade) }

// runCascade does one call after the other, until a reply is accepted; that of the last one is the reply.
func (w *work) runCascade(s *routing.Cascade, live bool) (*attempt, *failure) {
	var last *failure
	for i, c := range s.Tries {
		final := i == len(s.Tries)-1
		a, f := w.callRoute(c, live && final)
		switch {
		case f != nil && (f.endsRequest() || w.delivery.hasShown()):
			return nil, f
		case f != nil:
			last = f
		case a == nil: // at capacity
		case final:
			w.countOutcome(engine.StrategyLast)
			return a, nil
		default:
			accepted, f := w.isAccepted(s, a)
			if f != nil {
				return nil, f
			}
			if accepted {
				return w.takeReply(a, engine.StrategyAccepted, live)
			}
		}
	}
	return nil, last
}

// isAccepted asks the validator of a cascade.
func (w *work) isAccepted(s *routing.Cascade, a *attempt) (bool, *failure) {
	why := a.finishKept()
	if why != nil {
		w.noteRejected(a, why.kind)
		return false, nil
	}
	if s.Asked != nil {
		accepted, f := w.askRoute(s.Asked, a)
		if f == nil && (accepted || a.unaccepted) { // it has said so
			w.feedback.teachVerdict(a.route, accepted, journal.Judged)
		}
		return accepted, f
	}
	if err := validate.Check(s.Validator, w.req.LLM, a.forValidation()); err != nil {
		a.unaccepted = true
		w.noteRejected(a, err)
		w.feedback.teachVerdict(a.route, false, journal.Validator)
		return false, nil
	}
	w.feedback.teachVerdict(a.route, true, journal.Validator)
	return true, nil
}

// noteRejected tells the operator that a reply was not accepted, without a word of it.
func (w *work) noteRejected(a *attempt, why any) {
	w.countOutcome(engine.StrategyRejected)
	w.engine.Logger().Info("a reply was not accepted", "request_id", w.call.ID, "attempt", a.id, "route", a.route.Name,
		"strategy", w.call.Record.Strategy, "reason", why)
}

// countOutcome counts what came of a strategy.
func (w *work) countOutcome(what string) { w.engine.Metrics().Strategy(w.call.Record.Strategy, what) }
