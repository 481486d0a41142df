package live_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// mixedRequests is how many requests, with fallbacks, receipts, closings, top-ups, corrections and periods among them,
// TestSameMoney makes.
const mixedRequests = 5_000

// TestSameMoney: the same requests come to the same entries and balances in the store alone and in one behind memory
// (GAP-132). Both are verified.
func TestSameMoney(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	open := func(isLive bool) ledgertest.Open {
		return func(t testing.TB, o ledgertest.Options) ledger.Store {
			store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(o.Dir, "ledger.db"), BootID: o.BootID, Now: o.Now,
				Terms: o.Terms})
			require.NoError(t, err)
			if !isLive {
				return store
			}
			l, err := live.Open(t.Context(), store, newMemoryLog(), live.Options{Options: ledger.Options{Now: o.Now, Terms: o.Terms},
				Refuse: func(c *book.Course, u book.TakenUp) error {
					t.Errorf("request %s is refused: %v", c.ID, u.Err)
					return nil
				}})
			require.NoError(t, err)
			return l
		}
	}
	var books [2]map[string][]string
	t.Run("both", func(t *testing.T) {
		for i, isLive := range []bool{false, true} {
			t.Run(fmt.Sprint("live ", isLive), func(t *testing.T) {
				t.Parallel()
				books[i] = listMoney(t, ledgertest.WalkFrom(t, open(isLive), mixedRequests, seed))
			})
		}
	})
	require.NotEmpty(t, books[0])
	require.Equal(t, len(books[0]), len(books[1]))
	for name := range maps.Keys(books[0]) {
		require.Equal(t, books[0][name], books[1][name], name)
	}
}

// listMoney lists, by the names of accounts, their balances and all movements.
func listMoney(t *testing.T, store ledger.Store) map[string][]string {
	t.Helper()
	names, money := map[string]string{}, map[string][]string{}
	require.NoError(t, store.Accounts(t.Context(), func(a ledger.Account) error {
		names[a.ID] = a.Name
		money[a.Name] = append(money[a.Name], fmt.Sprintf("%+v", a.Balance))
		return nil
	}))
	require.NoError(t, store.Entries(t.Context(), ledger.Query{}, func(e ledger.Entry) error {
		name := names[e.Account]
		money[name] = append(money[name], fmt.Sprint(e.Seq, e.Kind, e.Book, e.Request, e.Reference, e.Prices, e.Microcents,
			e.Waived, e.Over, e.Tokens, e.Created))
		return nil
	}))
	return money
}
