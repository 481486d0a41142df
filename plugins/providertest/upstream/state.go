package upstream

import (
	"context"
	"fmt"
	"sync"
)

// state is what a Server and those who wait for it share: who came, who ended, which gates are open.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change

	arrived  int64
	live     int
	requests map[int64]*Request
	records  map[int64]Record
	ended    []int64 // request numbers in the order in which they ended
	keep     int

	gates map[string]*gate
}

type gate struct {
	open    chan struct{}
	waiting int
}

func newState(keep int) *state {
	return &state{changed: make(chan struct{}), keep: keep, requests: map[int64]*Request{},
		records: map[int64]Record{}, gates: map[string]*gate{}}
}

// change runs f under the lock and wakes all who wait.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns when done, called under the lock, says so.
func (s *state) wait(ctx context.Context, what string, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the fake upstream (%s): %w", what, context.Cause(ctx))
		}
	}
}

// gate returns the gate of a name. The lock is held.
func (s *state) gate(name string) *gate {
	g := s.gates[name]
	if g == nil {
		g = &gate{open: make(chan struct{})}
		s.gates[name] = g
	}
	return g
}

// arrive gives a request its number.
func (s *state) arrive() (n int64) {
	s.change(func() {
		s.arrived++
		s.live++
		n = s.arrived
	})
	return n
}

// accept makes a request visible to those who wait for it.
func (s *state) accept(req *Request) {
	s.change(func() { s.requests[req.N] = req })
}

// end files a record and forgets the oldest beyond what is kept.
func (s *state) end(rec Record) {
	s.change(func() {
		s.live--
		s.records[rec.N] = rec
		s.ended = append(s.ended, rec.N)
		for s.keep > 0 && len(s.ended) > s.keep {
			delete(s.records, s.ended[0])
			delete(s.requests, s.ended[0])
			s.ended = s.ended[1:]
		}
	})
}

// Arrived waits until n requests have come, good or bad ones.
func (s *Server) Arrived(ctx context.Context, n int64) error {
	return s.state.wait(ctx, fmt.Sprintf("%d requests to arrive", n), func() bool { return s.state.arrived >= n })
}

// Request waits for the n-th request, counted from 1, and returns it. It must be one that was accepted.
func (s *Server) Request(ctx context.Context, n int64) (req *Request, err error) {
	err = s.state.wait(ctx, fmt.Sprintf("request %d to be accepted", n), func() bool {
		req = s.state.requests[n]
		return req != nil
	})
	return req, err
}

// Ended waits for the end of the n-th request and returns what was written down of it.
func (s *Server) Ended(ctx context.Context, n int64) (rec Record, err error) {
	err = s.state.wait(ctx, fmt.Sprintf("request %d to end", n), func() bool {
		var ok bool
		rec, ok = s.state.records[n]
		return ok
	})
	return rec, err
}

// Idle waits until no request is being answered.
func (s *Server) Idle(ctx context.Context) error {
	return s.state.wait(ctx, "its requests to end", func() bool { return s.state.live == 0 })
}

// AtGate waits until n requests wait at a gate: everything before it has been written to them.
func (s *Server) AtGate(ctx context.Context, name string, n int) error {
	return s.state.wait(ctx, fmt.Sprintf("%d requests at gate %q", n, name), func() bool {
		return s.state.gate(name).waiting >= n
	})
}

// Open opens a gate for good. Opening it again changes nothing.
func (s *Server) Open(name string) {
	s.state.change(func() {
		g := s.state.gate(name)
		select {
		case <-g.open:
		default:
			close(g.open)
		}
	})
}

// Records returns what was written down, in the order in which the requests ended.
func (s *Server) Records() []Record {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	records := make([]Record, 0, len(s.state.ended))
	for _, n := range s.state.ended {
		records = append(records, s.state.records[n])
	}
	return records
}
