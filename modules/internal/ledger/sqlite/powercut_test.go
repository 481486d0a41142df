package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/spool"
)

// TestPowerCut has the end of a ledger gone behind another start of the machine: where an operator let it, that is
// named and booked, and nobody is held up.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	one, two := machineBoot{1, 1}, machineBoot{2, 2}
	// left is a ledger that was killed, with a part of its end gone.
	left := func(t *testing.T, behind bool) copied {
		path := filepath.Join(t.TempDir(), "fareway.db")
		s := openStore(t, func(o *Options) { o.Path, o.Behind, o.machine = path, behind, one })
		ctx := t.Context()
		a, err := s.CreateAccount(ctx, "ann", "")
		require.NoError(t, err)
		topUp := func() {
			_, _, err := s.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5})
			require.NoError(t, err)
		}
		topUp()
		older := copyFiles(t, path)
		topUp()
		s.WitnessLog(ledger.LogMark{Number: 7, Waiting: 3})
		return older.with(".witness", copyFiles(t, path))
	}
	open := func(t *testing.T, c copied, machine machineBoot) (*Store, *bytes.Buffer, ledger.Report) {
		report := c.verified(t)
		log := new(bytes.Buffer)
		s := openStore(t, func(o *Options) {
			o.Path, o.machine = c.put(t, t.TempDir()), machine
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
		})
		return s, log, report
	}
	t.Run("GAP-133 durability process", func(t *testing.T) {
		t.Parallel()
		s, log, report := open(t, left(t, true), two)
		require.True(t, report.OK, report.Problem)
		require.NotNil(t, report.Loss)
		require.True(t, report.Loss.PowerCut)
		require.True(t, s.PowerCut())
		require.Nil(t, s.Loss())
		require.Contains(t, log.String(), "a power cut has taken the end of the ledger")
		require.Contains(t, log.String(), "at least 3 settlements")
		var acts []ledger.Act
		require.NoError(t, s.Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
			acts = append(acts, a)
			return nil
		}))
		last := acts[len(acts)-1]
		require.Equal(t, book.PowerCutAction, last.Action)
		require.Contains(t, last.After, `"settlements":3`)
		require.Contains(t, last.After, `"has_entries":1`)
		require.Contains(t, last.After, `"seen_entries":2`)
		r, err := s.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.OK, r.Problem)
		require.Nil(t, r.Loss)
		require.NotNil(t, r.PowerCut, "it is said for ever")
		require.EqualValues(t, 1, r.PowerCut.Times)
		require.Contains(t, r.PowerCut.Lost, "at least 3 settlements")
	})
	t.Run("GAP-133 durability process, the same start of the machine", func(t *testing.T) {
		t.Parallel()
		s, _, report := open(t, left(t, true), one)
		require.NotNil(t, report.Loss)
		require.NotNil(t, s.Loss())
		require.False(t, s.PowerCut())
	})
	t.Run("GAP-133 durability power", func(t *testing.T) {
		t.Parallel()
		s, _, report := open(t, left(t, false), two)
		require.False(t, report.OK)
		require.NotNil(t, s.Loss())
		require.False(t, s.Loss().PowerCut)
	})
	t.Run("GAP-133 durability process, closed before", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "fareway.db")
		s := openStore(t, func(o *Options) { o.Path, o.Behind, o.machine = path, true, one })
		_, err := s.CreateAccount(t.Context(), "ann", "")
		require.NoError(t, err)
		require.NoError(t, s.Sync())
		require.NoError(t, s.Close())
		seen, err := readWitness(path)
		require.NoError(t, err)
		require.False(t, seen.behind, "a loss that shows later is no power cut's")
	})
}

// TestMayBePruned: a log of long ago comes back with a request that was pruned.
func TestMayBePruned(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("ann", "")
	s.topUp(1_000, "")
	c := book.Course{Running: book.Running{ID: "req_0001", Account: s.owner, Key: s.key, Owner: s.store.BootID(),
		Endpoint: "chat", Profile: "balanced", Created: s.now}}
	end, _, err := book.DecideEnd(&ledger.Settlement{Request: c.ID, Status: 200, Reason: "ok", Surcharge: 7}, book.Payer{
		Account: new(book.Account), Line: new(book.Line)}, &c.Running, nil, s.now)
	require.NoError(t, err)
	c.End = &end
	take := func() book.TakenUp {
		all, err := s.store.TakeUp(t.Context(), []book.Course{c})
		require.NoError(t, err)
		return all[0]
	}
	require.NoError(t, take().Err)
	require.True(t, take().Before)
	pruned, err := s.store.Prune(context.Background(), s.now.Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, 1, pruned)
	before, err := s.store.Account(t.Context(), s.owner)
	require.NoError(t, err)
	for _, kept := range []bool{false, true} {
		c.Kept = kept
		err := take().Err
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.ErrorContains(t, err, "are pruned: it was charged then")
	}
	after, err := s.store.Account(t.Context(), s.owner)
	require.NoError(t, err)
	require.Equal(t, before, after)
	c.ID, c.Kept, c.End.Settlement.Request = "req_0002", false, "req_0002"
	c.End.At = s.now.Add(2 * time.Hour)
	require.NoError(t, take().Err, "one that ended later is none of them")
}

// TestSyncBehind: what is committed with durability "process" is synced when somebody asks, and only then.
func TestSyncBehind(t *testing.T) {
	t.Parallel()
	s := openStore(t, func(o *Options) {
		o.Path, o.Behind = filepath.Join(t.TempDir(), "fareway.db"), true
	})
	require.NoError(t, s.Sync())
	require.False(t, s.db.unsynced.Load())
	_, err := s.CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	require.True(t, s.db.unsynced.Load())
	require.NoError(t, s.Sync())
	require.False(t, s.db.unsynced.Load())
	_, err = spool.ReadContent(spool.Path(s.opts.Path))
	require.NoError(t, err)
}
