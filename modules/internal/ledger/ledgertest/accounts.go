package ledgertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testAccounts(t *testing.T, open Open) {
	f := newFixture(t, open, 7, ledger.Terms{})
	ctx := soon(t)

	require.Regexp(t, `^acct_[0-9a-f]{24}$`, f.account.ID)
	require.Equal(t, ledger.Active, f.account.State)
	require.Equal(t, "starter", f.account.Plan)
	require.True(t, f.account.Created.Equal(start))
	for _, name := range []string{f.account.ID, f.account.Name} {
		a, err := f.store.Account(ctx, name)
		require.NoError(t, err)
		require.Equal(t, ledger.Balance{Credits: 7}, a.Balance)
		require.Equal(t, f.account.ID, a.ID)
		require.True(t, f.account.Created.Equal(a.Created))
		require.Equal(t, ledger.Period{}, a.Period, "a plan without credits has no periods unless it says so")
	}

	_, err := f.store.CreateAccount(ctx, f.account.Name, "")
	require.ErrorIs(t, err, ledger.ErrExists)
	for _, name := range []string{"", "acct_of_mine", "a\nb", "\xff", strings.Repeat("x", 300)} {
		_, err := f.store.CreateAccount(ctx, name, "")
		require.ErrorIs(t, err, ledger.ErrInvalid, "%q", name)
		_, err = f.store.RenameAccount(ctx, f.account.ID, name)
		require.ErrorIs(t, err, ledger.ErrInvalid, "%q", name)
	}
	for _, name := range []string{"nobody", "acct_0", ""} {
		_, err = f.store.Account(ctx, name)
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}

	second, err := f.store.CreateAccount(ctx, "second", "")
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{}, second.Balance, "an account starts at 0 (GAP-60)")
	all := f.accounts()
	require.Len(t, all, 2)
	require.Equal(t, []string{f.account.ID, second.ID}, []string{all[0].ID, all[1].ID}, "in the order of their creation")
	require.Equal(t, ledger.Balance{Credits: 7}, all[0].Balance)

	t.Run("GAP-14 a state acts on the next request and not on running ones", func(t *testing.T) {
		for _, state := range []ledger.State{ledger.Suspended, ledger.Inactive, ledger.Active} {
			running := f.hold("unit", 10)
			a, err := f.store.SetState(ctx, f.account.ID, state)
			require.NoError(t, err)
			require.Equal(t, state, a.State)
			require.Equal(t, f.now(), a)
			p, err := f.store.Lookup(ctx, hashOf(f.account.ID+"laptop"))
			require.NoError(t, err)
			require.Equal(t, state, p.Account.State)
			require.NoError(t, f.store.Begin(ctx, ledger.Next{Request: running.Request,
				Attempt: f.attempt(running.Request, 2, "unit")}))
			s := ok(running, usage(0, 1))
			s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(running.Request, 2), Outcome: ledger.NotMade})
			require.EqualValues(t, 1, f.settle(s).Microcents)
		}
	})
	_, err = f.store.SetState(ctx, f.account.ID, "frozen")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	_, err = f.store.SetState(ctx, "acct_0", ledger.Active)
	require.ErrorIs(t, err, ledger.ErrNotFound)

	t.Run("a name can change and then be used by another", func(t *testing.T) {
		old := f.account.Name
		a, err := f.store.RenameAccount(ctx, f.account.ID, "renamed")
		require.NoError(t, err)
		require.Equal(t, "renamed", a.Name)
		_, err = f.store.Account(ctx, old)
		require.ErrorIs(t, err, ledger.ErrNotFound)
		b, err := f.store.Account(ctx, "renamed")
		require.NoError(t, err)
		require.Equal(t, a, b)
		p, err := f.store.Lookup(ctx, hashOf(f.account.ID+"laptop"))
		require.NoError(t, err)
		require.Equal(t, "renamed", p.Account.Name)

		_, err = f.store.RenameAccount(ctx, second.ID, "renamed")
		require.ErrorIs(t, err, ledger.ErrExists)
		_, err = f.store.RenameAccount(ctx, f.account.ID, "renamed")
		require.NoError(t, err, "its own name is no conflict")
		_, err = f.store.RenameAccount(ctx, second.ID, old)
		require.NoError(t, err)
		_, err = f.store.RenameAccount(ctx, "acct_0", "x")
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})

	t.Run("the plans in use are told once each", func(t *testing.T) {
		_, err := f.store.CreateAccount(ctx, "third", "pro")
		require.NoError(t, err)
		_, err = f.store.CreateAccount(ctx, "fourth", "pro")
		require.NoError(t, err)
		plans, err := f.store.Plans(ctx)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"pro", "starter"}, plans)
		require.Equal(t, "", f.setPlan("").Plan)
		plans, err = f.store.Plans(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"pro"}, plans)
		_, err = f.store.SetPlan(ctx, "acct_0", "pro")
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})
}
