package engine

import (
	"context"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// RoutePermit lets an attempt run on its route: one of the route's max_concurrent, of all accounts, configurations
// and nodes. The zero value is none.
type RoutePermit struct {
	engine *Engine
	route  string
	permit ratelimit.Permit
}

// AcquireRoute takes a permit of a route; false when all of them are out. Release it when the attempt has ended,
// however it ended.
func (e *Engine) AcquireRoute(ctx context.Context, route *config.Route) (RoutePermit, bool) {
	p, refusal, err := e.limiter.Acquire(ctx, []ratelimit.Ask{{
		Subject: ratelimit.Subject{Kind: ratelimit.Attempts, Name: route.Name}, Limit: route.MaxConcurrent,
	}})
	switch {
	case err != nil:
		e.Logger().Error("asking the limiter for a route", "route", route.Name, "error", err)
		return RoutePermit{}, false
	case refusal != nil:
		return RoutePermit{}, false
	}
	e.attempts.Add(1)
	e.metrics.running(route.Name, 1)
	return RoutePermit{engine: e, route: route.Name, permit: p}, true
}

// Release gives the permit back, once.
func (p *RoutePermit) Release() {
	e := p.engine
	if e == nil {
		return
	}
	p.engine = nil
	e.limiter.Release(p.permit)
	e.attempts.Add(-1)
	e.metrics.running(p.route, -1)
}

// InProgress counts what holds a permit at the moment: charged requests of all accounts, and attempts on all routes.
func (e *Engine) InProgress() (requests, attempts int64) {
	return e.streams.used.Load(), e.attempts.Load()
}
