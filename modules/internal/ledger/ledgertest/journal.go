package ledgertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// busy is a fixture in which everything that makes an entry has happened, on two accounts.
func busy(t *testing.T, open Open) (f *fixture, accounts [2]ledger.Account) {
	f = newFixture(t, open, 10, ledger.Terms{MonthlyCredits: 5, FairUse: 100})
	ctx := soon(t)
	accounts[0] = f.account
	keys := [2]ledger.Key{f.key}
	f.clock.add(time.Second)
	f.newAccount(20)
	accounts[1], keys[1] = f.account, f.key
	for i := range 3 {
		for n := range accounts {
			f.account, f.key = accounts[n], keys[n]
			f.clock.add(time.Hour)
			h := f.hold("fraction", 1_000)
			f.settle(ok(h, usage(1_000, int64(500*(i+1)))))
			waiting := f.unproven("cached", nil)
			f.receipt(waiting.Attempt.ID, usage(7, int64(i)))
			_, _, err := f.store.Correct(ctx, ledger.Correction{Request: h.Request, Microcents: int64(i + 1),
				Reference: f.next("case"), Reason: "refund"})
			require.NoError(t, err)
			_, _, err = f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Microcents: int64(-1 - i),
				Reason: "adjust"})
			require.NoError(t, err)
		}
		f.clock.set(start.AddDate(0, i+1, 1))
	}
	_, err := f.store.EndPeriods(ctx)
	require.NoError(t, err)
	return f, accounts
}

func testJournal(t *testing.T, open Open) {
	f, accounts := busy(t, open)
	every := f.entries(ledger.Query{})

	t.Run("entries follow from one another", func(t *testing.T) {
		heads, balances, seqs := map[string]ledger.Digest{}, map[string]ledger.Balance{}, map[string]int64{}
		books, net := map[ledger.Book]int64{}, int64(0)
		for _, e := range every {
			require.Zero(t, e.N, "nothing is numbered across accounts")
			seqs[e.Account]++
			require.Equal(t, seqs[e.Account], e.Seq, "an account's entries have no gaps")
			require.Equal(t, heads[e.Account], e.Prev)
			heads[e.Account] = e.Hash()
			after, err := balances[e.Account].Add(e.Microcents)
			require.NoError(t, err)
			balances[e.Account] = after
			require.Equal(t, ledger.Balance{Credits: e.Credits, Accrued: e.Accrued}, after)
			require.EqualValues(t, ledger.EntryFormat, e.Format)
			require.Equal(t, e.Kind.Book(), e.Book)
			books[e.Book] -= e.Microcents
			net += e.Microcents
		}
		require.Len(t, seqs, 2)
		for _, a := range f.accounts() {
			require.Equal(t, balances[a.ID], a.Balance)
		}
		for _, book := range []ledger.Book{ledger.Payments, ledger.Revenue, ledger.Adjustments, ledger.Allotments} {
			require.NotZero(t, books[book], "%s", book)
			net += books[book]
		}
		require.Zero(t, net, "the double entry comes out even")
	})

	t.Run("the trial balance is the sum of the entries", func(t *testing.T) {
		r := f.verify()
		require.EqualValues(t, len(every), r.Entries)
		require.EqualValues(t, 2, r.Accounts)
		require.EqualValues(t, 12, r.Requests)
		books := map[ledger.Book]int64{}
		for _, e := range every {
			books[e.Book] -= e.Microcents
		}
		for book, sum := range books {
			require.Equal(t, sum, r.Sums[string(book)], "%s in %v", book, r.Sums)
		}
	})

	t.Run("entries are listed oldest first, by account and time", func(t *testing.T) {
		from, to := start.AddDate(0, 1, 0), start.AddDate(0, 2, 0)
		for _, account := range []string{"", accounts[0].ID, accounts[1].ID} {
			var want, within []ledger.Entry
			for _, e := range every {
				if account == "" || e.Account == account {
					want = append(want, e)
					if !e.Created.Before(from) && e.Created.Before(to) {
						within = append(within, e)
					}
				}
			}
			require.NotEmpty(t, within)
			require.NotEqual(t, want, within)
			require.Equal(t, want, f.entries(ledger.Query{Account: account}))
			require.Equal(t, within, f.entries(ledger.Query{Account: account, Since: from, Until: to}))
			require.Empty(t, f.entries(ledger.Query{Account: account, Since: to.AddDate(5, 0, 0)}))
		}
	})

	t.Run("a list of an account that is none", func(t *testing.T) {
		err := f.store.Entries(soon(t), ledger.Query{Account: "acct_0"}, func(ledger.Entry) error { return nil })
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})
}

func testLists(t *testing.T, open Open) {
	f, _ := busy(t, open)
	_, err := f.store.MakeCheckpoint(soon(t))
	require.NoError(t, err)
	enough := errors.New("enough")
	type list = func(ctx context.Context, each func() error) error
	for name, list := range map[string]list{
		"accounts": func(ctx context.Context, each func() error) error {
			return f.store.Accounts(ctx, "", func(ledger.Account) error { return each() })
		},
		"keys": func(ctx context.Context, each func() error) error {
			return f.store.Keys(ctx, ledger.KeyQuery{}, func(ledger.Key) error { return each() })
		},
		"entries": func(ctx context.Context, each func() error) error {
			return f.store.Entries(ctx, ledger.Query{}, func(ledger.Entry) error { return each() })
		},
		"an account's entries": func(ctx context.Context, each func() error) error {
			return f.store.Entries(ctx, ledger.Query{Account: f.account.ID}, func(ledger.Entry) error { return each() })
		},
		"checkpoints": func(ctx context.Context, each func() error) error {
			return f.store.Checkpoints(ctx, func(ledger.Checkpoint) error { return each() })
		},
		"usage": func(ctx context.Context, each func() error) error {
			return f.store.Usage(ctx, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByDay}},
				func(ledger.UsageRow) error { return each() })
		},
		"audit": func(ctx context.Context, each func() error) error {
			return f.store.Audit(ctx, ledger.Query{}, func(ledger.Act) error { return each() })
		},
	} {
		t.Run("an error of each ends a list and is returned: "+name, func(t *testing.T) {
			rows := 0
			err := list(soon(t), func() error { rows++; return enough })
			require.ErrorIs(t, err, enough)
			require.Equal(t, 1, rows)
		})
		t.Run("a list is one snapshot, and the store can be used meanwhile: "+name, func(t *testing.T) {
			before, during := 0, 0
			require.NoError(t, list(soon(t), func() error { before++; return nil }))
			require.NoError(t, list(soon(t), func() error {
				if during++; during == 1 {
					_, err := f.store.CreateAccount(context.Background(), f.next("late"), "")
					require.NoError(t, err)
					f.charge(3)
				}
				return nil
			}))
			require.Equal(t, before, during)
		})
	}
}
