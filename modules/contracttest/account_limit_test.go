package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// setLimit sets a limit of the caller's account over its plan, as an operator does; below 0 gives it back to the plan.
func (c *caller) setLimit(limit ledger.Limit, value int64) {
	c.t.Helper()
	own := &value
	if value < 0 {
		own = nil
	}
	_, err := c.Engine.Store().SetLimit(c.t.Context(), c.Account.ID, limit, own)
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}

// TestLimitsOfOneAccount proves that a limit of an account holds over its plan's, from its next request on, and that
// other accounts keep the plan's.
func TestLimitsOfOneAccount(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	for limit, reason := range map[ledger.Limit]string{
		"requests_per_minute.key":     "key_requests_per_minute",
		"requests_per_minute.account": "tenant_requests_per_minute",
		"requests_per_minute.address": "ip_requests_per_minute",
	} {
		t.Run("GAP-118 LIM-01 LIM-02 LIM-03 "+reason, func(t *testing.T) {
			t.Parallel()
			g := pace(t, limitedTo(2, 2, 2), setup{})
			c := g.rich(t)
			for _, of := range []string{"key", "account", "address"} {
				c.setLimit(ledger.Limit("requests_per_minute."+of), 0)
			}
			c.setLimit(limit, 4)
			for range 4 {
				require.Equal(t, 200, c.Ask(sh).StatusCode, "more than the plan allows")
			}
			requireLimited(t, sh, c.Ask(sh), reason)
			c.setLimit(limit, 5)
			require.Equal(t, 200, c.Get("/v1/account").StatusCode)
			c.setLimit(limit, -1)
			requireLimited(t, sh, c.Ask(sh), reason)
		})
	}
	t.Run("GAP-118 LIM-11 requests at a time", func(t *testing.T) {
		t.Parallel()
		c := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 1"), setup{}).rich(t)
		c.setLimit("concurrent_requests", 2)
		c.Blocked(hello)
		first := c.Start(t, sh)
		second := make(chan answer, 1)
		go func() { second <- c.Ask(sh) }()
		require.NoError(t, c.Upstream.AtGate(within(t), c.Mark, 2), "one more than the plan allows")
		requireBusy(t, sh, c.Ask(sh))
		c.Upstream.Open(c.Mark)
		require.Equal(t, 200, (<-first).StatusCode)
		require.Equal(t, 200, (<-second).StatusCode)
	})
	t.Run("GAP-118 BILL-17 BILL-18 LIM-13 caps", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Routes: []route{exact}})
		for _, limit := range []ledger.Limit{ledger.LimitSpendCap, ledger.LimitTokenBudget} {
			c := g.rich(t)
			c.setLimit(limit, 1)
			requireError(t, sh, c.Ask(sh), 402, "budget_exceeded")
			c.RequireUntouched(t)
			require.Equal(t, 200, g.rich(t).Ask(sh).StatusCode)
			c.setLimit(limit, -1)
			require.Equal(t, 200, c.Ask(sh).StatusCode)
		}
	})
}

// TestProfileOfAnAccount proves what chooses when the request names no profile: the account, its plan, the gateway.
func TestProfileOfAnAccount(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: threeRoutes, Gateway: `default_profile = "balanced"`, Plan: "cheap",
		Extra: threeProfiles + `
plan "cheap" {
  default_profile = "budget"
}
`})
	for _, sh := range shapes {
		t.Run("PROF-04 PROF-05 GAP-118 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			serves := func(want string, fields ...string) {
				t.Helper()
				require.Equal(t, 200, c.Ask(sh, fields...).StatusCode)
				require.Equal(t, want, c.Route(t))
			}
			set := func(profile string) {
				_, err := c.Engine.Store().SetProfile(t.Context(), c.Account.ID, profile)
				require.NoError(t, err)
				c.Engine.ForgetKeys()
			}
			serves("budget")
			set("max")
			serves("max")
			serves("balanced", `"model":"service/balanced"`)
			set("")
			serves("budget")
			c.SetPlan("")
			serves("balanced")
			set("max")
			serves("max")
		})
	}
}
