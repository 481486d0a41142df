package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestCommandAccountPlans: each plan is there with what it gives and who is on it, also one that the configuration has
// no more, and what holds for accounts on none.
func TestCommandAccountPlans(t *testing.T) {
	t.Parallel()
	pro := config.Plan{Name: "pro", MonthlyCredits: 500, Periods: true, DefaultProfile: "max",
		Limits:   config.Limits{SpendCapCredits: 2000, FairUseMicrocents: 1_500_000, ConcurrentRequests: 8},
		Requires: config.Requires{Regions: []string{"eu"}}, SuspendAfterDeclines: config.Declines{Count: 5,
			Window: time.Hour}}
	e := enginetest.Start(t, &config.Config{Gateway: config.Gateway{DefaultProfile: "balanced"},
		Plans: []config.Plan{pro, {Name: "small"}}}, engine.Options{})
	data := e.DataDir()
	serve(t, e)
	for name, plan := range map[string]string{"ann": "pro", "bob": "pro", "cid": ""} {
		_, err := e.Store().CreateAccount(t.Context(), name, plan)
		require.NoError(t, err)
	}
	_, err := e.Store().CreateAccount(t.Context(), "dan", "old")
	require.NoError(t, err)
	out, err := run(t, "account", "plans", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^Plan pro: 2 accounts
  period +a month, which begins with 500 credits \(US\$5\.00\)
  spent in a period +2,000 credits
  tokens in a period +no limit
  fair use in a period +1\.500000 credits
  requests at a time +8
.*  profile +max
  routes must be +in eu
  suspended after +5 refused prompts within 1h0m0s

Plan small: 0 accounts
  period +none: its limits are for good
.*  fair use in a period +0\.000000 credits
.*  profile +balanced

Plan old, which the configuration does not have: 1 account
.*
On no plan: 1 account
.*  fair use in a period +10\.000000 credits
`, out)
	plans := runJSON[[]admin.AccountPlan](t, "account", "plans", "--data", data)
	require.Len(t, plans, 4)
	require.Equal(t, &admin.Declines{Count: 5, Window: "1h0m0s"}, plans[0].Declines)
	require.Equal(t, pro.Limits, plans[0].Limits)
	require.True(t, plans[2].Gone)

	names := func(plan string) (list []string) {
		for _, a := range runJSON[[]admin.Account](t, "account", "list", "--plan", plan, "--data", data) {
			list = append(list, a.Name)
		}
		return list
	}
	require.ElementsMatch(t, []string{"ann", "bob"}, names("pro"))
	require.Equal(t, []string{"cid"}, names("none"))
	require.Equal(t, []string{"dan"}, names("old"))
	out, err = run(t, "account", "list", "--plan", "small", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "No account is on it:")
}
