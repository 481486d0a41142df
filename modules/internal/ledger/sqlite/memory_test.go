package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestCacheForgetsWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	c := newCache[int, int](8)
	for i := range 100 {
		c.put(i, i*i)
		c.evictUnused()
		n, ok := c.get(0)
		require.True(t, ok, "it is used all the time")
		require.Zero(t, n)
		for last := max(i-2, 0); last <= i; last++ {
			n, ok := c.get(last)
			require.True(t, ok)
			require.Equal(t, last*last, n)
		}
		require.LessOrEqual(t, len(c.young)+len(c.old), 8+4, "and those that were used since")
	}
	_, ok := c.get(50)
	require.False(t, ok)
}

// Whatever fails half way leaves the memory as the database is, and its neighbours in the batch are done.
func TestRollbackForgets(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	require.NoError(t, p.hold("r1"))
	refusal := errors.New("refused")
	spoil := func(t *tx) error {
		a, err := t.account(p.account)
		if err != nil {
			return err
		}
		t.markChanged(a)
		a.Credits, a.Held, a.Ever.Spent = 99, 99, 99
		delete(t.live, "r1")
		return refusal
	}
	var holds [2]error
	open := gate(t, p.Store)
	var wg sync.WaitGroup
	queued := func(n int) {
		require.Eventually(t, func() bool { return len(p.writer.queue) == n }, eventually, time.Millisecond)
	}
	wg.Go(func() { holds[0] = p.hold("r2") })
	queued(1)
	var spoiled error
	wg.Go(func() { spoiled = p.write(context.Background(), "test", spoil) })
	queued(2)
	wg.Go(func() { holds[1] = p.hold("r3") })
	queued(3)
	open()
	wg.Wait()
	require.ErrorIs(t, spoiled, refusal)
	require.NoError(t, holds[0])
	require.NoError(t, holds[1])
	require.Equal(t, ledger.Balance{Credits: 10, Held: 3_000_000}, p.balance())
	for _, id := range []string{"r1", "r2", "r3"} {
		_, err := p.settle(id, 5)
		require.NoError(t, err)
	}
	require.Equal(t, ledger.Balance{Credits: 10, Accrued: 15}, p.balance())
	p.verified()
}

// An operation that is refused before it changed anything costs its neighbours nothing, and ends a period all the
// same.
func TestRefusedOperationEndsThePeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	p := newTill(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Terms = func(plan string) ledger.Terms {
			if plan == "" {
				return ledger.Terms{}
			}
			return ledger.Terms{MonthlyCredits: 3, SpendCap: 1}
		}
	})
	_, err := p.SetPlan(t.Context(), p.account, "pro")
	require.NoError(t, err)
	now = now.AddDate(0, 1, 0) // March 3
	require.ErrorIs(t, p.hold("r1"), ledger.ErrSpendCap)
	require.Equal(t, ledger.Balance{Credits: 16}, p.balance())
	p.verified()
}

// Two keys that take turns have one counter each, on whichever row it is.
func TestKeysThatTakeTurns(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	ctx := t.Context()
	keys := []string{p.key}
	for i := range 2 {
		k, err := p.CreateKey(ctx, p.account, fmt.Sprint(i), [32]byte{byte(10 + i)}, "", ledger.KeyChange{})
		require.NoError(t, err)
		keys = append(keys, k.ID)
	}
	want := map[string]int64{}
	for i := range 30 {
		p.key = keys[i*i%3]
		id := fmt.Sprintf("r%02d", i)
		require.NoError(t, p.hold(id))
		_, err := p.settle(id, int64(i))
		require.NoError(t, err)
		want[p.key] += int64(i)
		if i%7 == 0 { // and memory may forget in between
			require.NoError(t, p.write(ctx, "test", func(*tx) error { p.db.dataVersion = -1; return nil }))
		}
		got := map[string]int64{}
		require.NoError(t, p.Keys(ctx, ledger.KeyQuery{Account: p.account}, func(k ledger.Key) error {
			if k.Spent > 0 {
				got[k.ID] = k.Spent
			}
			return nil
		}))
		require.Equal(t, nonZero(want), got)
	}
	p.verified()
}

func nonZero(m map[string]int64) map[string]int64 {
	kept := map[string]int64{}
	for k, n := range m {
		if n != 0 {
			kept[k] = n
		}
	}
	return kept
}

// While everything happens at once, memory is again and again compared with the database, made to forget, and spoiled
// by operations that fail half way.
func TestMemoryIsTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(watch(dir, &disk{volatile: true}))
	var clock atomic.Int64
	clock.Store(workStart.UnixNano())
	w, err := newWorkload(filepath.Join(dir, "fareway.db"), "boot", &clock, func(fact) {})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.store.Close()) }()

	const goroutines, rounds = 6, 20
	ctx := context.Background()
	errs := make([]error, goroutines+1)
	var working, checking sync.WaitGroup
	for worker := range goroutines {
		working.Go(func() {
			for n := 0; n < rounds && errs[worker] == nil; n++ {
				errs[worker] = w.round(ctx, worker, n, requestID("boot", worker, n))
			}
		})
	}
	done := make(chan struct{})
	half := errors.New("half way")
	checking.Go(func() {
		for n := 0; errs[goroutines] == nil; n++ {
			select {
			case <-done:
				return
			default:
			}
			err := w.store.write(ctx, "test", func(t *tx) error {
				if err := t.compare(); err != nil {
					return err
				}
				switch n % 4 {
				case 0:
					w.store.db.dataVersion = -1
				case 2:
					for _, r := range t.live {
						t.wrote = true
						delete(t.live, r.ID)
						return half
					}
				}
				return nil
			})
			if !errors.Is(err, half) {
				errs[goroutines] = err
			}
		}
	})
	working.Wait()
	close(done)
	checking.Wait()
	require.NoError(t, errors.Join(errs...))
	r, err := w.store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Zero(t, r.Holds)
}

// compare reads what memory knows, and returns what differs.
func (t *tx) compare() error {
	if err := t.flush(); err != nil {
		return err
	}
	var errs []error
	differ := func(what string, is, want any) {
		if !reflect.DeepEqual(want, is) {
			errs = append(errs, fmt.Errorf("memory has %s %+v, the database %+v", what, is, want))
		}
	}
	for _, generation := range []map[string]*account{t.accounts.young, t.accounts.old} {
		for id, a := range generation {
			row, err := findRow(t.conn, id) // with what it holds by its rows
			if err != nil {
				return err
			}
			for root, l := range a.lines {
				fresh, err := row.line(t.conn, root)
				if err != nil {
					return err
				}
				differ("line", [...]int64{l.Cap, l.Spent, l.Before, l.row},
					[...]int64{fresh.Cap, fresh.Spent, fresh.Before, fresh.row})
			}
			is := *a
			is.lines, row.lines = nil, nil
			differ("account", is, *row)
		}
	}
	m := newMemory()
	if err := m.load(t.conn); err != nil {
		return err
	}
	differ("running requests", t.live, m.live)
	differ("what accounts hold", t.held, m.held)
	differ("sums of holds", t.holds, m.holds)
	differ("last entry", t.lastEntry, m.lastEntry)
	err := run(t.conn, `SELECT id FROM requests`, func(row *sqlite.Stmt) error {
		if id := row.ColumnText(0); t.settled.IsNew(id) {
			differ("settled request", "", id)
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
