package live_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/plugins/llm"
)

// memoryLog is a log that survives its process, and no machine.
type memoryLog struct {
	mu      sync.Mutex
	number  uint64
	courses map[uint64]*book.Course
	err     error
}

func newMemoryLog() *memoryLog { return &memoryLog{courses: map[uint64]*book.Course{}} }

func (m *memoryLog) Append(c *book.Course) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	m.number++
	m.courses[m.number] = c
	return m.number, nil
}

func (m *memoryLog) Empty() error { return nil }

func (m *memoryLog) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memoryLog) Release(_ int64, numbers ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, number := range numbers {
		if m.courses[number] == nil {
			panic("released twice, or never appended")
		}
		delete(m.courses, number)
	}
}

func TestLedgerOverSQLite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, openLive(false))
}

// openAlone opens a store for the suite, without this package. behind is its option Behind.
func openAlone(t testing.TB, o ledgertest.Options, behind bool) *sqlite.Store {
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(o.Dir, "ledger.db"), BootID: o.BootID, Now: o.Now,
		Terms: o.Terms, Behind: behind})
	require.NoError(t, err)
	return store
}

// openLive opens ledgers over stores for the suite. A store refuses nothing of what they decide.
func openLive(behind bool) ledgertest.Open {
	return func(t testing.TB, o ledgertest.Options) ledger.Store {
		l, err := live.Open(t.Context(), openAlone(t, o, behind), newMemoryLog(), live.Options{
			Options: ledger.Options{Now: o.Now, Terms: o.Terms}, Refuse: func(c *book.Course, u book.TakenUp) error {
				t.Errorf("request %s is refused: %v", c.ID, u.Err)
				return nil
			}})
		require.NoError(t, err)
		return l
	}
}

// away is a store that takes nothing up while it is on.
type away struct {
	live.Store
	on atomic.Bool
}

func (a *away) TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error) {
	if a.on.Load() {
		return nil, fmt.Errorf("the test's: %w", ledger.ErrUnavailable)
	}
	return a.Store.TakeUp(ctx, courses)
}

// TestToldOfFailure: a request whose client is told that the service failed, for neither the log nor the store has its
// settlement, is free (GAP-132).
func TestToldOfFailure(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	inner, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db")})
	require.NoError(t, err)
	store, log := &away{Store: inner}, newMemoryLog()
	l, err := live.Open(ctx, store, log, live.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	price := config.Price{Output: 1_000_000}
	version, err := l.PriceVersion(ctx, "small", price, price)
	require.NoError(t, err)
	account, err := l.CreateAccount(ctx, "ann", "")
	require.NoError(t, err)
	key, err := l.CreateKey(ctx, account.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = l.AddCredit(ctx, ledger.Credit{Account: account.ID, Credits: 1})
	require.NoError(t, err)
	attempt := ledger.AttemptID("req_1", 1)
	_, err = l.Hold(ctx, ledger.Hold{Request: "req_1", Account: account.ID, Key: key.ID, Endpoint: "chat",
		Profile: "balanced", Microcents: 100, Attempt: ledger.Attempt{ID: attempt, Route: "small", Provider: "echo",
			Model: "m", PriceVersion: version, Worst: 100}})
	require.NoError(t, err)

	store.on.Store(true)
	log.fail(errors.New("the disk is gone"))
	st := ledger.Settlement{Request: "req_1", Status: 200, Reason: "ok", Results: []ledger.Result{{Attempt: attempt,
		Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(7)}}}}
	_, err = l.Settle(ctx, st)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "the disk is gone")
	log.fail(nil)
	store.on.Store(false)
	require.Eventually(t, func() bool {
		r, err := l.Request(ctx, "req_1")
		return err == nil && !r.Running
	}, time.Minute, time.Millisecond)
	r, err := l.Request(ctx, "req_1")
	require.NoError(t, err)
	require.True(t, r.Free)
	require.Zero(t, r.Microcents)
	require.Equal(t, "ledger", r.Reason)
	now, err := l.Account(ctx, account.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Credits: 1}, now.Balance)
	c, err := l.Settle(ctx, st)
	require.NoError(t, err)
	require.Zero(t, c.Microcents, "and stays it")
}
