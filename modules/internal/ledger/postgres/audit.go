package postgres

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Accounts and keys are numbered in the order of their making, within each query that needs it: nothing is written, so
// that a replica can be verified, and a number is only compared with those of other queries of the same moment.
const (
	numberedAccounts = `(SELECT account, created, row_number() OVER (ORDER BY made, account) AS n FROM accounts)`
	numberedKeys     = `(SELECT account, key, row_number() OVER (ORDER BY made, key) AS n FROM keys)`
	// Acts have places: those that were numbered across accounts (format 1) first.
	placedActs = `(SELECT *, row_number() OVER (ORDER BY n NULLS LAST, account, seq) AS place FROM acts)`
)

// auditRows gives the rows of one moment, which a transaction sees, to be verified. What is compared with what package
// audit says.
type auditRows struct {
	s   *Store
	ctx context.Context
	tx  pgx.Tx
	// from is the checkpoint that the verification begins behind, nil for none: the places of entries that it covers are
	// their numbers, and of others larger by from.Entries, which no covered one reaches.
	from *ledger.Checkpoint
}

// covered are how far the checkpoints up to from reach into each account, and coverage is $1 and $2 of what names it.
const covered = `(SELECT account, max(seq) AS seq FROM heads WHERE NOT act AND checkpoint <= $1::int8 GROUP BY account)`

func (r auditRows) coverage() []any {
	if r.from == nil {
		return []any{int64(0), int64(0)}
	}
	return []any{r.from.N, r.from.Entries}
}

// placeOf is the place of an entry that a column has the number of, beside covered AS c.
func placeOf(column string) string {
	return `(` + column + ` + CASE WHEN ` + column + ` > coalesce(c.seq, 0) THEN $2::int8 ELSE 0 END)`
}

// rowsOf are the rows of a query.
func rowsOf[T any](r auditRows, scan func(pgx.Rows) (T, error), sql string, args ...any) iter.Seq2[T, error] {
	return audit.Given(func(give func(T) error) error {
		return r.s.fetch(r.ctx, r.tx, func(row pgx.Rows) (func() error, error) {
			v, err := scan(row)
			return func() error { return give(v) }, err
		}, sql, args...)
	})
}

// scanInto reads all columns of a row into a T.
func scanInto[T any](into func(*T) []any) func(pgx.Rows) (T, error) {
	return func(row pgx.Rows) (t T, err error) {
		err = row.Scan(into(&t)...)
		return t, err
	}
}

func (r auditRows) one(sql string, args ...any) func(values ...any) error {
	return func(values ...any) error { return queryRows(r.ctx, r.tx, to(values...), sql, args...) }
}

// Head implements audit.Rows. Holds are counted as they lie: what accounts and lines say that they hold is compared
// with them by verifyHeld, and nobody else says how many there are.
func (r auditRows) Head() (h audit.Head, err error) {
	var pruned int64
	var trail, checkpoint []byte
	h.ByAccount, h.Summed = true, -1
	err = r.one(`SELECT (SELECT coalesce(sum(entries), 0)::bigint FROM balances), (SELECT count(*) FROM attempts),
		(SELECT coalesce(sum(requests), 0)::bigint FROM balances), pruned_before, acts, trail, checkpoints, checkpoint
		FROM ledger`)(
		&h.LastEntry, &h.Attempts, &h.Requests, &pruned, &h.Trail.Acts, &trail, &h.Checkpoints, &checkpoint)
	if err != nil {
		return h, err // what is asked in this transaction after it says nothing of why
	}
	h.Trail.Head, h.Checkpoint = digestOf(trail), digestOf(checkpoint)
	if pruned != 0 {
		h.Pruned = moment(pruned)
	}
	var scratch []byte
	for hold, failed := range r.Holds() {
		if failed != nil {
			return h, failed
		}
		h.Rows++
		h.Held += hold.Hold.Hold
		h.Marks += hold.Mark(&scratch)
	}
	return h, nil
}

// Owners implements audit.Rows.
func (r auditRows) Owners() iter.Seq2[string, error] {
	return rowsOf(r, scanInto(func(s *string) []any { return []any{s} }), `SELECT node FROM nodes`)
}

// Prices implements audit.Rows.
func (r auditRows) Prices() iter.Seq2[audit.Price, error] {
	return audit.Given(func(give func(audit.Price) error) error {
		var all []audit.Price
		err := readPrices(r.ctx, r.tx, func(route string, p book.Price) error {
			all = append(all, audit.Price{Route: route, Price: p})
			return nil
		}, `ORDER BY route, version`)
		for _, p := range all {
			if err == nil {
				err = give(p)
			}
		}
		return err
	})
}

// auditEntries are entries AS e with the place of each, of the one before it, their account's number, and since when
// that is; $1 and $2 are coverage.
var (
	auditEntries = `SELECT ` + entryColumns + `, ` + placeOf(`e.seq`) + `,
		CASE WHEN e.seq = 1 THEN 0 ELSE ` + placeOf(`(e.seq - 1)`) + ` END, coalesce(a.n, 0), a.created
		FROM entries AS e LEFT JOIN ` + covered + ` AS c ON c.account = e.account
		LEFT JOIN ` + numberedAccounts + ` AS a ON a.account = e.account `
	// One entry, whose account needs no number.
	auditEntry = `SELECT ` + entryColumns + `, $3::int8, 0::int8, 0::int8, a.created
		FROM entries AS e JOIN accounts AS a ON a.account = e.account WHERE e.account = $1 AND e.seq = $2`
)

func scanAuditEntry(row pgx.Rows) (e audit.Entry, err error) {
	var place int64
	var since *int64
	is, err := scanEntry(row, &place, &e.Before, &e.Number, &since)
	e.Entry, e.Hash, e.Since = is.Entry, is.Hash, optionalMoment(since)
	if e.Format == 2 {
		e.Numbered = new(e.N)
	}
	if e.N = place; since == nil {
		e.Account = ""
	}
	return e, err
}

// Entries implements audit.Rows.
func (r auditRows) Entries(first, last int64, moved bool) iter.Seq2[audit.Entry, error] {
	where, args := `WHERE true `, r.coverage()
	if first > math.MinInt64 || last < math.MaxInt64 {
		where += `AND ` + placeOf(`e.seq`) + ` BETWEEN $3 AND $4 `
		args = append(args, first, last)
	}
	if moved {
		where += `AND e.kind IN ('top_up', 'refund', 'adjustment') `
	}
	return rowsOf(r, scanAuditEntry, auditEntries+where+`ORDER BY e.account, e.seq`, args...)
}

// Entry implements audit.Rows.
func (r auditRows) Entry(account string, place int64) (e audit.Entry, found bool, err error) {
	seq := place
	if r.from != nil && place > r.from.Entries {
		seq -= r.from.Entries
	}
	err = queryRows(r.ctx, r.tx, func(row pgx.Rows) (err error) {
		found = true
		e, err = scanAuditEntry(row)
		return err
	}, auditEntry, account, seq, place)
	return e, found, err
}

// LaterEntries implements audit.Rows.
func (r auditRows) LaterEntries(account, request string) iter.Seq2[audit.Entry, error] {
	return rowsOf(r, scanAuditEntry, `SELECT `+entryColumns+`, `+placeOf(`e.seq`)+`, 0::int8, 0::int8, a.created
		FROM entries AS e JOIN accounts AS a ON a.account = e.account LEFT JOIN `+covered+` AS c ON c.account = e.account
		WHERE e.account = $3 AND e.request = $4 AND e.kind IN ('receipt', 'closing', 'refund') ORDER BY e.seq`,
		append(r.coverage(), account, request)...)
}

// ChargeFrom implements audit.Rows: the journal has no parts.
func (r auditRows) ChargeFrom(int64) (request string, err error) { return "", nil }

// HasAllotment implements audit.Rows.
func (r auditRows) HasAllotment(account *audit.Account, reference string) (has bool, err error) {
	err = r.one(`SELECT true FROM entries WHERE account = $1 AND kind = 'allotment' AND reference = $2`, account.ID,
		reference)(&has)
	return has, err
}

// Books implements audit.Rows.
func (r auditRows) Books(last int64) iter.Seq2[audit.BookSum, error] {
	return rowsOf(r, scanInto(func(s *audit.BookSum) []any { return []any{&s.Book, &s.Microcents} }),
		`SELECT e.book, sum(e.microcents)::bigint FROM entries AS e LEFT JOIN `+covered+` AS c ON c.account = e.account
		WHERE `+placeOf(`e.seq`)+` <= $3 GROUP BY e.book`, append(r.coverage(), last)...)
}

// Requests implements audit.Rows.
func (r auditRows) Requests(s audit.Span) iter.Seq2[*audit.Request, error] {
	where, args := `WHERE r.request >= $1 AND ($2 = '' OR r.request < $2)`, []any{s.First, s.End}
	if s.After > 0 {
		where += ` AND (r.account, r.request) IN (SELECT e.account, e.request FROM entries AS e
			LEFT JOIN (SELECT account, max(seq) AS seq FROM heads WHERE NOT act AND checkpoint <= $3 GROUP BY account) AS c
			ON c.account = e.account WHERE e.request IS NOT NULL AND e.seq > coalesce(c.seq, 0))`
		args = append(args, r.from.N)
	}
	if s.Pending {
		where += ` AND r.pending`
	}
	if s.Strangers {
		where += ` AND NOT EXISTS (SELECT 1 FROM keys AS k WHERE k.account = r.account AND k.key = r.key)`
	}
	return r.requests(s.Strangers, where, args...)
}

func (r auditRows) requests(numbered bool, where string, args ...any) iter.Seq2[*audit.Request, error] {
	return audit.Given(func(give func(*audit.Request) error) error {
		return r.s.eachDetail(r.ctx, r.tx, where, func(d *detail) (err error) {
			is := &audit.Request{RequestRecord: d.RequestRecord, Tokens: d.tokens, Entry: d.entry}
			if r.from != nil && d.entry > 0 {
				reaches := int64(0)
				err = r.one(`SELECT max(seq) FROM heads WHERE account = $1 AND NOT act AND checkpoint <= $2
					HAVING count(*) > 0`, d.Account, r.from.N)(&reaches)
				if is.Entry > reaches {
					is.Entry += r.from.Entries
				}
			}
			if err == nil && numbered {
				err = r.one(`SELECT a.n FROM `+numberedAccounts+` AS a WHERE a.account = $1`, d.Account)(&is.AccountNumber)
			}
			if err != nil {
				return err
			}
			return give(is)
		}, args...)
	})
}

// FindRequest implements audit.Rows.
func (r auditRows) FindRequest(id string) (found *audit.Request, err error) {
	for d, failed := range r.requests(false, `WHERE r.request = $1`, id) {
		found, err = d, failed
	}
	return found, err
}

// Strays implements audit.Rows.
func (r auditRows) Strays() iter.Seq2[string, error] {
	return rowsOf(r, scanInto(func(s *string) []any { return []any{s} }), `SELECT DISTINCT t.request FROM attempts AS t
		WHERE NOT EXISTS (SELECT 1 FROM requests AS r WHERE r.account = t.account AND r.request = t.request)
			ORDER BY t.request`)
}

// Holds implements audit.Rows.
func (r auditRows) Holds() iter.Seq2[audit.Hold, error] {
	return rowsOf(r, func(row pgx.Rows) (h audit.Hold, err error) {
		var created int64
		var most *int64
		err = row.Scan(&h.Request, &h.Seq, &h.AccountNumber, &h.KeyNumber, &h.Owner, &h.Endpoint, &h.Profile, &h.Hold.Hold,
			&h.Route, &h.Provider, &h.Model, &h.PriceVersion, &created, &h.Beside, &h.KeyAccount, &h.Settled, &most)
		h.Created, h.Worst = moment(created), worstOf(most)
		return h, err
	}, `SELECT h.request, h.seq, coalesce(a.n, 0), coalesce(k.n, 0), h.owner, h.endpoint, h.profile, h.hold, h.route,
		h.provider,
		h.model, h.price_version, h.created, h.beside, CASE WHEN k.n IS NULL THEN 0 ELSE coalesce(a.n, 0) END,
		s.request IS NOT NULL, CASE WHEN h.seq = 0 THEN 0 ELSE h.worst END FROM holds AS h
		LEFT JOIN `+numberedAccounts+` AS a ON a.account = h.account
		LEFT JOIN `+numberedKeys+` AS k ON k.account = h.account AND k.key = h.key
		LEFT JOIN requests AS s ON s.account = h.account AND s.request = h.request ORDER BY h.request, h.seq, h.account`)
}

// Waiting implements audit.Rows.
func (r auditRows) Waiting() iter.Seq2[audit.Waiting, error] {
	return rowsOf(r, func(row pgx.Rows) (w audit.Waiting, err error) {
		var created int64
		err = row.Scan(&w.Request, &w.Seq, &w.Provider, &w.Route, &created)
		w.Created = moment(created)
		return w, err
	}, `SELECT request, seq, provider, route, created FROM waiting`)
}

// Accounts implements audit.Rows.
func (r auditRows) Accounts() iter.Seq2[audit.Account, error] {
	return rowsOf(r, func(row pgx.Rows) (a audit.Account, err error) {
		a.Account, err = scanAccountAnd(row, &a.Number, &a.Last)
		if p := a.Period; p.Begun() {
			a.PeriodNumber, a.PeriodEnd, a.Allotted = new(p.Number), new(p.End), new(p.Allotted)
		}
		a.Required = book.RequiredTexts(a.Requires)
		return a, err
	}, `SELECT `+balanceColumns+`, `+settingColumns+`, v.n,
		CASE WHEN b.entries > 0 THEN `+placeOf(`b.entries`)+` END`+fromAccounts+`JOIN `+numberedAccounts+`
		AS v ON v.account = a.account LEFT JOIN `+covered+` AS c ON c.account = a.account ORDER BY v.n`,
		r.coverage()...)
}

// Keys implements audit.Rows.
func (r auditRows) Keys() iter.Seq2[audit.Key, error] {
	return rowsOf(r, func(row pgx.Rows) (k audit.Key, err error) {
		var created int64
		var expires *int64
		var hash []byte
		err = row.Scan(&k.Number, &k.AccountNumber, &k.Root, &k.ID, &k.Name, &k.Last4, &k.Revoked, &created, &expires,
			&k.Cap,
			&k.Line.Spent, &k.Before, &hash)
		k.Created, k.Expires = moment(created), optionalMoment(expires)
		copy(k.Hash[:], hash)
		return k, err
	}, `SELECT v.n, coalesce(a.n, 0), coalesce(o.n, 0), k.key, k.name, k.last4, k.revoked, k.created, k.expires,
		coalesce(l.spend_cap, 0), coalesce(l.spent, 0), coalesce(l.spent_before, 0), k.hash
		FROM keys AS k JOIN `+numberedKeys+` AS v ON v.account = k.account AND v.key = k.key
		LEFT JOIN `+numberedAccounts+` AS a ON a.account = k.account
		LEFT JOIN `+numberedKeys+` AS o ON o.account = k.account AND o.key = k.root
		LEFT JOIN key_lines AS l ON l.account = k.account AND l.root = k.key ORDER BY 2, 1`)
}

// EntrySums implements audit.Rows.
func (r auditRows) EntrySums() iter.Seq2[audit.EntrySum, error] {
	return rowsOf(r, scanInto(func(s *audit.EntrySum) []any {
		return []any{&s.Account, &s.Entries, &s.Spent,
			&s.Refunded}
	}),
		`SELECT coalesce(a.n, 0), sum(e.n)::bigint, sum(e.spent)::bigint, sum(e.refunded)::bigint
		FROM (SELECT account, count(*) AS n,
		coalesce(-sum(microcents) FILTER (WHERE kind IN ('charge', 'receipt', 'closing')), 0) AS spent,
		coalesce(sum(microcents) FILTER (WHERE kind = 'refund'), 0) AS refunded FROM entries GROUP BY account) AS e
		LEFT JOIN `+numberedAccounts+` AS a ON a.account = e.account GROUP BY 1 ORDER BY 1`)
}

func (r auditRows) sums(sql string) iter.Seq2[audit.RequestSum, error] {
	return rowsOf(r, scanInto(func(s *audit.RequestSum) []any {
		return []any{&s.Account, &s.Key, &s.Requests, &s.Tokens, &s.Charge, &s.Waived, &s.Refunded, &s.Pending}
	}), sql)
}

// RequestSums implements audit.Rows.
func (r auditRows) RequestSums() iter.Seq2[audit.RequestSum, error] {
	return r.sums(`SELECT coalesce(a.n, 0), coalesce(k.n, 0), sum(r.n)::bigint, sum(r.tokens)::bigint,
		sum(r.charge)::bigint, sum(r.waived)::bigint, sum(r.refunded)::bigint, 0::bigint
		FROM (SELECT account, key, count(*) AS n, sum(tokens) AS tokens, sum(charge) AS charge, sum(waived) AS waived,
			sum(refunded) AS refunded FROM requests GROUP BY account, key) AS r
		LEFT JOIN ` + numberedAccounts + ` AS a ON a.account = r.account
		LEFT JOIN ` + numberedKeys + ` AS k ON k.account = r.account AND k.key = r.key
		GROUP BY 1, 2 ORDER BY 1, 2`)
}

const prunedSums = `SELECT coalesce(a.n, 0), coalesce(k.n, 0), sum(p.settled)::bigint, %s, sum(p.microcents)::bigint,
	sum(p.waived)::bigint, sum(p.refunded)::bigint, %s FROM pruned AS p
	LEFT JOIN ` + numberedAccounts + ` AS a ON a.account = p.account
	LEFT JOIN ` + numberedKeys + ` AS k ON k.account = p.account AND k.key = p.key GROUP BY 1, 2 ORDER BY 1, 2`

// Pruned implements audit.Rows.
func (r auditRows) Pruned() iter.Seq2[audit.RequestSum, error] {
	return r.sums(fmt.Sprintf(prunedSums, `sum(p.tokens)::bigint`, `0::bigint`))
}

// PrunedDays implements audit.Rows: they are the same rows.
func (r auditRows) PrunedDays() iter.Seq2[audit.RequestSum, error] {
	return r.sums(fmt.Sprintf(prunedSums, `0::bigint`, `sum(abs(p.pending) + abs(p.whole_pending))::bigint`))
}

// Days implements audit.Rows: there are no sums of days but those of what was pruned.
func (r auditRows) Days() iter.Seq2[audit.Day, error] { return func(func(audit.Day, error) bool) {} }

// Acts implements audit.Rows.
func (r auditRows) Acts(byAccount, moved bool) iter.Seq2[audit.Act, error] {
	where, order := ``, `ORDER BY u.place`
	if moved {
		where, order = `WHERE u.action LIKE 'credit.%' `, `ORDER BY u.account, u.seq` // as entries are
	}
	if byAccount {
		order = `ORDER BY 15, u.place`
	}
	return rowsOf(r, func(row pgx.Rows) (a audit.Act, err error) {
		is, err := scanAct(row, &a.Place, &a.Number)
		a.Act, a.Hash = is.Act, is.Hash
		return a, err
	}, `SELECT coalesce(n.account, ''), '', u.seq, u.created, u.actor, u.action, u.subject, u.before, u.after, u.format,
		u.prev, u.hash, u.n, u.place, coalesce(n.n, CASE WHEN u.account = '' THEN 0 ELSE -1 END)
		FROM `+placedActs+` AS u LEFT JOIN `+numberedAccounts+` AS n ON n.account = u.account `+where+order)
}

const (
	checkpointRows    = `SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints `
	selectCheckpoints = checkpointRows + `ORDER BY n`
	latestCheckpoints = checkpointRows + `WHERE $1 = 0 OR n < $1 ORDER BY n DESC LIMIT $2`
)

func scanCheckpoint(row pgx.Rows) (c ledger.Checkpoint, err error) {
	var created int64
	var prev, hash, trail []byte
	err = row.Scan(&c.N, &c.Entries, &created, &prev, &hash, &c.Format, &c.Acts, &trail)
	c.Created, c.Prev, c.Hash, c.Trail = moment(created), digestOf(prev), digestOf(hash), digestOf(trail)
	return c, err
}

// Checkpoints implements audit.Rows.
func (r auditRows) Checkpoints() iter.Seq2[ledger.Checkpoint, error] {
	return rowsOf(r, scanCheckpoint, selectCheckpoints)
}

func scanHead(row pgx.Rows) (h book.Head, err error) {
	var hash []byte
	err = row.Scan(&h.Account, &h.Seq, &hash)
	h.Hash = digestOf(hash)
	return h, err
}

// headsOf are the heads of those checkpoints that are over more than $1 and at most $2 of what a column counts, with
// the hashes that lie in a table.
func (r auditRows) headsOf(table, counted string, after, last int64) iter.Seq2[book.Head, error] {
	return rowsOf(r, scanHead, `SELECT h.account, h.seq, e.hash FROM (SELECT h.account, max(h.seq) AS seq
		FROM heads AS h JOIN checkpoints AS c ON c.n = h.checkpoint
		WHERE h.act = ('`+table+`' = 'acts') AND c.`+counted+` > $1 AND c.`+counted+` <= $2
		GROUP BY h.account) AS h JOIN `+table+` AS e ON e.account = h.account AND e.seq = h.seq ORDER BY h.account`,
		after, last)
}

// Heads implements book.Chains.
func (r auditRows) Heads(after, last int64) iter.Seq2[book.Head, error] {
	return r.headsOf("entries", "entries", after, last)
}

// TrailHeads implements book.Chains.
func (r auditRows) TrailHeads(after, last int64) iter.Seq2[book.Head, error] {
	format := int64(0)
	err := r.one(`SELECT format FROM checkpoints WHERE acts = $1 ORDER BY n LIMIT 1`, last)(&format)
	switch {
	case err != nil:
		return func(yield func(book.Head, error) bool) { yield(book.Head{}, err) }
	case format < 3: // of a ledger of before, the last act of all
		return rowsOf(r, scanHead, `SELECT account, seq, hash FROM acts WHERE n > $1 AND n <= $2 ORDER BY account`, after,
			last)
	}
	return r.headsOf("acts", "acts", after, last)
}

// Verify implements ledger.Books. It reads one moment, beside the running operations; package audit says in which
// order what is looked at.
func (s *Store) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return s.VerifyAs(ctx, ledger.Verification{Kept: kept})
}

// VerifyAs implements ledger.Books.
func (s *Store) VerifyAs(ctx context.Context, how ledger.Verification) (r ledger.Report, err error) {
	for range tries {
		if r, err = s.verifyOnce(ctx, how); !isEnded(err) {
			break
		}
	}
	if err != nil {
		if isEnded(err) && !isConflict(err) && s.isReplica(ctx) {
			err = fmt.Errorf("%w: %w; perhaps %w", ledger.ErrUnavailable, err, errConflict)
		}
		return ledger.Report{}, fmt.Errorf("verifying the ledger: %w", unavailable(err))
	}
	return r, nil
}

func (s *Store) verifyOnce(ctx context.Context, how ledger.Verification) (r ledger.Report, err error) {
	err = s.list(ctx, "verify", func(ctx context.Context, tx pgx.Tx) error {
		rows := auditRows{s, ctx, tx, how.From}
		r, err = audit.Verify(audit.Ledger{Rows: rows, Schema: rows.verifyHeld}, how)
		return err
	})
	return r, err
}

// verifyHeld compares what accounts and lines say that they hold with their holds, and the names and hashes with
// those of accounts and keys.
func (r auditRows) verifyHeld() error {
	for _, check := range [...]struct{ sql, what string }{
		{`SELECT b.account FROM balances AS b LEFT JOIN (SELECT account, sum(hold) AS held FROM holds GROUP BY account) AS h
			ON h.account = b.account WHERE b.held <> coalesce(h.held, 0) LIMIT 1`,
			"its balance says another sum than its holds have"},
		{`SELECT l.account FROM key_lines AS l LEFT JOIN (SELECT k.account, k.root, sum(h.hold) AS held FROM holds AS h
			JOIN keys AS k ON k.account = h.account AND k.key = h.key GROUP BY k.account, k.root) AS h
			ON h.account = l.account AND h.root = l.root WHERE l.held <> coalesce(h.held, 0) LIMIT 1`,
			"a line of its keys says another sum than its holds have"},
		{`SELECT a.account FROM accounts AS a FULL JOIN names AS n ON n.name = a.name
			WHERE n.account IS DISTINCT FROM a.account LIMIT 1`, "its name is listed as another's, or not at all"},
		{`SELECT coalesce(k.account, h.account) FROM keys AS k FULL JOIN hashes AS h ON h.hash = k.hash
			WHERE (h.account, h.key) IS DISTINCT FROM (k.account, k.key) LIMIT 1`,
			"a hash of its keys is listed as another's, or not at all"},
	} {
		account := ""
		if err := r.one(check.sql)(&account); err != nil {
			return err
		}
		if account != "" {
			return audit.Disagree(account, "%s", check.what)
		}
	}
	return nil
}
