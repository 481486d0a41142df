package portal

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestOwnCap: GAP-118, an account's owner lowers its spend cap and takes that back, holds are refused by it, and it
// never raises what the operator has set, before it or after.
func TestOwnCap(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	owner := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	set := func(b *browser, was, cap string) answer {
		return b.post("/portal/credits", "act", "own-cap", "account", ann.Account.ID, "was", was, "cap", cap)
	}
	check := func(credits int64) error {
		return s.engine.Ledger().Check(t.Context(), ann.Account.ID, ann.Key.ID, credits*ledger.MicrocentsPerCredit, 0)
	}
	api := admin.NewLocal(s.engine).As("the operator")
	operator := func(value *int64) {
		require.NoError(t, api.Call(t.Context(), http.MethodPost, "/fareway/accounts/ann/limit",
			admin.NewLimit{Limit: "spend_cap_credits", Value: value}, new(admin.Account)))
	}
	require.NoError(t, check(20))
	a := set(owner, "", "12")
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
	require.Contains(t, a.body, "12 credits")
	require.Contains(t, a.body, "12.000000 less 0.000000 spent leaves 12.000000.")
	requireSafe(t, a)
	require.NoError(t, check(12))
	require.ErrorIs(t, check(13), ledger.ErrSpendCap)
	for _, wrong := range []string{"0", "-1", "1.5", "x", "9999999999999", "99999999999999999999"} {
		require.Equal(t, http.StatusBadRequest, set(owner, "12", wrong).StatusCode, wrong)
	}
	require.Equal(t, http.StatusConflict, set(owner, "", "13").StatusCode, "somebody has set it meanwhile")
	require.ErrorIs(t, check(13), ledger.ErrSpendCap, "nothing of that changed it")

	operator(new(int64(9)))
	require.NoError(t, check(9))
	require.ErrorIs(t, check(10), ledger.ErrSpendCap, "the lower one holds")
	require.Equal(t, http.StatusBadRequest, set(owner, "12", "9").StatusCode, "it would change nothing")
	require.Equal(t, http.StatusOK, set(owner, "12", "8").StatusCode)
	require.ErrorIs(t, check(9), ledger.ErrSpendCap)
	require.Equal(t, http.StatusOK, set(owner, "8", "").StatusCode)
	require.NoError(t, check(9))
	require.ErrorIs(t, check(10), ledger.ErrSpendCap, "without a cap of the owner's, the operator's holds")

	for _, role := range []people.Role{people.RoleMember, people.RoleViewer} {
		b := s.member(string(role)+"@example.com", ann.Account.ID, role)
		require.Equal(t, http.StatusForbidden, set(b, "", "5").StatusCode, role)
		page := b.get("/portal/credits")
		require.Contains(t, page.body, "Set by who runs this service")
		require.NotContains(t, page.body, "Your own cap", role)
	}
	other := s.member("bob@example.com", bob.Account.ID, people.RoleOwner)
	require.Equal(t, http.StatusConflict, set(other, "", "5").StatusCode, "of another account")

	var acts []string
	require.NoError(t, s.engine.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		if a.Action == "account.set_limit" && a.Actor == "ann@example.com via portal" {
			acts = append(acts, a.After)
		}
		return nil
	}))
	require.Equal(t, []string{`{"own_spend_cap_microcents":12000000}`, `{"own_spend_cap_microcents":8000000}`,
		`{"own_spend_cap_microcents":null}`}, acts)
}
