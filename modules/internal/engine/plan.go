package engine

import (
	"cmp"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// PlanOf is the plan that holds for one account: its own, with what was set for the account itself over it (GAP-118),
// and with the gateway's default profile where neither has one. What an account requires of routes only adds to what
// its plan does.
func PlanOf(cfg *config.Config, a ledger.Account) config.Plan {
	p := cfg.PlanOf(a.Plan)
	if a.Limits != (ledger.Limits{}) {
		p.Limits = limitsOver(p.Limits, a.Limits)
	}
	p.DefaultProfile = cmp.Or(a.Profile, p.DefaultProfile, cfg.Gateway.DefaultProfile)
	p.Requires = p.Requires.And(a.Requires)
	return p
}

// limitsOver are the limits of a plan with an account's own over them.
func limitsOver(plan config.Limits, own ledger.Limits) config.Limits {
	for i := range config.AccountLimits {
		if l := &config.AccountLimits[i]; own[i] != nil {
			*l.In(&plan) = *own[i] / l.Factor()
		}
	}
	plan.SpendCapCredits = own.LowerSpendCap(plan.SpendCapCredits*ledger.MicrocentsPerCredit) /
		ledger.MicrocentsPerCredit
	return plan
}
