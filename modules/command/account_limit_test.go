package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestCommandOwnCap: GAP-118, the cap of an account's owner is set below the operator's, and `account show` says which
// of them holds.
func TestCommandOwnCap(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	do := func(args ...string) string {
		t.Helper()
		out, err := run(t, append(append([]string{"account"}, args...), "--data", data)...)
		require.NoError(t, err)
		return out
	}
	do("create", "ann")
	require.Equal(t, "Account ann: at most 1,500 credits may be spent in a period (set by the account's owner; the "+
		"operator has none).\n", do("set-own-cap", "ann", "1,500"))
	do("set-limit", "ann", "spend-cap", "2000")
	require.Regexp(t, `spent ever +0\.000000 credits of at most 1,500 credits \(set by the account's owner; the `+
		`operator's is 2,000\)\n`, do("show", "ann"))
	v := runJSON[admin.Account](t, "account", "show", "ann", "--data", data)
	require.EqualValues(t, []int64{1500, 1500, 2000}, []int64{v.Limits.SpendCapCredits, v.Limits.OwnSpendCapCredits,
		v.Limits.OperatorSpendCapCredits})
	for _, wrong := range []struct{ value, says string }{
		{"2000", "the operator's is 2000, and an owner's is below it"}, {"0", "it is 1 to 1000000000000, or none"},
		{"1.5", "it is a whole number of credits"}, {"", "it is a whole number of credits"},
		{"1000000000001", "it is 1 to 1000000000000"},
	} {
		_, err := run(t, "account", "set-own-cap", "ann", wrong.value, "--data", data)
		require.ErrorContains(t, err, wrong.says)
	}
	do("set-limit", "ann", "spend-cap", "800")
	require.Contains(t, do("show", "ann"), "of at most 800 credits (set for the account)")
	require.Equal(t, "Account ann: at most 800 credits may be spent in a period (set for the account).\n",
		do("set-own-cap", "ann", "none"))
}

func TestCommandAccountLimits(t *testing.T) {
	t.Parallel()
	data, e := running(t)
	do := func(args ...string) string {
		t.Helper()
		out, err := run(t, append(append([]string{"account"}, args...), "--data", data)...)
		require.NoError(t, err)
		return out
	}
	do("create", "ann", "--plan", "starter")
	for _, l := range config.AccountLimits {
		t.Run("GAP-118 "+l.Name, func(t *testing.T) {
			require.Equal(t, "Account ann: "+l.Name+" is 7 (set for the account).\n", do("set-limit", "ann", l.Name, "7"))
			v := runJSON[admin.Account](t, "account", "show", "ann", "--data", data)
			require.EqualValues(t, 7, *l.In(&v.Limits.Limits))
			require.Equal(t, admin.FromAccount, v.Limits.From[l.Name])
			stored, err := e.Store().Account(t.Context(), "ann")
			require.NoError(t, err)
			require.Equal(t, new(7*l.Factor()), stored.Limits.Of(ledger.Limit(l.Trail())))
			require.Contains(t, do("show", "ann"), "(set for the account)")

			do("set-plan", "ann", "none")
			require.Contains(t, do("set-limit", "ann", strings.ToUpper(strings.ReplaceAll(l.Name, "_", "-")), "0"),
				"(set for the account)")
			require.Contains(t, do("set-limit", "ann", l.Name, "none"), "(default, on no plan)")
			do("set-plan", "ann", "starter")
			v = runJSON[admin.Account](t, "account", "set-limit", "ann", l.Name, "none", "--data", data)
			require.Equal(t, admin.FromPlan, v.Limits.From[l.Name])
			require.NotContains(t, do("show", "ann"), "(set for the account)")
		})
	}
	require.Equal(t, "Account ann: spend_cap_credits is 2,000 (set for the account).\n",
		do("set-limit", "ann", "spend-cap", "2,000"))
	require.Equal(t, "Account ann: fair_use_microcents is 0 (set for the account).\n", do("set-limit", "ann", "fair", "0"))
	require.Equal(t, "Account ann: token_budget is no limit (set for the account).\n",
		do("set-limit", "ann", "token_budget", "0"))
	require.Regexp(t, `spent ever +0\.000000 credits of at most 2,000 credits \(set for the account\)\n`,
		do("show", "ann"))

	require.Equal(t, "Account ann: requests that name no profile have max (set for the account).\n",
		do("set-profile", "ann", "max"))
	require.Regexp(t, `profile +max \(set for the account\)\n`, do("show", "ann"))
	require.Equal(t, "Account ann: requests that name no profile have balanced (the gateway's default_profile).\n",
		do("set-profile", "ann", "none"))

	actions := map[string]int{}
	require.NoError(t, e.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		actions[a.Action]++
		require.NotEqual(t, "gateway", a.Actor, "it says who did it")
		return nil
	}))
	require.Equal(t, 3*len(config.AccountLimits)+3, actions["account.set_limit"])
	require.Equal(t, 2, actions["account.set_profile"])
}
