package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// list reads one moment, on a connection of its own.
func (s *Store) list(ctx context.Context, name string, read func(ctx context.Context, tx pgx.Tx) error) error {
	start := time.Now()
	defer func() { s.o.Observe(name, time.Since(start), 0) }()
	tx, err := s.lists.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return read(ctx, tx)
}

// given is an error of who is given rows, which is not the database's.
type givenError struct{ err error }

func (e givenError) Error() string { return e.err.Error() }
func (e givenError) Unwrap() error { return e.err }

// listed is a list's error in the ledger's terms.
func listed(err error) error {
	if e, ok := err.(givenError); ok { //nolint:errorlint // it is never wrapped
		return e.err
	}
	return unavailable(err)
}

// eachRow reads rows and gives them.
func eachRow[T any](ctx context.Context, conn querier, scan func(pgx.Rows) (T, error), each func(T) error, sql string,
	args ...any) error {
	return queryRows(ctx, conn, func(row pgx.Rows) error {
		v, err := scan(row)
		if err != nil {
			return err
		}
		if err := each(v); err != nil {
			return givenError{err}
		}
		return nil
	}, sql, args...)
}

// Account implements ledger.Books. Its periods are up to date.
func (s *Store) Account(ctx context.Context, idOrName string) (ledger.Account, error) {
	var v ledger.Account
	id := ""
	err := queryRows(ctx, s.pool, to(&id), `SELECT account FROM accounts WHERE account = $1
		UNION ALL SELECT account FROM names WHERE name = $1`, idOrName)
	switch {
	case err != nil:
		err = unavailable(err)
	case id == "":
		err = book.NoAccount(idOrName)
	default:
		op := &operation{account: id}
		op.run = func(u *unit) error {
			a, err := u.look(id)
			if err == nil {
				v = a.Show()
			}
			return err
		}
		err = s.perform(ctx, "account", op)
	}
	if err != nil {
		return ledger.Account{}, wrap(err, "reading account %q", idOrName)
	}
	return v, nil
}

// Accounts implements ledger.Books.
func (s *Store) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	if after == "" { // it reads all accounts, which is too much for each page
		if _, err := s.EndPeriods(ctx); err != nil {
			return err
		}
	}
	return s.listAccounts(ctx, after, each)
}

func (s *Store) listAccounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	err := s.list(ctx, "accounts", func(ctx context.Context, tx pgx.Tx) error {
		made := int64(math.MinInt64)
		if after != "" {
			if err := checkAccount(ctx, tx, after); err != nil {
				return err
			}
			if err := queryRows(ctx, tx, to(&made), `SELECT made FROM accounts WHERE account = $1`, after); err != nil {
				return err
			}
		}
		return eachRow(ctx, tx, scanAccount, func(a book.Account) error { return each(a.Show()) },
			selectAccount+`WHERE (a.made, a.account) > ($1, $2) ORDER BY a.made, a.account`, made, after)
	})
	return wrap(listed(err), "listing accounts")
}

// Keys implements ledger.Books.
func (s *Store) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	switch {
	case q.Account != "":
		if _, err := s.Account(ctx, q.Account); err != nil {
			return err
		}
	case q.After == "" && q.Named == "":
		if _, err := s.EndPeriods(ctx); err != nil {
			return err
		}
	}
	return s.listKeys(ctx, q, each)
}

func (s *Store) listKeys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	err := s.list(ctx, "keys", func(ctx context.Context, tx pgx.Tx) error {
		where, order, args := `WHERE true`, ` ORDER BY k.made, k.key`, []any(nil)
		is := func(condition string, value any) {
			args = append(args, value)
			where += ` AND ` + strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args)))
		}
		if q.Account != "" {
			if err := checkAccount(ctx, tx, q.Account); err != nil {
				return err
			}
			is(`k.account = ?`, q.Account)
		}
		if q.Newest {
			order = ` ORDER BY k.made DESC, k.key DESC`
		}
		if q.After != "" {
			found := ""
			if err := queryRows(ctx, tx, to(&found), `SELECT key FROM keys WHERE key = $1`, q.After); err != nil {
				return err
			}
			if found == "" {
				return book.NoKey(q.After, "")
			}
			behind := `(k.made, k.key) > (SELECT made, key FROM keys WHERE key = ?)`
			if q.Newest {
				behind = strings.Replace(behind, ">", "<", 1)
			}
			is(behind, q.After)
		}
		switch {
		case q.Named != "" && q.Account != "":
			is(`(k.key = ? OR k.name = ?)`, q.Named)
		case q.Named != "":
			is(`k.key = ?`, q.Named)
		}
		return eachRow(ctx, tx, scanKey, each, selectKeys+where+order, args...)
	})
	return wrap(listed(err), "listing keys")
}

// findAccount finds an account by its id or its name, as its rows have it.
func findAccount(ctx context.Context, tx reader, idOrName string) (v ledger.Account, err error) {
	found := false
	err = queryRows(ctx, tx, func(row pgx.Rows) error {
		a, err := scanAccount(row)
		v, found = a.Show(), true
		return err
	}, selectAccount+`WHERE a.account = $1 OR a.account = (SELECT account FROM names WHERE name = $1)`, idOrName)
	if err == nil && !found {
		err = book.NoAccount(idOrName)
	}
	return v, err
}

// checkAccount is ErrNotFound where there is no account of this id.
func checkAccount(ctx context.Context, tx reader, id string) error {
	found := ""
	err := queryRows(ctx, tx, to(&found), `SELECT account FROM accounts WHERE account = $1`, id)
	if err == nil && found == "" {
		err = book.NoAccount(id)
	}
	return err
}

// Plans implements ledger.Books, in alphabetical order.
func (s *Store) Plans(ctx context.Context) (plans []string, err error) {
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var plan string
		err := row.Scan(&plan)
		plans = append(plans, plan)
		return err
	}, `SELECT DISTINCT plan FROM accounts WHERE plan <> '' ORDER BY plan`)
	return plans, wrap(unavailable(err), "listing plans")
}

const (
	entryColumns = `e.account, e.seq, e.kind, e.book, e.request, e.reference, e.reason, e.prices, e.microcents,
		e.waived, e.over,
		e.tokens, e.detail, e.credits, e.accrued, e.created, e.format, e.prev, e.hash, e.n`
	selectEntries = `SELECT ` + entryColumns + ` FROM entries AS e `
	laterEntries  = selectEntries + `WHERE e.account = $1 AND e.request = $2 AND e.kind IN ('receipt', 'closing',
		'refund')
		ORDER BY e.seq`
)

// scanEntry reads entryColumns, and more behind them.
func scanEntry(row pgx.Rows, more ...any) (e book.Entry, err error) {
	var request, reference *string
	var detail, prev, hash []byte
	var created int64
	var n *int64
	err = row.Scan(append([]any{&e.Account, &e.Seq, &e.Kind, &e.Book, &request, &reference, &e.Reason, &e.Prices,
		&e.Microcents,
		&e.Waived, &e.Over, &e.Tokens, &detail, &e.Credits, &e.Accrued, &created, &e.Format, &prev, &hash, &n}, more...)...)
	if n != nil {
		e.N = *n
	}
	if request != nil {
		e.Request = *request
	}
	if reference != nil {
		e.Reference = *reference
	}
	e.Created, e.Detail, e.Prev, e.Hash = moment(created), digestOf(detail), digestOf(prev), digestOf(hash)
	return e, err
}

func scanMovement(row pgx.Rows) (ledger.Entry, error) {
	e, err := scanEntry(row)
	return e.Entry, err
}

// coveredBy is the checkpoint that covers an entry of entries AS e, a large number where none does yet.
const coveredBy = `coalesce((SELECT h.checkpoint FROM heads AS h WHERE h.account = e.account AND NOT h.act
	AND h.seq >= e.seq
	ORDER BY h.seq LIMIT 1), 9223372036854775807)`

// Entries implements ledger.Books. Those of several accounts are in the order of the checkpoints that cover them, and
// then of their times: so the first ones are what a checkpoint is about. Those of one account are in their order,
// also where a clock was put back.
func (s *Store) Entries(ctx context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	err := s.list(ctx, "entries", func(ctx context.Context, tx pgx.Tx) error {
		since, until := q.Bounds()
		where, args, order := `WHERE e.created >= $1 AND e.created < $2`, []any{since, until}, coveredBy+`,
			max(e.created) OVER (PARTITION BY e.account ORDER BY e.seq), e.account, e.seq`
		if q.Checkpoint != 0 {
			known := false
			err := queryRows(ctx, tx, to(&known), `SELECT true FROM checkpoints WHERE n = $1`, q.Checkpoint)
			if err == nil && !known {
				err = fmt.Errorf("%w: checkpoint %d", ledger.ErrNotFound, q.Checkpoint)
			}
			if err != nil {
				return err
			}
			args = append(args, q.Checkpoint)
			where += ` AND ` + coveredBy + ` <= $3`
		}
		if q.Account != "" {
			if err := checkAccount(ctx, tx, q.Account); err != nil {
				return err
			}
			args = append(args, q.Account)
			where, order = where+fmt.Sprintf(` AND e.account = $%d`, len(args)), `e.seq`
			if q.Recent {
				where += fmt.Sprintf(` AND e.seq > coalesce((SELECT p.seq FROM entries AS p WHERE p.account = $%d
					AND p.created < $1 ORDER BY p.seq DESC LIMIT 1), 0)`, len(args))
			}
		}
		return eachRow(ctx, tx, scanMovement, each, selectEntries+where+` ORDER BY `+order, args...)
	})
	return wrap(listed(err), "listing entries")
}

const selectActs = `SELECT u.account, coalesce(a.name, ''), u.seq, u.created, u.actor, u.action, u.subject, u.before,
	u.after,
	u.format, u.prev, u.hash, u.n FROM acts AS u LEFT JOIN accounts AS a ON a.account = u.account `

// scanAct reads selectActs, and more behind it.
func scanAct(row pgx.Rows, more ...any) (a book.Act, err error) {
	var created int64
	var prev, hash []byte
	var n *int64
	err = row.Scan(append([]any{&a.Account, &a.AccountName, &a.Seq, &created, &a.Actor, &a.Action, &a.Subject, &a.Before,
		&a.After, &a.Format, &prev, &hash, &n}, more...)...)
	if n != nil {
		a.N = *n
	}
	a.Created, a.Prev, a.Hash = moment(created), digestOf(prev), digestOf(hash)
	return a, err
}

// Audit implements ledger.Books.
func (s *Store) Audit(ctx context.Context, q ledger.Query, each func(ledger.Act) error) error {
	err := s.list(ctx, "audit", func(ctx context.Context, tx pgx.Tx) error {
		since, until := q.Bounds()
		where, args := `WHERE u.created >= $1 AND u.created < $2`, []any{since, until}
		if q.Account != "" {
			if err := checkAccount(ctx, tx, q.Account); err != nil {
				return err
			}
			where, args = where+` AND u.account = $3`, append(args, q.Account)
		}
		return eachRow(ctx, tx, func(row pgx.Rows) (ledger.Act, error) {
			a, err := scanAct(row)
			return a.Act, err
		}, each, selectActs+where+` ORDER BY u.made, u.account, u.seq`, args...)
	})
	return wrap(listed(err), "listing the audit trail")
}

const (
	requestColumns = `r.request, r.account, r.key, r.owner, r.endpoint, r.profile, r.hold, r.status, r.reason, r.free,
		r.service_limit, r.surcharge, r.charge, r.waived, r.tokens, r.refunded, r.pending, r.created, r.settled, r.over,
			r.entry`
	attemptColumns = `t.seq, t.route, t.provider, t.model, t.price_version, t.outcome, t.input, t.cache_read,
		t.cache_write, t.output, t.reasoning, t.estimated, t.created, t.receipt, t.worst, t.estimate_input,
			t.estimate_output,
		t.provider_key, t.operator`
)

// Request implements ledger.Books.
func (s *Store) Request(ctx context.Context, id string) (r ledger.RequestRecord, err error) {
	err = s.list(ctx, "request", func(ctx context.Context, tx pgx.Tx) error {
		found := false
		err := s.eachDetail(ctx, tx, `WHERE r.request = $1`, func(d *detail) error {
			r, found = d.RequestRecord, true
			return nil
		}, id)
		if err != nil {
			return err
		}
		if found {
			return eachRow(ctx, tx, scanMovement, func(e ledger.Entry) error {
				r.Entries = append(r.Entries, e)
				return nil
			}, selectEntries+`WHERE e.account = $1 AND (e.seq = (SELECT entry FROM requests WHERE account = $1 AND request = $2)
				OR e.request = $2 AND e.kind IN ('receipt', 'closing', 'refund')) ORDER BY e.seq`, r.Account, id)
		}
		return s.readRunning(ctx, tx, id, &r)
	})
	return r, wrap(listed(err), "reading request %q", id)
}

func (s *Store) readRunning(ctx context.Context, tx pgx.Tx, id string, r *ledger.RequestRecord) error {
	type attempt struct {
		book.Running
		book.Attempt
		seq int64
	}
	err := eachRow(ctx, tx, func(row pgx.Rows) (a attempt, err error) {
		a.Attempt, a.seq, err = scanHold(row, &a.Running)
		return a, err
	}, func(a attempt) error {
		if r.ID == "" {
			is := &a.Running
			*r = ledger.RequestRecord{ID: id, Account: is.Account, Key: is.Key, Endpoint: is.Endpoint, Profile: is.Profile,
				Owner: is.Owner, Running: true, Held: is.Held, Created: is.Created}
		}
		if a.seq > 0 {
			r.Attempts = append(r.Attempts, a.AttemptRecord)
		}
		return nil
	}, selectHolds+`holds AS h WHERE h.request = $1 ORDER BY h.account, h.seq`, id)
	if err == nil && r.ID == "" {
		err = fmt.Errorf("%w: a request with this id; the detail of old ones is removed after the retention time",
			ledger.ErrNotFound)
	}
	if err != nil {
		return err
	}
	return s.fillPrices(ctx, r.Attempts)
}

// fillPrices fills in the prices of attempts.
func (s *Store) fillPrices(ctx context.Context, attempts []ledger.AttemptRecord) (err error) {
	for i := range attempts {
		a := &attempts[i]
		if a.Price, a.Cost, err = s.price(ctx, a.Route, a.PriceVersion); err != nil {
			return err
		}
	}
	return nil
}

// detail is a settled request with its attempts.
type detail struct {
	ledger.RequestRecord
	tokens, entry int64
}

// eachDetail reads settled requests with their attempts and prices, in the order of their ids, one at a time. where
// narrows requests AS r. The statement is read in parts, so that others can be made in between.
func (s *Store) eachDetail(ctx context.Context, tx reader, where string, each func(*detail) error, args ...any) error {
	var d detail
	give := func() error {
		if d.ID == "" {
			return nil
		}
		if err := s.fillPrices(ctx, d.Attempts); err != nil {
			return err
		}
		return each(&d)
	}
	err := s.fetch(ctx, tx, func(row pgx.Rows) (func() error, error) {
		var is detail
		var created, settled int64
		var seq *int64
		var a ledger.AttemptRecord
		var err error
		values := []any{&is.ID, &is.Account, &is.Key, &is.Owner, &is.Endpoint, &is.Profile, &is.Held, &is.Status, &is.Reason,
			&is.Free, &is.ServiceLimit, &is.Surcharge, &is.Microcents, &is.Waived, &is.tokens, &is.Refunded, &is.Pending,
			&created,
			&settled, &is.Over, &is.entry}
		if a, seq, err = scanMaybeAttempt(row, values); err != nil {
			return nil, err
		}
		return func() error {
			if is.ID != d.ID || is.Account != d.Account {
				if err := give(); err != nil {
					return err
				}
				is.Created, is.Settled = moment(created), moment(settled)
				is.Attempts = d.Attempts[:0]
				d = is
			}
			if seq != nil {
				a.ID = ledger.AttemptID(is.ID, *seq)
				d.Attempts = append(d.Attempts, a)
			}
			return nil
		}, nil
	}, `SELECT `+requestColumns+`, `+attemptColumns+` FROM requests AS r
		LEFT JOIN attempts AS t ON t.account = r.account AND t.request = r.request `+where+`
		ORDER BY r.request, r.account, t.seq`, args...)
	if err != nil {
		return err
	}
	return give()
}

// scanMaybeAttempt reads values and then attemptColumns, which are NULL where there is none.
func scanMaybeAttempt(row pgx.Rows, values []any) (a ledger.AttemptRecord, seq *int64, err error) {
	var version, created, receipt, most, input, output *int64
	var route, provider, model, outcome, key *string
	var estimated, operator *bool
	u := &a.Usage
	err = row.Scan(append(values, &seq, &route, &provider, &model, &version, &outcome, &u.Input, &u.CacheRead,
		&u.CacheWrite,
		&u.Output, &u.Reasoning, &estimated, &created, &receipt, &most, &input, &output, &key, &operator)...)
	if err != nil || seq == nil {
		return a, nil, err
	}
	a.Route, a.Provider, a.Model, a.PriceVersion, a.Outcome = *route, *provider, *model, *version,
		ledger.Outcome(*outcome)
	u.Estimated, a.Created, a.Receipt, a.Worst = *estimated, moment(*created), optionalMoment(receipt), worstOf(most)
	a.Estimate, a.Key, a.Operator = estimateOf(input, output), *key, *operator
	return a, seq, nil
}

// fetchRows is how many rows of a cursor are in memory.
const fetchRows = 500

// fetch reads a statement's rows in parts, so that the connection is free for others in between: scan reads a row,
// and what it returns is called behind that.
func (s *Store) fetch(ctx context.Context, tx reader, scan func(pgx.Rows) (func() error, error), sql string,
	args ...any) error {
	name := fmt.Sprintf("fareway_%d", s.cursors.Add(1))
	if _, err := tx.Exec(ctx, `DECLARE `+name+` NO SCROLL CURSOR FOR `+sql, args...); err != nil {
		return err
	}
	for {
		gives := make([]func() error, 0, fetchRows)
		err := queryRows(ctx, tx, func(row pgx.Rows) error {
			give, err := scan(row)
			gives = append(gives, give)
			return err
		}, fmt.Sprintf(`FETCH %d FROM %s`, fetchRows, name))
		if err != nil {
			return err
		}
		for _, give := range gives {
			if err := give(); err != nil {
				return err
			}
		}
		if len(gives) < fetchRows {
			_, err := tx.Exec(ctx, `CLOSE `+name)
			return err
		}
	}
}

// Pruned implements ledger.Books. It reads the whole journal.
func (s *Store) Pruned(ctx context.Context, id string) (ledger.PrunedRequest, error) {
	p := ledger.PrunedRequest{ID: id}
	err := s.list(ctx, "pruned", func(ctx context.Context, tx pgx.Tx) error {
		var before int64
		kept := false
		err := queryRows(ctx, tx, to(&before, &kept),
			`SELECT pruned_before, EXISTS (SELECT 1 FROM requests WHERE request = $1) FROM ledger`, id)
		if err == nil && before != 0 && !kept {
			err = eachRow(ctx, tx, scanMovement, func(e ledger.Entry) error { p.Add(e); return nil },
				selectEntries+`WHERE e.request = $1 ORDER BY e.account, e.seq`, id)
		}
		if err == nil && len(p.Entries) == 0 {
			err = fmt.Errorf("%w: a request with this id whose detail was pruned", ledger.ErrNotFound)
		}
		return err
	})
	return p, wrap(listed(err), "looking for request %q in the journal", id)
}

// PrunedBefore implements ledger.Books.
func (s *Store) PrunedBefore(ctx context.Context) (time.Time, error) {
	var before int64
	err := queryRows(ctx, s.pool, to(&before), `SELECT pruned_before FROM ledger`)
	if err != nil || before == 0 {
		return time.Time{}, wrap(unavailable(err), "reading what was pruned")
	}
	return moment(before), nil
}
