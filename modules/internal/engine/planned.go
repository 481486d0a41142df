package engine

import (
	"context"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
)

// Planned is what would come of a configuration in place of the one that serves.
type Planned struct {
	Serving     *config.Config
	Config      *config.Config // nil when it has errors
	Diagnostics *config.Diagnostics
	Refused     []string // why this gateway would not take it
	Changes     []change.Block
}

// OK reports whether it would be taken.
func (p *Planned) OK() bool { return p.Config != nil && len(p.Refused) == 0 }

// Plan looks at the configuration file that serves with what stands in for files, as if that were installed, and
// changes nothing. Providers whose processes would start or restart are started for a moment.
func (e *Engine) Plan(ctx context.Context, installed config.Overlay) (*Planned, error) {
	g, release := e.life.acquire()
	defer release()
	if g == nil {
		return nil, ErrReplaced
	}
	h := host.New(host.Options{Builtin: e.builtin, Logger: e.Logger()})
	defer h.Close()
	try := tryOn(h)
	p := &Planned{Serving: g.Config}
	o := optionsOf(e.host)
	o.Overlay = installed
	o.Try = func(ctx context.Context, ref config.PluginRef, candidate config.Provider) error {
		if change.ProcessOf(g.Config, &candidate) == "" {
			return nil // it runs
		}
		return try(ctx, ref, candidate)
	}
	p.Config, p.Diagnostics = config.Load(ctx, g.Config.Path, o)
	if p.Config == nil {
		return p, ctx.Err()
	}
	if err := e.refusals(ctx, p.Config); err != nil {
		p.Refused = refusedBy(e.explain(ctx, g.Config.Path, installed, err))
	}
	p.Changes = change.Between(g.Config, p.Config, e.Now())
	return p, e.countAccounts(ctx, p.Changes)
}

// countAccounts says of each plan that is touched how many accounts are on it.
func (e *Engine) countAccounts(ctx context.Context, changes []change.Block) error {
	isPlan := func(b change.Block) bool { return b.Type == "plan" }
	if !slices.ContainsFunc(changes, isPlan) {
		return nil
	}
	on := make(map[string]int64)
	err := e.store.Accounts(ctx, func(a ledger.Account) error {
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
