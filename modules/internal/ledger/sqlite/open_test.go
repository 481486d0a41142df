package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func prices(n int64) config.Price {
	return config.Price{Input: n * 1_000_000, CacheRead: n * 1_000_000, CacheWrite: n * 1_000_000, Output: n * 1_000_000}
}

// script runs SQL on a database file, as a person with the sqlite3 shell would.
func script(t testing.TB, path, sql string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	require.NoError(t, err)
	require.NoError(t, sqlitex.ExecuteScript(conn, sql, nil))
	require.NoError(t, conn.Close())
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    string
		kind    error
	}{
		"a newer version": {func(t *testing.T, path string) {
			s, err := Open(Options{Path: path})
			require.NoError(t, err)
			require.NoError(t, s.Close())
			script(t, path, `UPDATE meta SET version = 99`)
		}, "schema version 99 and this fareway knows up to 21; run the newer fareway", ErrVersion},
		"another program's database": {func(t *testing.T, path string) {
			script(t, path, `CREATE TABLE recipes (id INTEGER)`)
		}, "another program's database", ErrVersion},
		"no database": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("text ", 1_000)), 0o600))
		}, "not an SQLite database", ErrVersion},
		"a folder": {func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "opening the ledger", ledger.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "fareway.db")
			c.prepare(t, path)
			before, _ := os.ReadFile(path)
			_, err := Open(Options{Path: path})
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n", "one line")
			if errors.Is(err, ErrVersion) {
				require.ErrorContains(t, CheckVersion(path), c.want, "and whoever only asks hears the same")
			}
			after, _ := os.ReadFile(path)
			require.Equal(t, before, after, "and the file is left as it was")
			_, err = Open(Options{Path: path})
			require.NotErrorIs(t, err, ledger.ErrLocked, "the lock was let go")
		})
	}
	_, err := Open(Options{Path: filepath.Join(t.TempDir(), "missing", "fareway.db")})
	require.ErrorContains(t, err, "make its folder first")
	_, err = Open(Options{})
	require.ErrorContains(t, err, "path is empty")
}

// TestCheckVersion: whether a program can take up a ledger is known while another process has it.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	require.NoError(t, CheckVersion(path), "it need not be there")
	s, err := Open(Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, CheckVersion(path))
	require.NoError(t, s.Close())
	require.Error(t, CheckVersion(""))
}

func TestOpenLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, func(o *Options) { o.Path = filepath.Join(dir, "fareway.db") })
	link := filepath.Join(dir, "link.db")
	require.NoError(t, os.Symlink(s.opts.Path, link))
	for _, path := range []string{s.opts.Path, link} {
		_, err := Open(Options{Path: path})
		require.ErrorIs(t, err, ledger.ErrLocked)
		require.ErrorContains(t, err, fmt.Sprintf("process %d has", os.Getpid()))
	}
	text, err := os.ReadFile(s.opts.Path + ".lock")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d %s 1\n", os.Getpid(), s.opts.BootID), string(text))
	_, err = s.CreateAccount(t.Context(), "a", "")
	require.NoError(t, err, "the one that has it goes on")
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	for _, suffix := range []string{"", "-wal", "-shm", ".lock", ".witness"} {
		info, err := os.Stat(s.opts.Path + suffix)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "%q", suffix)
	}
}

func TestOpenEmptyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	s := openStore(t, func(o *Options) { o.Path = path })
	_, err := s.CreateAccount(t.Context(), "a", "")
	require.NoError(t, err)
}

func TestBootIDIsUsedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	s := openStore(t, func(o *Options) { o.Path, o.BootID = path, "boot" })
	require.NoError(t, s.Close())
	_, err := Open(Options{Path: path, BootID: "boot"})
	require.ErrorIs(t, err, ledger.ErrExists, "with it, recovery could not tell the dead from the living")
}
