//go:build linux

package main_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// book is the content of a ledger, read from its file.
type book struct {
	requests map[string]booked // by id
	accounts map[string]purse
}

// booked is a request in the ledger.
type booked struct {
	state    string
	charge   int64 // microcents
	pending  bool
	entries  []int64 // what each of its journal entries adds to the account, in microcents
	attempts []tried
}

// tried is an attempt of a request.
type tried struct {
	id, model, outcome string
	input, output      *int64 // tokens, nil when the upstream reported none
	priceIn, priceOut  int64  // microcents for a million tokens
}

// purse is an account's money and the sum of its journal.
type purse struct {
	credits, accrued int64
	topUps, charges  int64 // microcents
}

// net is the account's worth in microcents.
func (p purse) net() int64 { return p.credits*1_000_000 - p.accrued }

// readBook reads the ledger of a gateway that has ended, in a copy: whatever a crash has left in the files stays
// for the next gateway to find.
func readBook(t testing.TB, dir string) book {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fareway.db")
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, filepath.Join(dir, "fareway.db"+suffix), path+suffix)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()

	b := book{requests: map[string]booked{}, accounts: map[string]purse{}}
	rows(t, conn, `SELECT id, state, charge, pending FROM requests`, func(row *sqlite.Stmt) {
		b.requests[row.ColumnText(0)] = booked{state: row.ColumnText(1), charge: row.ColumnInt64(2), pending: row.ColumnBool(3)}
	})
	rows(t, conn, `SELECT request, microcents FROM entries WHERE kind = 'charge'`, func(row *sqlite.Stmt) {
		r, ok := b.requests[row.ColumnText(0)]
		require.True(t, ok, "a charge belongs to a request")
		r.entries = append(r.entries, row.ColumnInt64(1))
		b.requests[row.ColumnText(0)] = r
	})
	rows(t, conn, `SELECT a.request, a.id, a.model, coalesce(a.outcome, ''), a.input, a.output, p.input, p.output
		FROM attempts AS a JOIN prices AS p ON p.route = a.route AND p.version = a.price_version ORDER BY a.request, a.seq`,
		func(row *sqlite.Stmt) {
			r := b.requests[row.ColumnText(0)]
			r.attempts = append(r.attempts, tried{
				id: row.ColumnText(1), model: row.ColumnText(2), outcome: row.ColumnText(3),
				input: column(row, 4), output: column(row, 5),
				priceIn: row.ColumnInt64(6), priceOut: row.ColumnInt64(7),
			})
			b.requests[row.ColumnText(0)] = r
		})
	rows(t, conn, `SELECT a.id, a.credits, a.accrued,
		(SELECT coalesce(sum(microcents), 0) FROM entries AS e WHERE e.account = a.id AND kind = 'top_up'),
		(SELECT coalesce(-sum(microcents), 0) FROM entries AS e WHERE e.account = a.id AND kind = 'charge')
		FROM accounts AS a`, func(row *sqlite.Stmt) {
		b.accounts[row.ColumnText(0)] = purse{row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnInt64(4)}
	})
	return b
}

func rows(t testing.TB, conn *sqlite.Conn, query string, each func(*sqlite.Stmt)) {
	t.Helper()
	require.NoError(t, sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { each(row); return nil }}))
}

// column is a token count, nil for NULL.
func column(row *sqlite.Stmt, i int) *int64 {
	if row.ColumnIsNull(i) {
		return nil
	}
	n := row.ColumnInt64(i)
	return &n
}

// copyFile copies a file; one that is not there is left out.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
