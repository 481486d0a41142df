package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// Rows are locked in the order of their ids, so that two nodes never wait for one another.
	lockBalances = `SELECT account FROM balances WHERE account = ANY($1) ORDER BY account FOR UPDATE`
	// What is read of an account is read behind its lock, by a statement of its own, which sees what the one who had the lock
	// before has committed.
	accountColumns = `a.account, a.name, a.plan, a.state, a.created, b.credits, b.accrued, b.held, b.head, b.entries,
		b.requests, b.spent, b.tokens, b.waived, b.spent_before, b.tokens_before, b.waived_before, b.period, b.period_end,
		b.allotted, b.acts, b.trail, a.spend_cap, a.token_budget, a.fair_use, a.concurrent_requests, a.key_requests,
		a.account_requests, a.address_requests, a.profile, a.requires_region, a.requires_retention`
	fromAccounts  = ` FROM accounts AS a JOIN balances AS b ON b.account = a.account `
	selectAccount = `SELECT ` + accountColumns + fromAccounts
	selectLines = `SELECT l.account, l.root, l.spend_cap, l.spent, l.spent_before, l.held`
	linesOfKeys = selectLines + `, k.key FROM unnest($1::text[], $2::text[]) AS q (account, key)
		JOIN keys AS k ON k.account = q.account AND k.key = q.key
		JOIN lines AS l ON l.account = k.account AND l.root = k.root`
	selectHolds = `SELECT h.account, h.request, h.seq, h.key, h.owner, h.endpoint, h.profile, h.hold, h.held_at, h.route,
		h.provider, h.model, h.price_version, h.created, h.worst, h.beside, h.reference FROM `
	holdsOfRequests = selectHolds + `unnest($1::text[], $2::text[]) AS q (account, request)
		JOIN holds AS h ON h.account = q.account AND h.request = q.request ORDER BY h.request, h.seq`
	selectSettled = `SELECT r.account, r.request, r.hold, r.service_limit, r.surcharge, r.charge, r.waived, r.over, r.refunded,
		r.pending, r.key, r.tokens, r.entry, r.settled FROM `
	settledRequests = selectSettled + `unnest($1::text[], $2::text[]) AS q (account, request)
		JOIN requests AS r ON r.account = q.account AND r.request = q.request`
	// selectNode reads the database's clock, and whether the node may write. It comes behind the locks: who has found that a
	// lease has lapsed looks at the account behind this transaction, or this one sees that.
	selectNode = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, ended IS NULL AND expires > clock_timestamp()
		FROM nodes WHERE node = $1`
)

// read locks accounts and reads the lines of keys and what there is of requests, in one round trip. Requests and keys are of
// accounts that are locked by then.
func (u *unit) read(accounts []string, keys []keyID, requests []requestID) error {
	var b pgx.Batch
	u.queueRead(&b, accounts, keys, requests)
	if err := u.conn.SendBatch(u.ctx, &b).Close(); err != nil {
		return &queryError{err}
	}
	return nil
}

func (u *unit) queueRead(b *pgx.Batch, accounts []string, keys []keyID, requests []requestID) {
	if len(accounts) > 0 {
		for _, id := range accounts {
			u.accounts[id] = nil
		}
		b.Queue(lockBalances, accounts)
		b.Queue(selectNode, u.s.o.BootID).Query(u.readNode)
		b.Queue(selectAccount+`WHERE a.account = ANY($1)`, accounts).Query(each(u.readAccount))
	}
	if len(keys) > 0 {
		of, named := make([]string, len(keys)), make([]string, len(keys))
		for i, k := range keys {
			of[i], named[i] = k.account, k.key
			u.roots[k] = ""
		}
		b.Queue(linesOfKeys, of, named).Query(each(func(row pgx.Rows) error {
			key := ""
			l, err := scanLine(row, &key)
			if err != nil {
				return err
			}
			u.roots[keyID{l.id.account, key}] = l.id.root
			u.keepLine(l)
			return nil
		}))
	}
	if len(requests) > 0 {
		of, named := make([]string, len(requests)), make([]string, len(requests))
		for i, r := range requests {
			of[i], named[i] = r.account, r.request
			u.running[r.request], u.settled[r.request] = nil, nil
		}
		b.Queue(holdsOfRequests, of, named).Query(each(u.readHold))
		b.Queue(settledRequests, of, named).Query(each(u.readSettled))
	}
}

func each(scan func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func (u *unit) readNode(rows pgx.Rows) error {
	var clock int64
	var live bool
	if err := each(to(&clock, &live))(rows); err != nil {
		return err
	}
	if !live {
		return ledger.ErrLapsed
	}
	u.now = u.s.nowAt(clock)
	return nil
}

func (u *unit) readAccount(row pgx.Rows) error {
	a, err := scanAccount(row)
	if err == nil {
		u.accounts[a.ID] = &account{Account: a}
	}
	return err
}

// scanAccount reads selectAccount.
func scanAccount(row pgx.Rows) (book.Account, error) { return scanAccountAnd(row) }

// scanAccountAnd reads accountColumns, and more behind them.
func scanAccountAnd(row pgx.Rows, more ...any) (a book.Account, err error) {
	var created int64
	var head, trail []byte
	var period, end *int64
	var allotted *bool
	var required book.Required
	values := []any{&a.ID, &a.Name, &a.Plan, &a.State, &created, &a.Credits, &a.Accrued, &a.Held, &head, &a.Entries, &a.Requests,
		&a.Ever.Spent, &a.Ever.Tokens, &a.Ever.Waived, &a.Before.Spent, &a.Before.Tokens, &a.Before.Waived, &period, &end,
		&allotted, &a.Trail.Acts, &trail}
	for i := range a.Limits {
		values = append(values, &a.Limits[i])
	}
	values = append(values, &a.Profile, &required.Regions, &required.Retention)
	if err := row.Scan(append(values, more...)...); err != nil {
		return a, err
	}
	a.Created, a.Head, a.Trail.Head = moment(created), digestOf(head), digestOf(trail)
	if period != nil && end != nil && allotted != nil {
		a.Period = book.Period{Number: *period, End: moment(*end), Allotted: *allotted}
	}
	if required != (book.Required{}) {
		a.Requires, err = config.ParseRequires(strings.FieldsFunc(required.Regions, isComma), required.Retention)
	}
	return a, err
}

func scanLine(row pgx.Rows, more ...any) (*line, error) {
	l := &line{}
	err := row.Scan(append([]any{&l.id.account, &l.id.root, &l.Cap, &l.Spent, &l.Before, &l.held}, more...)...)
	return l, err
}

// keepLine remembers a line that was read, unless it was read before.
func (u *unit) keepLine(l *line) {
	if u.lines[l.id] == nil {
		u.lines[l.id] = l
	}
}

// readLines reads all lines of an account.
func (u *unit) readLines(account string) error {
	return u.query(func(row pgx.Rows) error {
		l, err := scanLine(row)
		if err == nil {
			u.keepLine(l)
		}
		return err
	}, selectLines+` FROM lines AS l WHERE l.account = $1`, account)
}

func (u *unit) readHold(row pgx.Rows) error {
	var r book.Running
	a, seq, err := scanHold(row, &r)
	if err != nil {
		return err
	}
	is := u.running[r.ID]
	if is == nil {
		is = &running{Running: r, written: true}
		u.running[r.ID] = is
	}
	if seq == 0 {
		return nil
	}
	if a.Price, a.Cost, err = u.s.price(u.ctx, a.Route, a.PriceVersion); err != nil {
		return err
	}
	is.Attempts = append(is.Attempts, a)
	return nil
}

// scanHold reads selectHolds: the request without attempts, and the attempt without its prices.
func scanHold(row pgx.Rows, r *book.Running) (a book.Attempt, seq int64, err error) {
	var held, created int64
	var most *int64
	err = row.Scan(&r.Account, &r.ID, &seq, &r.Key, &r.Owner, &r.Endpoint, &r.Profile, &r.Held, &held, &a.Route, &a.Provider,
		&a.Model, &a.PriceVersion, &created, &most, &a.Beside, &a.Reference)
	r.Created, a.Created, a.Worst = moment(held), moment(created), worstOf(most)
	a.ID = ledger.AttemptID(r.ID, seq)
	return a, seq, err
}

func (u *unit) readSettled(row pgx.Rows) error {
	s := &settled{}
	if err := row.Scan(&s.Account, &s.ID, &s.Held, &s.ServiceLimit, &s.Surcharge, &s.Charge, &s.Waived, &s.Over, &s.Refunded,
		&s.Pending, &s.key, &s.tokens, &s.entry, &s.at); err != nil {
		return err
	}
	u.settled[s.ID] = s
	return nil
}

const selectAttempts = `SELECT t.seq, t.route, t.provider, t.model, t.price_version, t.outcome, t.input, t.cache_read,
	t.cache_write, t.output, t.reasoning, t.estimated, t.created, t.receipt, t.worst, t.estimate_input, t.estimate_output,
	t.provider_key, t.operator FROM attempts AS t `

// readAttempts reads the attempts of a settled request.
func (u *unit) readAttempts(s *settled) error {
	if s.attempts != nil {
		return nil
	}
	var read []ledger.AttemptRecord
	err := u.query(func(row pgx.Rows) error {
		a, err := scanAttempt(row, s.ID)
		read = append(read, a)
		return err
	}, selectAttempts+`WHERE t.account = $1 AND t.request = $2 ORDER BY t.seq`, s.Account, s.ID)
	if err != nil {
		return err
	}
	for _, a := range read {
		if a.Price, a.Cost, err = u.s.price(u.ctx, a.Route, a.PriceVersion); err != nil {
			return err
		}
		s.attempts = append(s.attempts, book.Attempt{AttemptRecord: a})
	}
	return nil
}

// scanAttempt reads selectAttempts, without prices.
func scanAttempt(row pgx.Rows, request string, more ...any) (a ledger.AttemptRecord, err error) {
	var seq, created int64
	var receipt, most, input, output *int64
	u := &a.Usage
	err = row.Scan(append([]any{&seq, &a.Route, &a.Provider, &a.Model, &a.PriceVersion, &a.Outcome, &u.Input, &u.CacheRead,
		&u.CacheWrite, &u.Output, &u.Reasoning, &u.Estimated, &created, &receipt, &most, &input, &output, &a.Key,
		&a.Operator}, more...)...)
	a.ID, a.Created, a.Receipt, a.Worst = ledger.AttemptID(request, seq), moment(created), optionalMoment(receipt), worstOf(most)
	a.Estimate = estimateOf(input, output)
	return a, err
}

func isComma(r rune) bool { return r == ',' }

func estimateOf(input, output *int64) *llm.Usage {
	u := llm.Usage{Input: input, Output: output, Estimated: true}
	if !u.Known() {
		return nil
	}
	return &u
}
