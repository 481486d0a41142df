package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/host"
)

// Planned is what would come of a configuration in place of the one that serves.
type Planned struct {
	Serving     *config.Config
	Config      *config.Config // nil when it has errors
	Diagnostics *config.Diagnostics
	Refused     []string // why this gateway would not take it
	Changes     []change.Block
	// Before and After are what the profiles of both make of the reference workload; nil where there is no Config.
	Before, After []routing.Prospect
}

// OK reports whether it would be taken.
func (p *Planned) OK() bool { return p.Config != nil && len(p.Refused) == 0 }

// Plan looks at the configuration file that serves with what stands in for files, as if that were installed, and
// changes nothing. Providers whose processes would start or restart are started for a moment.
func (c *configuration) Plan(ctx context.Context, installed config.Overlay) (*Planned, error) {
	return c.plan(ctx, installed, true)
}

// PlanUntried is Plan without starting providers: whether they work with other settings is not known.
func (c *configuration) PlanUntried(ctx context.Context, installed config.Overlay) (*Planned, error) {
	return c.plan(ctx, installed, false)
}

func (c *configuration) plan(ctx context.Context, installed config.Overlay, tries bool) (*Planned, error) {
	g, release := c.life.acquire()
	defer release()
	if g == nil {
		return nil, ErrReplaced
	}
	h := host.New(host.Options{Builtin: c.builtin, Logger: c.Logger()})
	defer h.Close()
	try := tryOn(h)
	p := &Planned{Serving: g.Config}
	o := optionsOf(c.host)
	o.Overlay = installed
	o.Try = func(ctx context.Context, ref config.PluginRef, candidate config.Provider) error {
		if !tries || change.ProcessOf(g.Config, &candidate) == "" && !c.isOtherExecutable(g, ref.Dir, &candidate) {
			return nil // it runs
		}
		return try(ctx, ref, candidate)
	}
	p.Config, p.Diagnostics = config.Load(ctx, g.Config.Path, o)
	if p.Config == nil {
		return p, ctx.Err()
	}
	err := c.refusals(ctx, p.Config)
	if err != nil {
		p.Refused = refusedBy(c.explain(ctx, g.Config.Path, installed, err))
	}
	p.Changes = change.Between(g.Config, p.Config, c.Now())
	for _, provider := range p.Config.Providers {
		if before, after, ok := c.executables(g, p.Config.Gateway.PluginDir, &provider); ok && before != after {
			p.Changes = change.Replaced(p.Changes, provider.Name, describe(before), describe(after))
		}
	}
	if p.Before, err = g.Prospects(ctx); err != nil {
		return nil, err
	}
	predictor, _ := c.learning.PredictorOf(p.Config)
	p.After = Foretell(p.Config, c.Now(), predictor, c.learning.Outcomes().Learned(), c.learning.Templates().Known())
	return p, c.countAccounts(ctx, p.Changes)
}

// Foretell is what the profiles of a configuration that does not serve make of the reference workload.
func Foretell(cfg *config.Config, now time.Time, predictor *routing.Predictor, learned routing.Learned,
	templates routing.Templates) []routing.Prospect {
	base := routing.Input{Routes: slices.Clone(cfg.Routes), Learned: learned, Templates: templates}
	for i := range base.Routes {
		base.Routes[i].Price, base.Routes[i].Cost = base.Routes[i].In(now)
	}
	if len(base.Routes) > 1 {
		base.Predictor = predictor
	}
	return routing.Foretell(cfg, base)
}

// executables are what runs of a provider and what would; ok is false where nothing runs of the same plugin, or would.
func (c *configuration) executables(g *Generation, dir string, p *config.Provider) (before, after host.Origin,
	ok bool) {
	at := slices.IndexFunc(g.plugins, func(i instance) bool {
		name, _, _ := strings.Cut(i.Name(), "/") // of one with keys
		return name == p.Name
	})
	if at < 0 {
		return before, after, false
	}
	before = g.plugins[at].Origin()
	after, err := c.host.Find(host.Source{Plugin: p.Plugin, Dir: dir, SHA256: p.SHA256})
	return before, after, err == nil && before.Plugin == after.Plugin
}

// isOtherExecutable reports whether another executable of the same plugin would run.
func (c *configuration) isOtherExecutable(g *Generation, dir string, p *config.Provider) bool {
	before, after, ok := c.executables(g, dir, p)
	return ok && before != after
}

// CompareExecutables adds to changes between two configurations, of which neither runs, plugins that are other files.
func CompareExecutables(list []change.Block, before, after *config.Config) []change.Block {
	h := host.New(host.Options{Builtin: selfCommand})
	defer h.Close()
	was := make(map[string]host.Origin)
	for i, source := range sourcesOf(before) {
		if o, err := h.Find(source); err == nil {
			was[before.Providers[i].Name] = o
		}
	}
	for i, source := range sourcesOf(after) {
		name := after.Providers[i].Name
		old, known := was[name]
		if now, err := h.Find(source); err == nil && known && old.Plugin == now.Plugin && old != now {
			list = change.Replaced(list, name, describe(old), describe(now))
		}
	}
	return list
}

func describe(o host.Origin) string {
	if o.File == "" {
		return "built in"
	}
	return fmt.Sprintf("%s, sha256 %.12s", o.File, o.SHA256)
}

// countAccounts says of each plan that is touched how many accounts are on it.
func (c *configuration) countAccounts(ctx context.Context, changes []change.Block) error {
	isPlan := func(b change.Block) bool { return b.Type == "plan" }
	if !slices.ContainsFunc(changes, isPlan) {
		return nil
	}
	on := make(map[string]int64)
	err := c.store.Accounts(ctx, "", func(a ledger.Account) error {
		on[a.Plan]++
		return nil
	})
	if err != nil {
		return err
	}
	for i := range changes {
		if isPlan(changes[i]) {
			changes[i].Accounts = new(on[changes[i].Name])
		}
	}
	return nil
}
