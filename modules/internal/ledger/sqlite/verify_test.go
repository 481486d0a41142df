package sqlite

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// noGuards lets a person change what the schema keeps.
const noGuards = `PRAGMA ignore_check_constraints = on; DROP TRIGGER entries_keep; DROP TRIGGER entries_stay;
	DROP TRIGGER prices_keep; DROP TRIGGER prices_stay; DROP INDEX one_charge; `

func TestVerifyNamesTheFirstThatDisagrees(t *testing.T) {
	t.Parallel()
	original := filepath.Join(t.TempDir(), "fareway.db")
	s, err := Open(Options{Path: original})
	require.NoError(t, err)
	account := sample(t, s)
	clean, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledger.Report{OK: true, Accounts: 2, Entries: 4, Requests: 6, Holds: 1}, clean)
	require.NoError(t, s.Close())
	database, err := os.ReadFile(original)
	require.NoError(t, err)

	for sql, where := range map[string]string{
		// The journal. ACC stands for the account with all the entries.
		`UPDATE entries SET microcents = microcents + 1 WHERE seq = 2`:       account + "/2",
		`UPDATE entries SET microcents = microcents - 1000000 WHERE seq = 1`: account + "/1",
		`UPDATE entries SET credits = credits + 1 WHERE seq = 3`:             account + "/3",
		`UPDATE entries SET accrued = accrued + 1 WHERE seq = 3`:             account + "/3",
		`UPDATE entries SET reason = 'gift' WHERE seq = 1`:                   account + "/1",
		`UPDATE entries SET reference = NULL WHERE seq = 1`:                  account + "/1",
		`UPDATE entries SET kind = 'adjustment' WHERE seq = 2`:               account + "/2",
		`UPDATE entries SET request = 'two' WHERE seq = 2`:                   account + "/2",
		`UPDATE entries SET created = created + 1 WHERE seq = 4`:             account + "/4",
		`UPDATE entries SET hash = zeroblob(32) WHERE seq = 4`:               account + "/4",
		`UPDATE entries SET prev = zeroblob(32) WHERE seq = 3`:               account + "/3",
		`DELETE FROM entries WHERE seq = 2`:                                  account + "/3",
		`DELETE FROM entries WHERE seq = 4`:                                  account,
		`DELETE FROM entries`:                                                account,
		`INSERT INTO entries SELECT account, 5, kind, request, reference, reason, microcents, credits, accrued, created, prev, hash FROM entries WHERE seq = 2`: account + "/5",
		// Accounts.
		`UPDATE accounts SET credits = credits + 1 WHERE id = 'ACC'`: account,
		`UPDATE accounts SET accrued = 0 WHERE id = 'ACC'`:           account,
		`UPDATE accounts SET held = held - 1 WHERE id = 'ACC'`:       account,
		`UPDATE accounts SET head = zeroblob(32) WHERE id = 'ACC'`:   account,
		`UPDATE accounts SET entries = 3 WHERE id = 'ACC'`:           account,
		`DELETE FROM accounts WHERE id = 'ACC'`:                      "entries",
		// Requests, holds, usage and prices.
		`UPDATE requests SET charge = charge + 1 WHERE id = 'one'`:           account + "/2",
		`UPDATE requests SET charge = 5 WHERE id = 'zero'`:                   "zero",
		`UPDATE requests SET surcharge = 1350 WHERE id = 'one'`:              "one",
		`UPDATE requests SET free = 0 WHERE id = 'free'`:                     "free",
		`UPDATE requests SET free = 1 WHERE id = 'two'`:                      "two",
		`UPDATE requests SET pending = 0 WHERE id = 'pending'`:               "pending",
		`UPDATE requests SET pending = 1 WHERE id = 'one'`:                   "one",
		`UPDATE requests SET hold = hold + 1 WHERE id = 'running'`:           account,
		`UPDATE requests SET state = 'settled' WHERE id = 'running'`:         account,
		`UPDATE requests SET state = 'held', hold = 0 WHERE id = 'zero'`:     "zero",
		`DELETE FROM requests WHERE id = 'one'`:                              account + "/2",
		`UPDATE attempts SET output = output + 1 WHERE request = 'two'`:      "two",
		`UPDATE attempts SET cache_read = NULL WHERE request = 'two'`:        "two",
		`UPDATE attempts SET cache_write = 7 WHERE request = 'zero'`:         "zero",
		`UPDATE attempts SET outcome = 'failed' WHERE request = 'pending'`:   "pending",
		`UPDATE attempts SET outcome = 'finished' WHERE request = 'running'`: "running",
		`UPDATE attempts SET output = -5 WHERE request = 'one'`:              "one",
		`UPDATE attempts SET route = 'other' WHERE request = 'one'`:          "one",
		`DELETE FROM attempts WHERE request = 'one'`:                         "one",
		`UPDATE prices SET output = output + 1000000 WHERE route = 'route'`:  "one",
		`DELETE FROM prices WHERE route = 'route'`:                           "free",
		`INSERT INTO attempts SELECT 'none', seq, 'x', owner, route, provider, model, price_version, outcome, input, cache_read, cache_write, output, reasoning, estimated, created FROM attempts WHERE request = 'one'`: "attempts",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "fareway.db")
			require.NoError(t, os.WriteFile(path, database, 0o600))
			script(t, path, noGuards+strings.ReplaceAll(sql, "ACC", account))
			r, err := VerifyFile(t.Context(), path)
			require.NoError(t, err)
			require.False(t, r.OK)
			require.Equal(t, where, r.Entry, r.Problem)
			require.NotEmpty(t, r.Problem)
		})
	}

	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "fareway.db")
		require.NoError(t, os.WriteFile(path, database, 0o600))
		script(t, path, noGuards)
		r, err := VerifyFile(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, clean, r)
	})
	t.Run("a damaged page", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "fareway.db")
		damaged := append([]byte(nil), database...)
		for i := 4096; i < len(damaged); i += 4096 {
			copy(damaged[i:], "not a page")
		}
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, err := VerifyFile(t.Context(), path)
		require.ErrorIs(t, err, ledger.ErrUnavailable, "not even its version can be read")
	})
}

func TestTheSchemaKeepsTheJournal(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	sample(t, s)
	for _, sql := range []string{
		`UPDATE entries SET reason = ''`,
		`DELETE FROM entries`,
		`UPDATE prices SET output = 0`,
		`DELETE FROM prices`,
		`INSERT INTO entries SELECT account, 9, kind, request, NULL, reason, microcents, credits, accrued, created, prev, hash FROM entries WHERE seq = 2`,
	} {
		_, err := s.writer.do(t.Context(), func(t *tx) error { return t.exec(sql) })
		require.Error(t, err, sql)
	}
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, r.Problem)
}

// A process that was killed leaves the newest commits in the write-ahead log only.
func TestVerifyFileReadsTheLogAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t, nil)
	sample(t, s)
	want, err := s.Verify(t.Context())
	require.NoError(t, err)

	dir := t.TempDir()
	path := filepath.Join(dir, "fareway.db")
	sums := map[string][32]byte{}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.opts.Path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+suffix, data, 0o600))
		sums[suffix] = sha256.Sum256(data)
	}
	for range 2 {
		got, err := VerifyFile(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for suffix, sum := range sums {
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.Equal(t, sum, sha256.Sum256(data), "%q", suffix)
	}
	require.NoFileExists(t, path+".lock")

	beside, err := VerifyFile(t.Context(), s.opts.Path)
	require.NoError(t, err, "and it works beside a gateway that runs")
	require.Equal(t, want, beside)

	again := openStore(t, func(o *Options) { o.Path = path })
	r, err := again.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, r.Problem)
	require.Zero(t, r.Holds)
}

func TestVerifyFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := VerifyFile(t.Context(), filepath.Join(dir, "missing.db"))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NoFileExists(t, filepath.Join(dir, "missing.db"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o600))
	_, err = VerifyFile(t.Context(), filepath.Join(dir, "empty.db"))
	require.ErrorIs(t, err, ErrVersion)
}
