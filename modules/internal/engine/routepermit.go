package engine

import (
	"time"

	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// RoutePermit lets an attempt run on its route: one of the route's max_concurrent, of all accounts, configurations
// and nodes. The zero value is none.
type RoutePermit struct {
	engine *Engine
	route  string
	permit ratelimit.Permit

	attempt   *health.Attempt
	heard     time.Time // when something came last
	monitored *monitored
	turn      *Turn // of a call that was waited for; nil for most
}

// Release gives the permit back, once. An attempt that has not ended says nothing of its route.
func (p *RoutePermit) Release() {
	e := p.engine
	if e == nil {
		return
	}
	p.engine = nil
	if p.attempt != nil {
		p.attempt.End(e.Now(), health.Nothing)
	}
	e.limiter.Release(p.permit)
	p.turn.passed()
	e.attempts.Add(-1)
	e.metrics.running(p.route, -1)
}

// InProgress counts what holds a permit at the moment: charged requests of all accounts, and attempts on all routes.
func (e *Engine) InProgress() (requests, attempts int64) {
	return e.streams.used.Load(), e.attempts.Load()
}
