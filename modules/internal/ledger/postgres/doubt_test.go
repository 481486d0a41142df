package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/plugins/llm"
)

// customer is an account with a key, of a store in which a route has a price.
type customer struct {
	store   *postgres.Store
	account string
	key     string
	version int64
}

var quiet = slog.New(slog.DiscardHandler)

func openStore(t testing.TB, url, name string) *postgres.Store {
	store, err := postgres.Open(context.Background(), postgres.Options{
		Options: ledger.Options{Logger: quiet, WaitTimeout: time.Minute}, URL: url, BootID: name,
	})
	require.NoError(t, err)
	return store
}

// newCustomer makes one with so many credits. A token costs a microcent.
func newCustomer(t testing.TB, store *postgres.Store, credits int64) customer {
	ctx := context.Background()
	unit := config.Price{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}
	version, err := store.PriceVersion(ctx, "unit", unit, unit)
	require.NoError(t, err)
	a, err := store.CreateAccount(ctx, "acme", "")
	require.NoError(t, err)
	k, err := store.CreateKey(ctx, a.ID, "laptop", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = store.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: credits})
	require.NoError(t, err)
	return customer{store, a.ID, k.ID, version}
}

func (c customer) hold(request string, microcents int64) ledger.Hold {
	return ledger.Hold{Request: request, Account: c.account, Key: c.key, Endpoint: "chat", Profile: "max",
		Microcents: microcents,
		Attempt: ledger.Attempt{ID: ledger.AttemptID(request, 1), Route: "unit", Provider: "p", Model: "m",
			PriceVersion: c.version, Worst: microcents}}
}

// next is a second attempt of a request, which may come to so much with it.
func (c customer) next(request string, microcents int64) ledger.Next {
	return ledger.Next{Request: request, Microcents: microcents, Attempt: ledger.Attempt{ID: ledger.AttemptID(request, 2),
		Route: "unit", Provider: "p", Model: "m", PriceVersion: c.version, Worst: microcents / 2}}
}

func settlement(request string, microcents int64) ledger.Settlement {
	return ledger.Settlement{Request: request, Status: 200, Reason: "ok", Results: []ledger.Result{{
		Attempt: ledger.AttemptID(request, 1), Outcome: ledger.Finished,
		Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(microcents)}}}}
}

// TestCommitWithoutItsStandby has the wait of a commit for its synchronous standby cancelled, which leaves the commit
// on the primary alone: the server says so by a warning, and a repetition that writes nothing would be answered at
// once.
func TestCommitWithoutItsStandby(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, standby, url := startPair(t)
	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	_, err := store.Hold(ctx, c.hold("req_1", 1_000_000))
	require.NoError(t, err)

	require.NoError(t, standby.Freeze())
	type answer struct {
		c   ledger.Charge
		err error
	}
	settled := make(chan answer, 1)
	go func() {
		c, err := store.Settle(ctx, settlement("req_1", 700))
		settled <- answer{c, err}
	}()
	watcher, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	for range 3 { // the later ones are of the repetition, which waits as the first did
		cancelWaiting(ctx, t, watcher)
	}
	select {
	case a := <-settled:
		require.Fail(t, "a charge was acknowledged that a failover would lose", "%+v", a)
	default:
	}
	require.NoError(t, standby.Thaw())
	a := <-settled
	require.NoError(t, a.err)
	require.EqualValues(t, 700, a.c.Microcents)
	require.NoError(t, watcher.Close(ctx))
	follower, err := pgx.Connect(ctx, standby.URL("ledger"))
	require.NoError(t, err)
	var charge int64
	require.Eventually(t, func() bool { // it is applied a moment behind its arrival
		return follower.QueryRow(ctx, `SELECT charge FROM requests WHERE request = 'req_1'`).Scan(&charge) == nil
	}, 10*time.Second, 5*time.Millisecond)
	require.EqualValues(t, 700, charge)
	require.NoError(t, follower.Close(ctx))
}

// cancelWaiting cancels the commit that waits for a standby.
func cancelWaiting(ctx context.Context, t *testing.T, watcher *pgx.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := watcher.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
			WHERE wait_event = 'SyncRep' AND query = 'COMMIT'`).Scan(&n)
		require.NoError(t, err)
		return n > 0
	}, 10*time.Second, 5*time.Millisecond, "no commit waits for its standby")
}

// TestDoubtOfABatchThatIsSplit loses the answer to the commit of holds that travel together, and has their accounts
// locked behind it for so long that they are tried apart: none of them is forgotten. Callers were told that there are
// no holds, so there are none in the end.
func TestDoubtOfABatchThatIsSplit(t *testing.T) {
	t.Parallel()
	for _, accounts := range []int{1, 2} {
		t.Run(fmt.Sprint(accounts, " accounts"), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			direct := databaseOf(t, t.Name())
			p, url := startProxy(t, server, databaseName(direct))
			store := openOneLane(t, url, "node")
			one := newCustomer(t, store, 10)
			other := one
			if accounts == 2 {
				other = one.another(t, 1, 10)
			}
			locker, watcher := connect(ctx, t, direct), connect(ctx, t, direct)
			tx := occupyLane(ctx, t, one, locker, watcher)
			answers := make(chan error, 2)
			go func() { _, err := store.Hold(ctx, one.hold("req_1", 1_000)); answers <- err }()
			go func() { _, err := store.Hold(ctx, other.hold("req_2", 1_000)); answers <- err }()
			isSoon(t, func() bool { return store.Queued() == 2 }, "both wait for the lane")
			p.cut(1, true)
			require.NoError(t, tx.Commit(ctx))
			<-p.lost
			tx = lockAccounts(ctx, t, locker)
			p.back()
			require.EqualValues(t, 2, count(ctx, t, watcher, `SELECT count(*) FROM holds`), "they were committed")
			for range 2 {
				require.ErrorIs(t, <-answers, ledger.ErrUnavailable)
			}
			require.NoError(t, tx.Commit(ctx))
			isSoon(t, func() bool { return count(ctx, t, watcher, `SELECT count(*) FROM holds`) == 0 }, "orphans are released")
			isSoon(t, func() bool { requests, _ := store.Remembered(); return requests == 0 }, "nothing is remembered")
			verifyOK(ctx, t, store)
		})
	}
}

// lockAccounts locks all accounts.
func lockAccounts(ctx context.Context, t *testing.T, locker *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := locker.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT 1 FROM balances FOR UPDATE`)
	require.NoError(t, err)
	return tx
}

// occupyLane has a store's only lane wait for an account that is locked, until the transaction that it returns ends:
// what comes meanwhile travels together. What waits is refused in the end.
func occupyLane(ctx context.Context, t *testing.T, c customer, locker, watcher *pgx.Conn) pgx.Tx {
	t.Helper()
	tx := lockAccounts(ctx, t, locker)
	refused := make(chan error, 1)
	go func() { _, err := c.store.Hold(ctx, c.hold("req_refused", 1_000_000_000_000)); refused <- err }()
	t.Cleanup(func() { require.ErrorIs(t, <-refused, ledger.ErrInsufficient) })
	isSoon(t, func() bool {
		return count(ctx, t, watcher, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, "the lane waits")
	return tx
}
