package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// askFor is how long an upstream has to say what it offers, and askShortly where a person waits for it.
	askFor     = time.Minute
	askShortly = 15 * time.Second
	// Upstreams with which something is wrong are asked again, after a while and then after twice as long each time.
	firstAskAgain = time.Minute
	lastAskAgain  = time.Hour
)

// Upstreams is what was found when the upstreams of a configuration were asked for what they offer.
type Upstreams struct {
	At          time.Time
	Diagnostics *config.Diagnostics // warnings; none when all is well
}

// Text is what was found as people read it.
func (u *Upstreams) Text() string { return textOf(u.Diagnostics) }

// Upstreams is what was found last; nil while none has been asked.
func (g *Generation) Upstreams() *Upstreams { return g.upstreams.Load() }

// askUpstreams asks the upstreams of g for what they offer, beside the requests that it serves, and tells of what does
// not fit: until all is well, or ctx ends.
func (c *configuration) askUpstreams(ctx context.Context, g *Generation) {
	for pause := firstAskAgain; ; pause = min(2*pause, lastAskAgain) {
		found := g.Config.Against(g.offers(ctx, askFor), false)
		if ctx.Err() != nil {
			return
		}
		text, before := textOf(found), ""
		if last := g.upstreams.Swap(&Upstreams{At: c.Now(), Diagnostics: found}); last != nil {
			before = textOf(last.Diagnostics)
		}
		log := c.Logger().With("file", g.Config.Path, "config_number", c.InForce().Number)
		switch {
		case text != "" && text != before:
			log.Warn("the configuration serves, and does not fit its upstreams", "warnings", len(found.All()))
			LogFindings(log, found)
		case text == "" && before != "":
			log.Info("the upstreams fit the configuration now")
		}
		if text == "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-c.timer(pause):
		}
	}
}

// offers are what the upstreams say, by provider; of a provider with keys the first one asks. Who cannot say is left
// out.
func (g *Generation) offers(ctx context.Context, within time.Duration) map[string]config.Offer {
	offers := make(map[string]config.Offer)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, p := range g.Config.Providers {
		name := p.Name
		if len(p.Keys) > 0 {
			name += "/" + p.Keys[0].Name
		}
		for _, i := range g.plugins {
			if i.Name() != name || !i.Capabilities().Models {
				continue
			}
			asking.Go(func() {
				models, err := ask(ctx, i.Plugin, within)
				mu.Lock()
				defer mu.Unlock()
				offers[p.Name] = config.Offer{Models: models, Err: err}
			})
		}
	}
	asking.Wait()
	return offers
}

var errSlow = errors.New("too slow")

// ask asks one upstream. The bound is no deadline, which the provider would be blamed for: its upstream is slow.
func ask(ctx context.Context, p *host.Plugin, within time.Duration) ([]llm.Model, error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(within, func() { cancel(errSlow) }).Stop()
	models, err := p.Models(bounded)
	if errors.Is(context.Cause(bounded), errSlow) {
		return nil, llm.Errorf(llm.ErrUpstream, "it did not say in %s what it offers; check that it is running", within)
	}
	return models, err
}

// Refusals says what the upstreams of a configuration are known to refuse (llm.Restrictions), as Generation.Refuses
// does of one in force whose upstreams have been called. A provider is started when it is first asked about, until
// done is called; one that does not start, or whose endpoint cannot be had, knows nothing.
func Refusals(ctx context.Context, cfg *config.Config, logger *slog.Logger,
) (refuses func(r *config.Route, restriction string) bool, done func()) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	g := &Generation{Config: cfg}
	started := make(map[string]*host.Plugin)
	refuses = func(r *config.Route, restriction string) bool {
		plugin, ok := started[r.Provider]
		if !ok {
			plugin, _ = g.try(ctx, h, r.Provider)
			started[r.Provider] = plugin
		}
		if plugin == nil || !plugin.Capabilities().Endpoint {
			return false
		}
		plugin.Proves(ctx, r.Model) // which has it asked for its endpoint
		return plugin.Refuses(r.Model, restriction)
	}
	return refuses, func() {
		g.releasePlugins()
		h.Close()
	}
}

// try starts a provider, of one with keys with the first of them.
func (g *Generation) try(ctx context.Context, h *host.Host, provider string) (plugin *host.Plugin, err error) {
	for _, p := range g.Config.Providers {
		if p.Name != provider {
			continue
		}
		ref := config.PluginRef{Plugin: p.Plugin, SHA256: p.SHA256, Dir: g.Config.Gateway.PluginDir}
		if len(p.Keys) > 0 {
			p.Name, p.Settings = p.Name+"/"+p.Keys[0].Name, p.Keys[0].Settings
		}
		if plugin, err = h.Acquire(ctx, specOf(ref, p)); err == nil {
			g.plugins = append(g.plugins, instance{Plugin: plugin})
		}
	}
	return plugin, err
}

// CheckUpstreams compares a configuration with what its upstreams offer. It starts each provider for a moment, and
// needs no engine.
func CheckUpstreams(ctx context.Context, cfg *config.Config, logger *slog.Logger) *config.Diagnostics {
	return LookUpstreams(ctx, cfg, logger).Diagnostics
}

// Address is where the calls of a provider go.
type Address = host.Address

// Upstream is what was found of a provider's.
type Upstream struct {
	Address Address // zero where the provider does not say
	Asked   bool    // it was asked for what it offers
	Err     error   // why it does not say; nil where it does
}

// Looked is what came of asking the upstreams of a configuration.
type Looked struct {
	Diagnostics *config.Diagnostics // as CheckUpstreams has them
	Upstreams   map[string]Upstream // by provider
}

// LookUpstreams is CheckUpstreams, and says where the upstreams are.
func LookUpstreams(ctx context.Context, cfg *config.Config, logger *slog.Logger) Looked {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	g := &Generation{Config: cfg}
	defer g.releasePlugins()
	looked := Looked{Upstreams: make(map[string]Upstream)}
	for _, p := range cfg.Providers {
		plugin, err := g.try(ctx, h, p.Name)
		if err != nil || plugin == nil {
			continue // that one does not start is for TryConfig to tell
		}
		var u Upstream
		if i := slices.IndexFunc(cfg.Routes, func(r config.Route) bool { return r.Provider == p.Name }); i >= 0 {
			u.Address, _ = plugin.Address(ctx, cfg.Routes[i].Model) // who does not say has none
		}
		looked.Upstreams[p.Name] = u
	}
	offers := g.offers(ctx, askShortly)
	for name, offer := range offers {
		u := looked.Upstreams[name]
		u.Asked, u.Err = true, offer.Err
		looked.Upstreams[name] = u
	}
	looked.Diagnostics = cfg.Against(offers, true)
	return looked
}
