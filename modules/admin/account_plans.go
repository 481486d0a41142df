package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// AccountPlan is a plan of accounts, with what it gives and allows, and how many accounts are on it.
type AccountPlan struct {
	Name string `json:"name"` // "": of accounts that are on none
	// Gone: accounts are on it, and the configuration has it no more. They have what those on none have.
	Gone           bool  `json:"gone,omitempty"`
	Accounts       int64 `json:"accounts"`
	MonthlyCredits int64 `json:"monthly_credits"` // added at each period's beginning
	Periods        bool  `json:"periods"`         // false: limits of a period are for good
	// DefaultProfile is of requests that name none: the plan's, or the gateway's.
	DefaultProfile string `json:"default_profile"`
	config.Limits
	Requires config.Requires `json:"requires,omitzero"` // what routes must be
	Declines *Declines       `json:"suspend_after_declines,omitempty"`
}

// Declines are how many refused prompts within which time suspend an account.
type Declines struct {
	Count  int64  `json:"count"`
	Window string `json:"window"` // as Go writes a duration, "1h0m0s"
}

// accountPlans are those of the configuration in its order, then what accounts are on that it does not have, and at
// last none.
func (b *booksAPI) accountPlans(r *http.Request) (any, error) {
	cfg := b.config()
	if cfg == nil {
		return nil, problem(http.StatusServiceUnavailable, "the configuration is not known yet: try again in a moment")
	}
	counts, err := b.countByPlan(r.Context())
	if err != nil {
		return nil, err
	}
	list := make([]AccountPlan, 0, len(counts)+len(cfg.Plans)+1)
	for i := range cfg.Plans {
		list = append(list, viewAccountPlan(cfg, cfg.Plans[i].Name, counts))
		delete(counts, cfg.Plans[i].Name)
	}
	none := viewAccountPlan(cfg, "", counts)
	delete(counts, "")
	configured := len(list)
	for name := range counts {
		p := viewAccountPlan(cfg, name, counts)
		p.Gone = true
		list = append(list, p)
	}
	slices.SortFunc(list[configured:], func(x, y AccountPlan) int { return strings.Compare(x.Name, y.Name) })
	return append(list, none), nil
}

// planNamed is the plan of an account as the ledger has it: noPlan is none, unless the configuration has a plan of
// that name.
func (b *booksAPI) planNamed(name string) string {
	if cfg := b.config(); name == noPlan && cfg != nil {
		if _, ok := cfg.Plan(name); ok {
			return name
		}
	}
	if name == noPlan {
		return ""
	}
	return name
}

// countByPlan says how many accounts are on each plan, "" for none.
func (b *booksAPI) countByPlan(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	err := b.books.Accounts(ctx, "", func(a ledger.Account) error {
		counts[a.Plan]++
		return nil
	})
	return counts, err
}

func viewAccountPlan(cfg *config.Config, name string, counts map[string]int64) AccountPlan {
	is := cfg.PlanOf(name)
	v := AccountPlan{Name: name, Accounts: counts[name], MonthlyCredits: is.MonthlyCredits, Periods: is.Periods,
		DefaultProfile: cmp.Or(is.DefaultProfile, cfg.Gateway.DefaultProfile), Limits: is.Limits, Requires: is.Requires}
	if d := is.SuspendAfterDeclines; d.Count > 0 {
		v.Declines = &Declines{d.Count, d.Window.String()}
	}
	return v
}
