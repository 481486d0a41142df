package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// openThree opens three nodes on a database of the test's own.
func openThree(t *testing.T) (nodes []*postgres.Store, url string) {
	url = databaseOf(t, t.Name())
	for i := range 3 {
		store := openStore(t, url, fmt.Sprint("node ", i))
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		nodes = append(nodes, store)
	}
	return nodes, url
}

// race has 1,000 requests of so many microcents each ask three nodes at once, and returns those that were admitted.
// All others were refused for the reason.
func race(ctx context.Context, t *testing.T, nodes []*postgres.Store, c customer, microcents int64,
	refusal error) []string {
	t.Helper()
	var mu sync.Mutex
	var admitted []string
	var refused atomic.Int64
	var running sync.WaitGroup
	for i := range 1_000 {
		running.Go(func() {
			request := fmt.Sprintf("req_%04d", i)
			switch _, err := nodes[i%len(nodes)].Hold(ctx, c.hold(request, microcents)); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				admitted = append(admitted, request)
			case errors.Is(err, refusal): // any other makes the counts disagree
				refused.Add(1)
			}
		})
	}
	running.Wait()
	require.EqualValues(t, 1_000, int64(len(admitted))+refused.Load())
	return admitted
}

// nodeOf holds a request of race.
func nodeOf(nodes []*postgres.Store, request string) *postgres.Store {
	i := 0
	_, _ = fmt.Sscanf(request, "req_%d", &i)
	return nodes[i%len(nodes)]
}

func TestRaceOfThreeNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("BILL-13 GAP-49 for the last credits", func(t *testing.T) {
		t.Parallel()
		nodes, url := openThree(t)
		c := newCustomer(t, nodes[0], 10)
		admitted := race(ctx, t, nodes, c, 1_000_000, ledger.ErrInsufficient)
		require.Len(t, admitted, 10)
		require.EqualValues(t, 10, count(ctx, t, connect(ctx, t, url), `SELECT count(*) FROM holds`))
		held := 0
		for _, node := range nodes {
			n, _ := node.Remembered()
			held += n
		}
		require.Equal(t, 10, held, "who was refused is not remembered")
		for _, request := range admitted {
			_, err := nodeOf(nodes, request).Settle(ctx, settlement(request, 1_000_000))
			require.NoError(t, err)
		}
		b, err := nodes[1].Account(ctx, c.account)
		require.NoError(t, err)
		require.Equal(t, ledger.Balance{}, b.Balance)
		verifyOK(ctx, t, nodes[2])
	})

	t.Run("GAP-115 for the last of a key's cap", func(t *testing.T) {
		t.Parallel()
		nodes, _ := openThree(t)
		c := newCustomer(t, nodes[0], 100)
		_, err := nodes[1].ChangeKey(ctx, c.key, ledger.KeyChange{SpendCap: new(int64(10_000_000))})
		require.NoError(t, err)
		require.Len(t, race(ctx, t, nodes, c, 1_000_000, ledger.ErrKeySpendCap), 10)
		verifyOK(ctx, t, nodes[2])
	})

	for _, limit := range []struct {
		limit   ledger.Limit
		refusal error
	}{{ledger.LimitSpendCap, ledger.ErrSpendCap}, {ledger.LimitTokenBudget, ledger.ErrTokenBudget}} {
		t.Run(fmt.Sprintf("GAP-53 %v counts what has settled on any node", limit.limit), func(t *testing.T) {
			t.Parallel()
			nodes, _ := openThree(t)
			c := newCustomer(t, nodes[0], 100)
			_, err := nodes[1].SetLimit(ctx, c.account, limit.limit, new(int64(10_000)))
			require.NoError(t, err)
			ask := func(i int) (string, error) {
				request := fmt.Sprintf("req_%04d", i)
				h := c.hold(request, 1_000)
				h.Tokens = 1_000
				_, err := nodes[i%3].Hold(ctx, h)
				return request, err
			}
			for i := range 9 { // 9 of 10 are used up, by all nodes
				request, err := ask(i)
				require.NoError(t, err)
				_, err = nodeOf(nodes, request).Settle(ctx, settlement(request, 1_000))
				require.NoError(t, err)
			}
			var running sync.WaitGroup
			var admitted atomic.Int64
			for i := range 90 { // each fits alone
				running.Go(func() {
					if _, err := ask(9 + i); err == nil {
						admitted.Add(1)
					}
				})
			}
			running.Wait()
			require.EqualValues(t, 90, admitted.Load())
			_, err = nodes[0].Settle(ctx, settlement("req_0009", 1_000))
			require.NoError(t, err)
			for i := range 30 {
				_, err := ask(200 + i)
				require.ErrorIs(t, err, limit.refusal, "at the limit on every node")
			}
			verifyOK(ctx, t, nodes[2])
		})
	}
}

// TestPricesOfTwoNodes has nodes told the same new price at once: it is one version.
func TestPricesOfTwoNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nodes, url := openThree(t)
	var running sync.WaitGroup
	var wrong atomic.Int64
	for i := range 30 {
		p := config.Price{Input: int64(i + 1), CacheRead: 1, CacheWrite: 1, Output: 1}
		for _, node := range nodes {
			running.Go(func() {
				if v, err := node.PriceVersion(ctx, "route "+fmt.Sprint(i), p, p); v != 1 || err != nil {
					wrong.Add(1)
				}
			})
		}
	}
	running.Wait()
	require.Zero(t, wrong.Load())
	require.EqualValues(t, 30, count(ctx, t, connect(ctx, t, url), `SELECT count(*) FROM prices`))
}

// TestTextsThatTheDatabaseCannotStore: what an upstream calls its reply hinders no settlement.
func TestTextsThatTheDatabaseCannotStore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	const wild = "gen\x00-\xff1"
	for i, by := range []func(request string, s *ledger.Settlement){
		func(request string, _ *ledger.Settlement) { store.Refer(ledger.AttemptID(request, 1), wild) },
		func(_ string, s *ledger.Settlement) {
			s.Results[0] = ledger.Result{Attempt: s.Results[0].Attempt, Outcome: ledger.Unproven, Reference: wild, Key: wild}
		},
		func(_ string, s *ledger.Settlement) { s.Reason = wild },
	} {
		request := fmt.Sprint("req_", i)
		_, err := store.Hold(ctx, c.hold(request, 1_000))
		require.NoError(t, err)
		s := settlement(request, 700)
		by(request, &s)
		_, err = store.Settle(ctx, s)
		require.NoError(t, err)
	}
	waiting, err := store.Waiting(ctx, "p", "", 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Equal(t, "gen-1", waiting[0].Reference)
	for _, name := range []string{wild, "\x00", "\xff"} {
		_, err := store.Account(ctx, name)
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = store.Hold(ctx, c.hold("req_"+name, 1))
		require.Error(t, err)
		_, err = store.Settle(ctx, settlement("req_"+name, 1))
		require.Error(t, err)
	}
	_, err = store.Hold(ctx, c.hold("req_fine", 1_000))
	require.NoError(t, err, "the store goes on")
	_, err = store.Settle(ctx, settlement("req_fine", 1))
	require.NoError(t, err)
	verifyOK(ctx, t, store)
	requests, unmade := store.Remembered()
	require.Zero(t, requests+unmade)
}

// TestStalledLists has more lists wait for their readers than there are connections: requests, lookups, prices and the
// lease go on. Then many sum up what was used, with prices that nobody has read yet, and all come to an end.
func TestStalledLists(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openLeased(t, url, "node", 2*time.Second)
	c := newCustomer(t, store, 10)
	conn := connect(ctx, t, url)
	const expiry = `SELECT (extract(epoch FROM expires) * 1000000)::bigint FROM nodes WHERE node = 'node'`
	goesOn := make(chan struct{})
	var entered atomic.Int64
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			err := store.Entries(ctx, ledger.Query{}, func(ledger.Entry) error {
				entered.Add(1)
				<-goesOn
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	isSoon(t, func() bool { return entered.Load() >= 4 }, "the lists' connections are taken")
	lease := count(ctx, t, conn, expiry)
	price := config.Price{Input: 7, CacheRead: 7, CacheWrite: 7, Output: 7}
	for i := range 12 {
		request, route := fmt.Sprint("req_", i), fmt.Sprint("route ", i)
		version, err := store.PriceVersion(ctx, route, price, price)
		require.NoError(t, err)
		h := c.hold(request, 1_000)
		h.Attempt.Route, h.Attempt.PriceVersion = route, version
		_, err = store.Hold(ctx, h)
		require.NoError(t, err)
		_, err = store.Lookup(ctx, [32]byte{1})
		require.NoError(t, err)
		_, err = store.Settle(ctx, settlement(request, 1_000))
		require.NoError(t, err)
		require.NoError(t, store.Ping(ctx))
	}
	isSoon(t, func() bool { return count(ctx, t, conn, expiry) > lease+2_000_000 }, "the lease is renewed on and on")
	require.False(t, store.IsLapsed())
	require.EqualValues(t, 4, entered.Load(), "the lists still stall")
	close(goesOn)
	running.Wait()

	cold := openStore(t, url, "cold")
	t.Cleanup(func() { require.NoError(t, cold.Close()) })
	var rows atomic.Int64
	for range 12 {
		running.Go(func() {
			err := cold.Usage(ctx, ledger.UsageQuery{By: []ledger.Dimension{ledger.ByRoute}}, func(ledger.UsageRow) error {
				rows.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	require.EqualValues(t, 12*12, rows.Load())
}

// TestLockedAccount has one account locked by somebody else's session: other accounts of the same lane are answered
// while it is, and Recover goes on with them.
func TestLockedAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	dead, store := openOneLane(t, url, "dead"), openOneLane(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	customers := []customer{newCustomer(t, dead, 10)}
	for i := range 3 {
		customers = append(customers, customers[0].another(t, i, 10))
	}
	for i, c := range customers {
		_, err := dead.Hold(ctx, c.hold(fmt.Sprint("req_dead", i), 1_000))
		require.NoError(t, err)
	}
	require.NoError(t, dead.Close())

	conn := connect(ctx, t, url)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT 1 FROM balances WHERE account = $1 FOR UPDATE`, customers[0].account)
	require.NoError(t, err)
	locked := make(chan error, 1)
	answers := make(chan error, len(customers))
	go func() { _, err := store.Hold(ctx, customers[0].hold("req_0", 1_000)); locked <- err }()
	for i, c := range customers[1:] {
		go func() { _, err := store.Hold(ctx, c.hold(fmt.Sprint("req_", i+1), 1_000)); answers <- err }()
	}
	for range customers[1:] { // while it is locked
		require.NoError(t, <-answers)
	}
	require.ErrorIs(t, <-locked, ledger.ErrUnavailable)
	n, err := store.Recover(ctx)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.EqualValues(t, 3, n)
	require.NoError(t, tx.Rollback(ctx))
	n, err = store.Recover(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	_, err = store.Hold(ctx, customers[0].hold("req_0", 1_000))
	require.NoError(t, err)
	verifyOK(ctx, t, store)
}

// openOneLane opens a node whose accounts all go through one lane.
func openOneLane(t *testing.T, url, name string) *postgres.Store {
	store, err := postgres.Open(context.Background(), postgres.Options{
		Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute}, URL: url, BootID: name, Lanes: 1,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}
