package engine

import (
	"time"

	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// RoutePermit lets an attempt run on its route: one of the route's max_concurrent, of all accounts, configurations
// and nodes. The zero value is none.
type RoutePermit struct {
	requests *requests
	route    string
	limiter  ratelimit.Limiter // whose permit it is
	permit   ratelimit.Permit

	attempt   *health.Attempt
	progress  time.Time // when something came last
	monitored *monitored
	turn      *Turn // of a call that was waited for; nil for most
}

// Release gives the permit back, once. An attempt that has not ended says nothing of its route.
func (p *RoutePermit) Release() {
	r := p.requests
	if r == nil {
		return
	}
	p.requests = nil
	if p.attempt != nil {
		p.attempt.End(r.Now(), health.Nothing)
	}
	p.limiter.Release(p.permit)
	p.turn.passed()
	r.attempts.Add(-1)
	r.metrics.running(p.route, -1)
}

// InProgress counts what holds a permit at the moment: charged requests of all accounts, and attempts on all routes.
func (r *requests) InProgress() (requests, attempts int64) {
	return r.streams.used.Load(), r.attempts.Load()
}
