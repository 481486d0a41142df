package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
)

// house is a data folder with a ledger that is open, as that of a gateway that runs.
type house struct {
	t       *testing.T
	path    string
	store   *sqlite.Store
	account ledger.Account
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "money.db")}
	h.open()
	var err error
	h.account, err = h.store.CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	h.topUp(3)
	return h
}

func (h *house) open() {
	var err error
	h.store, err = sqlite.Open(sqlite.Options{Path: h.path, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, h.store.Close()) })
}

func (h *house) topUp(times int) {
	for range times {
		_, _, err := h.store.AddCredit(context.Background(), ledger.Credit{Account: h.account.ID, Credits: 10})
		require.NoError(h.t, err)
	}
}

// spooled puts a settlement into the spool.
func (h *house) spooled() {
	s, err := spool.Open(h.path+".spool", 1<<16)
	require.NoError(h.t, err)
	_, err = s.Append(&spool.Record{Settlement: ledger.Settlement{Request: "req_1", Status: 200},
		Account: h.account.ID})
	require.NoError(h.t, err)
	require.NoError(h.t, s.Close())
}

func (h *house) backup() []byte {
	h.t.Helper()
	var b bytes.Buffer
	m, err := backup.Write(h.t.Context(), h.path, backup.Options{Temp: h.t.TempDir(), Version: "v1"}, &b)
	require.NoError(h.t, err)
	require.Equal(h.t, "v1", m.Version)
	return b.Bytes()
}

func (h *house) restore(archive []byte, replace bool, kept ...ledger.Checkpoint) (backup.Restored, error) {
	return backup.Restore(h.t.Context(), bytes.NewReader(archive), h.path, "disk failed", replace, kept)
}

// names are what a folder has.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !d.IsDir() {
			list = append(list, filepath.Base(path))
		}
		return nil
	}))
	return list
}

// TestHandedOver: the spool of a process that has handed the ledger over belongs to it, in a backup and at a restore
// (GAP-99).
func TestHandedOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.spooled()
	left := spool.HandedOverPath(spool.Path(h.path), "OWNER")
	require.NoError(t, os.Rename(spool.Path(h.path), left))
	archive := h.backup()
	require.NoError(t, h.store.Close())
	was, err := os.ReadFile(left)
	require.NoError(t, err)
	done, err := h.restore(archive, true)
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Waiting)
	require.Contains(t, names(t, done.Aside), filepath.Base(left))
	is, err := os.ReadFile(left)
	require.NoError(t, err)
	require.Equal(t, was, is)
}

// TestPeopleAreBackedUp: who may sign in to the portal is in a backup, and comes back with it; a backup of an earlier
// fareway leaves who is there.
func TestPeopleAreBackedUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := h.backup()
	at := config.Store{Kind: config.SQLite, Path: filepath.Base(h.path)}
	open := func() *people.Service {
		return stores.OpenPeople(at, filepath.Dir(h.path), people.Options{Log: slog.New(slog.DiscardHandler),
			Config: func() config.Portal { return config.Portal{} }, Limiter: ratelimit.NewMemory(ratelimit.Options{})})
	}
	join := func(email string) {
		s := open()
		token, _, err := s.Invite(t.Context(), people.Invitation{Email: email, Operator: people.Support})
		require.NoError(t, err)
		_, _, err = s.Accept(t.Context(), token, people.Acceptance{Password: "a long and rainy afternoon"}, people.Client{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	has := func() (emails []string) {
		s := open()
		all, err := s.People(t.Context(), "", 10)
		require.NoError(t, err)
		for _, p := range all {
			emails = append(emails, p.Email)
		}
		require.NoError(t, s.Close())
		return emails
	}
	join("ann@example.com")
	archive := h.backup()
	join("bob@example.com")
	require.NoError(t, h.store.Close())
	done, err := h.restore(archive, true)
	require.NoError(t, err)
	require.Contains(t, names(t, done.Aside), "portal.db")
	require.Equal(t, []string{"ann@example.com"}, has())
	_, err = h.restore(before, true)
	require.NoError(t, err)
	require.Equal(t, []string{"ann@example.com"}, has())
}

// TestBackupAndRestore: a backup that is made beside a running gateway has what was in the log and in the spool, and a
// restore says what it lacks.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.spooled()
	archive := h.backup()
	h.topUp(2)
	kept, err := h.store.MakeCheckpoint(t.Context())
	require.NoError(t, err)

	_, err = h.restore(archive, true)
	require.ErrorIs(t, err, ledger.ErrLocked, "while a gateway runs")
	require.NoError(t, h.store.Close())
	_, err = h.restore(archive, false)
	require.ErrorIs(t, err, backup.ErrLedgerThere)
	require.ErrorContains(t, err, "5 movements of money and 6 acts")

	done, err := h.restore(archive, true, kept)
	require.NoError(t, err)
	require.Equal(t, ledger.Extent{Entries: 3, Acts: 4}, done.Extent)
	require.EqualValues(t, 1, done.Waiting)
	require.Equal(t, ledger.Extent{Entries: 2, Acts: 2}, done.Missing(*done.Was))
	require.Subset(t, names(t, done.Aside), []string{"money.db", "money.db.witness", "money.db.spool"})
	require.NoError(t, filepath.WalkDir(filepath.Dir(h.path), func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if info, err := d.Info(); err == nil && !d.IsDir() {
			require.Zero(t, info.Mode().Perm()&0o177, "%s, those that were restored as well", path)
		}
		return nil
	}))

	h.open()
	require.Nil(t, h.store.Loss())
	r, err := h.store.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, true, int64(3)}, []any{r.OK, r.Witnessed, r.Entries})
	var acts []string
	require.NoError(t, h.store.Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		acts = append(acts, a.Action+" "+a.After)
		return nil
	}))
	require.Contains(t, acts[len(acts)-1], "ledger.restore")
	require.Contains(t, acts[len(acts)-1], `"missing_entries":2`)
	require.Contains(t, acts[len(acts)-1], `"reason":"disk failed"`)
	s, err := spool.Open(h.path+".spool", 1<<16)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Len())
	require.NoError(t, s.Close())
}

// TestRestoreMovesDamagedLogs (GAP-133): a damaged log that was kept belongs to the ledger that is replaced.
func TestRestoreMovesDamagedLogs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	archive := h.backup()
	require.NoError(t, h.store.Close())
	damaged := h.path + "-wal.damaged-20260102-030405"
	require.NoError(t, os.WriteFile(damaged, []byte("log"), 0o600))
	h.open()
	require.NotNil(t, h.store.Loss())
	_, err := backup.Write(t.Context(), h.path, backup.Options{Temp: t.TempDir()}, io.Discard)
	require.ErrorIs(t, err, ledger.ErrLost)
	require.ErrorContains(t, err, damaged)
	require.NoError(t, h.store.Close())
	done, err := h.restore(archive, true)
	require.NoError(t, err)
	require.Contains(t, names(t, done.Aside), filepath.Base(damaged))
	h.open()
	require.Nil(t, h.store.Loss())
}

// TestKilledBackup: what a backup that was killed left behind is removed by the next one, and what one that runs works
// on is not.
func TestKilledBackup(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	temp := t.TempDir()
	begin := func() *exec.Cmd {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDatabase+"="+h.path, childTemp+"="+temp)
		out, err := child.StdoutPipe() // which takes less than a backup has
		require.NoError(t, err)
		require.NoError(t, child.Start())
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
		_, err = io.ReadFull(out, make([]byte, 512))
		require.NoError(t, err)
		return child
	}
	folders := func() int {
		left, err := filepath.Glob(filepath.Join(temp, backup.BackupWork+"*"))
		require.NoError(t, err)
		return len(left)
	}
	killed, runs := begin(), begin()
	require.Equal(t, 2, folders())
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	require.Equal(t, 2, folders())
	_, err := backup.Write(t.Context(), h.path, backup.Options{Temp: temp}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, folders(), "that of the one that runs")
	require.NoError(t, runs.Process.Kill())
	require.Error(t, runs.Wait())
	files.RemoveLeftWork(temp, backup.BackupWork)
	require.Zero(t, folders())
}

const childDatabase, childTemp = "FAREWAY_TEST_BACKUP", "FAREWAY_TEST_BACKUP_TEMP"

func TestMain(m *testing.M) {
	if database := os.Getenv(childDatabase); database != "" {
		o := backup.Options{Temp: os.Getenv(childTemp)}
		if _, err := backup.Write(context.Background(), database, o, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestBackupIsSmall: a spool in which nothing waits is in none.
func TestBackupIsSmall(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s, err := spool.Open(h.path+".spool", 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	archive := h.backup()
	require.Less(t, len(archive), 1<<20)
	other := &house{t: t, path: filepath.Join(t.TempDir(), "other.db")}
	_, err = other.restore(archive, false)
	require.NoError(t, err)
	require.NoFileExists(t, other.path+".spool")
	h.spooled()
	require.Greater(t, len(h.backup()), spool.Size, "one that waits is")
}

// TestRestoreElsewhere: on another machine there is nothing to replace, and the database may have another name.
func TestRestoreElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	kept, err := h.store.MakeCheckpoint(t.Context())
	require.NoError(t, err)
	archive := h.backup()
	other := &house{t: t, path: filepath.Join(t.TempDir(), "other.db")}
	done, err := other.restore(archive, false, kept)
	require.NoError(t, err)
	require.Nil(t, done.Was)
	require.Empty(t, done.Aside)
	other.open()
	a, err := other.store.Account(t.Context(), "ann")
	require.NoError(t, err)
	require.EqualValues(t, 30, a.Balance.Credits)

	// A checkpoint of another ledger shows that the backup is none of this one.
	stranger := newHouse(t)
	foreign, err := stranger.store.MakeCheckpoint(t.Context())
	require.NoError(t, err)
	third := &house{t: t, path: filepath.Join(t.TempDir(), "third.db")}
	_, err = third.restore(archive, false, foreign)
	require.ErrorContains(t, err, "it does not agree at checkpoint/1")
	require.Empty(t, names(t, filepath.Dir(third.path)))
}

// TestRestoreThatFails: where the last step fails, all is as it was: here a folder stands where SQLite's file is to
// be.
func TestRestoreThatFails(t *testing.T) {
	t.Parallel()
	archive := newHouse(t).backup()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "other.db-shm", "full"), 0o700))
	other := &house{t: t, path: filepath.Join(dir, "other.db")}
	_, err := other.restore(archive, false)
	require.Error(t, err)
	require.NotErrorIs(t, err, backup.ErrLedgerThere)
	require.NotContains(t, err.Error(), "taking back")
	left := names(t, dir)
	require.Subset(t, []string{"other.db.lock"}, left)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "other.db-shm")))
	_, err = other.restore(archive, false)
	require.NoError(t, err, "it can be done again")
}

// TestBackupOfALedgerInUse: copies that are made while money moves are right, each of one moment.
func TestBackupOfALedgerInUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var moving sync.WaitGroup
	stop := make(chan struct{})
	moving.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				h.topUp(1)
			}
		}
	})
	var last int64
	for range 5 {
		var b bytes.Buffer
		m, err := backup.Write(t.Context(), h.path, backup.Options{Temp: t.TempDir()}, &b)
		require.NoError(t, err)
		require.GreaterOrEqual(t, m.Entries, last)
		last = m.Entries
		other := &house{t: t, path: filepath.Join(t.TempDir(), "other.db")}
		done, err := other.restore(b.Bytes(), false)
		require.NoError(t, err)
		require.Equal(t, m.Extent, done.Extent)
	}
	close(stop)
	moving.Wait()
}

// TestDamagedBackups: whatever became of an archive, what is there stays as it is.
func TestDamagedBackups(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.spooled()
	archive := h.backup()
	require.NoError(t, h.store.Close())
	before := snapshot(t, h.path)
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"nothing":          {nil, "this is none"},
		"another file":     {bytes.Repeat([]byte("text "), 1_000), "this is none"},
		"half":             {archive[:len(archive)/2], "reading the backup"},
		"a manifest alone": {archive[:bytes.Index(archive, []byte("fareway.db\x00"))], "it is cut off"},
		"a turned bit":     {flipped(archive, bytes.LastIndex(archive, []byte("ann"))), "is damaged"},
		"a newer format":   {bytes.Replace(archive, []byte(`"format": 1`), []byte(`"format": 2`), 1), "a newer one made it"},
		"a file elsewhere": {bytes.Replace(archive, []byte(`"name": "fareway.db.witness"`),
			[]byte(`"name": "../../etc/password"`), 1), "is no file of a ledger"},
		"another order": {reordered(t, archive), "it ends before fareway.db"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backup.Restore(t.Context(), bytes.NewReader(c.archive), h.path, "r", true, nil)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, before, snapshot(t, h.path))
		})
	}
	t.Run("a disk that is full", func(t *testing.T) {
		_, err := backup.Write(t.Context(), h.path, backup.Options{Temp: t.TempDir()}, &full{left: 10_000})
		require.ErrorIs(t, err, errFull)
	})
	t.Run("a ledger that is wrong", func(t *testing.T) {
		other := newHouse(t)
		require.NoError(t, other.store.Close())
		content, err := os.ReadFile(other.path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(other.path, flipped(content, bytes.LastIndex(content, []byte("ann"))), 0o600))
		var b bytes.Buffer
		_, err = backup.Write(t.Context(), other.path, backup.Options{Temp: t.TempDir()}, &b)
		require.Error(t, err)
		require.Zero(t, b.Len(), "nothing is written of what is wrong")
	})
	t.Run("no ledger", func(t *testing.T) {
		_, err := backup.Write(t.Context(), filepath.Join(t.TempDir(), "none.db"), backup.Options{Temp: t.TempDir()},
			io.Discard)
		require.Error(t, err)
	})
}

var errFull = errors.New("no space left")

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// reordered has the archive's files the other way round behind the manifest.
func reordered(t *testing.T, archive []byte) []byte {
	t.Helper()
	type member struct {
		head *tar.Header
		text []byte
	}
	var all []member
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		all = append(all, member{head, text})
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range all {
		m := all[0]
		if i > 0 {
			m = all[len(all)-i]
		}
		require.NoError(t, w.WriteHeader(m.head))
		_, err := w.Write(m.text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// snapshot is what the files of a ledger hold, by their names: SQLite may have looked at them.
func snapshot(t *testing.T, path string) map[string][sha256.Size]byte {
	t.Helper()
	all := make(map[string][sha256.Size]byte)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, e.IsDir(), "%s was left", e.Name())
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		require.NoError(t, err)
		if suffix := filepath.Ext(e.Name()); suffix != ".lock" && suffix != ".db-shm" && len(content) > 0 {
			all[e.Name()] = sha256.Sum256(content)
		}
	}
	return all
}
