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
	x        *exchange
	first    *racer
	second   *racer // nil while there is none
	winner   *racer // nil until something was shown, or a reply is whole
	over     context.Context
	finished context.CancelFunc // the winner has ended: nobody waits for the proof of the other one for long

	accepted chan struct{} // capacity 1
	shows    chan *racer
	ended    chan *racer
	begun    chan beginning // capacity 1
	running  atomic.Int32
}

// racer is an attempt of a race.
type racer struct {
	*attempt
	race     *race
	sent     *llm.Request
	ctx      context.Context
	stop     context.CancelCauseFunc
	produced chan struct{} // capacity 1: something came, shown or not
	granted  chan bool
	denied   bool
	running  bool // for the exchange's goroutine, as are the following
	done     bool
	lost     bool // it was given up
	failure  *failure
	panic    any
}

// beginning is what the ledger says of the second attempt.
type beginning struct {
	total routing.Worst
	err   error
}

// hedged calls a route, and another one beside it if the first one shows nothing for a while.
func (x *exchange) hedged(c, spare *routing.Candidate, h config.Hedge) (*attempt, *failure) {
	profile := x.gen.Config.Profile(x.req.profile)
	x.engine.Hedgeable(profile)
	after, known := x.gen.HedgeAfter(c.Route.Name, x.healthCall(c), h)
	if !known {
		return x.once(c, true)
	}
	if ok, f := x.open(c); !ok {
		return nil, f
	}
	if x.left() {
		return nil, &failure{kind: llm.ErrCanceled}
	}
	r := &race{x: x, accepted: make(chan struct{}, 1), shows: make(chan *racer), ended: make(chan *racer),
		begun: make(chan beginning, 1)}
	r.over, r.finished = context.WithCancel(context.WithoutCancel(x.ctx))
	defer r.finished()
	x.race = r
	r.first = r.enter(x.current)
	r.start(r.first)
	return r.run(spare, after, profile)
}

// enter makes an attempt one of the race.
func (r *race) enter(a *attempt) *racer {
	p := &racer{attempt: a, race: r, produced: make(chan struct{}, 1), granted: make(chan bool)}
	p.ctx, p.stop = context.WithCancelCause(r.x.ctx)
	p.sent = r.x.upstream(a)
	a.racer = p
	if a.accept = func() {}; r.first == nil { // a stream is opened by the first one, or by what is shown
		a.accept = func() { signal(r.accepted) }
	}
	return p
}

// start makes the call.
func (r *race) start(p *racer) {
	p.running = true
	r.running.Add(1)
	go func() {
		defer func() {
			p.panic = recover()
			p.stop(nil)
			r.running.Add(-1)
			r.ended <- p
		}()
		p.failure = r.x.try(p.ctx, p.attempt)
	}()
}

// run decides the race, and returns when all attempts have ended.
func (r *race) run(spare *routing.Candidate, after time.Duration, profile *config.Profile) (*attempt, *failure) {
	x := r.x
	timer := time.NewTimer(after)
	defer timer.Stop()
	late, left, broken := timer.C, x.request.Context().Done(), x.delivery.broken
	opening := false // the ledger is asked
	var limit <-chan time.Time
	for r.first.running || opening || r.second != nil && r.second.running {
		select {
		case <-r.accepted:
			if r.winner == nil {
				x.delivery.admit()
			}
		case <-r.first.produced:
			late = nil
		case <-late:
			late = nil
			opening = r.winner == nil && r.first.running && !x.left() && r.hedge(spare, profile)
		case b := <-r.begun:
			opening = false
			r.opened(b)
		case p := <-r.shows:
			granted := r.winner == nil && !p.lost
			if granted {
				r.wins(p)
			}
			p.granted <- granted
		case p := <-r.ended:
			p.running, p.done = false, true
			if r.end(p); p == r.winner {
				timer := time.NewTimer(lateProof)
				defer timer.Stop()
				limit = timer.C
			}
		case <-limit:
			r.finished()
		case <-left:
			left = nil
			r.leave()
		case <-broken:
			broken = nil
			r.leave()
		}
	}
	return r.result()
}

// hedge begins the second attempt; the ledger is asked beside the first one.
func (r *race) hedge(spare *routing.Candidate, profile *config.Profile) (opening bool) {
	x := r.x
	count := func(outcome string) { x.engine.Metrics().Hedge(r.first.route.Name, outcome) }
	if !x.engine.MayHedge(profile) {
		count(engine.HedgeLimited)
		return false
	}
	permit, err := x.acquire(spare)
	if err != nil {
		count(engine.HedgeBusy)
		return false
	}
	before := x.current
	x.begin(spare, permit)
	r.second = r.enter(x.current)
	x.current = before
	total := x.spent()
	next := ledger.Next{Request: x.call.ID, Attempt: r.second.ledger(x.tariff), Microcents: total.Microcents,
		Tokens: total.Tokens, Beside: true}
	go func() { r.begun <- beginning{total, x.engine.Ledger().Begin(x.ctx, next)} }()
	return true
}

// opened makes the second call, if the ledger has it and it is still wanted.
func (r *race) opened(b beginning) {
	x, count := r.x, r.x.engine.Metrics().Hedge
	if b.err != nil {
		x.attempts = x.attempts[:len(x.attempts)-1]
		r.second.permit.Release()
		r.second.stop(nil)
		r.second, r.first.operator = nil, false
		if r.winner == nil {
			x.current = r.first.attempt
		}
		count(r.first.route.Name, engine.HedgeNotCovered)
		return
	}
	x.raise(b.total)
	count(r.first.route.Name, engine.HedgeStarted)
	if r.winner != nil || x.left() || !r.first.running && r.ends() {
		r.lose(r.second)
		r.second.permit.Release()
		r.second.attempt.running = false
		return
	}
	r.start(r.second)
}

// ends reports whether the first attempt ended the request.
func (r *race) ends() bool { return r.first.failure == nil || !r.first.failure.retriable() }

// wins makes an attempt the reply.
func (r *race) wins(p *racer) {
	r.winner, r.x.current = p, p.attempt
	if other := r.other(p); other != nil {
		r.lose(other)
		if p == r.second {
			r.x.engine.Metrics().Hedge(r.first.route.Name, engine.HedgeWon)
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

// lose gives an attempt up, which is the operator's from then on.
func (r *race) lose(p *racer) {
	p.operator, p.lost = true, true
	p.stop(errOutrun)
}

// leave gives up what was begun beside the first attempt, for a client that has left: what is read on is that one.
func (r *race) leave() {
	if r.winner == nil && r.second != nil && r.second.running && r.first.running {
		r.lose(r.second)
	}
}

// end is called when an attempt has ended.
func (r *race) end(p *racer) {
	x, other := r.x, r.other(p)
	if p.panic != nil || p == r.winner {
		if other != nil {
			other.stop(errOutrun)
		}
		return
	}
	if r.winner != nil || p.lost {
		return
	}
	alone := other == nil || other.operator // it has failed, or was given up
	if p.failure == nil {                   // nothing of it was shown, and it is whole
		if p.reply.finish == llm.FinishPolicy {
			p.failure = &failure{kind: llm.ErrPolicy}
		} else {
			p.failure = p.whole()
		}
		if p == r.first || alone || p.failure == nil {
			p.failure = nil
			r.wins(p)
			return
		}
	}
	x.current = p.attempt
	x.missed(p.attempt, p.failure)
	switch {
	case alone:
	case p == r.first && r.ends():
		r.lose(other)
	default: // the other one goes on
		p.operator, x.current = true, other.attempt
	}
}

// result is what came of the race.
func (r *race) result() (*attempt, *failure) {
	x := r.x
	for _, p := range [...]*racer{r.first, r.second} {
		if p != nil && p.panic != nil {
			panic(p.panic) // as the request's own goroutine would
		}
	}
	p := r.winner
	if p == nil {
		p = r.first
		if r.first.operator {
			p = r.second
		}
		x.current = p.attempt
		return nil, p.failure
	}
	x.current = p.attempt
	if p.failure != nil {
		x.missed(p.attempt, p.failure)
		return nil, p.failure
	}
	if !p.live {
		p.live = true
		if x.delivery.start(); p.ended != nil {
			x.reveal(p.attempt)
		}
	}
	return p.attempt, nil
}

// show passes a visible event on to the client, when the attempt is the one that does so. It is called by the attempt's
// own goroutine.
func (p *racer) show(ev llm.Event) {
	x := p.race.x
	if !p.live {
		if p.denied || !p.asks() {
			p.denied = true
			return
		}
		p.live, p.accept = true, x.delivery.start
		x.delivery.start()
		x.delivery.readAhead = p.reader.ahead
		for _, kept := range p.states {
			x.keepState(p.attempt, kept)
		}
		p.states = nil
	}
	x.show(ev)
}

// unread ends that the upstream is read beside writes.
func (p *racer) unread() {
	if p.live {
		p.race.x.delivery.readAhead = nil
	}
}

// asks asks whether the attempt becomes the reply.
func (p *racer) asks() bool {
	p.race.shows <- p
	return <-p.granted
}
