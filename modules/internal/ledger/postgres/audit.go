package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Entries and acts have no number but their account's, so a verification and a checkpoint number them: those that a
// checkpoint covers lie before those that the next one does, and those of an account follow one another. Accounts and
// keys are numbered in the order of their making.
const (
	numberAccounts = `CREATE TEMP TABLE v_accounts ON COMMIT DROP AS
		SELECT account, row_number() OVER (ORDER BY made, account) AS n FROM accounts`
	numberKeys = `CREATE TEMP TABLE v_keys ON COMMIT DROP AS
		SELECT account, key, row_number() OVER (ORDER BY made, key) AS n FROM keys`
	numberRows = `CREATE TEMP TABLE v_%[1]s ON COMMIT DROP AS
		SELECT account, seq, row_number() OVER (ORDER BY covered, account, seq) AS n FROM (SELECT e.account, e.seq,
		coalesce((SELECT h.checkpoint FROM heads AS h WHERE h.account = e.account AND h.act = %[2]t AND h.seq >= e.seq
		ORDER BY h.seq LIMIT 1), 9223372036854775807) AS covered FROM %[1]s AS e) AS e`
)

var numbering = [...]string{
	numberAccounts, `CREATE UNIQUE INDEX ON v_accounts (account)`, `ANALYZE v_accounts`,
	numberKeys, `CREATE UNIQUE INDEX ON v_keys (account, key)`, `ANALYZE v_keys`,
	fmt.Sprintf(numberRows, "entries", false), `CREATE UNIQUE INDEX ON v_entries (n)`,
	`CREATE UNIQUE INDEX ON v_entries (account, seq)`, `ANALYZE v_entries`,
	fmt.Sprintf(numberRows, "acts", true), `CREATE UNIQUE INDEX ON v_acts (n)`, `ANALYZE v_acts`,
}

// auditRows gives the rows of one moment, which a transaction sees, to be verified. What is compared with what package
// audit says.
type auditRows struct {
	s   *Store
	ctx context.Context
	tx  pgx.Tx
}

// number makes the numbers of rows.
func (r auditRows) number() error {
	for _, sql := range numbering {
		if _, err := r.tx.Exec(r.ctx, sql); err != nil {
			return err
		}
	}
	return nil
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
// with them by verifyHeld.
func (r auditRows) Head() (h audit.Head, err error) {
	var pruned int64
	var trail, checkpoint []byte
	err = r.one(`SELECT (SELECT coalesce(max(n), 0) FROM v_entries), (SELECT count(*) FROM attempts),
		(SELECT coalesce(sum(requests), 0)::bigint FROM balances), pruned_before, acts, trail, checkpoints, checkpoint,
		(SELECT count(*) FROM holds), (SELECT coalesce(sum(hold), 0)::bigint FROM holds) FROM ledger`)(
		&h.LastEntry, &h.Attempts, &h.Requests, &pruned, &h.Trail.Acts, &trail, &h.Checkpoints, &checkpoint, &h.Rows,
		&h.Held)
	h.Trail.Head, h.Checkpoint = digestOf(trail), digestOf(checkpoint)
	if pruned != 0 {
		h.Pruned = moment(pruned)
	}
	var scratch []byte
	for hold, failed := range r.Holds() {
		if failed != nil {
			return h, failed
		}
		h.Marks += hold.Mark(&scratch)
	}
	return h, err
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

const auditEntries = `SELECT ` + entryColumns + `, v.n,
	coalesce((SELECT p.n FROM v_entries AS p WHERE p.account = e.account AND p.seq = e.seq - 1), 0), coalesce(a.n, 0),
	coalesce(o.created, 0) FROM v_entries AS v JOIN entries AS e ON e.account = v.account AND e.seq = v.seq
	LEFT JOIN v_accounts AS a ON a.account = e.account LEFT JOIN accounts AS o ON o.account = e.account `

func scanAuditEntry(row pgx.Rows) (e audit.Entry, err error) {
	var since int64
	is, err := scanEntry(row, &e.N, &e.Before, &e.Number, &since)
	n := e.N
	e.Entry, e.Hash, e.Since = is.Entry, is.Hash, moment(since)
	if e.N = n; e.Number == 0 {
		e.Account = ""
	}
	return e, err
}

// Entries implements audit.Rows.
func (r auditRows) Entries(first, last int64, moved bool) iter.Seq2[audit.Entry, error] {
	where := `WHERE v.n BETWEEN $1 AND $2 `
	if moved {
		where += `AND e.kind IN ('top_up', 'refund', 'adjustment') `
	}
	return rowsOf(r, scanAuditEntry, auditEntries+where+`ORDER BY v.n`, first, last)
}

// Entry implements audit.Rows.
func (r auditRows) Entry(place int64) (e audit.Entry, found bool, err error) {
	err = queryRows(r.ctx, r.tx, func(row pgx.Rows) (err error) {
		found = true
		e, err = scanAuditEntry(row)
		return err
	}, auditEntries+`WHERE v.n = $1`, place)
	return e, found, err
}

// LaterEntries implements audit.Rows.
func (r auditRows) LaterEntries(request string) iter.Seq2[audit.Entry, error] {
	return rowsOf(r, scanAuditEntry, auditEntries+`WHERE e.request = $1 AND e.kind IN ('receipt', 'closing', 'refund')
		ORDER BY v.n`, request)
}

// ChargeFrom implements audit.Rows.
func (r auditRows) ChargeFrom(place int64) (request string, err error) {
	err = r.one(`SELECT e.request FROM v_entries AS v JOIN entries AS e ON e.account = v.account AND e.seq = v.seq
		WHERE v.n >= $1 AND e.kind = 'charge' AND e.request IS NOT NULL ORDER BY v.n LIMIT 1`, place)(&request)
	return request, err
}

// HasAllotment implements audit.Rows.
func (r auditRows) HasAllotment(account int64, reference string) (has bool, err error) {
	err = r.one(`SELECT true FROM v_accounts AS a JOIN entries AS e ON e.account = a.account
		WHERE a.n = $1 AND e.kind = 'allotment' AND e.reference = $2`, account, reference)(&has)
	return has, err
}

// Books implements audit.Rows.
func (r auditRows) Books(last int64) iter.Seq2[audit.BookSum, error] {
	return rowsOf(r, scanInto(func(s *audit.BookSum) []any { return []any{&s.Book, &s.Microcents} }),
		`SELECT e.book, sum(e.microcents)::bigint FROM v_entries AS v JOIN entries AS e ON e.account = v.account
			AND e.seq = v.seq
		WHERE v.n <= $1 GROUP BY e.book`, last)
}

// Requests implements audit.Rows.
func (r auditRows) Requests(s audit.Span) iter.Seq2[*audit.Request, error] {
	where, args := `WHERE r.request >= $1 AND ($2 = '' OR r.request < $2)`, []any{s.First, s.End}
	if s.After > 0 {
		where += ` AND r.request IN (SELECT e.request FROM v_entries AS v JOIN entries AS e ON e.account = v.account
			AND e.seq = v.seq
			WHERE v.n > $3 AND e.request IS NOT NULL)`
		args = append(args, s.After)
	}
	if s.Pending {
		where += ` AND r.pending`
	}
	return r.requests(where, args...)
}

func (r auditRows) requests(where string, args ...any) iter.Seq2[*audit.Request, error] {
	return audit.Given(func(give func(*audit.Request) error) error {
		return r.s.eachDetail(r.ctx, r.tx, where, func(d *detail) error {
			is := &audit.Request{RequestRecord: d.RequestRecord, Tokens: d.tokens}
			err := r.one(`SELECT coalesce((SELECT n FROM v_accounts WHERE account = $1), 0),
				coalesce((SELECT n FROM v_keys WHERE account = $1 AND key = $2), 0),
				coalesce((SELECT n FROM v_entries WHERE account = $1 AND seq = $3), 0)`, d.Account, d.Key, d.entry)(
				&is.AccountNumber, &is.KeyNumber, &is.Entry)
			if err != nil {
				return err
			}
			return give(is)
		}, args...)
	})
}

// FindRequest implements audit.Rows.
func (r auditRows) FindRequest(id string) (found *audit.Request, err error) {
	for d, failed := range r.requests(`WHERE r.request = $1`, id) {
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
		LEFT JOIN v_accounts AS a ON a.account = h.account LEFT JOIN v_keys AS k ON k.account = h.account AND k.key = h.key
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
		(SELECT e.n FROM v_entries AS e WHERE e.account = a.account
			AND e.seq = b.entries)`+fromAccounts+`JOIN v_accounts AS v ON v.account = a.account ORDER BY v.n`)
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
		FROM keys AS k JOIN v_keys AS v ON v.account = k.account AND v.key = k.key
		LEFT JOIN v_accounts AS a ON a.account = k.account LEFT JOIN v_keys AS o ON o.account = k.account AND o.key = k.root
		LEFT JOIN key_lines AS l ON l.account = k.account AND l.root = k.key ORDER BY 2, 1`)
}

// EntrySums implements audit.Rows.
func (r auditRows) EntrySums() iter.Seq2[audit.EntrySum, error] {
	return rowsOf(r, scanInto(func(s *audit.EntrySum) []any {
		return []any{&s.Account, &s.Entries, &s.Spent,
			&s.Refunded}
	}),
		`SELECT coalesce(a.n, 0), count(*),
		coalesce(-sum(e.microcents) FILTER (WHERE e.kind IN ('charge', 'receipt', 'closing')), 0)::bigint,
		coalesce(sum(e.microcents) FILTER (WHERE e.kind = 'refund'), 0)::bigint
		FROM entries AS e LEFT JOIN v_accounts AS a ON a.account = e.account GROUP BY 1 ORDER BY 1`)
}

func (r auditRows) sums(sql string) iter.Seq2[audit.RequestSum, error] {
	return rowsOf(r, scanInto(func(s *audit.RequestSum) []any {
		return []any{&s.Account, &s.Key, &s.Requests, &s.Tokens, &s.Charge, &s.Waived, &s.Refunded, &s.Pending}
	}), sql)
}

// RequestSums implements audit.Rows.
func (r auditRows) RequestSums() iter.Seq2[audit.RequestSum, error] {
	return r.sums(`SELECT coalesce(a.n, 0), coalesce(k.n, 0), count(*), sum(r.tokens)::bigint, sum(r.charge)::bigint,
		sum(r.waived)::bigint, sum(r.refunded)::bigint, 0::bigint FROM requests AS r
		LEFT JOIN v_accounts AS a ON a.account = r.account LEFT JOIN v_keys AS k ON k.account = r.account AND k.key = r.key
		GROUP BY 1, 2 ORDER BY 1, 2`)
}

const prunedSums = `SELECT coalesce(a.n, 0), coalesce(k.n, 0), sum(p.settled)::bigint, %s, sum(p.microcents)::bigint,
	sum(p.waived)::bigint, sum(p.refunded)::bigint, %s FROM pruned AS p LEFT JOIN v_accounts AS a ON a.account = p.account
	LEFT JOIN v_keys AS k ON k.account = p.account AND k.key = p.key GROUP BY 1, 2 ORDER BY 1, 2`

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
	where, order := ``, `ORDER BY v.n`
	if moved {
		where = `WHERE u.action LIKE 'credit.%' `
	}
	if byAccount {
		order = `ORDER BY coalesce(n.n, 0), v.n`
	}
	return rowsOf(r, func(row pgx.Rows) (a audit.Act, err error) {
		is, err := scanAct(row, &a.Place, &a.Number)
		a.Act, a.Hash = is.Act, is.Hash
		return a, err
	}, `SELECT u.account, '', u.seq, u.created, u.actor, u.action, u.subject, u.before, u.after, u.format, u.prev,
		u.hash, v.n,
		coalesce(n.n, 0) FROM v_acts AS v JOIN acts AS u ON u.account = v.account AND u.seq = v.seq
		LEFT JOIN v_accounts AS n ON n.account = u.account `+where+order)
}

const selectCheckpoints = `SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints ORDER BY n`

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

const headsOf = `SELECT e.account, e.seq, e.hash FROM (SELECT DISTINCT ON (v.account) v.account, v.seq
	FROM v_%[1]s AS v
	WHERE v.n > $1 AND v.n <= $2 ORDER BY v.account, v.seq DESC) AS moved
	JOIN %[1]s AS e ON e.account = moved.account AND e.seq = moved.seq ORDER BY e.account`

func scanHead(row pgx.Rows) (h book.Head, err error) {
	var hash []byte
	err = row.Scan(&h.Account, &h.Seq, &hash)
	h.Hash = digestOf(hash)
	return h, err
}

// Heads implements book.Chains.
func (r auditRows) Heads(after, last int64) iter.Seq2[book.Head, error] {
	return rowsOf(r, scanHead, fmt.Sprintf(headsOf, "entries"), after, last)
}

// TrailHeads implements book.Chains.
func (r auditRows) TrailHeads(after, last int64) iter.Seq2[book.Head, error] {
	return rowsOf(r, scanHead, fmt.Sprintf(headsOf, "acts"), after, last)
}

// Checkpoints implements ledger.Books.
func (s *Store) Checkpoints(ctx context.Context, each func(ledger.Checkpoint) error) error {
	err := s.list(ctx, "checkpoints", func(ctx context.Context, tx pgx.Tx) error {
		return eachRow(ctx, tx, scanCheckpoint, each, selectCheckpoints)
	})
	return wrap(listed(err), "listing checkpoints")
}

// MakeCheckpoint implements ledger.Store. It hashes the heads of the chains that grew since the last one, as one
// moment has them, and keeps which these were: nothing else says which entries a checkpoint covers.
func (s *Store) MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	var c ledger.Checkpoint
	op := &operation{alone: true}
	op.run = func(u *unit) error {
		if _, err := u.exists(`SELECT 1 FROM ledger FOR UPDATE`); err != nil {
			return err
		}
		last := ledger.Checkpoint{}
		err := u.query(func(row pgx.Rows) (err error) {
			last, err = scanCheckpoint(row)
			return err
		}, `SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints ORDER BY n DESC LIMIT 1`)
		if err != nil {
			return err
		}
		grown, more, err := u.grownHeads()
		if err != nil {
			return err
		}
		if c = last; len(grown.entries)+len(grown.acts) == 0 {
			return nil
		}
		next := ledger.Checkpoint{Format: ledger.CheckpointFormat, N: last.N + 1, Created: u.now, Prev: last.Hash,
			Entries: last.Entries + more.entries, Acts: last.Acts + more.acts}
		if next, err = book.SealCheckpoint(next, last, grown); err != nil {
			return err
		}
		u.write(`INSERT INTO checkpoints (n, entries, acts, trail, created, prev, hash, format)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, next.N, next.Entries, next.Acts, digest(next.Trail),
			next.Created.UnixNano(), digest(next.Prev), digest(next.Hash), next.Format)
		u.write(`UPDATE ledger SET checkpoints = $1, checkpoint = $2`, next.N, digest(next.Hash))
		for act, heads := range map[bool][]book.Head{false: grown.entries, true: grown.acts} {
			var accounts []string
			var seqs []int64
			var hashes [][]byte
			for _, h := range heads {
				accounts, seqs, hashes = append(accounts, h.Account), append(seqs, h.Seq), append(hashes, digest(h.Hash))
			}
			u.write(`INSERT INTO heads (account, checkpoint, act, seq, hash)
				SELECT a, $1, $2, s, h FROM unnest($3::text[], $4::int8[], $5::bytea[]) AS _ (a, s, h)`, next.N, act, accounts,
				seqs,
				hashes)
		}
		c = next
		return nil
	}
	if err := s.perform(ctx, "make_checkpoint", op); err != nil {
		return ledger.Checkpoint{}, wrap(err, "making a checkpoint")
	}
	return c, nil
}

// grownHeads are the heads of the chains that grew since the last checkpoint, and by how much in all.
type grownHeads struct{ entries, acts []book.Head }

func (g grownHeads) Heads(int64, int64) iter.Seq2[book.Head, error]      { return headsIn(g.entries) }
func (g grownHeads) TrailHeads(int64, int64) iter.Seq2[book.Head, error] { return headsIn(g.acts) }

func headsIn(heads []book.Head) iter.Seq2[book.Head, error] {
	return func(yield func(book.Head, error) bool) {
		for _, h := range heads {
			if !yield(h, nil) {
				return
			}
		}
	}
}

// grownHeads reads the heads as one statement sees them: balances have those of entries and of acts.
func (u *unit) grownHeads() (grown grownHeads, more struct{ entries, acts int64 }, err error) {
	err = u.query(func(row pgx.Rows) error {
		var account string
		var entries, acts, coveredEntries, coveredActs int64
		var head, trail []byte
		if err := row.Scan(&account, &entries, &head, &acts, &trail, &coveredEntries, &coveredActs); err != nil {
			return err
		}
		if entries > coveredEntries {
			grown.entries = append(grown.entries, book.Head{Account: account, Seq: entries, Hash: digestOf(head)})
			more.entries += entries - coveredEntries
		}
		if acts > coveredActs {
			grown.acts = append(grown.acts, book.Head{Account: account, Seq: acts, Hash: digestOf(trail)})
			more.acts += acts - coveredActs
		}
		return nil
	}, `SELECT b.account, b.entries, b.head, b.acts, b.trail,
		coalesce((SELECT max(h.seq) FROM heads AS h WHERE h.account = b.account AND NOT h.act), 0),
		coalesce((SELECT max(h.seq) FROM heads AS h WHERE h.account = b.account AND h.act), 0)
		FROM (SELECT account, entries, head, acts, trail FROM balances
			UNION ALL SELECT '', 0, decode(repeat('00', 32), 'hex'), acts, trail FROM ledger) AS b ORDER BY b.account`)
	return grown, more, err
}

// Verify implements ledger.Books. It reads one moment, beside the running operations; package audit says in which
// order what is looked at.
func (s *Store) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return s.VerifyAs(ctx, ledger.Verification{Kept: kept})
}

// VerifyAs implements ledger.Books.
func (s *Store) VerifyAs(ctx context.Context, how ledger.Verification) (r ledger.Report, err error) {
	err = s.list(ctx, "verify", func(ctx context.Context, tx pgx.Tx) error {
		rows := auditRows{s, ctx, tx}
		if err := rows.number(); err != nil {
			return err
		}
		r, err = audit.Verify(audit.Ledger{Rows: rows, Schema: rows.verifyHeld}, how)
		return err
	})
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger: %w", unavailable(err))
	}
	return r, nil
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
