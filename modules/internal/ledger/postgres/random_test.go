package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// another is a customer of his own beside one.
func (c customer) another(t testing.TB, n int, credits int64) customer {
	ctx := context.Background()
	a, err := c.store.CreateAccount(ctx, fmt.Sprint("other ", n), "")
	require.NoError(t, err)
	k, err := c.store.CreateKey(ctx, a.ID, "k", [32]byte{9, byte(n)}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = c.store.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: credits})
	require.NoError(t, err)
	c.account, c.key = a.ID, k.ID
	return c
}

func TestRandomRun(t *testing.T) {
	t.Parallel()
	randomRun(t, 2_000)
}

// randomRun has three nodes do operations, of some customers, at once, while connections of theirs are ended at random
// moments of the operations. What was answered is compared with what the database has.
func randomRun(t *testing.T, operations int64) {
	ctx := context.Background()
	nodes, url := openThree(t)
	customers := []customer{newCustomer(t, nodes[0], 1_000_000)}
	for i := range 4 {
		customers = append(customers, customers[0].another(t, i, 1_000_000))
	}
	killer := connect(ctx, t, url)
	seed := rand.Uint64()
	t.Log("seed", seed)

	var done, killed, charged, settled, added, denied atomic.Int64
	var paid sync.Map // charges by request
	kills := make(chan struct{}, 16)
	var running, killing sync.WaitGroup
	killing.Go(func() {
		for range kills {
			var n int64
			err := killer.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))
				FROM (SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
					ORDER BY random() LIMIT 2) AS _`).Scan(&n)
			if err != nil {
				t.Error(err)
				return
			}
			killed.Add(n)
		}
	})
	for worker := range 16 {
		r := rand.New(rand.NewPCG(seed, uint64(worker)))
		running.Go(func() {
			for n := done.Add(1); n <= operations; n = done.Add(1) {
				if r.IntN(10) == 0 {
					select {
					case kills <- struct{}{}:
					default:
					}
				}
				w := walk{t, nodes[r.IntN(len(nodes))], customers[r.IntN(len(customers))], r}
				switch r.IntN(10) {
				case 0:
					if w.may(func() error {
						_, _, err := w.node.AddCredit(ctx, ledger.Credit{Account: w.c.account, Credits: 3})
						return err
					}) {
						added.Add(3)
					}
				case 1:
					w.may(func() error { _, err := w.node.Recover(ctx); return err })
				case 2:
					w.may(func() error { return w.node.Check(ctx, w.c.account, w.c.key, 1, 1) })
				default:
					request := fmt.Sprintf("req_%08d", n)
					microcents, held := w.pay(ctx, request)
					if !held {
						denied.Add(1)
						continue
					}
					paid.Store(request, microcents)
					settled.Add(1)
					charged.Add(microcents)
				}
			}
		})
	}
	running.Wait()
	close(kills)
	killing.Wait()
	require.Positive(t, killed.Load())
	t.Logf("%d connections ended, %d requests charged, %d refused", killed.Load(), settled.Load(), denied.Load())

	isSoon(t, func() bool { return count(ctx, t, killer, `SELECT count(*) FROM holds`) == 0 }, "no hold is left")
	rows, err := killer.Query(ctx, `SELECT request, charge FROM requests WHERE charge > 0`)
	require.NoError(t, err)
	var request string
	var charge int64
	_, err = pgx.ForEachRow(rows, []any{&request, &charge}, func() error {
		is, _ := paid.LoadAndDelete(request)
		require.Equal(t, is, charge, request)
		return nil
	})
	require.NoError(t, err)
	for request := range paid.Range {
		require.Fail(t, "a request was charged for, and is not on record", "%v", request)
	}
	require.EqualValues(t, charged.Load(), count(ctx, t, killer,
		`SELECT sum(-microcents)::bigint FROM entries WHERE kind = 'charge'`))
	require.EqualValues(t, 5*1_000_000+added.Load(), count(ctx, t, killer,
		`SELECT sum(microcents)::bigint / 1000000 FROM entries WHERE kind = 'top_up'`))
	require.EqualValues(t, (5*1_000_000+added.Load())*1_000_000-charged.Load(), count(ctx, t, killer,
		`SELECT (sum(credits) * 1000000 - sum(accrued))::bigint FROM balances`))
	require.Zero(t, count(ctx, t, killer, `SELECT sum(held)::bigint FROM balances`)+
		count(ctx, t, killer, `SELECT sum(held)::bigint FROM key_lines`))
	isSoon(t, func() bool {
		left := 0
		for _, node := range nodes {
			requests, unmade := node.Remembered()
			left += requests + unmade
		}
		return left == 0
	}, "nothing is remembered")
	for _, node := range nodes {
		verifyOK(ctx, t, node)
	}
}

// walk is one operation of a random run.
type walk struct {
	t    *testing.T
	node *postgres.Store
	c    customer
	r    *rand.Rand
}

// may reports whether something was done; it may only fail for want of the database.
func (w walk) may(do func() error) bool {
	err := do()
	if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
		w.t.Error(err)
	}
	return err == nil
}

// pay has a request held and settled, with one or two attempts, and settles it again and again until it is, as the
// spool does. Sometimes it is asked for again.
func (w walk) pay(ctx context.Context, request string) (microcents int64, held bool) {
	if !w.may(func() error { _, err := w.node.Hold(ctx, w.c.hold(request, 10_000)); return err }) {
		return 0, false
	}
	if w.r.IntN(4) == 0 {
		w.may(func() error { _, err := w.node.Hold(ctx, w.c.hold(request, 10_000)); return err })
	}
	microcents = 1 + w.r.Int64N(5_000)
	s := settlement(request, microcents)
	if w.r.IntN(3) == 0 && w.may(func() error {
		return w.node.Begin(ctx, w.c.next(request, 20_000))
	}) {
		s.Results = append(s.Results, settlement(request, microcents).Results[0])
		s.Results[1].Attempt = ledger.AttemptID(request, 2)
		microcents *= 2
	}
	if w.r.IntN(3) == 0 {
		w.node.Refer(ledger.AttemptID(request, 1), "gen-1")
	}
	for again := w.r.IntN(5) == 0; ; again = false {
		var charge ledger.Charge
		for !w.may(func() (err error) { charge, err = w.node.Settle(ctx, s); return err }) {
			if w.t.Failed() {
				return microcents, true
			}
		}
		if charge.Microcents != microcents {
			w.t.Errorf("%s: charged %d, not %d", request, charge.Microcents, microcents)
		}
		if !again {
			return microcents, true
		}
	}
}
