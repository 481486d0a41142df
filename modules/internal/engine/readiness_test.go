package engine

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
)

// TestReadyKnowsTheLedger: a gateway whose ledger is away is not ready.
func TestReadyKnowsTheLedger(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	later := func() { o.Turn(storeAskedEvery) }
	require.NoError(t, o.Ready())
	db, err := sqlite.OpenConn(filepath.Join(o.data, "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	require.NoError(t, sqlitex.ExecuteTransient(db, `BEGIN IMMEDIATE`, nil))
	require.NoError(t, o.Ready(), "it was there just now")
	later()
	err = o.Ready()
	require.ErrorIs(t, err, ledger.ErrUnavailable, "another program has it")
	require.ErrorContains(t, err, "the ledger does not take operations")
	require.NoError(t, sqlitex.ExecuteTransient(db, `ROLLBACK`, nil))
	require.Error(t, o.Ready(), "it was away just now")
	later()
	require.NoError(t, o.Ready())

	was := o.away
	o.away = func() (bool, live.Backlog) { return true, live.Backlog{Settlements: 2} }
	require.ErrorIs(t, o.Ready(), errLedgerAway, "it has not taken up a settlement")
	require.EqualValues(t, 2, o.Spool().Settlements)
	o.away = was
	require.NoError(t, o.Ready())
	require.NoError(t, db.Close())
	o.close(t)
}

// TestStoreProbe: however many ask, the store is asked once a second, and also after the clock was turned back.
func TestStoreProbe(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	asked, broken := 0, error(nil)
	p := &storeProbe{now: func() time.Time { return now }, ping: func(ctx context.Context) error {
		asked++
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.WithinDuration(t, time.Now().Add(storeTimeout), deadline, time.Minute)
		return broken
	}}
	var probes sync.WaitGroup
	for range 100 {
		probes.Go(func() {
			if err := p.check(); err != nil {
				t.Errorf("asking the store: %v", err)
			}
		})
	}
	probes.Wait()
	require.Equal(t, 1, asked)
	broken = errors.New("broken by the test")
	now = now.Add(storeAskedEvery - 1)
	require.NoError(t, p.check())
	now = now.Add(1)
	require.ErrorIs(t, p.check(), broken)
	require.ErrorIs(t, p.check(), broken, "a bad answer holds as long")
	require.Equal(t, 2, asked)
	now = now.Add(-time.Hour)
	broken = nil
	require.NoError(t, p.check())
	require.Equal(t, 3, asked)
}
