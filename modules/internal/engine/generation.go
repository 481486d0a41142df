package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
)

// Generation is one loaded configuration with its running providers. Requests that began on it keep it
// alive; it lets go of its providers when the configuration is replaced and the last of them has ended.
type Generation struct {
	Config *config.Config
	Number uint64

	live     *Live              // that keeps up with its file; nil without one
	backends map[string]Backend // by provider name
	tariffs  tariffs
	plugins  []*host.Plugin
	refs     int // requests, and one for whoever made it; guarded by the lifecycle's lock
}

// Prepare starts what the configuration needs and records its prices. The result serves nobody until
// Activate; either way it is given back with Retire.
func (e *Engine) Prepare(ctx context.Context, cfg *config.Config) (*Generation, error) {
	if cfg.Store != e.where {
		return nil, fmt.Errorf("the store block has changed from %s %q to %s %q: a running gateway keeps its store; "+
			"restart it to change that",
			e.where.Kind, e.where.Path, cfg.Store.Kind, cfg.Store.Path)
	}
	if cfg.Limiter != e.counts {
		return nil, fmt.Errorf("the limiter block has changed from %s to %s: a running gateway keeps its limiter; restart "+
			"it to change that",
			e.counts.Kind, cfg.Limiter.Kind)
	}
	if err := e.keepPlans(ctx, cfg); err != nil {
		return nil, err
	}
	g := &Generation{Config: cfg, backends: make(map[string]Backend), refs: 1,
		tariffs: tariffs{record: e.store.PriceVersion, now: e.Now, routes: cfg.Routes}}
	if err := e.fill(ctx, g); err != nil {
		g.releasePlugins()
		return nil, err
	}
	return g, nil
}

func (e *Engine) fill(ctx context.Context, g *Generation) error {
	if err := g.tariffs.begin(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range g.Config.Providers {
		plugin, err := e.host.Acquire(ctx, host.Spec{
			Name:         p.Name,
			Source:       host.Source{Plugin: p.Plugin, Dir: g.Config.Gateway.PluginDir, SHA256: p.SHA256},
			Settings:     p.Settings,
			StartTimeout: p.StartTimeout,
			DrainTimeout: g.Config.Gateway.DrainTimeout,
			MaxMemory:    p.MaxMemory,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("starting provider %q: %w", p.Name, err))
			continue
		}
		g.plugins = append(g.plugins, plugin)
		g.backends[p.Name] = backendOf(plugin, p.Carry)
	}
	return errors.Join(errs...)
}

// Activate makes g the generation of the requests that come from now on.
func (e *Engine) Activate(g *Generation) {
	e.life.activate(g)
	e.taken()
	e.background.start(e.life.ctx)
}

// replace makes g the generation in place of old, which is given back.
func (e *Engine) replace(old, g *Generation) {
	e.life.replace(old, g)
	e.taken()
}

// taken is for a configuration that has come into force.
func (e *Engine) taken() {
	e.failed.Store(nil)
	e.metrics.refused.Set(0)
	e.metrics.loaded("taken")
	e.remember()
}

// use applies to the engine what the current configuration says.
func (e *Engine) use(g *Generation) {
	e.bodies.limit(g.Config.Gateway.MaxBodyMemory)
	e.streams.limit(g.Config.Gateway.MaxStreams)
	e.plans.use(g.Config.Plans)
	e.metrics.setGeneration(g.Number)
}

// Retire gives a generation back, activated or not. When it was the current one, the one before it (if it
// is still there) becomes current again: a reload that fails after its start leaves the old one serving.
func (e *Engine) Retire(g *Generation) {
	e.life.retire(g)
	e.remember()
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
	return g.releasePlugins
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

// Ready reports whether the provider takes requests at the moment.
func (g *Generation) Ready(provider string) bool {
	b := g.backends[provider]
	return b != nil && b.Ready()
}

// ContextLength is the largest context window that any route offers (MODEL-03), in tokens.
func (g *Generation) ContextLength() int64 {
	var n int64
	for _, r := range g.Config.Routes {
		n = max(n, r.ContextWindow)
	}
	return n
}
