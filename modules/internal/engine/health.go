package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/routing"
)

// healths are the states of all routes. They outlive configurations that do not change what a route's upstream is.
type healths struct {
	group   *health.Group
	retries *health.Budget
	hedges  map[string]*health.Share // by profile

	mu    sync.Mutex
	known map[healthID]*health.Route
}

// healthID is a route with what is set up behind it.
type healthID struct {
	route, model string
	setup        uint64
}

// monitored is a route of a generation with its state, and with that of the credential that its attempts are made
// with.
type monitored struct {
	id      healthID
	state   *health.Route
	key     *providerKey // of a provider without keys
	pool    *pool        // of one with keys
	backend Backend
	honour  bool // what the upstream says of when it takes more
}

func newHealths(now time.Time, changed func(health.Change)) *healths {
	h := &healths{group: health.NewGroup(now, changed), retries: health.NewBudget(now, 0, 0),
		hedges: make(map[string]*health.Share)}
	for _, name := range config.ProfileNames() {
		h.hedges[name] = new(health.Share)
	}
	return h
}

func (h *healths) of(id healthID, s health.Settings) *health.Route {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.known[id]; known != nil {
		return known
	}
	return h.group.Route(id.route, s)
}

// use makes the routes of a configuration those that count.
func (h *healths) use(g *Generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = make(map[healthID]*health.Route, len(g.routes))
	all := make([]*health.Route, 0, len(g.routes))
	for i := range g.Config.Routes {
		r := &g.Config.Routes[i]
		m := g.routes[r.Name]
		m.state.Configure(healthSettings(g.Config, r))
		h.known[m.id] = m.state
		all = append(all, m.state)
	}
	h.group.Use(all)
	h.retries.Configure(g.Config.RetryBudget.Ratio, g.Config.RetryBudget.MinPerSecond)
}

func healthSettings(cfg *config.Config, r *config.Route) health.Settings {
	b := cfg.BreakerOf(r)
	return health.Settings{Failures: b.Failures, Window: b.Window, OpenFor: b.OpenFor, Outliers: b.Outliers,
		Adaptive: r.AutoConcurrent}
}

// monitor finds the states of a generation's routes, whose providers run.
func (r *requests) monitor(g *Generation) {
	g.routes = make(map[string]*monitored, len(g.Config.Routes))
	for i := range g.Config.Routes {
		route := &g.Config.Routes[i]
		m := &monitored{id: healthID{route.Name, route.Model, g.setups[route.Provider]},
			honour:  g.Config.BreakerOf(route).RetryAfter,
			backend: g.backends[route.Provider]}
		m.state = r.healths.of(m.id, healthSettings(g.Config, route))
		if p, ok := g.backends[route.Provider].(*pool); ok {
			m.pool = p
		} else {
			m.key = r.providerKey(route.Provider, "", strconv.FormatUint(m.id.setup, 16))
		}
		g.routes[route.Name] = m
	}
}

// providerKey is the state of a key with that identity, "" for a provider without keys.
func (r *requests) providerKey(provider, name, identity string) *providerKey {
	return r.providerKeys.of(provider, name, identity, func() *providerKey {
		k := &providerKey{provider: provider, name: name, now: r.Now, log: r.Logger(), metrics: r.metrics,
			spawn: func(f func()) { go f() }}
		k.settle()
		return k
	})
}

// routeChanged tells of a route's change of state.
func (r *requests) routeChanged(c health.Change) {
	fields := []any{"route", c.Route, "from", c.From, "to", c.To, "why", c.Why}
	switch c.To {
	case health.Open, health.Ejected:
		r.Logger().Warn("a route is not called for a while", append(fields, "until", c.Until.UTC())...)
	case health.HalfOpen:
		r.Logger().Info("a route is tried", fields...)
	default:
		r.Logger().Info("a route serves again", fields...)
	}
}

// notServing is why a route is not to be called at the moment.
type notServing struct {
	why   string
	until time.Time
	kind  error // of routing
}

func (n *notServing) Error() string {
	return fmt.Sprintf("%s, until %s", n.why, n.until.UTC().Format(time.TimeOnly+" MST"))
}

func (n *notServing) Unwrap() error { return n.kind }

// Standing says how routes stand at the moment, for an account.
func (g *Generation) Standing(account string) func(r *config.Route, light bool) routing.Standing {
	now := g.now()
	return func(r *config.Route, light bool) routing.Standing {
		return g.standing(r.Name, r.Provider, account, light, now)
	}
}

func (g *Generation) standing(route, provider, account string, light bool, now time.Time) routing.Standing {
	if !g.Ready(provider) {
		return routing.Standing{Why: routing.ErrNotReady}
	}
	m := g.routes[route]
	s := m.state.Look(now, light)
	if s.State == health.Open {
		return routing.Standing{Why: &notServing{s.Why, s.Until, routing.ErrNotReady}}
	}
	if until, held := m.state.HeldOff(now, account); held {
		return routing.Standing{Why: &notServing{heldOff, until, routing.ErrNotReady}}
	}
	if k := m.credential(now); k.Why != nil {
		return k
	}
	if s.State == health.Ejected {
		return routing.Standing{Why: &notServing{s.Why, s.Until, routing.ErrNotReady}, Behind: true}
	}
	return routing.Standing{}
}

// credential says how a route stands by what its upstream said of the key. A key that is out of quota is not a route
// that is down, nor is one that is refused: where nothing else is left, the upstream says so again.
func (m *monitored) credential(now time.Time) routing.Standing {
	why, until, stated := m.keyState(now)
	switch why {
	case KeyLimited:
		// What the upstream did not say is a guess.
		s := routing.Standing{Why: &notServing{keyWords[why], until, routing.ErrBusy}, Behind: !stated}
		if stated && soon(until, now) {
			s.Back = until
		}
		return s
	case KeyExhausted, KeyRefused:
		return routing.Standing{Why: &notServing{keyWords[why], until, routing.ErrNotReady}, Behind: true}
	}
	return routing.Standing{}
}

// heldOff is why a route does not serve an account.
const heldOff = "this account's requests failed there, and those of others do not"

// keyWords say why a route does not serve, by the state of the key.
var keyWords = map[KeyState]string{
	KeyLimited: "rate limited by its upstream", KeyExhausted: "out of quota at its upstream",
	KeyRefused: "its upstream refuses the credential",
}

// keyState is how the key does that an attempt would be made with: of several the best one.
func (m *monitored) keyState(now time.Time) (why KeyState, until time.Time, stated bool) {
	if !m.honour {
		return "", time.Time{}, false
	}
	if m.key != nil {
		return m.key.look(m.id.model, now)
	}
	for _, l := range m.pool.keys {
		w, u, s := l.key.look(m.id.model, now)
		switch {
		case !l.Ready():
			continue
		case w == "":
			return "", time.Time{}, false
		case why == "" || keyRank[w] > keyRank[why] || w == why && u.Before(until):
			why, until, stated = w, u, s
		}
	}
	return why, until, stated
}

// AcquireRoute takes a permit for an attempt on a route, which is released when the attempt has ended, however it
// ended. The error is routing.ErrBusy when all of them are out, and one of routing.ErrNotReady when the route is not
// to be called after all.
func (g *Generation) AcquireRoute(ctx context.Context, r *config.Route, c health.Call) (RoutePermit, error) {
	m := g.routes[r.Name]
	limit := r.MaxConcurrent
	if r.AutoConcurrent {
		limit = m.state.Limit()
	}
	acquire := g.requests.acquireRoute
	if r.AutoConcurrent || limit <= 0 {
		acquire = g.requests.acquireOwnRoute
	}
	p, ok := acquire(ctx, r.Name, limit)
	if !ok {
		return RoutePermit{}, routing.ErrBusy
	}
	if p.attempt = m.state.Begin(g.now(), c); p.attempt == nil {
		p.Release()
		return RoutePermit{}, routing.ErrNotReady
	}
	p.monitored = m
	return p, nil
}

// NoteProgress notes that something came of the attempt.
func (p *RoutePermit) NoteProgress() {
	if p.attempt != nil {
		p.progress = p.requests.Now()
	}
}

// Silent is for how long nothing has come, where something had.
func (p *RoutePermit) Silent() time.Duration {
	if p.progress.IsZero() {
		return 0
	}
	return p.requests.Now().Sub(p.progress)
}

// FirstToken notes the first token of the reply.
func (p *RoutePermit) FirstToken() {
	if p.attempt != nil {
		p.attempt.First(p.requests.Now())
	}
}

// Ended notes how the attempt ended, before the permit is released; err is the upstream's.
func (p *RoutePermit) Ended(o health.Outcome, err error) {
	if p.attempt == nil {
		return
	}
	p.attempt.End(p.requests.Now(), o)
	if k := p.monitored.key; k != nil && (o == health.Succeeded || err != nil) {
		k.noted(p.monitored.id.model, err, p.monitored.backend)
	}
	if p.turn != nil {
		p.turn.ended(o, err)
	}
}

// Accepted notes that the upstream takes the call: whoever waits behind it may start.
func (p *RoutePermit) Accepted() { p.turn.passed() }

// RouteHealth is how a route does at the moment.
type RouteHealth struct {
	Route string
	State RouteState
	Why   string    // in words, of one that does not serve
	Until time.Time // zero for one that serves
	// Limit is how many attempts may run at a time, where that adapts; 0 otherwise.
	Limit int64
	// Waiting is how many requests wait for it (GAP-139).
	Waiting int64
}

// RouteState is whether a route is called.
type RouteState string

// Beside those of a breaker, and of a key.
const (
	RouteServes RouteState = "serves"
	RouteAway   RouteState = "not_ready" // its provider does not run
)

// RouteHealth is how the routes do, in the configuration's order.
func (g *Generation) RouteHealth() []RouteHealth {
	now := g.now()
	list := make([]RouteHealth, 0, len(g.Config.Routes))
	for i := range g.Config.Routes {
		r := &g.Config.Routes[i]
		list = append(list, g.healthOf(r, now))
	}
	return list
}

func (g *Generation) healthOf(r *config.Route, now time.Time) RouteHealth {
	m := g.routes[r.Name]
	h := RouteHealth{Route: r.Name, State: RouteServes, Waiting: g.requests.Waiting(r.Name)}
	if r.AutoConcurrent {
		h.Limit = m.state.Limit()
	}
	if !g.Ready(r.Provider) {
		h.State, h.Why = RouteAway, "its provider is not ready"
		return h
	}
	s := m.state.Look(now, true)
	why, until, _ := m.keyState(now)
	switch {
	case s.State == health.Open, s.State != health.Serves && why == "":
		h.State, h.Why, h.Until = RouteState(s.State), s.Why, s.Until
	case why != "":
		h.State, h.Why, h.Until = RouteState(why), keyWords[why], until
	}
	return h
}

func (r *requests) acquireRoute(ctx context.Context, route string, limit int64) (RoutePermit, bool) {
	return r.acquireRouteIn(ctx, r.limiter, route, limit)
}

// acquireOwnRoute is acquireRoute where nodes that share a limiter do not ask each other: what one has found is its
// own, and without a limit there is nothing to ask about.
func (r *requests) acquireOwnRoute(ctx context.Context, route string, limit int64) (RoutePermit, bool) {
	if r.ownAttempts == nil {
		return r.acquireRoute(ctx, route, limit)
	}
	return r.acquireRouteIn(ctx, r.ownAttempts, route, limit)
}

func (r *requests) acquireRouteIn(ctx context.Context, in ratelimit.Limiter, route string, limit int64) (RoutePermit,
	bool) {
	p, refusal, err := in.Acquire(ctx, []ratelimit.Ask{{
		Subject: ratelimit.Subject{Kind: ratelimit.Attempts, Name: route}, Limit: limit,
	}})
	switch {
	case err != nil:
		r.Logger().Error("asking the limiter for a route", "route", route, "error", err)
		return RoutePermit{}, false
	case refusal != nil:
		return RoutePermit{}, false
	}
	r.attempts.Add(1)
	r.metrics.running(route, 1)
	return RoutePermit{requests: r, limiter: in, route: route, permit: p}, true
}

// Requested counts a request towards the retry budget.
func (r *requests) Requested() { r.healths.retries.Request(r.Now()) }

// MayRetry counts a fallback, if the retry budget has one left.
func (r *requests) MayRetry() bool {
	if r.healths.retries.Retry(r.Now()) {
		r.metrics.retried("made")
		return true
	}
	r.metrics.retried("over_budget")
	return false
}
