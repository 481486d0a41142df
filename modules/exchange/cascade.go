package exchange

import (
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/validate"
)

func init() { does((*exchange).cascade) }

// cascade does one call after the other, until a reply is accepted; that of the last one is the reply.
func (x *exchange) cascade(s *routing.Cascade, live bool) (*attempt, *failure) {
	var last *failure
	for i, c := range s.Tries {
		final := i == len(s.Tries)-1
		a, f := x.once(c, live && final)
		switch {
		case f != nil && (f.ends() || x.delivery.shown):
			return nil, f
		case f != nil:
			last = f
		case a == nil: // at capacity
		case final:
			x.outcome(engine.StrategyLast)
			return a, nil
		default:
			accepted, f := x.accepts(s, a)
			if f != nil {
				return nil, f
			}
			if accepted {
				x.outcome(engine.StrategyAccepted)
				if live {
					x.reveal(a)
				}
				return a, nil
			}
		}
	}
	return nil, last
}

// accepts asks the validator of a cascade.
func (x *exchange) accepts(s *routing.Cascade, a *attempt) (bool, *failure) {
	why := a.whole()
	if why != nil {
		x.rejected(a, why.kind)
		return false, nil
	}
	if s.Asked != nil {
		accepted, f := x.asks(s.Asked, a)
		if f == nil && (accepted || a.unaccepted) { // it has said so
			x.teachVerdict(a.route, accepted, journal.Judged)
		}
		return accepted, f
	}
	if err := validate.Check(s.Validator, x.req.LLM, a.judged()); err != nil {
		a.unaccepted = true
		x.rejected(a, err)
		x.teachVerdict(a.route, false, journal.Validator)
		return false, nil
	}
	x.teachVerdict(a.route, true, journal.Validator)
	return true, nil
}

// rejected tells the operator that a reply was not accepted, without a word of it.
func (x *exchange) rejected(a *attempt, why any) {
	x.outcome(engine.StrategyRejected)
	x.engine.Logger().Info("a reply was not accepted", "request_id", x.call.ID, "attempt", a.id, "route", a.route.Name,
		"strategy", x.strategy, "reason", why)
}

// outcome counts what came of a strategy.
func (x *exchange) outcome(what string) { x.engine.Metrics().Strategy(x.strategy, what) }
