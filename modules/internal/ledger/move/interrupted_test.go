package move_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// before reads what a ledger answers, and its keys' hashes, without leaving anything open.
func (h *house) before(t testing.TB) (was map[string][]string, hashes [][]byte) {
	s := h.open(t)
	hashes = hashesOf(t, s)
	was = reads(t, s, hashes)
	require.NoError(t, s.Close())
	return was, hashes
}

// states are what both sides say of the move: neither is served before the other has ended.
func states(t testing.TB, path, url string) (left, done bool) {
	mark, err := sqlite.ReadMove(path)
	require.NoError(t, err)
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	state := ""
	err = conn.QueryRow(context.Background(), `SELECT coalesce((SELECT state FROM moves), '')`).Scan(&state)
	if err != nil {
		require.ErrorContains(t, err, "does not exist")
	}
	left, done = !mark.Done.IsZero(), state == "done"
	require.False(t, done && !left, "both are served")
	if state == "copying" || state == "whole" {
		_, err := postgres.OpenBooks(context.Background(), url)
		require.ErrorContains(t, err, "is being moved into this database, and not all of it is here")
		_, err = postgres.Open(context.Background(), postgres.Options{URL: url, BootID: "too early",
			Options: ledger.Options{Logger: quiet}})
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorContains(t, err, "is being moved into this database")
	}
	return left, done
}

// A process that moves a ledger is killed at random moments, and the next one goes on, until one has done it.
func TestKilledMove(t *testing.T) {
	t.Parallel()
	h, url := walked(t, 250), postgrestest.Database(t)
	was, hashes := h.before(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	r, kills := rand.New(rand.NewPCG(seed, 0)), 0
	for {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), moveHelper+"="+h.path+" "+url)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, after := bufio.NewScanner(out), r.IntN(40)
		for n := 0; lines.Scan(); n++ {
			if n == after && kills < 25 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		err = cmd.Wait()
		left, done := states(t, h.path, url)
		if err == nil {
			require.True(t, left && done)
			break
		}
		require.Empty(t, said.String())
		kills++
	}
	require.Greater(t, kills, 4)
	t.Log("killed", kills, "times")
	h.compare(t, url, was, hashes)
	_, err := sqlite.Open(sqlite.Options{Path: h.path})
	require.ErrorIs(t, err, move.ErrMoved)
}

var errFault = errors.New("interrupted")

// faults fail the call of a number, before it or behind it: then it was done, and nobody knows.
type faults struct {
	left   int
	behind bool
}

func (f *faults) call(do func() error) error {
	f.left--
	now := f.left == 0
	if now && !f.behind {
		return errFault
	}
	err := do()
	if now {
		err = errors.Join(err, errFault)
	}
	return err
}

type faultySource struct {
	*sqlite.Store
	*faults
}

func (s faultySource) MarkMove(ctx context.Context, m move.Mark) error {
	return s.call(func() error { return s.Store.MarkMove(ctx, m) })
}

func (s faultySource) ReadMoved(ctx context.Context, t move.Table, after []any, each func(move.Row) error) error {
	return s.call(func() error { return s.Store.ReadMoved(ctx, t, after, each) })
}

type faultyTarget struct {
	*postgres.Target
	*faults
}

func (t faultyTarget) BeginMove(ctx context.Context, id, source string, anew bool) (had map[string]move.Progress,
	err error) {
	err = t.call(func() (err error) { had, err = t.Target.BeginMove(ctx, id, source, anew); return err })
	return had, err
}

func (t faultyTarget) AddMoved(ctx context.Context, id string, of move.Table, rows [][]any, so move.Progress) error {
	return t.call(func() error { return t.Target.AddMoved(ctx, id, of, rows, so) })
}

func (t faultyTarget) MarkWhole(ctx context.Context, id string) error {
	return t.call(func() error { return t.Target.MarkWhole(ctx, id) })
}

func (t faultyTarget) EndMove(ctx context.Context, id string) error {
	return t.call(func() error { return t.Target.EndMove(ctx, id) })
}

// Each step that writes is interrupted, before it and behind it, and the next run goes on.
func TestInterruptedMove(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	was, hashes := h.before(t)
	runs := 0
	for at, behind := 1, false; ; at, behind = at+map[bool]int{true: 1}[behind], !behind {
		runs++
		target := openTarget(t, url)
		if mark, err := sqlite.ReadMove(h.path); err == nil && !mark.Done.IsZero() {
			require.NoError(t, finish(ctx, h.path, mark, target))
			require.NoError(t, finish(ctx, h.path, mark, target))
			break
		}
		s, f := h.open(t), &faults{left: at, behind: behind}
		done, err := move.Run(ctx, faultySource{s, f}, faultyTarget{target, f}, move.Options{From: "here", To: "there",
			Batch: 20})
		require.NoError(t, s.Close())
		require.NoError(t, target.Close())
		states(t, h.path, url)
		if err == nil {
			require.True(t, done.Resumed)
			break
		}
		require.ErrorIs(t, err, errFault)
	}
	require.Greater(t, runs, 60)
	left, done := states(t, h.path, url)
	require.True(t, left && done)
	h.compare(t, url, was, hashes)
}

// A ledger that was served again between two runs is moved anew.
func TestMoveAfterUse(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	target := openTarget(t, url)
	s := h.open(t)
	// All rows are there, and then it is interrupted.
	f := &faults{left: 1 << 20}
	_, err := move.Run(ctx, faultySource{s, f}, faultyTarget{target, f}, move.Options{From: "here", To: "there"})
	require.NoError(t, err)
	calls := 1<<20 - f.left
	require.NoError(t, s.Close())

	h, url = old(t, "schema14.db.gz"), postgrestest.Database(t)
	target, s = openTarget(t, url), h.open(t)
	f = &faults{left: calls - 1} // the mark that the old one is moved
	_, err = move.Run(ctx, faultySource{s, f}, faultyTarget{target, f}, move.Options{From: "here", To: "there"})
	require.ErrorIs(t, err, errFault)
	require.NoError(t, s.Close())
	s = h.open(t)
	var account ledger.Account
	require.NoError(t, s.Accounts(ctx, "", func(a ledger.Account) error { account = a; return nil }))
	_, _, err = s.AddCredit(ctx, ledger.Credit{Account: account.ID, Credits: 77})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	was, hashes := h.before(t)
	s = h.open(t)
	done, err := move.Run(ctx, s, target, move.Options{From: "here", To: "there"})
	require.NoError(t, err)
	require.False(t, done.Resumed, "it begins anew")
	require.NoError(t, s.Close())
	h.compare(t, url, was, hashes)
}

// A database that has something else is refused, and nothing is changed there or here.
func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := old(t, "schema6.db.gz")
	s := h.open(t)
	begin := func(url string) error {
		_, err := move.Run(ctx, s, openTarget(t, url), move.Options{From: "here", To: "there"})
		return err
	}
	t.Run("a ledger that is served", func(t *testing.T) {
		url := postgrestest.Database(t)
		h.openNode(t, url)
		err := begin(url)
		require.ErrorIs(t, err, ledger.ErrExists)
		require.ErrorContains(t, err, "the database is not empty")
	})
	t.Run("a move that another one has begun, and one that it has done", func(t *testing.T) {
		url, other := postgrestest.Database(t), old(t, "schema4.db.gz")
		of := other.open(t)
		f := &faults{left: 12}
		_, err := move.Run(ctx, faultySource{of, f}, faultyTarget{openTarget(t, url), f}, move.Options{From: "elsewhere"})
		require.ErrorIs(t, err, errFault)
		require.ErrorContains(t, begin(url), "a move of the ledger of elsewhere into this database has begun")
		_, err = move.Run(ctx, of, openTarget(t, url), move.Options{From: "elsewhere"})
		require.NoError(t, err)
		require.ErrorContains(t, begin(url), "the database has the ledger of elsewhere, which was moved here")
	})
	t.Run("a newer schema", func(t *testing.T) {
		url := postgrestest.Database(t)
		_, err := openTarget(t, url).BeginMove(ctx, "x", "here", false)
		require.NoError(t, err)
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, `INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true
			FROM goose_db_version`)
		require.NoError(t, err)
		_, err = postgres.OpenTarget(ctx, postgres.Options{URL: url, Options: ledger.Options{Logger: quiet}})
		require.ErrorContains(t, err, "it belongs to a newer one; start that")
	})
	mark, err := s.ReadMove(ctx)
	require.NoError(t, err)
	require.Zero(t, mark, "it was never begun")
	r, err := s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK)
}

// What is lost on the way is found before the old ledger is marked.
func TestRowsLostInTheMove(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	s := h.open(t)
	for _, lost := range s.MovedTables() {
		target := openTarget(t, url)
		_, err := move.Run(ctx, s, &losingTarget{target, lost.Name}, move.Options{From: "here", To: "there"})
		if lost.Name == "learned" {
			require.NoError(t, err, "it has none")
			return
		}
		require.ErrorIs(t, err, ledger.ErrInvalid, lost.Name)
		require.ErrorContains(t, err, "comparing "+lost.Name+": the old ledger has", lost.Name)
		left, done := states(t, h.path, url)
		require.False(t, left || done)
		url = postgrestest.Database(t)
		require.NoError(t, s.MarkMove(ctx, move.Mark{}))
	}
}

// losingTarget loses a row of a table.
type losingTarget struct {
	*postgres.Target
	of string
}

func (l *losingTarget) AddMoved(ctx context.Context, id string, t move.Table, rows [][]any, so move.Progress) error {
	if t.Name == l.of {
		rows = rows[1:]
	}
	return l.Target.AddMoved(ctx, id, t, rows, so)
}

// A database that was put back to before it was whole, between the mark of the old ledger and its own, is not opened.
func TestFinishOfTargetThatWasPutBack(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	s, target := h.open(t), openTarget(t, url)
	_, err := move.Run(ctx, s, stayingTarget{target}, move.Options{From: "here", To: "there"})
	require.ErrorIs(t, err, errFault)
	require.NoError(t, s.Close())
	mark, err := sqlite.ReadMove(h.path)
	require.NoError(t, err)
	require.False(t, mark.Done.IsZero())
	stage, err := target.FindMove(ctx, mark.ID)
	require.NoError(t, err)
	require.Equal(t, move.Whole, stage)

	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	for _, sql := range []string{`CREATE TABLE lost AS SELECT * FROM attempts LIMIT 1`,
		`UPDATE moves SET state = 'copying'`,
		`DELETE FROM attempts AS a USING lost AS l WHERE a.request = l.request AND a.seq = l.seq`} {
		_, err = conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	err = finish(ctx, h.path, mark, target)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "comparing attempts: the old ledger has")
	require.ErrorContains(t, err, "bring the old ledger back with `fareway gateway ledger move --undo --to DSN`")
	left, done := states(t, h.path, url)
	require.True(t, left && !done, "nobody serves it")

	_, err = conn.Exec(ctx, `INSERT INTO attempts SELECT * FROM lost`)
	require.NoError(t, err)
	require.NoError(t, finish(ctx, h.path, mark, target))
	left, done = states(t, h.path, url)
	require.True(t, left && done)
}

// stayingTarget cannot be told that its move is done.
type stayingTarget struct{ *postgres.Target }

func (stayingTarget) EndMove(context.Context, string) error { return errFault }

// A move is undone only where nothing is lost by it, and then nobody serves the database.
func TestUndoneMove(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	s, target := h.open(t), openTarget(t, url)
	moved, err := move.Run(ctx, s, target, move.Options{From: "here", To: "there"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, target.UndoMove(ctx, "another"), ledger.ErrNotFound)

	node, err := postgres.Open(ctx, postgres.Options{URL: url, BootID: "serving", Options: ledger.Options{Logger: quiet}})
	require.NoError(t, err)
	err = target.UndoMove(ctx, moved.ID)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "a gateway was started on the database and has not ended")
	require.ErrorContains(t, err, "/serving: stop it")
	_, err = node.CreateAccount(ctx, "later", "")
	require.NoError(t, err)
	require.NoError(t, node.Close())
	err = target.UndoMove(ctx, moved.ID)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "the database has more than was moved there")
	left, done := states(t, h.path, url)
	require.True(t, left && done, "it goes on there")

	h, url = old(t, "schema14.db.gz"), postgrestest.Database(t)
	s, target = h.open(t), openTarget(t, url)
	moved, err = move.Run(ctx, s, target, move.Options{From: "here", To: "there"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, target.UndoMove(ctx, moved.ID))
	require.NoError(t, target.UndoMove(ctx, moved.ID), "it is interrupted before the old ledger is told")
	_, err = postgres.OpenBooks(ctx, url)
	require.ErrorContains(t, err, "the ledger of here was moved into this database and brought back")
	_, err = postgres.Open(ctx, postgres.Options{URL: url, BootID: "again", Options: ledger.Options{Logger: quiet}})
	require.ErrorContains(t, err, "brought back, and goes on there: use another database, and drop this one")
	mark, err := sqlite.ReadMove(h.path)
	require.NoError(t, err)
	require.ErrorContains(t, finish(ctx, h.path, mark, target), "finish that with `fareway gateway ledger move --undo")
}

// The same database by another name has the same move, which goes on.
func TestMoveGoesOnByAnotherName(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	s, f := h.open(t), &faults{left: 12}
	_, err := move.Run(ctx, faultySource{s, f}, faultyTarget{openTarget(t, url), f},
		move.Options{From: "here", To: "there"})
	require.ErrorIs(t, err, errFault)
	require.NoError(t, s.Close())
	was, hashes := h.before(t)
	s = h.open(t)
	_, err = move.Run(ctx, s, openTarget(t, url), move.Options{From: "here", To: "there.example.com"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	h.compare(t, url, was, hashes)
}

// A role whose commits wait for nothing does not decide over those of a move.
func TestMoveIsDurable(t *testing.T) {
	t.Parallel()
	h, url, ctx := old(t, "schema14.db.gz"), postgrestest.Database(t), context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, `ALTER DATABASE `+pgx.Identifier{conn.Config().Database}.Sanitize()+
		` SET synchronous_commit = off`)
	require.NoError(t, err)
	target := openTarget(t, url)
	_, err = target.BeginMove(ctx, "x", "here", false)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `CREATE TABLE seen (state text, mode text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (new.state, current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER UPDATE ON moves FOR EACH ROW EXECUTE FUNCTION see(); DELETE FROM moves`)
	require.NoError(t, err)
	s := h.open(t)
	_, err = move.Run(ctx, s, target, move.Options{From: "here", To: "there"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	rows, err := conn.Query(ctx, `SELECT state || ' ' || mode FROM seen`)
	require.NoError(t, err)
	seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"whole on", "done on"}, seen)
}
