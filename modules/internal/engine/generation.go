package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Generation is one loaded configuration with its running providers. Requests that began on it keep it
// alive; it lets go of its providers when the configuration is replaced and the last of them has ended.
type Generation struct {
	Config *config.Config

	engine     *Engine
	now        func() time.Time
	routes     map[string]*monitored // by name
	live       *Live                 // that keeps up with its file; nil without one
	backends   map[string]Backend    // by provider name
	setups     map[string]uint64     // by provider name: which service it is, for the states
	states     *States
	replies    replies
	tariffs    tariffs
	screeners  []*host.Plugin            // of the provider that screens, one for each of its keys
	predicts   bool                      // false where there is one route, and nothing to remember
	classifier *classifier               // nil for none
	plugins    []instance                // of each provider, and of each of its keys, in the configuration's order
	upstreams  atomic.Pointer[Upstreams] // what they said when they were asked last
	refs       int                       // requests, and one for whoever made it; guarded by the lifecycle's lock
}

// Prepare starts what the configuration needs and records its prices. The result serves nobody until
// Activate; either way it is given back with Retire.
func (e *Engine) Prepare(ctx context.Context, cfg *config.Config) (*Generation, error) {
	for _, value := range cfg.OutsideValues() { // it may have been read with the plugins of another host
		e.host.Redact(value)
	}
	if err := e.refusals(ctx, cfg); err != nil {
		return nil, err
	}
	g := &Generation{Config: cfg, backends: make(map[string]Backend), refs: 1, engine: e, now: e.Now,
		states: e.states, replies: e.replies, setups: make(map[string]uint64),
		tariffs: tariffs{record: e.store.PriceVersion, now: e.Now, routes: cfg.Routes}}
	if len(cfg.Routes) > 1 || cfg.DecisionLog.Mode == config.DecisionsOn {
		g.predicts = true
		e.trainer.restore(cfg)
	}
	g.tariffs.predictor = g.Predictor
	g.tariffs.exchange = func(routes []config.Route, p *routing.Predictor) *routing.Exchange {
		return e.exchange(routes, cfg.Profiles, p)
	}
	if err := e.fill(ctx, g); err != nil {
		g.releasePlugins()
		return nil, err
	}
	if err := errors.Join(g.findScreeners(), g.findClassifier(e.metrics)); err != nil {
		g.releasePlugins()
		return nil, err
	}
	e.monitor(g)
	return g, nil
}

// exchange is what quality is worth: the last one that was made where nothing that it depends on has changed.
func (e *Engine) exchange(routes []config.Route, profiles []config.Profile, p *routing.Predictor) *routing.Exchange {
	if last := e.lastExchange.Load(); last.MadeOf(routes, profiles, p) {
		return last
	}
	made := routing.NewExchange(routes, profiles, p)
	e.lastExchange.Store(made)
	return made
}

// refusals are why a gateway that runs does not take a configuration, one a line; nil when it does.
func (e *Engine) refusals(ctx context.Context, cfg *config.Config) error {
	var errs []error
	if cfg.Store != e.where {
		errs = append(errs, objection{"store", "The store block has changed",
			fmt.Sprintf("It was %s %q and is %s %q. A running gateway keeps its store: restart it to change that.",
				e.where.Kind, e.where.Path, cfg.Store.Kind, cfg.Store.Path)})
	}
	if cfg.Limiter != e.counts {
		errs = append(errs, objection{"limiter", "The limiter block has changed",
			fmt.Sprintf("It was %s and is %s. A running gateway keeps its limiter: restart it to change that.",
				e.counts.Kind, cfg.Limiter.Kind)})
	}
	return errors.Join(append(errs, e.keepPlans(ctx, cfg))...)
}

func (e *Engine) fill(ctx context.Context, g *Generation) error {
	if err := g.tariffs.begin(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range g.Config.Providers {
		g.setups[p.Name] = e.states.setup(&p)
		if len(p.Keys) > 0 {
			errs = append(errs, e.startPool(ctx, g, &p))
			continue
		}
		b, err := e.start(ctx, g, &p, p.Name, p.Settings)
		errs = append(errs, err)
		if err == nil {
			g.backends[p.Name] = b
		}
	}
	return errors.Join(errs...)
}

// instance is a plugin that runs for a provider.
type instance struct {
	*host.Plugin
	backend Backend // by it alone
}

// start starts a provider's plugin with settings.
func (e *Engine) start(ctx context.Context, g *Generation, p *config.Provider, name string,
	values settings.Values) (Backend, error) {
	plugin, err := e.host.Acquire(ctx, host.Spec{
		Name:         name,
		Source:       host.Source{Plugin: p.Plugin, Dir: g.Config.Gateway.PluginDir, SHA256: p.SHA256},
		Settings:     values,
		StartTimeout: p.StartTimeout,
		DrainTimeout: g.Config.Gateway.DrainTimeout,
		MaxMemory:    p.MaxMemory,
		Confine:      host.Confine(p.Confine),
	})
	if err != nil {
		return nil, &startError{p.Name, p.Plugin, values, err}
	}
	b := backendOf(plugin, p.Carry)
	g.plugins = append(g.plugins, instance{plugin, b})
	return b, nil
}

// startPool starts a plugin for each key of a provider.
func (e *Engine) startPool(ctx context.Context, g *Generation, p *config.Provider) error {
	made := &pool{name: p.Name, now: e.Now}
	for _, k := range p.Keys {
		b, err := e.start(ctx, g, p, p.Name+"/"+k.Name, k.Settings)
		if err != nil {
			return err
		}
		key := e.providerKeys.of(p.Name, k.Name, k.Identity, func() *providerKey {
			return e.newProviderKey(p.Name, k.Name)
		})
		made.lanes = append(made.lanes, lane{Backend: b, plugin: g.plugins[len(g.plugins)-1].Plugin, key: key,
			weight: k.Weight})
	}
	g.backends[p.Name] = made
	return nil
}

// Keys are how a provider's keys do, in the configuration's order; none for one without.
func (g *Generation) Keys(provider string) []KeyHealth {
	p, ok := g.backends[provider].(*pool)
	if !ok {
		return nil
	}
	var list []KeyHealth
	for _, l := range p.lanes {
		list = append(list, l.key.health())
	}
	return list
}

// has reports whether the configuration has a key.
func (g *Generation) has(k *providerKey) bool {
	for _, m := range g.routes {
		if m.key == k {
			return true
		}
	}
	p, ok := g.backends[k.provider].(*pool)
	return ok && slices.ContainsFunc(p.lanes, func(l lane) bool { return l.key == k })
}

// Activate makes g the generation of the requests that come from now on.
func (e *Engine) Activate(g *Generation) {
	e.life.activate(g)
	failed := e.failed.Swap(nil)
	e.metrics.refused.Set(0)
	switch {
	case e.remember(byReload):
		e.metrics.loaded("taken")
	case failed != nil: // said as when the file is saved, or SIGHUP loads it
		e.Logger().Info("the configuration file is again what serves", "file", g.Config.Path,
			"config_number", e.InForce().Number)
	}
	e.background.start(e.life.ctx)
}

// replace makes g the generation in place of old, which is given back.
func (e *Engine) replace(old, g *Generation, by string) {
	e.life.replace(old, g)
	e.failed.Store(nil)
	e.metrics.refused.Set(0)
	e.metrics.loaded("taken")
	e.remember(by)
}

// use applies to the engine what the current configuration says.
func (e *Engine) use(g *Generation) {
	e.bodies.limit(g.Config.Gateway.MaxBodyMemory)
	e.streams.limit(g.Config.Gateway.MaxStreams)
	e.plans.use(g.Config.Plans)
	e.replies.memory.Limit(g.Config.Cache.Size)
	e.metrics.begin(g)
	e.providerKeys.keep(g.has)
	e.healths.use(g)
}

// Retire gives a generation back, activated or not. When it was the current one, the one before it (if it
// is still there) becomes current again: a reload that fails after its start leaves the old one serving.
func (e *Engine) Retire(g *Generation) {
	e.life.retire(g)
	e.remember(byReturn)
}

// Current is the active configuration, nil when there is none. Only for looking at: a request takes Begin.
func (e *Engine) Current() *Generation {
	e.life.mu.Lock()
	defer e.life.mu.Unlock()
	return e.life.current()
}

// unref is called with the lifecycle's lock held; what it returns is called without.
func (g *Generation) unref() func() {
	g.refs--
	if g.refs > 0 {
		return func() {}
	}
	return func() {
		if g.engine != nil { // outside of tests of the lifecycle
			g.engine.metrics.end(g)
		}
		g.releasePlugins()
	}
}

func (g *Generation) releasePlugins() {
	for _, p := range g.plugins {
		p.Release()
	}
}

// Backend is the provider that runs as name, nil when there is none.
func (g *Generation) Backend(name string) Backend { return g.backends[name] }

// Tariff is what the routes charge at the moment. A request keeps the one that it was admitted with. The error is the
// ledger's, which did not record a price that has begun.
func (g *Generation) Tariff(ctx context.Context) (*Tariff, error) { return g.tariffs.of(ctx) }

// Prospects are what the profiles make of the reference workload now.
func (g *Generation) Prospects(ctx context.Context) ([]routing.Prospect, error) {
	t, err := g.Tariff(ctx)
	if err != nil {
		return nil, err
	}
	return routing.Foretell(g.Config, routing.Input{Routes: t.Routes, Exchange: t.Exchange, Predictor: g.Predictor(),
		Learned: g.engine.Outcomes().Learned(), Templates: g.engine.Templates().Known()}), nil
}

// Predictor tells what is expected of the routes for a request; nil where there is nothing to choose and nothing
// to remember.
func (g *Generation) Predictor() *routing.Predictor {
	if !g.predicts {
		return nil
	}
	p, _ := g.engine.PredictorOf(g.Config)
	return p
}

// Ready reports whether the provider takes requests at the moment.
func (g *Generation) Ready(provider string) bool {
	b := g.backends[provider]
	return b != nil && b.Ready()
}

// Refuses reports whether a route's upstream is known to refuse that (llm.Restrictions).
func (g *Generation) Refuses(r *config.Route, restriction string) bool {
	known, ok := g.backends[r.Provider].(refuser)
	return ok && known.refuses(r.Model, restriction)
}

// ContextLength is the largest context window that any route offers (MODEL-03), in tokens.
func (g *Generation) ContextLength() int64 {
	var n int64
	for _, r := range g.Config.Routes {
		n = max(n, r.ContextWindow)
	}
	return n
}
