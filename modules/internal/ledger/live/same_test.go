package live_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
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
	alone := func(t testing.TB, o ledgertest.Options) ledger.Store { return openAlone(t, o, false) }
	var books [2]map[string][]string
	t.Run("both", func(t *testing.T) {
		for i, open := range []ledgertest.Open{alone, openLive(false)} {
			t.Run([]string{"alone", "live"}[i], func(t *testing.T) {
				t.Parallel()
				books[i] = listMoney(t, ledgertest.WalkFrom(t, open, mixedRequests, seed))
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
	require.NoError(t, store.Accounts(t.Context(), "", func(a ledger.Account) error {
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
