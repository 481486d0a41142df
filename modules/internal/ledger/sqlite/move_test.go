package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
)

// unmoved are the columns that no other store has, and why.
var unmoved = map[string]string{
	"meta.version":    "of this schema",
	"meta.holds":      "of running requests, and none run",
	"meta.held":       "of running requests",
	"meta.marks":      "of running requests",
	"meta.releases":   "of running requests",
	"meta.summed":     "of the sums of days, which are made of the requests that are there",
	"meta.unprofiled": "the same",
	"meta.profiled":   "the same",
	"days.account":    "that of its key",
	"days.profile":    "there the sums of pruned requests know none",
	"balances.last":   "where an entry lies in this file; there it is found by its number",
	"entries.before":  "the same",
	"pruned.requests": "what the sums of its days make, which is verified before",
	"pruned.charge":   "the same",
	"pruned.waived":   "the same",
	"pruned.refunded": "the same",
	"owners.pid":      "of a process that has ended",
	"moves.*":         "of the move",
	"holds.*":         "of running requests, and none run",
}

// TestEveryColumnGoesIntoTheMove: a change of any column changes what is moved, or it is known why it does not.
func TestEveryColumnGoesIntoTheMove(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	require.NoError(t, run(v.conn, `INSERT INTO learned VALUES ('r', 'm', 'k', 1.5, 2, 3, 4, 5)`, nil))
	require.NoError(t, run(v.conn, `PRAGMA ignore_check_constraints = on`, nil))
	require.NoError(t, run(v.conn, `PRAGMA foreign_keys = off`, nil))
	require.NoError(t, run(v.conn, `DROP INDEX one_reference`, nil))
	made := func() string {
		sum := sha256.New()
		for i := range movedTables {
			fmt.Fprintln(sum, movedTables[i].name)
			require.NoError(t, run(v.conn, movedTables[i].query(nil), func(row *sqlite.Stmt) error {
				for i := range row.ColumnCount() {
					fmt.Fprintf(sum, "%T %[1]v\n", columnValue(row, i))
				}
				return nil
			}))
		}
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
	was, used := made(), map[string]bool{}
	for _, table := range v.texts(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`) {
		if unmoved[table+".*"] != "" {
			used[table+".*"] = true
			continue
		}
		require.Equal(t, []string{"1"}, v.texts(`SELECT count(*) > 0 FROM "`+table+`"`), "%s has no row to be changed", table)
		for _, column := range v.texts(`SELECT name || ' ' || type FROM pragma_table_info('` + table + `')`) {
			var name, kind string
			_, err := fmt.Sscan(column, &name, &kind)
			require.NoError(t, err)
			change := map[string]string{"INTEGER": `coalesce("%[1]s", 0) + 1000000`, "REAL": `"%[1]s" + 1000000`,
				"TEXT": `coalesce("%[1]s", '') || 'x'`, "BLOB": `randomblob(32)`}[kind]
			require.NotEmpty(t, change, kind)
			require.NoError(t, run(v.conn, `SAVEPOINT change`, nil))
			update := fmt.Sprintf(`UPDATE "`+table+`" SET "%[1]s" = `+change, name)
			if kind == "BLOB" {
				update = `UPDATE "` + table + `" SET "` + name + `" = randomblob(32)`
			}
			require.NoError(t, run(v.conn, update, nil))
			goes := made() != was
			require.NoError(t, run(v.conn, `ROLLBACK TO change`, nil))
			require.NoError(t, run(v.conn, `RELEASE change`, nil))
			if full := table + "." + name; !goes {
				require.NotEmpty(t, unmoved[full], "%s can be changed, and what is moved does not change", full)
				used[full] = true
			}
		}
	}
	require.Len(t, used, len(unmoved), "what is moved has a reason not to be")
	require.Equal(t, was, made())
}

// TestMovedLedgerIsNotServed: one that has gone elsewhere says where it is, and can be brought back.
func TestMovedLedgerIsNotServed(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "fareway.db"), context.Background()
	_, err := ReadMove(path)
	require.Error(t, err, "there is none")
	s := openStore(t, func(o *Options) { o.Path = path })
	m := move.Mark{ID: "m", Target: "postgres://db.example.com/fareway", Begun: time.Unix(1, 0).UTC(),
		State: move.State{Owners: 1, Extent: ledger.Extent{Entries: 2, Acts: 3}}}
	require.NoError(t, s.MarkMove(ctx, m))
	is, err := s.ReadMove(ctx)
	require.NoError(t, err)
	require.Equal(t, m, is)
	require.ErrorIs(t, UndoMove(path), ledger.ErrLocked)
	require.NoError(t, s.Close())
	s = openStore(t, func(o *Options) { o.Path = path }) // it is not done
	m.Done = time.Unix(7, 0).UTC()
	require.NoError(t, s.MarkMove(ctx, m))
	require.NoError(t, s.Close())
	_, err = Open(Options{Path: path})
	require.ErrorIs(t, err, move.ErrMoved)
	require.ErrorContains(t, err, "the ledger was moved to postgres://db.example.com/fareway at 1970-01-01T00:00:07Z")
	require.ErrorContains(t, err, "move --undo")
	books, err := OpenBooks(ctx, path)
	require.NoError(t, err, "what it had can still be read")
	require.NoError(t, books.Close())
	is, err = ReadMove(path)
	require.NoError(t, err)
	require.Equal(t, m, is)
	require.NoError(t, UndoMove(path))
	s = openStore(t, func(o *Options) { o.Path = path })
	require.NoError(t, s.Close())
}

// What is to be moved is counted without looking at what belongs to each row.
func TestCountingJoinsNothing(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	for i := range movedTables {
		plan := v.texts(`EXPLAIN QUERY PLAN SELECT count(*) FROM ` + movedTables[i].counted())
		require.Len(t, plan, 1, "%s: %v", movedTables[i].name, plan)
	}
}
