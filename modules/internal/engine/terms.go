package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// plans tells the ledger what the name of a plan means now. The ledger keeps only names, so that a changed plan
// acts on every account that is on it, from its next operation on.
type plans struct {
	log *slog.Logger

	mu       sync.RWMutex
	terms    map[string]ledger.Terms
	reported map[string]bool // names without a plan that the log has
}

func newPlans(log *slog.Logger) *plans { return &plans{log: log} }

// use makes these the plans in force.
func (p *plans) use(list []config.Plan) {
	none := new(config.Gateway).DefaultPlan()
	terms := map[string]ledger.Terms{none.Name: ledger.TermsOf(&none)}
	for i := range list {
		terms[list[i].Name] = ledger.TermsOf(&list[i])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terms, p.reported = terms, make(map[string]bool)
}

// of is the terms of a plan, which is "" for an account on none. Open and Prepare refuse a configuration that lacks
// a plan in use; an account that came onto the plan in that very moment has the default plan, and the log says so.
func (p *plans) of(name string) ledger.Terms {
	p.mu.RLock()
	terms, ok := p.terms[name]
	p.mu.RUnlock()
	if ok {
		return terms
	}
	p.mu.Lock()
	terms, first := p.terms[new(config.Gateway).DefaultPlan().Name], !p.reported[name]
	p.reported[name] = true
	p.mu.Unlock()
	if first {
		p.log.Warn("accounts are on a plan that the configuration does not have; they have the default plan until it is back",
			"plan", name)
	}
	return terms
}

// CheckPlansKept says which plans that accounts are on the configuration file lacks as it is now, for a process that
// is to begin with it. What else is wrong with the file is not said.
func (e *Engine) CheckPlansKept(ctx context.Context) error {
	g := e.Current()
	if g == nil {
		return nil
	}
	cfg, diags := e.Load(ctx, g.Config.Path, nil)
	if diags.HasErrors() {
		return nil // a newer program may know better
	}
	return e.keepPlans(ctx, cfg)
}

// keepPlans refuses a configuration that lacks a plan that accounts are on: they would silently lose their
// credits, or their caps.
func (c *configuration) keepPlans(ctx context.Context, cfg *config.Config) error {
	inUse, err := c.store.Plans(ctx)
	if err != nil {
		return fmt.Errorf("looking for plans in use: %w", err)
	}
	var gone, stood []string
	serving := c.Current()
	for _, name := range inUse {
		if _, ok := cfg.Plan(name); ok {
			continue
		}
		gone = append(gone, strconv.Quote(name))
		if serving != nil {
			if place := serving.Config.PlanPlace(name); place != "" {
				stood = append(stood, fmt.Sprintf("%q stood at %s", name, place))
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	where := ""
	if len(stood) > 0 {
		where = " (" + strings.Join(stood, ", ") + ")"
	}
	return objection{Summary: fmt.Sprintf("Accounts are on plans that the configuration lacks (%s)",
		strings.Join(gone, ", ")),
		Detail: fmt.Sprintf("Put their plan blocks back%s, or move these accounts first, with `gateway account set-plan "+
			"NAME PLAN`.", where)}
}
