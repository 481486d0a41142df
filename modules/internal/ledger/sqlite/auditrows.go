package sqlite

import (
	"iter"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// auditRows gives a ledger's rows, as a connection sees them, to be verified. What is compared with what package audit
// says.
type auditRows struct {
	conn  *sqlite.Conn
	names map[[2]int64][2]string // ids of accounts and keys, by their numbers
}

// recentNames is how many pairs of an account and a key are remembered.
const recentNames = 1 << 13

func newAuditRows(conn *sqlite.Conn) auditRows { return auditRows{conn, map[[2]int64][2]string{}} }

// rowsOf are the rows of a query. Statements that are open at the same time must differ in their text.
func rowsOf[T any](conn *sqlite.Conn, query string, scan func(*sqlite.Stmt) T, args ...any) iter.Seq2[T, error] {
	return audit.Given(func(give func(T) error) error {
		return run(conn, query, func(row *sqlite.Stmt) error { return give(scan(row)) }, args...)
	})
}

// summed are rows of sums. Where one is larger than SQLite can add up, somebody wrote numbers that no ledger has: a
// finding about where, which says what they are of.
func summed[T any](where, what string, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			if err != nil && strings.Contains(err.Error(), "integer overflow") {
				err = audit.TooLarge(where, what)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// scanInto reads all columns of a row into a T.
func scanInto[T any](into func(*T) []any) func(*sqlite.Stmt) T {
	return func(row *sqlite.Stmt) (t T) {
		readColumns(row, 0, into(&t)...)
		return t
	}
}

// Head implements audit.Rows.
func (r auditRows) Head() (h audit.Head, err error) {
	err = run(r.conn, `SELECT (SELECT coalesce(max(n), 0) FROM entries), (SELECT count(*) FROM attempts),
		(SELECT CAST(total(requests) AS INTEGER) FROM balances), nullif(pruned_before, 0), holds, held, marks, summed, acts,
		trail, checkpoints, checkpoint, unprofiled, profiled FROM meta`, to(&h.LastEntry, &h.Attempts, &h.Requests,
		&h.Pruned, &h.Rows, &h.Held, &h.Marks, &h.Summed, &h.Trail.Acts, &h.Trail.Head, &h.Checkpoints, &h.Checkpoint,
		&h.Unprofiled.Entry, &h.Unprofiled.After))
	return h, err
}

// Owners implements audit.Rows.
func (r auditRows) Owners() iter.Seq2[string, error] {
	return rowsOf(r.conn, `SELECT boot_id FROM owners`, firstText)
}

// Prices implements audit.Rows.
func (r auditRows) Prices() iter.Seq2[audit.Price, error] {
	return audit.Given(func(give func(audit.Price) error) error {
		return run(r.conn, `SELECT route, version, `+priceColumns+` FROM prices ORDER BY route, version`,
			func(row *sqlite.Stmt) (err error) {
				var p audit.Price
				readColumns(row, 0, &p.Route, &p.Version)
				if p.Price.Price, p.Cost, err = scanPrices(row, 2); err != nil {
					return audit.Disagree(audit.PriceName(p.Route, p.Version), "%v", err)
				}
				return give(p)
			})
	})
}

// A number of nothing is NULL, which is read as 0. Where 0 lies it was written over: it is read as -1, which is none.
const (
	auditEntries = `SELECT ` + entryColumns + `, e.hash, iif(e.before = 0, -1, e.before), e.account, a.created
		FROM entries AS e LEFT JOIN accounts AS a ON a.n = e.account `
	movedOnly = `AND e.kind IN ('top_up', 'refund', 'adjustment') `
)

func scanAuditEntry(row *sqlite.Stmt) audit.Entry {
	e := audit.Entry{Entry: scanEntry(row)}
	readColumns(row, entryWidth, &e.Hash, &e.Before, &e.Number, &e.Since)
	return e
}

// Entries implements audit.Rows.
func (r auditRows) Entries(first, last int64, moved bool) iter.Seq2[audit.Entry, error] {
	query := auditEntries + `WHERE e.n BETWEEN ? AND ? `
	if moved {
		query += movedOnly
	}
	return rowsOf(r.conn, query+`ORDER BY e.n`, scanAuditEntry, first, last)
}

// Entry implements audit.Rows.
func (r auditRows) Entry(_ string, place int64) (e audit.Entry, found bool, err error) {
	err = run(r.conn, auditEntries+`WHERE e.n = ?`, func(row *sqlite.Stmt) error {
		e, found = scanAuditEntry(row), true
		return nil
	}, place)
	return e, found, err
}

// LaterEntries implements audit.Rows.
func (r auditRows) LaterEntries(_, request string) iter.Seq2[audit.Entry, error] {
	return rowsOf(r.conn, laterEntries, func(row *sqlite.Stmt) audit.Entry { return audit.Entry{Entry: scanEntry(row)} },
		request)
}

// ChargeFrom implements audit.Rows.
func (r auditRows) ChargeFrom(place int64) (request string, err error) {
	err = run(r.conn, `SELECT request FROM entries WHERE n >= ? AND kind = 'charge' AND request IS NOT NULL LIMIT 1`,
		to(&request), place)
	return request, err
}

// HasAllotment implements audit.Rows.
func (r auditRows) HasAllotment(account *audit.Account, reference string) (has bool, err error) {
	err = run(r.conn, findReference, func(*sqlite.Stmt) error { has = true; return nil }, account.Number, true, reference)
	return has, err
}

// Books implements audit.Rows.
func (r auditRows) Books(last int64) iter.Seq2[audit.BookSum, error] {
	return summed("journal", "entries", rowsOf(r.conn,
		`SELECT book, sum(microcents) FROM entries WHERE n <= ? GROUP BY book`,
		scanInto(func(s *audit.BookSum) []any { return []any{(*string)(&s.Book), &s.Microcents} }), last))
}

// Requests implements audit.Rows.
func (r auditRows) Requests(s audit.Span) iter.Seq2[*audit.Request, error] {
	where, args := `WHERE r.id >= ?1 AND (?2 = '' OR r.id < ?2)`, []any{s.First, s.End}
	if s.After > 0 {
		where += ` AND r.id IN (SELECT request FROM entries WHERE n > ?3 AND request IS NOT NULL)`
		args = append(args, s.After)
	}
	if s.Pending {
		where += ` AND r.pending`
	}
	return audit.Given(func(give func(*audit.Request) error) error {
		return eachDetail(r.conn, where, func(d *audit.Request) error {
			if err := r.named(d); err != nil {
				return err
			}
			return give(d)
		}, args...)
	})
}

// named fills in the ids of a request's account and key.
func (r auditRows) named(d *audit.Request) error {
	numbers := [2]int64{d.AccountNumber, d.KeyNumber}
	if names, ok := r.names[numbers]; ok {
		d.Account, d.Key = names[0], names[1]
		return nil
	}
	err := fillIDs(r.conn, &d.RequestRecord, d.AccountNumber, d.KeyNumber)
	if len(r.names) >= recentNames {
		clear(r.names)
	}
	r.names[numbers] = [2]string{d.Account, d.Key}
	return err
}

// FindRequest implements audit.Rows.
func (r auditRows) FindRequest(id string) (found *audit.Request, err error) {
	err = eachDetail(r.conn, `WHERE r.id = ?`, func(d *audit.Request) error {
		found = d
		return r.named(d)
	}, id)
	return found, err
}

// Strays implements audit.Rows.
func (r auditRows) Strays() iter.Seq2[string, error] {
	return rowsOf(r.conn,
		`SELECT DISTINCT request FROM attempts WHERE request NOT IN (SELECT id FROM requests) ORDER BY request`, firstText)
}

// Holds implements audit.Rows.
func (r auditRows) Holds() iter.Seq2[audit.Hold, error] {
	return rowsOf(r.conn, `SELECT h.request, h.seq, h.account, h.key, h.owner, h.endpoint, h.profile, h.hold, h.route,
		h.provider, h.model, h.price_version, h.created, h.beside, coalesce(k.account, 0), s.id IS NOT NULL, h.worst
		FROM holds AS h LEFT JOIN keys AS k ON k.n = h.key LEFT JOIN requests AS s ON s.id = h.request
		ORDER BY h.request, h.seq, h.n`, func(row *sqlite.Stmt) (h audit.Hold) {
		readColumns(row, 0, &h.Request, &h.Seq, &h.AccountNumber, &h.KeyNumber, &h.Owner, &h.Endpoint, &h.Profile,
			&h.Hold.Hold, &h.Route, &h.Provider, &h.Model, &h.PriceVersion, &h.Created, &h.Beside, &h.KeyAccount, &h.Settled)
		h.Worst = columnWorst(row, 16)
		return h
	})
}

// Waiting implements audit.Rows.
func (r auditRows) Waiting() iter.Seq2[audit.Waiting, error] {
	return rowsOf(r.conn, `SELECT request, seq, provider, route, created FROM waiting`,
		scanInto(func(w *audit.Waiting) []any { return []any{&w.Request, &w.Seq, &w.Provider, &w.Route, &w.Created} }))
}

const accountsWithBalances = `SELECT ` + accountColumns + `,
	b.n IS NULL, b.last, b.line, a.period, a.period_end, a.allotted, a.requires_region, a.requires_retention
	FROM accounts AS a LEFT JOIN balances AS b ON b.n = a.n ORDER BY a.n`

const strayBalances = `SELECT b.n FROM balances AS b LEFT JOIN accounts AS a ON a.n = b.n WHERE a.n IS NULL ` +
	`ORDER BY b.n`

// Accounts implements audit.Rows.
func (r auditRows) Accounts() iter.Seq2[audit.Account, error] {
	accounts := rowsOf(r.conn, accountsWithBalances, func(row *sqlite.Stmt) audit.Account {
		is := scanRow(row)
		a := audit.Account{Account: is.Account, Number: is.n, LineSpent: is.owed}
		var end, allotted *int64
		readColumns(row, accountWidth, &a.NoBalance, &a.Last, &a.Line, &a.PeriodNumber, &end, &allotted,
			&a.Required.Regions, &a.Required.Retention)
		if end != nil {
			a.PeriodEnd = new(moment(*end))
		}
		if allotted != nil {
			a.Allotted = new(*allotted != 0)
		}
		return a
	})
	return func(yield func(audit.Account, error) bool) {
		for a, err := range accounts {
			if !yield(a, err) || err != nil {
				return
			}
		}
		rowsOf(r.conn, strayBalances, scanInto(func(a *audit.Account) []any { return []any{&a.Number} }))(yield)
	}
}

// Keys implements audit.Rows.
func (r auditRows) Keys() iter.Seq2[audit.Key, error] {
	return rowsOf(r.conn, `SELECT n, account, root, id, name, last4, revoked, created, expires, spend_cap, spent, `+
		`spent_before, hash FROM keys ORDER BY account, n`, func(row *sqlite.Stmt) (k audit.Key) {
		readColumns(row, 0, &k.Number, &k.AccountNumber, &k.Root, &k.ID, &k.Name, &k.Last4, &k.Revoked, &k.Created,
			&k.Expires, &k.Cap, &k.Line.Spent, &k.Before)
		k.Hash = columnHash(row, 12)
		return k
	})
}

// EntrySums implements audit.Rows.
func (r auditRows) EntrySums() iter.Seq2[audit.EntrySum, error] {
	return summed("journal", "entries", rowsOf(r.conn,
		`SELECT account, count(*), -sum(iif(kind IN ('charge', 'receipt', 'closing'), microcents, 0)),
		sum(iif(kind = 'refund', microcents, 0)) FROM entries GROUP BY account ORDER BY account`,
		scanInto(func(s *audit.EntrySum) []any { return []any{&s.Account, &s.Entries, &s.Spent, &s.Refunded} })))
}

// sums reads what requests of keys come to, see summed.
func (r auditRows) sums(where, what, query string) iter.Seq2[audit.RequestSum, error] {
	return summed(where, what, rowsOf(r.conn, query, scanInto(func(s *audit.RequestSum) []any {
		return []any{&s.Account, &s.Key, &s.Requests, &s.Tokens, &s.Charge, &s.Waived, &s.Refunded, &s.Pending}
	})))
}

// RequestSums implements audit.Rows.
func (r auditRows) RequestSums() iter.Seq2[audit.RequestSum, error] {
	return r.sums("requests", "requests",
		`SELECT account, key, count(*), sum(tokens), sum(charge), sum(waived), sum(refunded), 0 FROM requests
		GROUP BY account, key ORDER BY account, key`)
}

// Pruned implements audit.Rows.
func (r auditRows) Pruned() iter.Seq2[audit.RequestSum, error] {
	return r.sums("pruned", "pruned requests", `SELECT coalesce(k.account, 0),
		p.key, p.requests, p.tokens, p.charge, p.waived, p.refunded, 0
		FROM pruned AS p LEFT JOIN keys AS k ON k.n = p.key ORDER BY 1, 2`)
}

// PrunedDays implements audit.Rows.
func (r auditRows) PrunedDays() iter.Seq2[audit.RequestSum, error] {
	return r.sums("pruned", "pruned requests", `SELECT coalesce(k.account, 0),
		d.key, sum(d.settled), 0, sum(d.microcents), sum(d.waived),
		sum(d.refunded), sum(abs(d.pending) + abs(d.whole_pending))
		FROM days AS d LEFT JOIN keys AS k ON k.n = d.key WHERE d.pruned AND d.key <> 0 GROUP BY 1, 2 ORDER BY 1, 2`)
}

// Days implements audit.Rows.
func (r auditRows) Days() iter.Seq2[audit.Day, error] {
	return rowsOf(r.conn, `SELECT day, key, route, profile, parts, settled, requests, pending, whole_requests,
		whole_pending, attempts, microcents, waived, over, refunded, cost, input, cache_read, cache_write, output,
		reasoning, estimated
		FROM days WHERE NOT pruned AND key <> 0 ORDER BY day`, scanInto(func(d *audit.Day) []any {
		return []any{&d.Day, &d.Key, &d.Route, &d.Profile, &d.Parts, &d.Settled, &d.Requests, &d.Pending, &d.Wholes,
			&d.WholesPending, &d.Attempts, &d.Charge, &d.Waived, &d.Over, &d.Refunded, &d.Cost, &d.Input, &d.CacheRead,
			&d.CacheWrite, &d.Output, &d.Reasoning, &d.Estimated}
	}))
}

// Acts implements audit.Rows.
func (r auditRows) Acts(byAccount, moved bool) iter.Seq2[audit.Act, error] {
	query, order := selectAct, `ORDER BY u.n`
	if moved {
		query += `WHERE u.action LIKE 'credit.%' `
	}
	if byAccount {
		order = `ORDER BY coalesce(iif(u.account = 0, -1, u.account), 0), u.n`
	}
	return rowsOf(r.conn, query+order, func(row *sqlite.Stmt) audit.Act {
		a := audit.Act{Act: scanAct(row)}
		readColumns(row, 0, &a.Place)
		readColumns(row, 10, &a.Hash, &a.Number)
		return a
	})
}

// Checkpoints implements audit.Rows.
func (r auditRows) Checkpoints() iter.Seq2[ledger.Checkpoint, error] {
	return rowsOf(r.conn, selectCheckpoint+`ORDER BY n`, scanCheckpoint)
}

// Heads implements book.Chains.
func (r auditRows) Heads(after, last int64) iter.Seq2[book.Head, error] {
	return r.heads(`SELECT a.id, e.seq, e.hash
		FROM (SELECT max(n) AS n FROM entries WHERE n > ? AND n <= ? GROUP BY account) AS moved
		CROSS JOIN entries AS e ON e.n = moved.n CROSS JOIN accounts AS a ON a.n = e.account ORDER BY a.id`, after, last)
}

// TrailHeads implements book.Chains.
func (r auditRows) TrailHeads(after, last int64) iter.Seq2[book.Head, error] {
	return r.heads(`SELECT coalesce(a.id, '') AS id, u.seq, u.hash
		FROM (SELECT max(n) AS n FROM audit WHERE n > ? AND n <= ? GROUP BY account) AS moved
		CROSS JOIN audit AS u ON u.n = moved.n LEFT JOIN accounts AS a ON a.n = u.account ORDER BY id`, after, last)
}

func (r auditRows) heads(query string, after, last int64) iter.Seq2[book.Head, error] {
	return rowsOf(r.conn, query, scanInto(func(h *book.Head) []any { return []any{&h.Account, &h.Seq, &h.Hash} }),
		after, last)
}
