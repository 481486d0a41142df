package exchange

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// outrun is how the attempt of a race ends that another one was faster than.
const outrun failureKind = "outrun"

var errOutrun = errors.New("another attempt was faster")

// lateProof is how long a reply that is whole waits for what the attempt that it outran used: that is the operator's
// to know, and mostly there.
const lateProof = 100 * time.Millisecond

// race is one call, and beside it another one if it is late. The first of them that shows something becomes the reply,
// as it comes; the other one is cancelled. The account pays for one of them at most: the other one is the operator's.
//
// The exchange's goroutine decides everything. Each attempt has a goroutine of its own; one that has something to show
// asks for it, and has the delivery and what belongs to the reply from then on until it has ended.
type race struct {
	work     *work
	first    *racer
	second   *racer // nil while there is none
	winner   *racer // nil until something was shown, or a reply is whole
	over     context.Context
	finished context.CancelFunc // the winner has ended: nobody waits for the proof of the other one for long

	accepted chan struct{} // capacity 1
	shows    chan *racer
	ended    chan *racer
	next     ledger.Next // the second one, as the ledger is asked for it
	answers  chan error  // the ledger's; capacity 1
	running  atomic.Int32
}

// racer is an attempt of a race.
type racer struct {
	*attempt
	race     *race
	request  *llm.Request
	ctx      context.Context
	stop     context.CancelCauseFunc
	produced chan struct{} // capacity 1: something came, shown or not
	granted  chan bool
	denied   bool
	running  bool // for the exchange's goroutine, as are the following
	done     bool
	failure  *failure
	panic    any
}

// runHedged calls a route, and another one beside it if the first one shows nothing for a while.
func (w *work) runHedged(c, spare *routing.Candidate, h config.Hedge) (*attempt, *failure) {
	profile := w.gen.Config.Profile(w.req.profile)
	w.engine.Hedgeable(profile)
	after, known := w.gen.HedgeAfter(c.Route.Name, w.healthCall(c), h)
	if !known {
		return w.callRoute(c, true)
	}
	a, f := w.openAttempt(c)
	if a == nil {
		return nil, f
	}
	r := &race{work: w, accepted: make(chan struct{}, 1), shows: make(chan *racer), ended: make(chan *racer),
		answers: make(chan error, 1)}
	r.over, r.finished = context.WithCancel(context.WithoutCancel(w.ctx))
	defer r.finished()
	w.race = r
	r.first = r.addRacer(a)
	r.startCall(r.first)
	return r.decide(spare, after, profile)
}

// addRacer makes an attempt one of the race.
func (r *race) addRacer(a *attempt) *racer {
	p := &racer{attempt: a, race: r, produced: make(chan struct{}, 1), granted: make(chan bool)}
	p.ctx, p.stop = context.WithCancelCause(r.work.ctx)
	p.request = r.work.transport.requestFor(a)
	a.racer = p
	if a.accept = func() {}; r.first == nil { // a stream is opened by the first one, or by what is shown
		a.accept = func() { signal(r.accepted) }
	}
	return p
}

// startCall makes the call.
func (r *race) startCall(p *racer) {
	p.running = true
	r.running.Add(1)
	go func() {
		defer func() {
			p.panic = recover()
			p.stop(nil)
			r.running.Add(-1)
			r.ended <- p
		}()
		p.failure = r.work.transport.makeAttempt(p.ctx, p.attempt)
	}()
}

// decide decides the race, and returns when all attempts have ended.
func (r *race) decide(spare *routing.Candidate, after time.Duration, profile *config.Profile) (*attempt, *failure) {
	w := r.work
	timer := time.NewTimer(after)
	defer timer.Stop()
	late, left, broken := timer.C, w.request.Context().Done(), w.delivery.connectionBroken()
	asking := false // the ledger, for the second attempt
	for r.first.running || asking || r.second != nil && r.second.running {
		select {
		case <-r.accepted:
			if r.winner == nil {
				w.delivery.openStream()
			}
		case <-r.first.produced:
			late = nil
		case <-late:
			late = nil
			asking = r.winner == nil && r.first.running && !w.delivery.clientLeft() && r.beginSecond(spare, profile)
		case err := <-r.answers:
			asking = false
			r.startSecond(err)
		case p := <-r.shows:
			granted := r.winner == nil && !p.operator
			if granted {
				r.setWinner(p)
			}
			p.granted <- granted
		case p := <-r.ended:
			p.running, p.done = false, true
			if r.noteEnd(p); p == r.winner {
				defer time.AfterFunc(lateProof, r.finished).Stop()
			}
		case <-left:
			left = nil
			r.giveUpSecond()
		case <-broken:
			broken = nil
			r.giveUpSecond()
		}
	}
	return r.result()
}

// beginSecond begins the second attempt; the ledger is asked beside the first one.
func (r *race) beginSecond(spare *routing.Candidate, profile *config.Profile) (asking bool) {
	w := r.work
	count := func(outcome string) { w.engine.Metrics().Hedge(r.first.route.Name, outcome) }
	if !w.engine.MayHedge(profile) {
		count(engine.HedgeLimited)
		return false
	}
	permit, err := w.acquire(spare)
	if err != nil {
		count(engine.HedgeBusy)
		return false
	}
	before := w.current
	w.addAttempt(spare, permit)
	r.second = r.addRacer(w.current)
	w.current = before
	r.next = w.books.next(r.second.attempt, w.attempts)
	r.next.Beside = true
	go func() { r.answers <- w.engine.Ledger().Begin(w.ctx, r.next) }()
	return true
}

// startSecond makes the second call, if the ledger has it and it is still wanted.
func (r *race) startSecond(uncovered error) {
	w, count := r.work, r.work.engine.Metrics().Hedge
	if uncovered != nil {
		w.attempts = w.attempts[:len(w.attempts)-1]
		r.second.permit.Release()
		r.second.stop(nil)
		r.second, r.first.operator = nil, false
		if r.winner == nil {
			w.current = r.first.attempt
		}
		count(r.first.route.Name, engine.HedgeNotCovered)
		return
	}
	w.books.noteRaised(r.next.Microcents)
	count(r.first.route.Name, engine.HedgeStarted)
	if r.winner != nil || w.delivery.clientLeft() || !r.first.running && r.firstEndsRequest() {
		r.giveUp(r.second)
		r.second.permit.Release()
		r.second.attempt.running = false
		return
	}
	r.startCall(r.second)
}

// firstEndsRequest reports whether the first attempt ended the request.
func (r *race) firstEndsRequest() bool { return r.first.failure == nil || !r.first.failure.retriable() }

// setWinner makes an attempt the reply.
func (r *race) setWinner(p *racer) {
	r.winner, r.work.current = p, p.attempt
	if other := r.other(p); other != nil {
		r.giveUp(other)
		if p == r.second {
			r.work.engine.Metrics().Hedge(r.first.route.Name, engine.HedgeWon)
		}
	}
}

// other is the other attempt, nil for none.
func (r *race) other(p *racer) *racer {
	if p == r.first {
		return r.second
	}
	return r.first
}

// giveUp gives an attempt up, which is the operator's from then on.
func (r *race) giveUp(p *racer) {
	p.operator = true
	p.stop(errOutrun)
}

// giveUpSecond gives the second attempt up for a client that has left: what is read on is the first.
func (r *race) giveUpSecond() {
	if r.winner == nil && r.second != nil && r.second.running && r.first.running {
		r.giveUp(r.second)
	}
}

// noteEnd is called when an attempt has ended.
func (r *race) noteEnd(p *racer) {
	w, other := r.work, r.other(p)
	if p.panic != nil || p == r.winner {
		if other != nil {
			other.stop(errOutrun)
		}
		return
	}
	if r.winner != nil || p.operator {
		return
	}
	alone := other == nil || other.operator // it has failed, or was given up
	if p.failure == nil {                   // nothing of it was shown, and it is whole
		if p.reply.finish == llm.FinishPolicy {
			p.failure = &failure{kind: llm.ErrPolicy}
		} else {
			p.failure = p.finishKept()
		}
		if p == r.first || alone || p.failure == nil {
			p.failure = nil
			r.setWinner(p)
			return
		}
	}
	w.current = p.attempt
	w.noteFailed(p.attempt, p.failure)
	switch {
	case alone:
	case p == r.first && r.firstEndsRequest():
		r.giveUp(other)
	default: // the other one goes on
		p.operator, w.current = true, other.attempt
	}
}

// result is what came of the race.
func (r *race) result() (*attempt, *failure) {
	w := r.work
	for _, p := range [...]*racer{r.first, r.second} {
		if p != nil && p.panic != nil {
			panic(p.panic) // as the request's own goroutine would
		}
	}
	p := r.winner
	switch {
	case p != nil:
	case r.first.operator:
		p = r.second
	default:
		p = r.first
	}
	w.current = p.attempt
	switch {
	case r.winner == nil:
		return nil, p.failure
	case p.failure != nil:
		w.noteFailed(p.attempt, p.failure)
		return nil, p.failure
	case !p.live:
		p.live = true
		if w.delivery.addStart(); p.ended != nil {
			w.reveal(p.attempt)
		}
	}
	return p.attempt, nil
}

// showEvent passes a visible event on to the client, if the attempt becomes the reply: it asks for that once. It is
// called by the attempt's own goroutine.
func (p *racer) showEvent(ev llm.Event) {
	w := p.race.work
	if !p.live {
		if !p.denied {
			p.race.shows <- p
			p.denied = !<-p.granted
		}
		if p.denied {
			return
		}
		p.live, p.accept = true, w.delivery.addStart
		w.delivery.addStart()
		w.delivery.readBeside(p.reader.readAhead)
		for _, kept := range p.states {
			w.prompt.keepState(p.attempt, kept)
		}
		p.states = nil
	}
	w.transport.showEvent(p.attempt, ev)
}
