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
	p, own := cfg.PlanOf(a.Plan), a.Limits
	if limit := own.Of(ledger.LimitSpendCap); limit != nil {
		p.SpendCapCredits = *limit / ledger.MicrocentsPerCredit
	}
	p.TokenBudget = own.Or(ledger.LimitTokenBudget, p.TokenBudget)
	p.FairUseMicrocents = own.Or(ledger.LimitFairUse, p.FairUseMicrocents)
	p.ConcurrentRequests = own.Or(ledger.LimitConcurrentRequests, p.ConcurrentRequests)
	rates := &p.RequestsPerMinute
	rates.Key = own.Or(ledger.LimitKeyRequests, rates.Key)
	rates.Account = own.Or(ledger.LimitAccountRequests, rates.Account)
	rates.Address = own.Or(ledger.LimitAddressRequests, rates.Address)
	p.DefaultProfile = cmp.Or(a.Profile, p.DefaultProfile, cfg.Gateway.DefaultProfile)
	p.Requires = p.Requires.And(a.Requires)
	return p
}
