package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

	requests   *requests
	learning   *learning
	turns      *turns
	now        func() time.Time
	routes     map[string]*monitored // by name
	live       *Live                 // that keeps up with its file; nil without one
	backends   map[string]Backend    // by provider name
	setups     map[string]uint64     // by provider name: which service it is, for the states
	systems    map[string]string     // by provider name: what OpenTelemetry calls that service
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
func (c *configuration) Prepare(ctx context.Context, cfg *config.Config) (*Generation, error) {
	for _, value := range cfg.OutsideValues() { // it may have been read with the plugins of another host
		c.host.Redact(value)
	}
	if err := c.refusals(ctx, cfg); err != nil {
		return nil, err
	}
	g := &Generation{Config: cfg, backends: make(map[string]Backend), refs: 1, learning: c.learning,
		setups:  make(map[string]uint64),
		systems: make(map[string]string),
		tariffs: tariffs{record: c.store.PriceVersion, now: c.Now, routes: cfg.Routes}}
	c.requests.lend(g)
	if len(cfg.Routes) > 1 || cfg.DecisionLog.Mode == config.DecisionsOn {
		g.predicts = true
		c.learning.restore(cfg)
	}
	g.tariffs.predictor = g.Predictor
	g.tariffs.exchange = func(routes []config.Route, p *routing.Predictor) *routing.Exchange {
		return c.exchange(routes, cfg.Profiles, p)
	}
	if err := c.fill(ctx, g); err != nil {
		g.releasePlugins()
		return nil, err
	}
	if err := errors.Join(g.findScreeners(), g.findClassifier(c.metrics)); err != nil {
		g.releasePlugins()
		return nil, err
	}
	c.requests.monitor(g)
	return g, nil
}

// exchange is what quality is worth: the last one that was made where nothing that it depends on has changed.
func (c *configuration) exchange(routes []config.Route, profiles []config.Profile,
	p *routing.Predictor) *routing.Exchange {
	if last := c.lastExchange.Load(); last.MadeOf(routes, profiles, p) {
		return last
	}
	made := routing.NewExchange(routes, profiles, p)
	c.lastExchange.Store(made)
	return made
}

// refusals are why a gateway that runs does not take a configuration, one a line; nil when it does.
func (c *configuration) refusals(ctx context.Context, cfg *config.Config) error {
	var errs []error
	if cfg.Store != c.where {
		errs = append(errs, objection{"store", "The store block has changed",
			fmt.Sprintf("It was %s and is %s. A running gateway keeps its store: restart it to change that.",
				storeText(c.where), storeChange(c.where, cfg.Store))})
	}
	if cfg.Limiter != c.counts {
		errs = append(errs, objection{"limiter", "The limiter block has changed",
			fmt.Sprintf("It was %s and is %s. A running gateway keeps its limiter: restart it to change that.",
				limiterText(c.counts), limiterText(cfg.Limiter))})
	}
	return errors.Join(append(errs, c.keepPlans(ctx, cfg))...)
}

// limiterText says where a limiter counts, without a password.
func limiterText(l config.Limiter) string {
	if l.Kind == config.RedisKind && l.Redis != (config.Redis{}) {
		return fmt.Sprintf("%s at %s", l.Kind, l.Redis)
	}
	return l.Kind
}

// storeText says where a store is, without a secret, and its durability where that is not the usual one.
func storeText(s config.Store) string {
	if s.Kind == config.Postgres {
		return s.Kind + " at a url that is not shown"
	}
	text := fmt.Sprintf("%s %q", s.Kind, s.Path)
	if s.Durability == config.DurableProcess {
		text += fmt.Sprintf(" (durability %q)", s.Durability)
	}
	return text
}

// storeChange says where a store is that was somewhere else.
func storeChange(was, is config.Store) string {
	if was.Kind == config.Postgres && is.Kind == config.Postgres {
		return is.Kind + " at another one"
	}
	return storeText(is)
}

func (c *configuration) fill(ctx context.Context, g *Generation) error {
	if err := g.tariffs.begin(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range g.Config.Providers {
		g.setups[p.Name] = c.requests.States().setup(&p)
		g.systems[p.Name] = systemOf(&p)
		if len(p.Keys) > 0 {
			errs = append(errs, c.startPool(ctx, g, &p))
			continue
		}
		b, err := c.start(ctx, g, &p, p.Name, p.Settings)
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
func (c *configuration) start(ctx context.Context, g *Generation, p *config.Provider, name string,
	values settings.Values) (Backend, error) {
	plugin, err := c.host.Acquire(ctx, runSpec(g.Config, p, name, values))
	if err != nil {
		return nil, &startError{p.Name, p.Plugin, values, err}
	}
	b := backendOf(plugin, p.Carry)
	g.plugins = append(g.plugins, instance{plugin, b})
	return b, nil
}

// runSpec is a provider's plugin with settings, as it serves.
func runSpec(cfg *config.Config, p *config.Provider, name string, values settings.Values) host.Spec {
	return host.Spec{
		Name:         name,
		Source:       host.Source{Plugin: p.Plugin, Dir: cfg.Gateway.PluginDir, SHA256: p.SHA256},
		Settings:     values,
		StartTimeout: p.StartTimeout,
		DrainTimeout: cfg.Gateway.DrainTimeout,
		MaxMemory:    p.MaxMemory,
		Confine:      host.Confine(p.Confine),
		Telemetry:    cfg.Telemetry.Providers,
	}
}

// startEarly starts the plugins of a configuration that is to serve, side by side. Whoever prepares it finds them
// running; they are given back when it serves.
func (e *Engine) startEarly(cfg *config.Config) error {
	var specs []host.Spec
	for _, p := range cfg.Providers {
		if len(p.Keys) == 0 {
			specs = append(specs, runSpec(cfg, &p, p.Name, p.Settings))
		}
		for _, k := range p.Keys {
			specs = append(specs, runSpec(cfg, &p, keyedName(&p, k.Name), k.Settings))
		}
	}
	plugins, errs := make([]*host.Plugin, len(specs)), make([]error, len(specs))
	var starting sync.WaitGroup
	for i, spec := range specs {
		starting.Go(func() { plugins[i], errs[i] = e.host.Acquire(context.Background(), spec) })
	}
	starting.Wait()
	for _, plugin := range plugins {
		if plugin != nil {
			e.early = append(e.early, plugin)
		}
	}
	return errors.Join(errs...)
}

// releaseEarly gives back the plugins that were started early.
func (e *Engine) releaseEarly() {
	for _, plugin := range e.early {
		plugin.Release()
	}
	e.early = nil
}

// keyedName is the name of the plugin for a provider's key.
func keyedName(p *config.Provider, key string) string { return p.Name + "/" + key }

// startPool starts a plugin for each key of a provider.
func (c *configuration) startPool(ctx context.Context, g *Generation, p *config.Provider) error {
	made := &pool{name: p.Name, now: c.Now}
	for _, k := range p.Keys {
		b, err := c.start(ctx, g, p, keyedName(p, k.Name), k.Settings)
		if err != nil {
			return err
		}
		key := c.requests.providerKey(p.Name, k.Name, k.Identity)
		made.keys = append(made.keys, keyBackend{Backend: b, plugin: g.plugins[len(g.plugins)-1].Plugin, key: key,
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
	for _, l := range p.keys {
		list = append(list, l.key.health())
	}
	return list
}

// credentials are the keys of all providers, and the credentials of those that have none.
func (g *Generation) credentials() (all []*providerKey) {
	for _, b := range g.backends {
		if p, ok := b.(*pool); ok {
			for _, l := range p.keys {
				all = append(all, l.key)
			}
		}
	}
	for _, m := range g.routes {
		if m.key != nil && !slices.Contains(all, m.key) {
			all = append(all, m.key)
		}
	}
	return all
}

// has reports whether the configuration has a key.
func (g *Generation) has(k *providerKey) bool { return slices.Contains(g.credentials(), k) }

// activate makes g the generation of the requests that come from now on.
func (c *configuration) activate(g *Generation) {
	c.life.activate(g)
	failed := c.failed.Swap(nil)
	c.metrics.refused.Set(0)
	switch {
	case c.remember(byReload):
		c.metrics.loaded("taken")
	case failed != nil: // said as when the file is saved, or SIGHUP loads it
		c.Logger().Info("the configuration file is again what serves", "file", g.Config.Path,
			"config_number", c.InForce().Number)
	}
}

// replace makes g the generation in place of old, which is given back.
func (c *configuration) replace(old, g *Generation, by string) {
	c.life.replace(old, g)
	c.failed.Store(nil)
	c.metrics.refused.Set(0)
	c.metrics.loaded("taken")
	c.remember(by)
}

// use applies to the engine what the current configuration says.
func (e *Engine) use(g *Generation) {
	e.plans.use(g.Config.Plans)
	e.metrics.begin(g)
	e.requests.use(g)
	e.telemetry.Measure(g.Config.Telemetry.Metrics)
	e.portal.use(g.Config.Portal)
}

// Retire gives a generation back, activated or not. When it was the current one, the one before it (if it
// is still there) becomes current again: a reload that fails after its start leaves the old one serving.
func (c *configuration) Retire(g *Generation) {
	c.life.retire(g)
	c.remember(byReturn)
}

// Current is the active configuration, nil when there is none. Only for looking at: a request takes Begin.
func (c *core) Current() *Generation {
	c.life.mu.Lock()
	defer c.life.mu.Unlock()
	return c.life.current()
}

// configOr is the active configuration, and while there is none, first.
func (c *core) configOr(first *config.Config) *config.Config {
	if g := c.Current(); g != nil {
		return g.Config
	}
	return first
}

// unref is called with the lifecycle's lock held; what it returns is called without.
func (g *Generation) unref() func() {
	g.refs--
	if g.refs > 0 {
		return func() {}
	}
	return func() {
		if g.requests != nil { // outside of tests of the lifecycle
			g.requests.metrics.end(g)
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
	in, err := g.atPresent(ctx)
	if err != nil {
		return nil, err
	}
	return routing.Foretell(g.Config, in), nil
}

// Standpoints are what the reference workload comes to on each route now.
func (g *Generation) Standpoints(ctx context.Context) ([]routing.Standpoint, error) {
	in, err := g.atPresent(ctx)
	if err != nil {
		return nil, err
	}
	in.LongAbove = g.Config.Special.LongContextAbove
	return routing.Standpoints(in), nil
}

// atPresent is what is known of the routes that any request meets.
func (g *Generation) atPresent(ctx context.Context) (in routing.Input, err error) {
	t, err := g.Tariff(ctx)
	if err != nil {
		return in, err
	}
	return routing.Input{Routes: t.Routes, Exchange: t.Exchange, Predictor: g.Predictor(),
		Learned: g.learning.Outcomes().Learned(), Templates: g.learning.Templates().Known()}, nil
}

// Predictor tells what is expected of the routes for a request; nil where there is nothing to choose and nothing
// to remember.
func (g *Generation) Predictor() *routing.Predictor {
	if !g.predicts {
		return nil
	}
	p, _ := g.learning.PredictorOf(g.Config)
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
