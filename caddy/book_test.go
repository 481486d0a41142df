//go:build linux

package main_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// book is the content of a ledger, read from its file.
type book struct {
	requests map[string]booked // by id
	accounts map[string]purse  // by name
	waiting  map[string]bool   // attempts that wait for a receipt
}

// booked is a request in the ledger. One that runs has nothing but attempts.
type booked struct {
	running  bool
	free     bool
	pending  bool
	held     int64   // microcents, at the end
	charge   int64   // microcents, later receipts included
	over     int64   // beyond what was held, and not charged (GAP-110)
	entries  []int64 // what each of its journal entries adds to the account, in microcents, oldest first
	attempts []tried
}

// tried is an attempt of a request.
type tried struct {
	id, route, model, outcome string
	input, output             *int64 // tokens, nil when nothing is proven
	priceIn, priceOut         int64  // microcents for a million tokens
	worst                     int64  // microcents
}

// cost is what the attempt is proven to have used, in microcents x 1,000,000.
func (a tried) cost() int64 {
	if a.input == nil {
		return 0
	}
	return *a.input*a.priceIn + *a.output*a.priceOut
}

// due is what the attempts come to by what is proven of them, in microcents.
func (r booked) due() int64 {
	var due int64
	for _, a := range r.attempts {
		due += a.cost()
	}
	return due / 1_000_000
}

// pastHold reports whether there is something that was not held for: upstreams that number their replies in what they
// report go past what their prompts can have.
func (r booked) pastHold() bool {
	return r.due() > r.held || slices.ContainsFunc(r.attempts, func(a tried) bool { return a.cost()/1_000_000 > a.worst })
}

// purse is an account's money and the sums of its journal.
type purse struct {
	credits, accrued int64
	topUps, spent    int64 // microcents
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
	defer func() {
		require.NoError(t, conn.Close())
		require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	}()

	b := book{requests: map[string]booked{}, accounts: map[string]purse{}, waiting: map[string]bool{}}
	rows(t, conn, `SELECT id, free, pending, charge, hold, over FROM requests`, func(row *sqlite.Stmt) {
		b.requests[row.ColumnText(0)] = booked{free: row.ColumnBool(1), pending: row.ColumnBool(2),
			charge: row.ColumnInt64(3), held: row.ColumnInt64(4), over: row.ColumnInt64(5)}
	})
	rows(t, conn, `SELECT DISTINCT request FROM holds`, func(row *sqlite.Stmt) {
		require.NotContains(t, b.requests, row.ColumnText(0), "it is settled, and runs")
		b.requests[row.ColumnText(0)] = booked{running: true}
	})
	rows(t, conn, `SELECT request, microcents FROM entries WHERE request IS NOT NULL ORDER BY n`, func(row *sqlite.Stmt) {
		r, ok := b.requests[row.ColumnText(0)]
		require.True(t, ok && !r.running, "an entry belongs to a settled request")
		r.entries = append(r.entries, row.ColumnInt64(1))
		b.requests[row.ColumnText(0)] = r
	})
	rows(t, conn, `SELECT a.request, a.request || '.' || a.seq, a.route, a.model, a.outcome, a.input, a.output, p.input,`+
		` p.output, a.worst
		FROM attempts AS a JOIN prices AS p ON p.route = a.route AND p.version = a.price_version ORDER BY a.request, a.seq`,
		func(row *sqlite.Stmt) {
			r := b.requests[row.ColumnText(0)]
			r.attempts = append(r.attempts, tried{
				id: row.ColumnText(1), route: row.ColumnText(2), model: row.ColumnText(3), outcome: row.ColumnText(4),
				input: column(row, 5), output: column(row, 6),
				priceIn: row.ColumnInt64(7), priceOut: row.ColumnInt64(8), worst: row.ColumnInt64(9),
			})
			b.requests[row.ColumnText(0)] = r
		})
	rows(t, conn, `SELECT request || '.' || seq FROM waiting`,
		func(row *sqlite.Stmt) { b.waiting[row.ColumnText(0)] = true })
	rows(t, conn, `SELECT name, credits, accrued,
		(SELECT coalesce(sum(microcents), 0) FROM entries AS e WHERE e.account = a.n AND request IS NULL),
		(SELECT coalesce(-sum(microcents), 0) FROM entries AS e WHERE e.account = a.n AND request IS NOT NULL)
		FROM accounts AS a JOIN balances AS b ON b.n = a.n`, func(row *sqlite.Stmt) {
		b.accounts[row.ColumnText(0)] = purse{row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnInt64(4)}
	})
	return b
}

// verifyCopy verifies what a gateway that has ended has left, database and log, in a copy: whatever a crash has left in
// the files stays for the next gateway to find.
func verifyCopy(t testing.TB, dir string) report {
	t.Helper()
	copied := t.TempDir()
	left, err := filepath.Glob(filepath.Join(dir, "fareway.db*"))
	require.NoError(t, err)
	for _, path := range left {
		if !strings.HasSuffix(path, ".lock") {
			copyFile(t, path, filepath.Join(copied, filepath.Base(path)))
		}
	}
	r := verifyOffline(t, copied)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.NoError(t, os.RemoveAll(copied))
	return r
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
