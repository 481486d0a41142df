package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestPlanOf: what was set for an account goes before its plan, each limit alone (GAP-118).
func TestPlanOf(t *testing.T) {
	t.Parallel()
	plan := config.Plan{Name: "starter", DefaultProfile: "max", SpendCapCredits: 1, TokenBudget: 2, FairUseMicrocents: 3,
		ConcurrentRequests: 4, RequestsPerMinute: config.RequestsPerMinute{Key: 5, Account: 6, Address: 7}}
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: "balanced"}, Plans: []config.Plan{plan, {Name: "bare"}}}
	require.Equal(t, plan, PlanOf(cfg, ledger.Account{Plan: "starter"}))
	require.Equal(t, "balanced", PlanOf(cfg, ledger.Account{Plan: "bare"}).DefaultProfile)
	require.Equal(t, "budget", PlanOf(cfg, ledger.Account{Plan: "starter", Profile: "budget"}).DefaultProfile)
	for limit, change := range map[ledger.Limit]func(*config.Plan){
		ledger.LimitSpendCap:           func(p *config.Plan) { p.SpendCapCredits = 9_000_000 },
		ledger.LimitTokenBudget:        func(p *config.Plan) { p.TokenBudget = 9_000_000_000_000 },
		ledger.LimitFairUse:            func(p *config.Plan) { p.FairUseMicrocents = 9_000_000_000_000 },
		ledger.LimitConcurrentRequests: func(p *config.Plan) { p.ConcurrentRequests = 9_000_000_000_000 },
		ledger.LimitKeyRequests:        func(p *config.Plan) { p.RequestsPerMinute.Key = 9_000_000_000_000 },
		ledger.LimitAccountRequests:    func(p *config.Plan) { p.RequestsPerMinute.Account = 9_000_000_000_000 },
		ledger.LimitAddressRequests:    func(p *config.Plan) { p.RequestsPerMinute.Address = 9_000_000_000_000 },
	} {
		value, want := int64(9_000_000_000_000), plan
		own, ok := ledger.Limits{}.With(limit, &value)
		require.True(t, ok)
		change(&want)
		require.Equal(t, want, PlanOf(cfg, ledger.Account{Plan: "starter", Limits: own}), limit)
	}
}

// TestPlanOfRequires: an account only adds to what its plan requires.
func TestPlanOfRequires(t *testing.T) {
	t.Parallel()
	hour, none := time.Hour, new(time.Duration)
	narrow := config.Requires{Regions: []string{"eu"}, Retention: none}
	cfg := &config.Config{Plans: []config.Plan{
		{Name: "eu", Requires: config.Requires{Regions: []string{"ch", "eu"}, Retention: &hour}},
	}}
	for name, tc := range map[string]struct{ own, free, eu config.Requires }{
		"nothing":  {eu: cfg.Plans[0].Requires},
		"narrower": {own: narrow, free: narrow, eu: narrow},
		"wider": {own: config.Requires{Regions: []string{"ch", "eu", "us"}, Retention: new(2 * hour)},
			free: config.Requires{Regions: []string{"ch", "eu", "us"}, Retention: new(2 * hour)}, eu: cfg.Plans[0].Requires},
	} {
		require.Equal(t, tc.free, PlanOf(cfg, ledger.Account{Requires: tc.own}).Requires, name)
		require.Equal(t, tc.eu, PlanOf(cfg, ledger.Account{Plan: "eu", Requires: tc.own}).Requires, name)
	}
	neither := PlanOf(cfg, ledger.Account{Plan: "eu", Requires: config.Requires{Regions: []string{"us"}}}).Requires
	for _, region := range []string{"", "ch", "eu", "us"} {
		require.False(t, neither.MetBy(&config.Route{Region: region, Retention: none}), region)
	}
	require.Equal(t, []string{"ch", "eu"}, cfg.Plans[0].Requires.Regions, "the plan stays as it is")
}
