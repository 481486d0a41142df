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
	for i := range config.AccountLimits {
		l, limit := config.AccountLimits[i], ledger.AllLimits[i]
		value, want := 9_000_000*l.Factor(), plan
		own, ok := ledger.Limits{}.With(limit, &value)
		require.True(t, ok)
		*l.In(&want.Limits) = 9_000_000
		require.Equal(t, want, PlanOf(cfg, ledger.Account{Plan: "starter", Limits: own}), limit)
	}
}

// TestOwnSpendCap: what an account's owner sets only lowers what the operator and the plan say, whatever those come to
// afterwards (GAP-118).
func TestOwnSpendCap(t *testing.T) {
	t.Parallel()
	credits := func(n int64) *int64 { return new(n * ledger.MicrocentsPerCredit) }
	for name, tc := range map[string]struct {
		plan, want    int64
		operator, own *int64
	}{
		"no cap but the owner's":              {0, 7, nil, credits(7)},
		"below the plan's":                    {10, 7, nil, credits(7)},
		"above the plan's":                    {10, 10, nil, credits(11)},
		"the plan's without the owner's":      {10, 10, nil, nil},
		"below the operator's":                {10, 7, credits(20), credits(7)},
		"above the operator's":                {10, 5, credits(5), credits(7)},
		"the operator's is none":              {10, 7, credits(0), credits(7)},
		"above the plan's, the operator's is": {10, 15, credits(20), credits(15)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own ledger.Limits
			own, _ = own.With(ledger.LimitSpendCap, tc.operator)
			own, ok := own.With(ledger.LimitOwnSpendCap, tc.own)
			require.True(t, ok)
			plan := config.Plan{Name: "p", Limits: config.Limits{SpendCapCredits: tc.plan}}
			cfg := &config.Config{Plans: []config.Plan{plan}}
			require.Equal(t, tc.want, PlanOf(cfg, ledger.Account{Plan: "p", Limits: own}).SpendCapCredits)
			require.Equal(t, *credits(tc.want), own.Over(ledger.TermsOf(&plan)).SpendCap, "the ledger holds to the same")
		})
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
