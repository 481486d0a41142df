package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// copied are the files of a ledger at a moment, as somebody who copies them finds them.
type copied map[string][]byte

var ledgerFiles = []string{"", "-wal", ".witness"}

func copyFiles(t require.TestingT, path string) copied {
	c := make(copied)
	for _, suffix := range ledgerFiles {
		content, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		c[suffix] = content
	}
	return c
}

// put makes these files a ledger in a folder, and returns its path.
func (c copied) put(t require.TestingT, dir string) string {
	path := filepath.Join(dir, "fareway.db")
	for _, suffix := range append(ledgerFiles, "-shm") {
		if content, ok := c[suffix]; ok {
			require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
		} else {
			require.NoError(t, os.RemoveAll(path+suffix))
		}
	}
	return path
}

// with has the file of another copy.
func (c copied) with(suffix string, other copied) copied {
	d := copied{"": c[""], "-wal": c["-wal"], ".witness": c[".witness"]}
	if d[suffix] = other[suffix]; d[suffix] == nil {
		delete(d, suffix)
	}
	return d
}

// traded is a ledger with an account that is topped up once and charged for so many requests, as it lies on the disk
// while its gateway runs: all that money is in the log.
func traded(t testing.TB, requests int) (*scene, copied) {
	s := newScene(t, filepath.Join(t.TempDir(), "fareway.db"))
	require.NoError(t, run(s.store.db.conn, `PRAGMA wal_checkpoint(TRUNCATE)`, func(*sqlite.Stmt) error { return nil }))
	s.account("ann", "")
	s.topUp(1_000, "")
	for n := range requests {
		s.trade(n)
	}
	return s, copyFiles(t, s.store.opts.Path)
}

func (s *scene) trade(n int) {
	id := fmt.Sprintf("req_%04d", n)
	s.hold(id, "small")
	s.settle(id, nil, used(10, 5))
}

// open opens a copy as a gateway does.
func (c copied) open(t testing.TB) (*Store, *bytes.Buffer) {
	log := new(bytes.Buffer)
	s := openStore(t, func(o *Options) {
		o.Path = c.put(t, t.TempDir())
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	return s, log
}

// verified verifies a copy as somebody does who has no gateway.
func (c copied) verified(t testing.TB) ledger.Report {
	books, err := OpenBooks(t.Context(), c.put(t, t.TempDir()))
	require.NoError(t, err)
	r, err := books.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, books.Close())
	return r
}

// lastCommit is where the log's last frame that ends a transaction begins.
func lastCommit(wal []byte) int {
	const head, frameHead = 32, 24
	frame := frameHead + int(binary.BigEndian.Uint32(wal[8:]))
	at := 0
	for i := head; i+frame <= len(wal); i += frame {
		if binary.BigEndian.Uint32(wal[i+4:]) != 0 && bytes.Equal(wal[i+8:i+16], wal[16:24]) {
			at = i
		}
	}
	return at
}

func TestMissingEndIsSeen(t *testing.T) {
	t.Parallel()
	s, older := traded(t, 30)
	for n := range 10 {
		s.trade(30 + n)
	}
	whole := copyFiles(t, s.store.opts.Path)
	elsewhere, _ := traded(t, 1)
	for range 60 {
		elsewhere.topUp(1, "")
	}
	flip := func(at int) copied {
		wal := bytes.Clone(whole["-wal"])
		wal[at] ^= 4
		return whole.with("-wal", copied{"-wal": wal})
	}
	for name, c := range map[string]struct {
		files copied
		want  string
	}{
		"GAP-133 a flipped bit at the beginning of the log": {flip(5_000), "at least"},
		"GAP-133 a flipped bit in the middle of the log":    {flip(len(whole["-wal"]) / 2), "at least"},
		"GAP-133 a flipped bit in the last commit": {flip(lastCommit(whole["-wal"]) + 100),
			"at least 1 movements of money and 0 acts"},
		"GAP-133 a log that was not copied": {whole.with("-wal", nil), "at least 41 movements of money"},
		"GAP-133 an older copy":             {older.with(".witness", whole), "it has 31 of 41"},
		"GAP-133 another ledger, of more movements": {
			copyFiles(t, elsewhere.store.opts.Path).with(".witness", whole), "it is a copy of an older ledger that went on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireLost(t, s, c.files, c.want)
		})
	}
	t.Run("GAP-133 nothing is missing", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []any{true, true, ""}, okOf(whole.verified(t)))
		again, log := whole.open(t)
		require.Nil(t, again.Loss())
		require.Empty(t, log.String())
	})
	t.Run("GAP-133 a witness that is behind", func(t *testing.T) {
		t.Parallel()
		behind := whole.with(".witness", older)
		require.Equal(t, []any{true, true, ""}, okOf(behind.verified(t)))
		again, _ := behind.open(t)
		require.Nil(t, again.Loss())
	})
}

func okOf(r ledger.Report) []any { return []any{r.OK, r.Witnessed, r.Problem} }

// requireLost checks that a copy of a scene's ledger is known to lack something, that nothing is charged on it until
// an operator has decided, and that it goes on then.
func requireLost(t *testing.T, of *scene, c copied, want string) {
	ctx := t.Context()
	r := c.verified(t)
	require.Equal(t, []any{false, "witness"}, []any{r.OK, r.Entry})
	require.Contains(t, r.Problem, want)
	require.Contains(t, r.Problem, "accept-loss")
	require.NotNil(t, r.Loss)

	s, log := c.open(t)
	found := *r.Loss
	if found.Log != nil { // the start has kept it
		kept, err := DamagedLogs(s.opts.Path)
		require.NoError(t, err)
		require.Len(t, kept, 1)
		found.Log = &ledger.LogDamage{File: kept[0], Byte: found.Log.Byte, Commits: found.Log.Commits}
	}
	require.Equal(t, &found, s.Loss())
	require.Contains(t, log.String(), want)
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
	a, err := s.CreateAccount(ctx, "bob", "")
	require.NoError(t, err, "operators go on")
	_, _, err = s.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5})
	require.ErrorIs(t, err, ledger.ErrLost)
	_, _, err = s.Correct(ctx, ledger.Correction{Account: a.ID, Microcents: 5, Reason: "goodwill"})
	require.ErrorIs(t, err, ledger.ErrLost)
	k, err := s.CreateKey(ctx, a.ID, "k", [32]byte{9}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	hold := ledger.Hold{Request: "req_a", Account: a.ID, Key: k.ID, Endpoint: "chat", Profile: "p", Microcents: 1}
	_, err = s.Hold(ctx, hold)
	require.ErrorIs(t, err, ledger.ErrLost)
	require.ErrorIs(t, err, ledger.ErrUnavailable)

	// A restart changes nothing: not even where as much has come in again.
	for n := range 60 {
		require.NoError(t, s.RecordAct(ctx, "test", "", fmt.Sprint(n), nil))
	}
	require.NoError(t, s.Close())
	s = openStore(t, func(o *Options) { o.Path = s.opts.Path })
	require.NotNil(t, s.Loss())

	_, err = s.AcceptLoss(ctx, "")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	loss, err := s.AcceptLoss(ledger.WithActor(ctx, "mary"), "disk failed")
	require.NoError(t, err)
	require.Equal(t, r.Loss.SeenEntries, loss.SeenEntries)
	require.Nil(t, s.Loss())
	_, err = s.AcceptLoss(ctx, "again")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "nothing of the ledger is missing")
	_, _, err = s.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5})
	require.NoError(t, err)
	_, err = s.Hold(ctx, hold)
	require.NoError(t, err)
	_, err = s.Settle(ctx, ledger.Settlement{Request: hold.Request, Status: 499, Reason: "client_left"})
	require.NoError(t, err)
	var last ledger.Act
	require.NoError(t, s.Audit(ctx, ledger.Query{}, func(a ledger.Act) error {
		if a.Action == "ledger.accept_loss" {
			last = a
		}
		return nil
	}))
	require.Equal(t, "mary", last.Actor)
	require.Contains(t, last.After, fmt.Sprintf(`"seen_entries":%d`, loss.SeenEntries))
	require.Contains(t, last.After, `"reason":"disk failed"`)
	require.NoError(t, s.Close())
	s = openStore(t, func(o *Options) { o.Path = s.opts.Path })
	require.Nil(t, s.Loss())
	r, err = s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, r.Problem)

	// The ledger that was missing is put back beside a witness that knows what came since.
	require.NoError(t, s.Close())
	back := copyFiles(t, of.store.opts.Path).with(".witness", nil)
	witness, err := os.ReadFile(witnessPath(s.opts.Path))
	require.NoError(t, err)
	back[".witness"] = witness
	require.False(t, back.verified(t).OK)
}

// TestMissingEndIsPutBack (GAP-133): while nobody has decided, the witness knows the ledger that is missing.
func TestMissingEndIsPutBack(t *testing.T) {
	t.Parallel()
	_, whole := traded(t, 10)
	dir := t.TempDir()
	path := whole.with("-wal", nil).put(t, dir)
	s := openStore(t, func(o *Options) { o.Path = path })
	require.NotNil(t, s.Loss())
	require.NoError(t, s.RecordAct(t.Context(), "test", "", "", nil))
	require.NoError(t, s.Close())

	witness, err := os.ReadFile(witnessPath(path))
	require.NoError(t, err)
	whole.with(".witness", copied{".witness": witness}).put(t, dir)
	s = openStore(t, func(o *Options) { o.Path = path })
	require.Nil(t, s.Loss())
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, r.Problem)
}

// TestNoWitness (GAP-133): a ledger without one is named, and nothing more; an empty one is nothing to name.
func TestNoWitness(t *testing.T) {
	t.Parallel()
	_, whole := traded(t, 3)
	damaged := bytes.Clone(whole[".witness"])
	for at := 0; at < len(damaged); at += witnessSlot {
		damaged[at+20] ^= 1
	}
	for name, witness := range map[string]copied{
		"GAP-133 none":               nil,
		"GAP-133 an empty file":      {".witness": {}},
		"GAP-133 both slots damaged": {".witness": damaged},
		"GAP-133 another file":       {".witness": bytes.Repeat([]byte("text"), 5_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := whole.with(".witness", witness)
			require.Equal(t, []any{true, false, ""}, okOf(c.verified(t)))
			s, log := c.open(t)
			require.Nil(t, s.Loss())
			require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
			require.Contains(t, log.String(), "there was no witness beside the ledger")
			require.Contains(t, log.String(), "entries=4")
			r, err := s.Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, []any{true, true, ""}, okOf(r))
		})
	}
	t.Run("GAP-133 one slot damaged", func(t *testing.T) {
		t.Parallel()
		for at := 0; at < witnessSize && at < len(whole[".witness"]); at += witnessSlot {
			witness := bytes.Clone(whole[".witness"])
			witness[at+40] ^= 1
			c := whole.with(".witness", copied{".witness": witness})
			require.Equal(t, []any{true, true, ""}, okOf(c.verified(t)))
			require.False(t, c.with("-wal", nil).verified(t).OK)
		}
	})
	t.Run("GAP-133 a new ledger", func(t *testing.T) {
		t.Parallel()
		log := new(bytes.Buffer)
		s := openStore(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		require.Empty(t, log.String())
		r, err := s.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.Witnessed)
	})
	t.Run("GAP-133 one that cannot be opened", func(t *testing.T) {
		t.Parallel()
		path := whole.with(".witness", nil).put(t, t.TempDir())
		require.NoError(t, os.Mkdir(witnessPath(path), 0o700))
		_, err := Open(Options{Path: path, Logger: quiet})
		require.ErrorContains(t, err, "opening the ledger's witness")
		require.NoError(t, os.Remove(witnessPath(path)))
		openStore(t, func(o *Options) { o.Path = path })
	})
}

// TestWitnessCannotBeWritten (GAP-133): that is said once, and money goes on.
func TestWitnessCannotBeWritten(t *testing.T) {
	t.Parallel()
	log := new(bytes.Buffer)
	s := openStore(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	w := s.db.progress.witness
	read, err := os.Open(witnessPath(s.opts.Path))
	require.NoError(t, err)
	file := w.file
	w.file = read
	for _, name := range []string{"a", "b"} {
		_, err = s.CreateAccount(t.Context(), name, "")
		require.NoError(t, err)
	}
	require.Equal(t, 1, strings.Count(log.String(), "goes on without a witness"))
	w.file = file
	require.NoError(t, read.Close())
	_, err = s.CreateAccount(t.Context(), "c", "")
	require.NoError(t, err)
	seen, err := readWitness(s.opts.Path)
	require.NoError(t, err)
	require.EqualValues(t, 3, seen.acts)
}

// TestAnotherProgramTakesRowsAway (GAP-133): what is removed from a ledger that is open is missed at once.
func TestAnotherProgramTakesRowsAway(t *testing.T) {
	t.Parallel()
	s, _ := traded(t, 3)
	script(t, s.store.opts.Path, `DROP TRIGGER entries_keep; DELETE FROM entries WHERE n = (SELECT max(n) FROM entries)`)
	_, _, err := s.store.AddCredit(t.Context(), ledger.Credit{Account: s.owner, Credits: 1})
	require.ErrorIs(t, err, ledger.ErrLost)
	require.NotNil(t, s.store.Loss())
}

// TestWitnessKnowsEachCommit (GAP-133): over copies of any two moments, of which one has the database and the other
// the witness, something is missing exactly where the database is the older one and money or an act has come between.
func TestWitnessKnowsEachCommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newScene(t, filepath.Join(t.TempDir(), "fareway.db"))
		s.account("ann", "")
		s.topUp(1_000, "")
		type moment struct {
			files copied
			moved int
		}
		moved := 0
		moments := []moment{{copyFiles(rt, s.store.opts.Path), 0}}
		for n := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"hold", "trade", "top up", "act", "checkpoint"}).Draw(rt, "step") {
			case "hold":
				s.hold(fmt.Sprintf("req_held%d", n), "small")
			case "trade":
				s.trade(n)
				moved++
			case "top up":
				s.topUp(1, "")
				moved++
			case "act":
				s.newKey(fmt.Sprintf("key%d", n))
				moved++
			case "checkpoint":
				conn, err := sqlite.OpenConn(s.store.opts.Path, sqlite.OpenReadWrite)
				require.NoError(rt, err)
				require.NoError(rt, run(conn, `PRAGMA wal_checkpoint(RESTART)`, func(*sqlite.Stmt) error { return nil }))
				require.NoError(rt, conn.Close())
			}
			moments = append(moments, moment{copyFiles(rt, s.store.opts.Path), moved})
		}
		one := rapid.SampledFrom(moments).Draw(rt, "database of")
		other := rapid.SampledFrom(moments).Draw(rt, "witness of")
		r := one.files.with(".witness", other.files).verified(t)
		require.True(rt, r.Witnessed)
		require.Equal(rt, one.moved >= other.moved, r.OK, "%s", r.Problem)
	})
}
