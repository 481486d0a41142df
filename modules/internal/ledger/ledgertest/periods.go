package ledgertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// monthly is a plan that adds 50 credits a month.
var monthly = ledger.Terms{MonthlyCredits: 50}

func testPeriods(t *testing.T, open Open) {
	t.Run("ACCT-08 GAP-60 GAP-118 the plan's credits are added at each period's beginning, once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		end := time.Date(2026, 12, 20, 10, 30, 0, 123_456_789, time.UTC)
		require.True(t, f.period().End.Equal(end))
		require.Equal(t, ledger.Balance{Credits: 50}, f.account.Balance, "an account starts with its first period's")
		f.clock.set(end.Add(-1))
		require.Equal(t, ledger.Balance{Credits: 50}, f.balance())

		f.clock.set(end)
		for range 2 {
			require.Equal(t, ledger.Balance{Credits: 100}, f.balance())
			require.True(t, f.period().End.Equal(end.AddDate(0, 1, 0)))
			_, err := f.store.EndPeriods(soon(t))
			require.NoError(t, err)
			f.restart()
		}
		entries := f.entries(ledger.Query{})
		require.Len(t, entries, 2)
		for i, begin := range []time.Time{start, end} {
			require.Equal(t, ledger.Allotment, entries[i].Kind)
			require.Equal(t, ledger.Allotments, entries[i].Book)
			require.EqualValues(t, 50_000_000, entries[i].Microcents)
			at, err := time.Parse(time.RFC3339Nano, entries[i].Reference)
			require.NoError(t, err)
			require.True(t, at.Equal(begin) || at.Equal(begin.Truncate(time.Second)), "%s names the period's beginning",
				entries[i].Reference)
		}
	})

	t.Run("GAP-60 the day is clamped to the month's length, without drift", func(t *testing.T) {
		t.Parallel()
		for created, ends := range map[string][]string{
			"2027-12-31T23:59:59Z": {"2028-01-31T23:59:59Z", "2028-02-29T23:59:59Z", "2028-03-31T23:59:59Z",
				"2028-04-30T23:59:59Z", "2028-05-31T23:59:59Z"},
			"2027-01-30T00:00:00Z": {"2027-02-28T00:00:00Z", "2027-03-30T00:00:00Z", "2027-04-30T00:00:00Z"},
			"2027-01-29T12:00:00Z": {"2027-02-28T12:00:00Z", "2027-03-29T12:00:00Z"},
			"2028-01-29T12:00:00Z": {"2028-02-29T12:00:00Z", "2028-03-29T12:00:00Z"},
			"2100-01-31T12:00:00Z": {"2100-02-28T12:00:00Z", "2100-03-31T12:00:00Z"},
			"2026-12-01T00:00:00Z": {"2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		} {
			f := newFixture(t, open, 0, monthly)
			f.clock.set(instant(t, created))
			f.newAccount(0)
			for i, end := range ends {
				require.True(t, f.period().End.Equal(instant(t, end)), "period %d of %s ends %s", i, created, f.period().End)
				f.clock.set(instant(t, end))
				require.EqualValues(t, 50*(i+2), f.balance().Credits)
			}
		}
	})

	t.Run("GAP-60 a jump ends every period that it passes, once", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.clock.set(start.AddDate(0, 7, 0).Add(-1))
		require.Equal(t, ledger.Balance{Credits: 350}, f.balance())
		require.True(t, f.period().End.Equal(start.AddDate(0, 7, 0)))
		f.clock.set(start.AddDate(-3, 0, 0))
		require.Equal(t, ledger.Balance{Credits: 350}, f.balance())
		require.True(t, f.period().End.Equal(start.AddDate(0, 7, 0)), "nothing ends until the current end is reached again")
		f.charge(1_000_000)
		f.clock.set(start.AddDate(0, 6, 0))
		require.EqualValues(t, 349, f.balance().Credits)
		require.EqualValues(t, 1_000_000, f.period().Spent)
		f.clock.set(start.AddDate(0, 7, 0))
		require.EqualValues(t, 399, f.balance().Credits)
		require.Zero(t, f.period().Spent)
		references := map[string]bool{}
		for _, e := range f.entries(ledger.Query{}) {
			if e.Kind == ledger.Allotment {
				require.False(t, references[e.Reference], "%s is given once", e.Reference)
				references[e.Reference] = true
			}
		}
		require.Len(t, references, 8)
	})

	t.Run("ACCT-08 every operation sees the account after its period's end", func(t *testing.T) {
		t.Parallel()
		terms := ledger.Terms{MonthlyCredits: 50, SpendCap: 10, TokenBudget: 10, FairUse: 10}
		for name, look := range map[string]func(*fixture){
			"hold": func(f *fixture) { f.hold("unit", 10) },
			"check": func(f *fixture) {
				require.NoError(f.t, f.store.Check(context.Background(), f.account.ID, f.key.ID, 10, 10))
			},
			"top-up": func(f *fixture) {
				require.EqualValues(f.t, 104, f.topUp(1).Credits)
			},
			"correction": func(f *fixture) {
				b, _, err := f.store.Correct(context.Background(),
					ledger.Correction{Account: f.account.ID, Microcents: 1_000_000, Reason: "r"})
				require.NoError(f.t, err)
				require.EqualValues(f.t, 104, b.Credits)
			},
			"state": func(f *fixture) {
				a, err := f.store.SetState(context.Background(), f.account.ID, ledger.Suspended)
				require.NoError(f.t, err)
				require.EqualValues(f.t, 103, a.Balance.Credits)
				require.Zero(f.t, a.Period.Spent)
			},
			"rename": func(f *fixture) {
				a, err := f.store.RenameAccount(context.Background(), f.account.ID, "x")
				require.NoError(f.t, err)
				require.EqualValues(f.t, 103, a.Balance.Credits)
			},
			"plan": func(f *fixture) {
				a := f.setPlan("")
				require.EqualValues(f.t, 103, a.Balance.Credits, "what was due under the old plan is given")
			},
		} {
			f := newFixture(t, open, 3, ledger.Terms{MonthlyCredits: 50, FairUse: 10})
			f.settle(f.atLimit(usage(0, 10)))
			f.charge(10)
			f.plans.set("starter", terms)
			require.Equal(t, ledger.Period{End: f.period().End, Spent: 10, Tokens: 10, Waived: 10}, f.period())
			f.refused(1, ledger.ErrSpendCap)
			f.clock.set(f.period().End)
			look(f)
			require.Len(t, slices.DeleteFunc(f.kinds(), func(k ledger.EntryKind) bool { return k != ledger.Allotment }), 2, name)
		}
	})

	t.Run("ACCT-08 settlements and receipts count in the period in which they come", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 10, monthly)
		a, b := f.hold("unit", 10), f.hold("unit", 10)
		f.settle(ledger.Settlement{Request: b.Request})
		f.clock.set(f.period().End)
		require.EqualValues(t, 110_000_000-10, f.settle(ok(a, usage(0, 10))).Balance.Net())
		require.EqualValues(t, 10, f.period().Spent)
		f.clock.set(f.period().End)
		c := f.receipt(b.Attempt.ID, usage(0, 7))
		require.EqualValues(t, 160_000_000-17, c.Balance.Net())
		require.Equal(t, ledger.Period{End: f.period().End, Spent: 7, Tokens: 7}, f.period())
	})

	t.Run("EndPeriods ends what nobody looks at", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		ctx := soon(t)
		for range 4 {
			f.newAccount(0)
		}
		f.plans.set("pro", ledger.Terms{MonthlyCredits: 7})
		f.setPlan("pro")
		f.newAccount(0)
		f.setPlan("")
		n, err := f.store.EndPeriods(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		f.clock.set(start.AddDate(0, 2, 0))
		n, err = f.store.EndPeriods(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 5, n)
		var credits []int64
		for _, a := range f.accounts() {
			credits = append(credits, a.Balance.Credits)
		}
		require.Equal(t, []int64{150, 150, 150, 150, 64, 50}, credits)
		n, err = f.store.EndPeriods(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Len(t, f.entries(ledger.Query{}), 16)
	})

	t.Run("GAP-118 a period knows its credits again when its plan had none for a while", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		f.plans.set("capped", ledger.Terms{Periods: true, SpendCap: 10})
		for _, plan := range []string{"", "capped", "starter"} {
			f.setPlan(plan)
			require.EqualValues(t, 50, f.balance().Credits)
			f.verify()
		}
		f.clock.set(f.period().End)
		require.EqualValues(t, 100, f.balance().Credits)
	})

	t.Run("a reference of a person's is no allotment's", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 0, monthly)
		end := f.period().End
		for _, reference := range []string{end.Format(time.RFC3339), end.Format(time.RFC3339Nano)} {
			_, applied, err := f.store.AddCredit(soon(t), ledger.Credit{Account: f.account.ID, Credits: 1, Reference: reference})
			require.NoError(t, err)
			require.True(t, applied)
		}
		f.clock.set(end)
		require.EqualValues(t, 102, f.balance().Credits)
		next := f.period().End
		f.clock.set(next)
		require.EqualValues(t, 152, f.balance().Credits)
	})
}

func instant(t testing.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}
