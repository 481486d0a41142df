package postgres

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// moment is the time that the tables have as nanoseconds since 1970.
func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func optionalMoment(ns *int64) time.Time {
	if ns == nil {
		return time.Time{}
	}
	return moment(*ns)
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

var newHolds = addition[holdRow]{
	`COPY holds (account, request, seq, key, owner, endpoint, profile, hold, held_at, route, provider, model,
		price_version, created, worst, beside, reference) FROM STDIN BINARY`,
	func(b *writeBuffer, r *holdRow) {
		hold := int64(0)
		if r.first {
			hold = r.Held
		}
		b.text(r.Account, r.running.ID)
		b.number(r.seq)
		b.text(r.running.Key, r.Owner, r.Endpoint, r.Profile)
		b.number(hold, r.running.Created.UnixNano())
		b.text(r.Route, r.Provider, r.Model)
		b.number(r.PriceVersion, r.Attempt.Created.UnixNano())
		b.optionalNumber(worst(r.Worst))
		b.yes(r.Beside)
		b.text(r.Reference)
	},
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

// deleteHolds deletes the rows of requests, which have to be as many, and with the same numbers, as were read, or
// remembered. They are compared as arrays so that each is found by the index: what the planner knows as an equality it
// may join the other way around, and read all of a table that was empty when it planned.
const deleteHolds = `WITH gone AS (DELETE FROM holds AS h USING unnest($1::text[], $2::text[]) AS q (account, request)
		WHERE h.account = q.account AND h.request = ANY (ARRAY[q.request]) RETURNING h.seq)
	SELECT 1 / (CASE WHEN count(*) <> $3::int8 OR sum(seq) <> $4::int8 THEN 0 ELSE 1 END) FROM gone`

var newRequests = addition[*running]{
	`COPY requests (account, request, key, owner, endpoint, profile, hold, status, reason, free, service_limit,
		surcharge, charge, waived, over, tokens, refunded, pending, created, settled, entry) FROM STDIN BINARY`,
	func(b *writeBuffer, of **running) {
		r, end, is := *of, (*of).end, &(*of).settled
		b.text(r.Account, r.ID, r.Key, r.Owner, r.Endpoint, r.Profile)
		b.number(r.Held, int64(end.Status))
		b.text(end.Reason)
		b.yes(end.Free, end.ServiceLimit)
		b.number(end.Surcharge, is.Charge, is.Waived, is.Over, is.Tokens, 0)
		b.yes(is.Pending)
		b.number(r.Created.UnixNano(), is.At.UnixNano(), is.Entry.Seq)
	},
}

type attemptRow struct {
	account, request string
	seq              int64
	*book.Attempt
}

var newAttempts = addition[attemptRow]{
	`COPY attempts (account, request, seq, route, provider, model, price_version, outcome, input, cache_read,
		cache_write, output, reasoning, estimated, created, receipt, worst, estimate_input, estimate_output, provider_key,
		operator) FROM STDIN BINARY`,
	func(b *writeBuffer, r *attemptRow) {
		u, estimated := &r.Usage, estimate(r.Estimate)
		b.text(r.account, r.request)
		b.number(r.seq)
		b.text(r.Route, r.Provider, r.Model)
		b.number(r.PriceVersion)
		b.text(string(r.Outcome))
		b.optionalNumber(u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
		b.yes(u.Estimated)
		b.number(r.Created.UnixNano())
		b.optionalNumber(optionalTime(r.Receipt), worst(r.Worst), estimated.Input, estimated.Output)
		b.text(r.AttemptRecord.Key)
		b.yes(r.Operator)
	},
}

func estimate(u *llm.Usage) llm.Usage {
	if u == nil {
		return llm.Usage{}
	}
	return *u
}

var newWaiting = addition[attemptRow]{
	`COPY waiting (account, request, seq, provider, route, created, reference, provider_key) FROM STDIN BINARY`,
	func(b *writeBuffer, r *attemptRow) {
		b.text(r.account, r.request)
		b.number(r.seq)
		b.text(r.Provider, r.Route)
		b.number(r.Created.UnixNano())
		b.text(r.Reference, r.AttemptRecord.Key)
	},
}

var newEntries = addition[book.Entry]{
	`COPY entries (account, seq, kind, book, request, reference, reason, prices, microcents, waived, over, tokens,
		detail, credits, accrued, created, format, prev, hash) FROM STDIN BINARY`,
	func(b *writeBuffer, e *book.Entry) {
		b.text(e.Account)
		b.number(e.Seq)
		b.text(string(e.Kind), string(e.Book))
		b.optionalText(e.Request)
		b.optionalText(e.Reference)
		b.text(e.Reason, e.Prices)
		b.number(e.Microcents, e.Waived, e.Over, e.Tokens)
		if e.Detail == (ledger.Digest{}) {
			b.null()
		} else {
			b.bytes(e.Detail[:])
		}
		b.number(e.Credits, e.Accrued, e.Created.UnixNano(), e.Format)
		b.bytes(e.Prev[:], e.Hash[:])
	},
}

var newActs = addition[book.Act]{
	`COPY acts (account, seq, created, actor, action, subject, before, after, format, prev, hash) FROM STDIN BINARY`,
	func(b *writeBuffer, a *book.Act) {
		b.text(a.Account)
		b.number(a.Seq, a.Created.UnixNano())
		b.text(a.Actor, a.Action, a.Subject, a.Before, a.After)
		b.number(a.Format)
		b.bytes(a.Prev[:], a.Hash[:])
	},
}

// change is a table whose rows transactions change, with one statement for all, from an array for each column. Rows are
// found as in deleteHolds; all of them have to be there.
type change[R any] struct {
	sql     string
	columns []column[R]
}

type column[R any] func(rows []R) any

func of[R, V any](value func(R) V) column[R] {
	return func(rows []R) any {
		values := make([]V, len(rows))
		for i, row := range rows {
			values[i] = value(row)
		}
		return values
	}
}

// checkChanged makes a statement fail that has not changed as many rows as its last parameter says.
func checkChanged(sql string, parameter int) string {
	return fmt.Sprintf(`WITH changed AS (%s RETURNING 1)
		SELECT sqrt(CASE WHEN count(*) <> $%d::int8 THEN -1 ELSE 1 END) FROM changed`, sql, parameter)
}

var (
	// errStale: a request's rows are not those that this process remembers: another node has released them.
	errStale = errors.New("what is remembered of a request is not what the database has")
	// errMissing: rows are gone that were read or remembered.
	errMissing = errors.New("rows are missing")
)

// refusals are what statements fail with on purpose, so that the commit that is sent with them commits nothing: the
// arithmetic of deleteHolds, and of checkChanged.
var refusals = map[string]error{"22012": errStale, "2201F": errMissing}

// explainRefusal says what a statement's failure means.
func explainRefusal(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && refusals[e.Code] != nil {
		return fmt.Errorf("%w: %w", refusals[e.Code], err)
	}
	return err
}

// statement is one that changes rows.
type statement struct {
	sql  string
	args []any
}

func (t *change[R]) of(rows []R) []statement {
	if len(rows) == 0 {
		return nil
	}
	args := make([]any, len(t.columns)+1)
	for i, c := range t.columns {
		args[i] = c(rows)
	}
	args[len(t.columns)] = int64(len(rows))
	return []statement{{t.sql, args}}
}

// balances is what requests change of accounts, and seldomBalances what is with it once something else is changed.
var balances = change[*account]{
	checkChanged(`UPDATE balances AS b SET credits = q.credits, accrued = q.accrued, held = q.held, head = q.head,
		entries = q.entries,
		requests = q.requests, spent = q.spent, tokens = q.tokens, waived = q.waived, payer_spent = q.payer_spent,
		payer_held = q.payer_held
		FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[], $7::int8[], $8::int8[],
		$9::int8[], $10::int8[], $11::int8[], $12::int8[]) AS q (account, credits, accrued, held, head, entries, requests,
		spent, tokens, waived, payer_spent, payer_held) WHERE b.account = ANY (ARRAY[q.account])`, 13),
	[]column[*account]{
		of(func(a *account) string { return a.ID }),
		of(func(a *account) int64 { return a.Credits }),
		of(func(a *account) int64 { return a.Accrued }),
		of(func(a *account) int64 { return a.Held }),
		of(func(a *account) []byte { return a.Head[:] }),
		of(func(a *account) int64 { return a.Entries }),
		of(func(a *account) int64 { return a.Requests }),
		of(func(a *account) int64 { return a.Ever.Spent }),
		of(func(a *account) int64 { return a.Ever.Tokens }),
		of(func(a *account) int64 { return a.Ever.Waived }),
		of(func(a *account) *int64 { return a.ofPayer(func(l *line) *int64 { return &l.Spent }) }),
		of(func(a *account) *int64 { return a.ofPayer(func(l *line) *int64 { return &l.held }) }),
	},
}

var seldomBalances = change[*account]{
	checkChanged(`UPDATE balances AS b SET spent_before = q.spent_before, tokens_before = q.tokens_before,
		waived_before = q.waived_before, period = q.period, period_end = q.period_end, allotted = q.allotted, acts = q.acts,
		trail = q.trail, payer = q.payer, payer_cap = q.payer_cap, payer_before = q.payer_before
		FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bool[], $8::int8[],
		$9::bytea[], $10::text[], $11::int8[], $12::int8[]) AS q (account, spent_before, tokens_before, waived_before, period,
		period_end, allotted, acts, trail, payer, payer_cap, payer_before) WHERE b.account = ANY (ARRAY[q.account])`, 13),
	[]column[*account]{
		of(func(a *account) string { return a.ID }),
		of(func(a *account) int64 { return a.Before.Spent }),
		of(func(a *account) int64 { return a.Before.Tokens }),
		of(func(a *account) int64 { return a.Before.Waived }),
		of(func(a *account) *int64 {
			if !a.Period.Begun() {
				return nil
			}
			return &a.Period.Number
		}),
		of(func(a *account) *int64 { return optionalTime(a.Period.End) }),
		of(func(a *account) *bool {
			if !a.Period.Begun() {
				return nil
			}
			return &a.Period.Allotted
		}),
		of(func(a *account) int64 { return a.Trail.Acts }),
		of(func(a *account) []byte { return a.Trail.Head[:] }),
		of(func(a *account) *string {
			if a.payer == nil {
				return nil
			}
			return &a.payer.id.root
		}),
		of(func(a *account) *int64 { return a.ofPayer(func(l *line) *int64 { return &l.Cap }) }),
		of(func(a *account) *int64 { return a.ofPayer(func(l *line) *int64 { return &l.Before }) }),
	},
}

func (a *account) ofPayer(value func(*line) *int64) *int64 {
	if a.payer == nil {
		return nil
	}
	return value(a.payer)
}

var lines = change[*line]{
	checkChanged(`UPDATE lines AS l SET spend_cap = q.spend_cap, spent = q.spent, spent_before = q.spent_before,
		held = q.held
		FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[])
		AS q (account, root, spend_cap, spent, spent_before, held)
		WHERE l.account = ANY (ARRAY[q.account]) AND l.root = ANY (ARRAY[q.root])`, 7),
	[]column[*line]{
		of(func(l *line) string { return l.id.account }),
		of(func(l *line) string { return l.id.root }),
		of(func(l *line) int64 { return l.Cap }),
		of(func(l *line) int64 { return l.Spent }),
		of(func(l *line) int64 { return l.Before }),
		of(func(l *line) int64 { return l.held }),
	},
}

// changedAccounts are the statements of what has changed of accounts and lines. A line that has paid becomes its
// account's payer, unless the payer has paid, too, and the one before goes back to its own row.
func (u *unit) changedAccounts() []statement {
	var changed, seldom []*account
	var written []*line
	for _, l := range u.lines {
		if a := u.accounts[l.id.account]; l.dirty && l != a.payer && (a.payer == nil || !a.payer.dirty) {
			if a.payer != nil {
				written = append(written, a.payer)
			}
			a.payer = l
		}
	}
	for _, l := range u.lines {
		switch a := u.accounts[l.id.account]; {
		case !l.dirty:
		case l == a.payer:
			a.dirty = true
		default:
			written = append(written, l)
		}
	}
	for _, a := range u.accounts {
		if a == nil || !a.dirty {
			continue
		}
		changed = append(changed, a)
		if a.seldom() != a.was {
			seldom = append(seldom, a)
		}
	}
	return slices.Concat(lines.of(written), seldomBalances.of(seldom), balances.of(changed))
}

// changedRows are the statements of what the operations have changed of rows that there were.
func (u *unit) changedRows() []statement {
	var of, named []string
	var rows, numbers int64
	for _, r := range u.running {
		if r != nil && r.dirty && r.rows > 0 {
			of, named = append(of, r.Account), append(named, r.ID)
			rows, numbers = rows+r.rows, numbers+r.numbers
		}
	}
	var deleted []statement
	if len(of) > 0 {
		deleted = []statement{{deleteHolds, []any{of, named, rows, numbers}}}
	}
	return append(deleted, u.changedAccounts()...)
}

// addRows adds all new rows to what is sent with the commit.
func (u *unit) addRows() {
	var holds []holdRow
	for _, r := range u.running {
		if r != nil && r.dirty && r.end == nil {
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
	newHolds.queue(u.added, holds)
	newRequests.queue(u.added, u.recorded)
	newAttempts.queue(u.added, attempts)
	newWaiting.queue(u.added, waiting)
	newEntries.queue(u.added, u.entries)
	newActs.queue(u.added, u.acts)
}
