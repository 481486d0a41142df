package live_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// newAway is a store that is not away yet.
func newAway(t *testing.T) *away {
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db")})
	require.NoError(t, err)
	return &away{Store: store}
}

// openFor opens a ledger for a test.
func openFor(t *testing.T, store *away, log live.Log, to *slog.Logger) *live.Ledger {
	l, err := live.Open(t.Context(), store, log, live.Options{Options: ledger.Options{Logger: to}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// prepareHold makes an account with a credit, and is the hold of a request of it, which nobody has asked for yet.
func prepareHold(t *testing.T, l *live.Ledger) ledger.Hold {
	ctx, price := t.Context(), config.Price{Output: 1_000_000}
	version, err := l.PriceVersion(ctx, "small", price, price)
	require.NoError(t, err)
	account, err := l.CreateAccount(ctx, "ann", "")
	require.NoError(t, err)
	key, err := l.CreateKey(ctx, account.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = l.AddCredit(ctx, ledger.Credit{Account: account.ID, Credits: 1})
	require.NoError(t, err)
	return ledger.Hold{Request: "req_1", Account: account.ID, Key: key.ID, Endpoint: "chat", Profile: "balanced",
		Microcents: 100, Attempt: ledger.Attempt{ID: ledger.AttemptID("req_1", 1), Route: "small", Provider: "echo",
			Model: "m", PriceVersion: version, Worst: 100}}
}

// TestGivenUp: who is told that the ledger is away holds nothing, and its request is free (GAP-132). Nobody is alarmed
// about it.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var lines bytes.Buffer
	store := newAway(t)
	l := openFor(t, store, newMemoryLog(), slog.New(slog.NewTextHandler(&lines, nil)))
	hold := prepareHold(t, l)
	store.on.Store(true)
	_, err := l.Hold(ctx, hold)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	store.on.Store(false)
	require.Eventually(t, func() bool {
		_, err := l.CountWaiting(ctx)
		return err == nil
	}, time.Minute, time.Millisecond)
	now, err := l.Account(ctx, hold.Account)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Credits: 1}, now.Balance)
	c, err := l.Settle(ctx, ledger.Settlement{Request: hold.Request, Status: 200, Reason: "ok", Results: []ledger.Result{{
		Attempt: hold.Attempt.ID, Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(7)}}}})
	require.NoError(t, err)
	require.Zero(t, c.Microcents)
	require.NoError(t, l.Close())
	require.Contains(t, lines.String(), "the ledger is away")
	require.NotContains(t, lines.String(), "a hold that nobody waits for stays")
}

// TestAwayIsSaid: an operation that has to see what was decided, of an account that it has to be asked about, says
// that the ledger is away.
func TestAwayIsSaid(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := newAway(t)
	l := openFor(t, store, newMemoryLog(), slog.New(slog.DiscardHandler))
	hold := prepareHold(t, l)
	hold.WriteBehind = true
	store.on.Store(true)
	_, err := l.Hold(ctx, hold)
	require.NoError(t, err)
	for name, do := range map[string]func() error{
		"ChangeKey": func() error { _, err := l.ChangeKey(ctx, hold.Key, ledger.KeyChange{}); return err },
		"RotateKey": func() error { _, _, err := l.RotateKey(ctx, hold.Key, [32]byte{2}, "efgh", 0); return err },
		"Correct": func() error {
			_, _, err := l.Correct(ctx, ledger.Correction{Request: "req_0", Reason: "r"})
			return err
		},
		"AddReceipt": func() error {
			_, _, err := l.AddReceipt(ctx, "req_0.1", llm.Usage{Input: llm.Count(0), Output: llm.Count(7)})
			return err
		},
		"Settle":       func() error { _, err := l.Settle(ctx, ledger.Settlement{Request: "req_0", Free: true}); return err },
		"Waiting":      func() error { _, err := l.Waiting(ctx, "echo", "", 1); return err },
		"CountWaiting": func() error { _, err := l.CountWaiting(ctx); return err },
	} {
		require.ErrorIs(t, do(), ledger.ErrUnavailable, name)
	}
}

// TestToldOfFailure: a request whose client is told that the service failed, for neither the log nor the store has its
// settlement, is free (GAP-132).
func TestToldOfFailure(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, log := newAway(t), newMemoryLog()
	l := openFor(t, store, log, slog.Default())
	hold := prepareHold(t, l)
	account, attempt := hold.Account, hold.Attempt.ID
	_, err := l.Hold(ctx, hold)
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
	now, err := l.Account(ctx, account)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Credits: 1}, now.Balance)
	c, err := l.Settle(ctx, st)
	require.NoError(t, err)
	require.Zero(t, c.Microcents, "and stays it")
}
