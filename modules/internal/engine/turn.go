package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/plugins/llm"
)

// Requests wait for a route that no other one stands in for and that says when it is back (GAP-139).
const (
	longestReturn = 5 * time.Second // a route that is back later is not waited for
	// MaxWait is how long a request waits at most: until the route is back, and as long again for its turn.
	MaxWait        = 2 * longestReturn
	maxWaiting     = 64 // for one route
	maxWaitingEach = 8  // of one account, for all routes
)

// turns are the requests that wait, by route. They outlive configurations.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
	each   map[string]int // how many wait, by account
}

// queue is the requests that wait for one route.
type queue struct {
	waiting  int
	accounts []string           // that have some, in turn
	of       map[string][]*Turn // by account, in the order in which they came
	starting *Turn              // has been called, and its upstream has not answered yet
}

// Turn is a request's place among those that wait for a route. They start one after another: one that has started is
// the probe of those behind it, until it is accepted or has ended.
type Turn struct {
	generation *Generation
	route      *config.Route
	account    string
	ready      chan struct{} // closed: it starts
	failed     chan struct{} // capacity 1: the one that started failed
}

// AwaitTurn waits until a request of an account may call a route that said when it is back. It is nil when too many
// wait, when the route does not come back before latest or says that no more, and when ctx ends.
func (g *Generation) AwaitTurn(ctx context.Context, r *config.Route, account string, latest time.Time) *Turn {
	t := &Turn{generation: g, route: r, account: account, ready: make(chan struct{}), failed: make(chan struct{}, 1)}
	at, ok := g.Back(r.Name)
	if !ok || at.After(latest) || !g.turns.join(t) {
		return nil
	}
	for {
		now := g.now()
		wait := at.Sub(now)
		if wait <= 0 {
			g.turns.next(r.Name)
			wait = latest.Sub(now)
		}
		select {
		case <-t.ready:
			return t
		case <-t.failed:
			at, ok = g.Back(r.Name)
			if now = g.now(); !ok || !at.After(now) || at.After(latest) {
				g.turns.leave(t)
				return nil
			}
		case <-g.requests.timer(wait):
			if now = g.now(); !now.Before(latest) {
				g.turns.leave(t)
				return nil
			}
			if back, ok := g.Back(r.Name); !ok || back.After(latest) {
				g.turns.leave(t)
				return nil
			} else if back.After(at) {
				at = back // somebody who did not wait was told of another time
			}
		case <-ctx.Done():
			g.turns.leave(t)
			return nil
		}
	}
}

// Back is when a route takes more by the word of its upstream: of several keys, by that of the first one that is back.
// It is zero where one of them serves, and false where the upstream did not say, or it is not soon.
func (g *Generation) Back(route string) (at time.Time, ok bool) {
	m, now := g.routes[route], g.now()
	keys := []*providerKey{m.key}
	if m.pool != nil {
		keys = keys[:0]
		for _, l := range m.pool.keys {
			if l.Ready() {
				keys = append(keys, l.key)
			}
		}
	}
	for _, k := range keys {
		why, until, said := k.look(m.id.model, now)
		switch {
		case why == "":
			return time.Time{}, true
		case why == KeyLimited && said && soon(until, now) && (!ok || until.Before(at)):
			at, ok = until, true
		}
	}
	return at, ok
}

// soon reports whether a route that is back then is worth waiting for.
func soon(until, now time.Time) bool { return until.Sub(now) <= longestReturn }

// Waiting counts the requests that wait for a route.
func (r *requests) Waiting(route string) int64 {
	r.turns.mu.Lock()
	defer r.turns.mu.Unlock()
	if r := r.turns.queues[route]; r != nil {
		return int64(r.waiting)
	}
	return 0
}

// Acquire takes a permit for the call whose turn it is. What becomes of that call decides when the next one starts.
func (t *Turn) Acquire(ctx context.Context, c health.Call) (RoutePermit, error) {
	p, err := t.generation.AcquireRoute(ctx, t.route, c)
	if err != nil {
		t.passed()
		return p, err
	}
	p.turn = t
	return p, nil
}

// passed lets the next one start.
func (t *Turn) passed() {
	if t == nil {
		return
	}
	s := t.generation.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(t) {
		s.start(t.route.Name)
	}
}

// fails sends those who wait on: the route is not back.
func (t *Turn) fails() {
	if t == nil {
		return
	}
	s := t.generation.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.queues[t.route.Name]; s.over(t) {
		for _, waiting := range r.of {
			for _, w := range waiting {
				select {
				case w.failed <- struct{}{}:
				default:
				}
			}
		}
	}
}

// ended is told how the call ended.
func (t *Turn) ended(o health.Outcome, err error) {
	switch o {
	case health.Failed, health.Unreached, health.Refused:
		t.fails()
		return
	}
	if kind := llm.KindOf(err); err != nil && (kind == llm.ErrCredentials || kind == llm.ErrQuota) {
		t.fails()
		return
	}
	t.passed() // what says nothing of the route leaves the next one to try it
}

func (s *turns) join(t *Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.queues[t.route.Name]
	if s.each[t.account] >= maxWaitingEach || r != nil && r.waiting >= maxWaiting {
		return false
	}
	if r == nil {
		if s.queues == nil {
			s.queues, s.each = make(map[string]*queue), make(map[string]int)
		}
		r = &queue{of: make(map[string][]*Turn)}
		s.queues[t.route.Name] = r
	}
	of := r.of[t.account]
	if len(of) == 0 {
		r.accounts = append(r.accounts, t.account)
	}
	r.of[t.account] = append(of, t)
	r.waiting++
	s.each[t.account]++
	return true
}

// next is start for those who do not have the lock.
func (s *turns) next(route string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(route)
}

// start lets the first one start whose account's turn it is, unless another one is doing so.
func (s *turns) start(route string) {
	r := s.queues[route]
	if r == nil || r.starting != nil || r.waiting == 0 {
		return
	}
	t := r.of[r.accounts[0]][0]
	r.accounts = append(r.accounts[1:], t.account)
	s.remove(r, t)
	r.starting = t
	close(t.ready)
}

// leave is for one that does not wait any longer. If it was its turn, it is the next one's.
func (s *turns) leave(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.queues[t.route.Name]; r != nil {
		s.remove(r, t)
	}
	if s.over(t) {
		s.start(t.route.Name)
	}
	if r := s.queues[t.route.Name]; r != nil && r.waiting == 0 && r.starting == nil {
		delete(s.queues, t.route.Name)
	}
}

// over ends a start; false where it had ended. It is called with the lock held.
func (s *turns) over(t *Turn) bool {
	r := s.queues[t.route.Name]
	if r == nil || r.starting != t {
		return false
	}
	r.starting = nil
	if r.waiting == 0 {
		delete(s.queues, t.route.Name)
	}
	return true
}

func (s *turns) remove(r *queue, t *Turn) {
	of := r.of[t.account]
	i := slices.Index(of, t)
	if i < 0 {
		return
	}
	r.waiting--
	if s.each[t.account]--; s.each[t.account] == 0 {
		delete(s.each, t.account)
	}
	if r.of[t.account] = slices.Delete(of, i, i+1); len(of) == 1 {
		delete(r.of, t.account)
		r.accounts = slices.DeleteFunc(r.accounts, func(a string) bool { return a == t.account })
	}
}
