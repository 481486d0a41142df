package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// setLimit sets a limit of the fixture's account, or gives it back to the plan.
func (f *fixture) setLimit(limit ledger.Limit, value *int64) ledger.Account {
	a, err := f.store.SetLimit(soon(f.tb), f.account.ID, limit, value)
	require.NoError(f.t, err)
	require.Equal(f.t, value, a.Limits.Of(limit))
	return a
}

func testSettings(t *testing.T, open Open) {
	t.Run("GAP-118 BILL-18 a spend cap of the account, over its plan's", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{SpendCap: 1_000})
		f.setLimit(ledger.LimitSpendCap, new(int64(100)))
		f.refused(101, ledger.ErrSpendCap)
		f.charge(100)
		f.refused(0, ledger.ErrSpendCap)
		f.setLimit(ledger.LimitSpendCap, new(int64(0)))
		f.charge(5_000)
		f.setLimit(ledger.LimitSpendCap, nil)
		f.refused(0, ledger.ErrSpendCap)
		f.setPlan("")
		f.charge(1)
	})

	t.Run("GAP-118 BILL-17 a token budget of the account, before each upstream call", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{})
		h := f.hold("unit", 10)
		f.setLimit(ledger.LimitTokenBudget, new(int64(20)))
		begin := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 10, Tokens: 21}
		require.ErrorIs(t, f.store.Begin(soon(t), begin), ledger.ErrTokenBudget)
		begin.Tokens = 20
		require.NoError(t, f.store.Begin(soon(t), begin))
		f.restart()
		f.waiting++ // for the second attempt
		over := f.newHold("unit", 10)
		over.Tokens = 21
		f.refusedHold(over, ledger.ErrTokenBudget)
	})

	t.Run("GAP-118 BILL-26 a fair-use allowance of the account", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 100, ledger.Terms{FairUse: 500})
		f.setLimit(ledger.LimitFairUse, new(int64(0)))
		require.Zero(t, f.settle(f.atLimit(usage(0, 300))).Waived)
		f.setLimit(ledger.LimitFairUse, new(int64(900)))
		require.EqualValues(t, 800, f.settle(f.atLimit(usage(0, 800))).Waived)
		f.setLimit(ledger.LimitFairUse, nil)
		require.Zero(t, f.settle(f.atLimit(usage(0, 1))).Waived, "more than the plan's was used")
	})

	t.Run("GAP-118 every limit and the profile are kept, shown and found with a key", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1, ledger.Terms{})
		ctx := soon(t)
		require.Equal(t, ledger.Limits{}, f.account.Limits)
		var want ledger.Limits
		for i, limit := range ledger.AllLimits {
			want[i] = new(int64(i * 10))
			require.Equal(t, want, f.setLimit(limit, want[i]).Limits)
		}
		a, err := f.store.SetProfile(ctx, f.account.ID, "budget")
		require.NoError(t, err)
		require.Equal(t, "budget", a.Profile)
		f.newAccount(0)
		require.Equal(t, ledger.Limits{}, f.now().Limits, "they are one account's")
		f.account = a
		for range 2 {
			require.Equal(t, want, f.now().Limits)
			require.Equal(t, "budget", f.now().Profile)
			p, err := f.store.Lookup(ctx, hashOf(a.ID+"laptop"))
			require.NoError(t, err)
			require.Equal(t, want, p.Account.Limits)
			require.Equal(t, "budget", p.Account.Profile)
			require.Equal(t, want, f.accounts()[0].Limits)
			f.restart()
		}
		for i, limit := range ledger.AllLimits {
			want[i] = nil
			require.Equal(t, want, f.setLimit(limit, nil).Limits)
		}
		a, err = f.store.SetProfile(ctx, f.account.ID, "")
		require.NoError(t, err)
		require.Empty(t, a.Profile)
	})

	t.Run("what it requires of routes is kept, shown, found with a key, and changed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1, ledger.Terms{})
		ctx := soon(t)
		require.Equal(t, config.Requires{}, f.account.Requires)
		set := func(change ledger.RequiresChange) config.Requires {
			a, err := f.store.SetRequires(ctx, f.account.ID, change)
			require.NoError(t, err)
			for range 2 {
				require.Equal(t, a.Requires, f.now().Requires)
				p, err := f.store.Lookup(ctx, hashOf(a.ID+"laptop"))
				require.NoError(t, err)
				require.Equal(t, a.Requires, p.Account.Requires)
				require.Equal(t, a.Requires, f.accounts()[0].Requires)
				f.restart()
			}
			return a.Requires
		}
		want := config.Requires{Regions: []string{"ch", "eu"}}
		require.Equal(t, want, set(ledger.RequiresChange{Regions: &[]string{"eu", "ch", "eu"}}), "in order, each once")
		want.Retention = new(30 * 24 * time.Hour)
		require.Equal(t, want, set(ledger.RequiresChange{Retention: new("30d")}))
		want = config.Requires{Regions: []string{"us-east"}, Retention: new(time.Duration)}
		require.Equal(t, want, set(ledger.RequiresChange{Regions: &[]string{"us-east"}, Retention: new("none")}))
		want.Regions = nil
		require.Equal(t, want, set(ledger.RequiresChange{Regions: &[]string{}}))
		first := f.account
		f.newAccount(0)
		require.Equal(t, config.Requires{}, f.now().Requires, "it is one account's")
		f.account = first
		require.Equal(t, config.Requires{}, set(ledger.RequiresChange{Retention: new("")}))
	})

	t.Run("its addresses are kept and shown, not found with a key, and masked in the trail", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1, ledger.Terms{})
		ctx := soon(t)
		require.Nil(t, f.account.Mail)
		set := func(want []string, addresses ...string) {
			a, err := f.store.SetMail(ctx, f.account.ID, addresses)
			require.NoError(t, err)
			for range 2 {
				require.Equal(t, want, a.Mail)
				require.Equal(t, want, f.now().Mail)
				require.Equal(t, want, f.accounts()[0].Mail)
				p, err := f.store.Lookup(ctx, hashOf(a.ID+"laptop"))
				require.NoError(t, err)
				require.Nil(t, p.Account.Mail, "a request needs none of it")
				f.restart()
			}
		}
		set([]string{"ann@example.com", "z+1@b.example"}, "Ann <ann@example.com>", "z+1@b.example", "ann@example.com")
		set([]string{"eve@example.com"}, "eve@example.com")
		first := f.account
		f.newAccount(0)
		require.Nil(t, f.now().Mail, "it is one account's")
		f.account = first
		set(nil)
		for _, act := range f.acts(ledger.Query{}) {
			require.NotContains(t, act.Before+act.After, "ann@example.com")
			require.NotContains(t, act.Before+act.After, "eve@example.com")
		}
	})

	t.Run("what makes no sense changes nothing, and what changes nothing is no act", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1, ledger.Terms{})
		ctx := soon(t)
		f.setLimit("requests_per_minute.key", new(int64(5)))
		_, err := f.store.SetRequires(ctx, f.account.ID, ledger.RequiresChange{Regions: &[]string{"eu"}})
		require.NoError(t, err)
		before, acts := f.now(), f.acts(ledger.Query{})
		for limit, value := range map[ledger.Limit]int64{"": 1, "monthly_credits": 1, "requests_per_minute.key": -1,
			ledger.LimitOwnSpendCap: 0} {
			_, err := f.store.SetLimit(ctx, f.account.ID, limit, &value)
			require.ErrorIs(t, err, ledger.ErrInvalid)
		}
		many := strings.Split("abcdefghijklmnopq", "")
		for _, regions := range [][]string{{""}, {"eu", ""}, {" eu"}, {"eu,us"}, {"e\nu"}, {strings.Repeat("x", 65)}, many} {
			_, err := f.store.SetRequires(ctx, f.account.ID, ledger.RequiresChange{Regions: &regions})
			require.ErrorIs(t, err, ledger.ErrInvalid, "%q", regions)
		}
		for _, retention := range []string{"never", "0s", "-1h", "3651d", "30"} {
			_, err := f.store.SetRequires(ctx, f.account.ID, ledger.RequiresChange{Retention: &retention})
			require.ErrorIs(t, err, ledger.ErrInvalid, retention)
			require.ErrorContains(t, err, `"none"`)
		}
		_, err = f.store.SetRequires(ctx, "acct_0", ledger.RequiresChange{Retention: new("none")})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		six := []string{"a@x.y", "b@x.y", "c@x.y", "d@x.y", "e@x.y", "f@x.y"}
		long := strings.Repeat("a", 243) + "@example.com"
		for _, addresses := range [][]string{{""}, {"ann"}, {"a@b.c\r\nBcc: d@e.f"}, {"a@b.c, d@e.f"}, {`"a,b"@c.d`},
			{"ä@b.c"}, {"a@b.c", " "}, six, {long}} {
			_, err := f.store.SetMail(ctx, f.account.ID, addresses)
			require.ErrorIs(t, err, ledger.ErrInvalid, "%q", addresses)
		}
		_, err = f.store.SetMail(ctx, "acct_0", []string{"a@b.c"})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = f.store.SetMail(ctx, f.account.ID, nil)
		require.NoError(t, err)
		_, err = f.store.SetProfile(ctx, f.account.ID, "best")
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.SetLimit(ctx, "acct_0", "requests_per_minute.key", nil)
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = f.store.SetProfile(ctx, "acct_0", "max")
		require.ErrorIs(t, err, ledger.ErrNotFound)
		f.setLimit("requests_per_minute.key", new(int64(5)))
		f.setLimit(ledger.LimitFairUse, nil)
		for _, change := range []ledger.RequiresChange{{}, {Regions: &[]string{"eu"}}, {Retention: new("")}} {
			_, err = f.store.SetRequires(ctx, f.account.ID, change)
			require.NoError(t, err)
		}
		_, err = f.store.SetProfile(ctx, f.account.ID, "")
		require.NoError(t, err)
		require.Equal(t, before, f.now())
		require.Equal(t, acts, f.acts(ledger.Query{}))
	})
}
