package exchange

import (
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// seat is one of several calls that are made at the same time.
type seat struct {
	call    *routing.Candidate
	attempt *attempt // nil where its route is at capacity
	failure *failure
	panic   any
}

// callRoutes makes calls at the same time, whose replies are kept back. It fails where the request itself cannot go
// on: what the account has is used up, its time is over, the client has left, or a route declined it (POL-02). A seat
// that fails in another way is left out by whoever reads them.
func (w *work) callRoutes(calls []*routing.Candidate) ([]seat, *failure) {
	seats := make([]seat, len(calls))
	for i, c := range calls {
		seats[i].call = c
		ok, f := w.openAttempt(c)
		if f != nil {
			w.releaseUnmade()
			return nil, f
		}
		if ok {
			seats[i].attempt = w.current
		}
	}
	if w.delivery.clientLeft() {
		w.releaseUnmade()
		return nil, &failure{kind: llm.ErrCanceled}
	}
	accepted, ended := make(chan struct{}, 1), make(chan struct{})
	running := 0
	for i := range seats {
		s := &seats[i]
		if s.attempt == nil {
			continue
		}
		s.attempt.accept = func() { signal(accepted) }
		running++
		go func() {
			defer func() {
				s.panic = recover()
				ended <- struct{}{}
			}()
			s.failure = w.transport.makeAttempt(w.ctx, s.attempt)
		}()
	}
	for running > 0 {
		select {
		case <-accepted:
			w.delivery.openStream()
		case <-ended:
			running--
		}
	}
	for i := range seats {
		s := &seats[i]
		if s.attempt == nil {
			continue
		}
		if s.panic != nil {
			panic(s.panic) // as the request's own goroutine would
		}
		if s.failure == nil {
			s.failure = s.attempt.finishKept()
		}
		if s.failure != nil {
			w.current = s.attempt
			w.noteFailed(s.attempt, s.failure)
		}
	}
	for i := range seats {
		if f := seats[i].failure; f != nil && f.endsRequest() {
			w.current = seats[i].attempt
			return nil, f
		}
	}
	if w.delivery.clientLeft() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	return seats, nil
}

// releaseUnmade gives back the permits of attempts that were begun and will not be made.
func (w *work) releaseUnmade() {
	for _, a := range w.attempts {
		if a.running {
			a.running = false
			a.permit.Release()
		}
	}
}

// answeredSeats are the seats that have a reply.
func answeredSeats(seats []seat) []*attempt {
	var list []*attempt
	for _, s := range seats {
		if s.attempt != nil && s.failure == nil {
			list = append(list, s.attempt)
		}
	}
	return list
}

// lastFailure is why none of the seats answered; nil where all their routes are at capacity.
func lastFailure(seats []seat) (f *failure) {
	for _, s := range seats {
		if s.failure != nil {
			f = s.failure
		}
	}
	return f
}
