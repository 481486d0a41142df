package ratelimittest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

// server is what processes share, as simple as can be: one lock about everything.
type server struct {
	*ratelimit.Memory
	clock *ratelimittest.Clock

	mu     sync.Mutex
	leases map[*lease]bool
}

type lease struct {
	ask     ratelimit.Ask
	permit  ratelimit.Permit // in the server; 0 once it has lapsed
	renewed time.Duration
}

// process is a client of the server.
type process struct {
	*server
	last ratelimit.Permit
	own  map[ratelimit.Permit]*lease
}

// lapse takes back what was not renewed. The lock is held.
func (s *server) lapse() {
	for l := range s.leases {
		if s.clock.Elapsed()-l.renewed >= ratelimit.LeaseTime {
			s.Memory.Release(l.permit)
			l.permit = 0
			delete(s.leases, l)
		}
	}
}

func (p *process) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapse()
	permit, refusal, err := p.Memory.Acquire(ctx, asks)
	if permit == 0 {
		return 0, refusal, err
	}
	for _, a := range asks {
		if a.Subject.Kind.Semaphore() {
			p.last++
			l := &lease{ask: a, permit: permit, renewed: p.clock.Elapsed()}
			p.own[p.last], p.leases[l] = l, true
		}
	}
	return p.last, nil, nil
}

func (p *process) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapse()
	return p.Memory.Check(ctx, asks)
}

func (p *process) Release(permit ratelimit.Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.own[permit]; l != nil {
		p.Memory.Release(l.permit)
		delete(p.leases, l)
		delete(p.own, permit)
	}
}

func (p *process) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapse()
	for _, l := range p.own {
		if l.permit == 0 {
			l.ask.Limit = 0
			l.permit, _, _ = p.Memory.Acquire(context.Background(), []ratelimit.Ask{l.ask})
			p.leases[l] = true
		}
		l.renewed = p.clock.Elapsed()
	}
}

// TestShared: a limiter that processes share can pass both parts of the suite.
func TestShared(t *testing.T) {
	t.Parallel()
	shared := func(_ testing.TB, c *ratelimittest.Clock) func() ratelimittest.Process {
		m := ratelimit.NewMemory(ratelimit.Options{Elapsed: c.Elapsed})
		s := &server{Memory: m, clock: c, leases: make(map[*lease]bool)}
		return func() ratelimittest.Process { return &process{server: s, own: make(map[ratelimit.Permit]*lease)} }
	}
	ratelimittest.RunShared(t, shared)
	ratelimittest.Run(t, func(t testing.TB, c *ratelimittest.Clock) ratelimit.Limiter {
		return renewing{shared(t, c)()}
	})
}

// renewing is a process that renews before each question, as one does in the background.
type renewing struct{ ratelimittest.Process }

func (r renewing) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	r.Renew()
	return r.Process.Acquire(ctx, asks)
}

func (r renewing) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	r.Renew()
	return r.Process.Check(ctx, asks)
}
