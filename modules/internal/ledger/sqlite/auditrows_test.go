package sqlite

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// The rows of a file are those that package audit is tested with, in files of its own: what it sees of them it sees of
// the file. They are written anew with -update.
func TestRowsAreWhatTheAuditIsTestedWith(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (path string){
		"everything": func(t *testing.T) string {
			s := newSceneOf(t, "", "scene")
			s.store.opts.Rand = rand.NewChaCha8([32]byte{})
			s.everything()
			s.settings()
			require.NoError(t, s.store.Close())
			return s.store.opts.Path
		},
		"schema1":  opened("schema1.db.gz"),
		"schema4":  opened("schema4.db.gz"),
		"schema6":  opened("schema6.db.gz"),
		"schema14": opened("schema14.db.gz"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := openForWriting(t, open(t))
			want, err := verify(conn, nil, nil)
			require.NoError(t, err)
			require.True(t, want.OK, "%s: %s", want.Entry, want.Problem)
			tables, err := ledgertest.CopyTables(newAuditRows(conn))
			require.NoError(t, err)
			text, err := json.Marshal(tables)
			require.NoError(t, err)
			golden.Equal(t, filepath.Join("..", "audit", "testdata", name+".json"), append(text, '\n'))
			var again ledgertest.Tables
			require.NoError(t, json.Unmarshal(text, &again))
			got, err := audit.Verify(audit.Ledger{Rows: &again}, ledger.Verification{})
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// Requests of before format 3 may have no entry, which is not entry 0.
func TestVerifySeesEntryZeroOfARequest(t *testing.T) {
	t.Parallel()
	conn := openForWriting(t, opened("schema1.db.gz")(t))
	require.NoError(t, run(conn, `UPDATE requests SET entry = 0 WHERE entry IS NULL`, nil))
	r, err := verify(conn, nil, nil)
	require.NoError(t, err)
	require.Contains(t, r.Problem, "which the request names as its charge")
}

// Numbers that overflow do not keep a ledger from being read at one moment on several connections.
func TestVerifySeesOverflowBesideOthers(t *testing.T) {
	t.Parallel()
	path := opened("schema14.db.gz")(t)
	conn := openForWriting(t, path)
	require.NoError(t, run(conn, `INSERT OR REPLACE INTO pruned (key, requests, tokens, charge, waived, refunded)
		SELECT n, 9223372036854775807, 0, 0, 0, 0 FROM keys`, nil))
	books, err := OpenBooks(t.Context(), path)
	require.NoError(t, err)
	r, err := books.Verify(t.Context())
	require.NoError(t, errors.Join(err, books.Close()))
	require.Equal(t, "what pruned requests came to is more than any ledger can hold", r.Problem)
}

// opened opens a ledger of testdata once, which brings it up to date.
func opened(name string) func(t *testing.T) (path string) {
	return func(t *testing.T) string {
		path := oldLedger(t, name)
		s := openStore(t, func(o *Options) { o.Path, o.BootID = path, "scene" })
		require.NoError(t, s.Close())
		return path
	}
}
