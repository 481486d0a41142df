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
	plan := config.Plan{Name: "starter", DefaultProfile: "max"}
	for i, l := range config.PlanLimits {
		*l.In(&plan.Limits) = int64(i + 1)
	}
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: "balanced"}, Plans: []config.Plan{plan, {Name: "bare"}}}
	require.Equal(t, plan, PlanOf(cfg, ledger.Account{Plan: "starter"}))
	require.Equal(t, "balanced", PlanOf(cfg, ledger.Account{Plan: "bare"}).DefaultProfile)
	require.Equal(t, "budget", PlanOf(cfg, ledger.Account{Plan: "starter", Profile: "budget"}).DefaultProfile)
	for i, limit := range ledger.AllLimits {
		l := config.AccountLimits[i]
		value, want := 9_000_000*l.Factor(), plan
		own, ok := ledger.Limits{}.With(limit, &value)
		require.True(t, ok)
		*l.In(&want.Limits) = 9_000_000
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
