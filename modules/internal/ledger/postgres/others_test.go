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

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// pairs has each of three nodes hold and settle requests of some keys, 700 microcents each, from several callers, and
// returns how many of each key have settled. A refusal for the key's cap is none.
func pairs(ctx context.Context, t *testing.T, nodes []*postgres.Store, c customer, keys []string,
	each int) []atomic.Int64 {
	t.Helper()
	settled := make([]atomic.Int64, len(keys))
	var running sync.WaitGroup
	for n, node := range nodes {
		for caller := range 4 {
			running.Go(func() {
				for i := range each {
					k := (i + caller) % len(keys)
					request := fmt.Sprintf("req_%d_%d_%d", n, caller, i)
					h := c.hold(request, 1_000)
					h.Key = keys[k]
					if _, err := node.Hold(ctx, h); err != nil {
						t.Error(err)
						return
					}
					if _, err := node.Settle(ctx, settlement(request, 700)); err != nil {
						t.Error(err)
						return
					}
					settled[k].Add(1)
				}
			})
		}
	}
	running.Wait()
	return settled
}

// TestOthersMistakes are what other gateways got wrong with several nodes.
func TestOthersMistakes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	// bifrost#5925: a configuration that is synchronised over live counters sets them to zero.
	t.Run("GAP-53 GAP-115 what is set while requests settle leaves what they have spent", func(t *testing.T) {
		t.Parallel()
		nodes, url := openThree(t)
		c := newCustomer(t, nodes[0], 100)
		keys := []string{c.key}
		for i := range 2 {
			k, err := nodes[i].CreateKey(ctx, c.account, fmt.Sprint("key ", i), [32]byte{9, byte(i)}, "abcd",
				ledger.KeyChange{})
			require.NoError(t, err)
			keys = append(keys, k.ID)
		}
		done := make(chan struct{})
		var setting sync.WaitGroup
		setting.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-done:
					return
				default:
				}
				_, err := nodes[i%3].ChangeKey(ctx, keys[i%3], ledger.KeyChange{SpendCap: new(1_000_000_000 + i)})
				if err == nil {
					_, err = nodes[(i+1)%3].SetLimit(ctx, c.account, ledger.LimitSpendCap, new(1_000_000_000+i))
				}
				if err == nil {
					_, err = nodes[(i+2)%3].SetPlan(ctx, c.account, fmt.Sprint("plan ", i%2))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		settled := pairs(ctx, t, nodes, c, keys, 60)
		close(done)
		setting.Wait()
		conn := connect(ctx, t, url)
		for i, key := range keys {
			require.Equal(t, settled[i].Load()*700, count(ctx, t, conn, `SELECT l.spent FROM key_lines AS l JOIN keys AS k
				ON k.account = l.account AND k.root = l.root WHERE k.key = $1`, key))
		}
		require.EqualValues(t, 3*4*60*700, count(ctx, t, conn, `SELECT spent FROM balances`))
		require.Zero(t, count(ctx, t, conn, `SELECT sum(held)::bigint FROM key_lines`))
		verifyOK(ctx, t, nodes[1])
	})

	// The keys of a line are charged in the row of their account, one line at a time.
	t.Run("GAP-115 a cap holds while keys take turns on three nodes", func(t *testing.T) {
		t.Parallel()
		nodes, _ := openThree(t)
		c := newCustomer(t, nodes[0], 100)
		capped, err := nodes[0].CreateKey(ctx, c.account, "capped", [32]byte{8}, "abcd",
			ledger.KeyChange{SpendCap: new(int64(10_000))})
		require.NoError(t, err)
		var running sync.WaitGroup
		var admitted atomic.Int64
		for i := range 300 {
			running.Go(func() {
				request := fmt.Sprintf("req_%04d", i)
				h := c.hold(request, 1_000)
				if i%2 == 0 {
					h.Key = capped.ID
				}
				switch _, err := nodes[i%3].Hold(ctx, h); {
				case err == nil && i%2 == 0:
					admitted.Add(1)
				case i%2 == 0:
					if !errors.Is(err, ledger.ErrKeySpendCap) {
						t.Error(err)
					}
				case err != nil:
					t.Error(err)
				}
			})
		}
		running.Wait()
		require.EqualValues(t, 10, admitted.Load())
		verifyOK(ctx, t, nodes[2])
	})

	// litellm#27639, #30460: each node that finds a counter cold fills it.
	t.Run("GAP-60 three nodes that find a period over add its credits once", func(t *testing.T) {
		t.Parallel()
		url := databaseOf(t, t.Name())
		var clock atomic.Int64
		clock.Store(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Unix())
		var nodes []*postgres.Store
		for i := range 3 {
			store, err := postgres.Open(ctx, postgres.Options{URL: url, BootID: fmt.Sprint("node ", i),
				Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute,
					Now:   func() time.Time { return time.Unix(clock.Load(), 0) },
					Terms: func(string) ledger.Terms { return ledger.Terms{MonthlyCredits: 50} }}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			nodes = append(nodes, store)
		}
		c := newCustomer(t, nodes[0], 10)
		for month := range 3 {
			clock.Add(32 * 24 * 3600)
			var running sync.WaitGroup
			for i, node := range nodes {
				for caller := range 8 {
					running.Go(func() {
						request := fmt.Sprintf("req_%d_%d_%d", month, i, caller)
						if err := node.Check(ctx, c.account, c.key, 1_000, 0); err != nil {
							t.Error(err)
						}
						if _, err := node.Hold(ctx, c.hold(request, 1_000)); err != nil {
							t.Error(err)
						}
						if _, err := node.EndPeriods(ctx); err != nil {
							t.Error(err)
						}
					})
				}
			}
			running.Wait()
			a, err := nodes[1].Account(ctx, c.account)
			require.NoError(t, err)
			require.EqualValues(t, 10+50*(month+2), a.Balance.Credits)
		}
		verifyOK(ctx, t, nodes[2])
	})

	// litellm#28283: a restart under load leaks what is held.
	t.Run("GAP-99 nodes that leave under load leave no hold behind", func(t *testing.T) {
		t.Parallel()
		nodes, url := openThree(t)
		c := newCustomer(t, nodes[0], 1_000)
		var running sync.WaitGroup
		var held atomic.Int64
		for i := range 300 {
			running.Go(func() {
				request := fmt.Sprintf("req_%04d", i)
				if _, err := nodes[i%2].Hold(ctx, c.hold(request, 1_000)); err == nil && held.Add(1)%3 > 0 {
					_, _ = nodes[i%2].Settle(ctx, settlement(request, 700)) // it may have left
				}
				if held.Load() == 30 {
					for _, node := range nodes[:2] {
						if err := node.Close(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		running.Wait()
		for _, node := range nodes[:2] {
			require.NoError(t, node.Close())
		}
		_, err := nodes[2].Recover(ctx)
		require.NoError(t, err)
		conn := connect(ctx, t, url)
		require.Zero(t, count(ctx, t, conn, `SELECT (SELECT count(*) FROM holds) + (SELECT sum(held)::bigint FROM balances)
			+ (SELECT sum(held)::bigint FROM key_lines)`))
		require.Equal(t, held.Load(), count(ctx, t, conn, `SELECT count(*) FROM requests`))
		verifyOK(ctx, t, nodes[2])
	})
}

// TestCheckOfLines asks for keys of one account whose lines lie in different rows.
func TestCheckOfLines(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nodes, _ := openThree(t)
	c := newCustomer(t, nodes[0], 100)
	other, err := nodes[0].CreateKey(ctx, c.account, "other", [32]byte{8}, "abcd",
		ledger.KeyChange{SpendCap: new(int64(2_000))})
	require.NoError(t, err)
	require.ErrorIs(t, nodes[1].Check(ctx, "acc_none", c.key, 1, 0), ledger.ErrNotFound)
	require.ErrorIs(t, nodes[1].Check(ctx, c.account, "key_none", 1, 0), ledger.ErrNotFound)
	require.ErrorIs(t, nodes[1].Check(ctx, c.account, c.key, 101_000_000, 0), ledger.ErrInsufficient)
	for i := range 3 {
		for key, refusal := range map[string]error{c.key: nil, other.ID: ledger.ErrKeySpendCap} {
			if i == 0 && key == other.ID {
				refusal = nil
			}
			require.ErrorIs(t, nodes[1].Check(ctx, c.account, key, 1_500, 0), refusal)
		}
		h := c.hold(fmt.Sprint("req_", i), 1_000)
		if h.Key = c.key; i == 0 {
			h.Key = other.ID
		}
		_, err := nodes[2].Hold(ctx, h) // the payer is the other one, and then no more
		require.NoError(t, err)
	}
	require.NoError(t, nodes[1].Close())
	for range 20 { // each is queued or not, as it happens
		require.ErrorContains(t, nodes[1].Check(ctx, c.account, c.key, 1, 0), "it is closed")
	}
}

// TestLearnedOnce loses the answer to the commit of a fold: it is in what is kept once.
func TestLearnedOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	add := func(kept []ledger.Learned) []ledger.Learned {
		if len(kept) == 0 {
			kept = []ledger.Learned{{Route: "r", Model: "m", Kind: "k", At: time.Unix(1, 0)}}
		}
		kept[0].Worked++
		return kept
	}
	require.NoError(t, store.Learn(ctx, add))
	p.cut(1, false)
	require.NoError(t, store.Learn(ctx, add))
	require.Len(t, p.lost, 1)
	require.EqualValues(t, 2, count(ctx, t, connect(ctx, t, direct), `SELECT worked::bigint FROM learned`))
}

// TestRenewedOnceTheServerIsBack has the server away: it is asked for more often than a lease is renewed.
func TestRenewedOnceTheServerIsBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	direct := databaseOf(t, t.Name())
	p, url := startProxy(t, server, databaseName(direct))
	store := openLeased(t, url, "node", 24*time.Second) // renewed after 6 s
	conn := connect(ctx, t, direct)
	p.leave()
	isSoon(t, func() bool { return p.refused.Load() >= 8 }, "it is asked again soon")
	was := count(ctx, t, conn, `SELECT extract(epoch FROM expires)::bigint FROM nodes WHERE node = 'node'`)
	p.back()
	isSoon(t, func() bool {
		return count(ctx, t, conn, `SELECT extract(epoch FROM expires)::bigint FROM nodes WHERE node = 'node'`) > was
	}, "it is renewed")
	require.False(t, store.IsLapsed())
}

// TestOldNodesAreForgotten removes the rows of nodes that ended long ago, unless something is held for them.
func TestOldNodesAreForgotten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	conn := connect(ctx, t, url)
	_, err := conn.Exec(ctx, `INSERT INTO nodes (node, name, expires, ended)
		SELECT 'old ' || i, 'm', now() - i * interval '1 day', now() - i * interval '1 day' FROM generate_series(1, 60) AS i`)
	require.NoError(t, err)
	_, err = store.Recover(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 29, count(ctx, t, conn, `SELECT count(*) FROM nodes WHERE node LIKE 'old %'`))
	require.EqualValues(t, 1, count(ctx, t, conn, `SELECT count(*) FROM nodes WHERE node = 'node'`))
}
