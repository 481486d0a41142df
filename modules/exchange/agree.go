package exchange

import (
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/validate"
)

func init() { registerStep((*work).runAgree) }

// runAgree makes several calls at once. What more than half of them say is the reply, otherwise that of another route.
func (w *work) runAgree(s *routing.Agree, live bool) (*attempt, *failure) {
	seats, f := w.callRoutes(s.Seats)
	if f != nil {
		return nil, f
	}
	replies := answeredSeats(seats)
	a := majority(replies, len(s.Seats))
	w.feedback.teachAgreement(replies, a)
	if a != nil {
		return w.takeReply(a, engine.StrategyAgreed, live)
	}
	w.countOutcome(engine.StrategySplit)
	if !s.Sits() {
		return w.callRoute(s.Escalate, live)
	}
	for _, seat := range seats {
		if seat.call == s.Escalate && seat.attempt != nil && seat.failure == nil {
			return w.takeReply(seat.attempt, engine.StrategyEscalated, live)
		}
	}
	return nil, lastFailure(seats)
}

// takeReply takes a reply that was kept back.
func (w *work) takeReply(a *attempt, outcome string, live bool) (*attempt, *failure) {
	w.countOutcome(outcome)
	if live {
		w.reveal(a)
	}
	return a, nil
}

// majority is the first reply that says what more than half of so many seats say, nil for none.
func majority(replies []*attempt, seats int) *attempt {
	meant := make([]*validate.Meaning, len(replies))
	for i, a := range replies {
		meant[i] = validate.MeaningOf(a.forValidation())
	}
	for i, a := range replies {
		same := 0
		for j := range replies {
			if i == j || meant[i].Same(meant[j]) {
				same++
			}
		}
		if 2*same > seats {
			return a
		}
	}
	return nil
}
