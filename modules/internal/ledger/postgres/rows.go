package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// A table is written with one statement for all rows of a transaction, from an array for each column.
type table[R any] struct {
	sql     string
	columns []column[R]
}

type column[R any] func(rows []R) any

func of[R, V any](value func(*R) V) column[R] {
	return func(rows []R) any {
		values := make([]V, len(rows))
		for i := range rows {
			values[i] = value(&rows[i])
		}
		return values
	}
}

func (t *table[R]) queue(b *pgx.Batch, rows []R) {
	if len(rows) == 0 {
		return
	}
	args := make([]any, len(t.columns))
	for i, c := range t.columns {
		args[i] = c(rows)
	}
	b.Queue(t.sql, args...)
}

// moment is the time that the tables have as nanoseconds since 1970.
func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func optionalMoment(ns *int64) time.Time {
	if ns == nil {
		return time.Time{}
	}
	return moment(*ns)
}

// optional stores the zero value as NULL.
func optional[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

func optionalTime(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixNano())
}

// worst stores what is not known, which is below zero, as NULL.
func worst(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func worstOf(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func digest(d ledger.Digest) []byte { return d[:] }

func digestOf(b []byte) (d ledger.Digest) {
	copy(d[:], b)
	return d
}

type holdRow struct {
	*running
	first bool
	seq   int64
	*book.Attempt
}

var holdTable = table[holdRow]{
	`INSERT INTO holds (account, request, seq, key, owner, endpoint, profile, hold, held_at, route, provider, model,
		price_version, created, worst, beside, reference)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int8[],
		$9::int8[], $10::text[], $11::text[], $12::text[], $13::int8[], $14::int8[], $15::int8[], $16::bool[], $17::text[])`,
	[]column[holdRow]{
		of(func(r *holdRow) string { return r.Account }),
		of(func(r *holdRow) string { return r.running.ID }),
		of(func(r *holdRow) int64 { return r.seq }),
		of(func(r *holdRow) string { return r.running.Key }),
		of(func(r *holdRow) string { return r.Owner }),
		of(func(r *holdRow) string { return r.Endpoint }),
		of(func(r *holdRow) string { return r.Profile }),
		of(func(r *holdRow) int64 {
			if r.first {
				return r.Held
			}
			return 0
		}),
		of(func(r *holdRow) int64 { return r.running.Created.UnixNano() }),
		of(func(r *holdRow) string { return r.Route }),
		of(func(r *holdRow) string { return r.Provider }),
		of(func(r *holdRow) string { return r.Model }),
		of(func(r *holdRow) int64 { return r.PriceVersion }),
		of(func(r *holdRow) int64 { return r.Attempt.Created.UnixNano() }),
		of(func(r *holdRow) *int64 { return worst(r.Worst) }),
		of(func(r *holdRow) bool { return r.Beside }),
		of(func(r *holdRow) string { return r.Reference }),
	},
}

// checkRows looks at whether the rows that were deleted are those that were read, or remembered.
func (r *running) checkRows(rows pgx.Rows) error {
	var n, seq, last int64
	err := each(func(row pgx.Rows) error {
		n++
		err := row.Scan(&seq)
		last = max(last, seq)
		return err
	})(rows)
	if err == nil && (n != r.rows || last != r.last) {
		err = errStale
	}
	return err
}

// holdRows are the rows of a running request.
func holdRows(r *running) (rows []holdRow) {
	if len(r.Attempts) == 0 {
		none := &book.Attempt{}
		none.Created = r.Created
		return []holdRow{{r, true, 0, none}}
	}
	for i := range r.Attempts {
		rows = append(rows, holdRow{r, i == 0, int64(i) + 1, &r.Attempts[i]})
	}
	return rows
}

type requestID struct{ account, request string }

// deleteHold deletes the rows of one request. Those of many are deleted one by one: whoever plans a join with a table
// that is mostly empty would have it read as a whole.
const deleteHold = `DELETE FROM holds WHERE account = $1 AND request = $2 RETURNING seq`

var requestTable = table[*running]{
	`INSERT INTO requests (account, request, key, owner, endpoint, profile, hold, status, reason, free, service_limit,
		surcharge, charge, waived, over, tokens, refunded, pending, created, settled, entry)
		SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 0, q, r, s, t FROM unnest($1::text[], $2::text[], $3::text[],
		$4::text[], $5::text[], $6::text[], $7::int8[], $8::int8[], $9::text[], $10::bool[], $11::bool[], $12::int8[],
		$13::int8[], $14::int8[], $15::int8[], $16::int8[], $17::bool[], $18::int8[], $19::int8[], $20::int8[])
		AS _ (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)`,
	[]column[*running]{
		of(func(r **running) string { return (*r).Account }),
		of(func(r **running) string { return (*r).ID }),
		of(func(r **running) string { return (*r).Key }),
		of(func(r **running) string { return (*r).Owner }),
		of(func(r **running) string { return (*r).Endpoint }),
		of(func(r **running) string { return (*r).Profile }),
		of(func(r **running) int64 { return (*r).Held }),
		of(func(r **running) int64 { return int64((*r).end.Status) }),
		of(func(r **running) string { return (*r).end.Reason }),
		of(func(r **running) bool { return (*r).end.Free }),
		of(func(r **running) bool { return (*r).end.ServiceLimit }),
		of(func(r **running) int64 { return (*r).end.Surcharge }),
		of(func(r **running) int64 { return (*r).settled.Charge }),
		of(func(r **running) int64 { return (*r).settled.Waived }),
		of(func(r **running) int64 { return (*r).settled.Over }),
		of(func(r **running) int64 { return (*r).settled.Tokens }),
		of(func(r **running) bool { return (*r).settled.Pending }),
		of(func(r **running) int64 { return (*r).Created.UnixNano() }),
		of(func(r **running) int64 { return (*r).settled.At.UnixNano() }),
		of(func(r **running) int64 { return (*r).settled.Entry.Seq }),
	},
}

type attemptRow struct {
	account, request string
	seq              int64
	*book.Attempt
}

var attemptTable = table[attemptRow]{
	`INSERT INTO attempts (account, request, seq, route, provider, model, price_version, outcome, input, cache_read,
		cache_write, output, reasoning, estimated, created, receipt, worst, estimate_input, estimate_output, provider_key,
		operator)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[],
		$9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::bool[], $15::int8[], $16::int8[], $17::int8[],
		$18::int8[], $19::int8[], $20::text[], $21::bool[])`,
	[]column[attemptRow]{
		of(func(r *attemptRow) string { return r.account }),
		of(func(r *attemptRow) string { return r.request }),
		of(func(r *attemptRow) int64 { return r.seq }),
		of(func(r *attemptRow) string { return r.Route }),
		of(func(r *attemptRow) string { return r.Provider }),
		of(func(r *attemptRow) string { return r.Model }),
		of(func(r *attemptRow) int64 { return r.PriceVersion }),
		of(func(r *attemptRow) string { return string(r.Outcome) }),
		of(func(r *attemptRow) *int64 { return r.Usage.Input }),
		of(func(r *attemptRow) *int64 { return r.Usage.CacheRead }),
		of(func(r *attemptRow) *int64 { return r.Usage.CacheWrite }),
		of(func(r *attemptRow) *int64 { return r.Usage.Output }),
		of(func(r *attemptRow) *int64 { return r.Usage.Reasoning }),
		of(func(r *attemptRow) bool { return r.Usage.Estimated }),
		of(func(r *attemptRow) int64 { return r.Created.UnixNano() }),
		of(func(r *attemptRow) *int64 { return optionalTime(r.Receipt) }),
		of(func(r *attemptRow) *int64 { return worst(r.Worst) }),
		of(func(r *attemptRow) *int64 { return estimate(r.Estimate).Input }),
		of(func(r *attemptRow) *int64 { return estimate(r.Estimate).Output }),
		of(func(r *attemptRow) string { return r.AttemptRecord.Key }),
		of(func(r *attemptRow) bool { return r.Operator }),
	},
}

func estimate(u *llm.Usage) llm.Usage {
	if u == nil {
		return llm.Usage{}
	}
	return *u
}

var waitingTable = table[attemptRow]{
	`INSERT INTO waiting (account, request, seq, provider, route, created, reference, provider_key)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::text[], $5::text[], $6::int8[], $7::text[],
			$8::text[])`,
	[]column[attemptRow]{
		of(func(r *attemptRow) string { return r.account }),
		of(func(r *attemptRow) string { return r.request }),
		of(func(r *attemptRow) int64 { return r.seq }),
		of(func(r *attemptRow) string { return r.Provider }),
		of(func(r *attemptRow) string { return r.Route }),
		of(func(r *attemptRow) int64 { return r.Created.UnixNano() }),
		of(func(r *attemptRow) string { return r.Reference }),
		of(func(r *attemptRow) string { return r.AttemptRecord.Key }),
	},
}

var entryTable = table[book.Entry]{
	`INSERT INTO entries (account, seq, kind, book, request, reference, reason, prices, microcents, waived, over, tokens,
		detail, credits, accrued, created, format, prev, hash)
		SELECT * FROM unnest($1::text[], $2::int8[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::bytea[], $14::int8[], $15::int8[], $16::int8[], $17::int8[],
		$18::bytea[], $19::bytea[])`,
	[]column[book.Entry]{
		of(func(e *book.Entry) string { return e.Account }),
		of(func(e *book.Entry) int64 { return e.Seq }),
		of(func(e *book.Entry) string { return string(e.Kind) }),
		of(func(e *book.Entry) string { return string(e.Book) }),
		of(func(e *book.Entry) *string { return optional(e.Request) }),
		of(func(e *book.Entry) *string { return optional(e.Reference) }),
		of(func(e *book.Entry) string { return e.Reason }),
		of(func(e *book.Entry) string { return e.Prices }),
		of(func(e *book.Entry) int64 { return e.Microcents }),
		of(func(e *book.Entry) int64 { return e.Waived }),
		of(func(e *book.Entry) int64 { return e.Over }),
		of(func(e *book.Entry) int64 { return e.Tokens }),
		of(func(e *book.Entry) []byte {
			if e.Detail == (ledger.Digest{}) {
				return nil
			}
			return digest(e.Detail)
		}),
		of(func(e *book.Entry) int64 { return e.Credits }),
		of(func(e *book.Entry) int64 { return e.Accrued }),
		of(func(e *book.Entry) int64 { return e.Created.UnixNano() }),
		of(func(e *book.Entry) int64 { return e.Format }),
		of(func(e *book.Entry) []byte { return digest(e.Prev) }),
		of(func(e *book.Entry) []byte { return digest(e.Hash) }),
	},
}

var actTable = table[book.Act]{
	`INSERT INTO acts (account, seq, created, actor, action, subject, before, after, format, prev, hash)
		SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::int8[], $10::bytea[], $11::bytea[])`,
	[]column[book.Act]{
		of(func(a *book.Act) string { return a.Account }),
		of(func(a *book.Act) int64 { return a.Seq }),
		of(func(a *book.Act) int64 { return a.Created.UnixNano() }),
		of(func(a *book.Act) string { return a.Actor }),
		of(func(a *book.Act) string { return a.Action }),
		of(func(a *book.Act) string { return a.Subject }),
		of(func(a *book.Act) string { return a.Before }),
		of(func(a *book.Act) string { return a.After }),
		of(func(a *book.Act) int64 { return a.Format }),
		of(func(a *book.Act) []byte { return digest(a.Prev) }),
		of(func(a *book.Act) []byte { return digest(a.Hash) }),
	},
}

// balanceTable and lineTable write rows that are there. By ON CONFLICT each is found by its key, whatever the table
// looked like when the plan was made; an UPDATE would join, and read all of a table that was empty then.
var balanceTable = table[*account]{
	`INSERT INTO balances (account, credits, accrued, held, head, entries, requests, spent, tokens, waived, spent_before,
		tokens_before, waived_before, period, period_end, allotted, acts, trail)
		SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[], $7::int8[], $8::int8[],
		$9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::bool[], $17::int8[],
		$18::bytea[])
		ON CONFLICT (account) DO UPDATE SET credits = excluded.credits, accrued = excluded.accrued, held = excluded.held,
		head = excluded.head, entries = excluded.entries, requests = excluded.requests, spent = excluded.spent,
		tokens = excluded.tokens, waived = excluded.waived, spent_before = excluded.spent_before,
		tokens_before = excluded.tokens_before, waived_before = excluded.waived_before, period = excluded.period,
		period_end = excluded.period_end, allotted = excluded.allotted, acts = excluded.acts, trail = excluded.trail`,
	[]column[*account]{
		of(func(a **account) string { return (*a).ID }),
		of(func(a **account) int64 { return (*a).Credits }),
		of(func(a **account) int64 { return (*a).Accrued }),
		of(func(a **account) int64 { return (*a).Held }),
		of(func(a **account) []byte { return digest((*a).Head) }),
		of(func(a **account) int64 { return (*a).Entries }),
		of(func(a **account) int64 { return (*a).Requests }),
		of(func(a **account) int64 { return (*a).Ever.Spent }),
		of(func(a **account) int64 { return (*a).Ever.Tokens }),
		of(func(a **account) int64 { return (*a).Ever.Waived }),
		of(func(a **account) int64 { return (*a).Before.Spent }),
		of(func(a **account) int64 { return (*a).Before.Tokens }),
		of(func(a **account) int64 { return (*a).Before.Waived }),
		of(func(a **account) *int64 {
			if !(*a).Period.Begun() {
				return nil
			}
			return &(*a).Period.Number
		}),
		of(func(a **account) *int64 { return optionalTime((*a).Period.End) }),
		of(func(a **account) *bool {
			if !(*a).Period.Begun() {
				return nil
			}
			return &(*a).Period.Allotted
		}),
		of(func(a **account) int64 { return (*a).Trail.Acts }),
		of(func(a **account) []byte { return digest((*a).Trail.Head) }),
	},
}

var lineTable = table[*line]{
	`INSERT INTO lines (account, root, spend_cap, spent, spent_before, held)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[])
		ON CONFLICT (account, root) DO UPDATE SET spend_cap = excluded.spend_cap, spent = excluded.spent,
		spent_before = excluded.spent_before, held = excluded.held`,
	[]column[*line]{
		of(func(l **line) string { return (*l).id.account }),
		of(func(l **line) string { return (*l).id.root }),
		of(func(l **line) int64 { return (*l).Cap }),
		of(func(l **line) int64 { return (*l).Spent }),
		of(func(l **line) int64 { return (*l).Before }),
		of(func(l **line) int64 { return (*l).held }),
	},
}

// queueRows queues all rows that the operations have changed.
func (u *unit) queueRows(b *pgx.Batch) {
	var balances []*account
	for _, a := range u.accounts {
		if a != nil && a.dirty {
			balances = append(balances, a)
		}
	}
	var lines []*line
	for _, l := range u.lines {
		if l.dirty {
			lines = append(lines, l)
		}
	}
	var holds []holdRow
	for _, r := range u.running {
		if r == nil || !r.dirty {
			continue
		}
		if r.rows > 0 {
			b.Queue(deleteHold, r.Account, r.ID).Query(r.checkRows)
		}
		if r.end == nil {
			holds = append(holds, holdRows(r)...)
		}
	}
	var attempts, waiting []attemptRow
	for _, r := range u.recorded {
		for i := range r.Attempts {
			row := attemptRow{r.Account, r.ID, int64(i) + 1, &r.Attempts[i]}
			attempts = append(attempts, row)
			if r.settled.Pending && row.Waits() {
				waiting = append(waiting, row)
			}
		}
	}
	holdTable.queue(b, holds)
	requestTable.queue(b, u.recorded)
	attemptTable.queue(b, attempts)
	waitingTable.queue(b, waiting)
	entryTable.queue(b, u.entries)
	actTable.queue(b, u.acts)
	lineTable.queue(b, lines)
	balanceTable.queue(b, balances)
	for _, write := range u.changed {
		write(b)
	}
}
