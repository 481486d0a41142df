package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	balanceColumns = `b.account, b.credits, b.accrued, b.held, b.head, b.entries, b.requests, b.spent, b.tokens, b.waived,
		b.spent_before, b.tokens_before, b.waived_before, b.period, b.period_end, b.allotted, b.acts, b.trail, b.payer,
		b.payer_cap, b.payer_spent, b.payer_before, b.payer_held`
	// Rows are locked in the order of the array, which is that of their ids, so that two nodes never wait for one
	// another. What FOR UPDATE returns is the row as the one who had the lock before has left it; anything else is read
	// behind it, by statements of their own. All are found row by row (LATERAL, OFFSET 0), whatever the tables looked
	// like when the plan was made: of a table that was empty then, all of it would be read. And so none of partitions is
	// that has none of them.
	lockBalances = `SELECT ` + balanceColumns + ` FROM unnest($1::text[]) AS q (account)
		CROSS JOIN LATERAL (SELECT * FROM balances AS o WHERE o.account = q.account OFFSET 0 FOR UPDATE) AS b`
	settingColumns = `a.name, a.plan, a.state, a.created, a.spend_cap, a.token_budget, a.fair_use, a.concurrent_requests,
		a.key_requests, a.account_requests, a.address_requests, a.own_spend_cap_microcents, a.profile, a.requires_region,
		a.requires_retention, a.mail`
	fromAccounts       = ` FROM accounts AS a JOIN balances AS b ON b.account = a.account `
	selectAccount      = `SELECT ` + balanceColumns + `, ` + settingColumns + fromAccounts
	settingsOfAccounts = `SELECT ` + settingColumns + `, a.account FROM unnest($1::text[]) AS q (account)
		CROSS JOIN LATERAL (SELECT * FROM accounts AS o WHERE o.account = q.account OFFSET 0) AS a`
	selectLines = `SELECT l.account, l.root, l.spend_cap, l.spent, l.spent_before, l.held`
	linesOfKeys = selectLines + `, k.key FROM unnest($1::text[], $2::text[]) AS q (account, key)
		CROSS JOIN LATERAL (SELECT * FROM keys AS o WHERE o.account = q.account AND o.key = q.key OFFSET 0) AS k
		CROSS JOIN LATERAL (SELECT * FROM lines AS o WHERE o.account = k.account AND o.root = k.root OFFSET 0) AS l`
	linesOfRoots = selectLines + ` FROM unnest($1::text[], $2::text[]) AS q (account, root)
		CROSS JOIN LATERAL (SELECT * FROM lines AS o WHERE o.account = q.account AND o.root = q.root OFFSET 0) AS l`
	selectHolds = `SELECT h.account, h.request, h.seq, h.key, h.owner, h.endpoint, h.profile, h.hold, h.held_at, h.route,
		h.provider, h.model, h.price_version, h.created, h.worst, h.beside, h.reference FROM `
	holdsOfRequests = selectHolds + `unnest($1::text[], $2::text[]) AS q (account, request)
		CROSS JOIN LATERAL (SELECT * FROM holds AS o WHERE o.account = q.account AND o.request = q.request OFFSET 0) AS h
		ORDER BY h.request, h.seq`
	selectSettled = `SELECT r.account, r.request, r.hold, r.service_limit, r.surcharge, r.charge, r.waived, r.over,
		r.refunded,
		r.pending, r.key, r.tokens, r.entry, r.reason FROM `
	// The first and the last id leave the other months alone, whose number grows.
	settledRequests = selectSettled + `unnest($1::text[], $2::text[]) AS q (account, request)
		CROSS JOIN LATERAL (SELECT * FROM requests AS o WHERE o.account = q.account AND o.request = q.request
			AND o.request >= $3::text AND o.request <= $4::text OFFSET 0) AS r`
	// selectNode reads the database's clock, and whether the node may write. It comes behind the locks: who has found
	// that a lease has lapsed looks at the account behind this transaction, or this one sees that.
	selectNode = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, ended IS NULL
		AND expires > clock_timestamp()
		FROM nodes WHERE node = $1`
)

// read locks accounts and reads the lines of keys and what there is of requests, in one round trip. Requests and keys
// are of accounts that are locked by then.
func (u *unit) read(accounts []string, keys []keyID, requests []requestID) error {
	var b pgx.Batch
	u.queueRead(&b, accounts, keys, requests)
	if err := u.conn.SendBatch(u.ctx, &b).Close(); err != nil {
		return &queryError{err}
	}
	return u.fill(keys)
}

func (u *unit) queueRead(b *pgx.Batch, accounts []string, keys []keyID, requests []requestID) {
	if len(accounts) > 0 {
		slices.Sort(accounts)
		for _, id := range accounts {
			u.accounts[id] = nil
		}
		// Who waits for another node's lane waits for the first accounts, most likely, and finds the others as they are; a
		// row that was changed while its statement waited is looked for once more.
		for _, n := range [...]int{1, 8, len(accounts)} {
			if n = min(n, len(accounts)); n > 0 {
				b.Queue(lockBalances, accounts[:n]).Query(each(u.readBalance))
				accounts = accounts[n:]
			}
		}
		b.Queue(selectNode, u.s.o.BootID).Query(u.readNode)
	}
	u.queueLines(b, keys)
	if len(requests) > 0 {
		of, named := make([]string, len(requests)), make([]string, len(requests))
		for i, r := range requests {
			of[i], named[i] = r.account, r.request
			u.running[r.request], u.settled[r.request] = nil, nil
		}
		b.Queue(holdsOfRequests, of, named).Query(each(u.readHold))
		b.Queue(settledRequests, of, named, slices.Min(named), slices.Max(named)).Query(each(u.readSettled))
	}
}

// queueLines queues the reading of the lines of keys. Which line a key belongs to never changes. Which has paid last,
// and is read with the account, may be another by now than this process remembers: see fillLines.
func (u *unit) queueLines(b *pgx.Batch, keys []keyID) {
	var of, named, known, roots []string
	for _, k := range keys {
		if root, is := u.s.roots.Load(k); is {
			root, _ := root.(string)
			u.roots[k] = root
			if payer, is := u.s.payers.Load(k.account); !is || payer != root {
				known, roots = append(known, k.account), append(roots, root)
			}
			continue
		}
		of, named = append(of, k.account), append(named, k.key)
		u.roots[k] = ""
	}
	if len(known) > 0 {
		b.Queue(linesOfRoots, known, roots).Query(each(u.readLine))
	}
	if len(of) > 0 {
		b.Queue(linesOfKeys, of, named).Query(each(func(row pgx.Rows) error {
			key := ""
			l, err := scanLine(row, &key)
			if err != nil {
				return err
			}
			id := keyID{l.id.account, key}
			u.roots[id] = l.id.root
			u.s.roots.Store(id, l.id.root)
			u.keepLine(l)
			return nil
		}))
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
	clock := int64(-1)
	if err := each(to(&clock, &u.live))(rows); err != nil {
		return err
	}
	if clock < 0 { // a copy of before this process signed in, perhaps
		u.s.forgetAll()
		return fmt.Errorf("%w: the database does not know this node; its lease is renewed", lapsed())
	}
	u.now, u.clock = u.s.nowAt(clock), clock
	return nil
}

// readBalance reads an account that is locked. What operators have set for it is remembered, until an act has changed
// it.
func (u *unit) readBalance(row pgx.Rows) error {
	var b balanceRow
	if err := row.Scan(b.values()...); err != nil {
		return err
	}
	a := &account{Account: b.account()}
	u.accounts[a.ID] = a
	if b.payer != nil {
		a.payer = b.line()
		u.lines[a.payer.id] = a.payer
		u.s.payers.Store(a.ID, *b.payer)
	}
	a.was = a.seldom()
	if kept, is := u.s.settings.Load(a.ID); is {
		if kept, _ := kept.(*settingRow); kept.trail == a.Trail {
			kept.fill(&a.Account)
			return nil
		}
	}
	a.bare = true
	return nil
}

// fill reads what was taken for remembered, and is not.
func (u *unit) fill(keys []keyID) error {
	if err := u.fillSettings(); err != nil {
		return err
	}
	return u.fillLines(keys)
}

// fillLines reads the lines of keys that have not paid last, against what this process remembers.
func (u *unit) fillLines(keys []keyID) error {
	var of, roots []string
	for _, k := range keys {
		if root := u.roots[k]; root != "" && u.lines[lineID{k.account, root}] == nil {
			of, roots = append(of, k.account), append(roots, root)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return u.query(u.readLine, linesOfRoots, of, roots)
}

func (u *unit) readLine(row pgx.Rows) error {
	l, err := scanLine(row)
	u.keepLine(l)
	return err
}

// fillSettings reads what operators have set for accounts, where that is not remembered.
func (u *unit) fillSettings() error {
	var bare []string
	for id, a := range u.accounts {
		if a != nil && a.bare {
			bare = append(bare, id)
		}
	}
	if len(bare) == 0 {
		return nil
	}
	return u.query(func(row pgx.Rows) error {
		id, set := "", &settingRow{}
		if err := row.Scan(append(set.values(), &id)...); err != nil {
			return err
		}
		if err := set.parse(); err != nil {
			return err
		}
		a := u.accounts[id]
		set.trail, a.bare = a.Trail, false
		set.fill(&a.Account)
		u.s.settings.Store(id, set)
		return nil
	}, settingsOfAccounts, bare)
}

// balanceRow are balanceColumns.
type balanceRow struct {
	book.Account
	head, trail []byte
	period, end *int64
	allotted    *bool
	payer       *string
	paid        [4]*int64
}

func (b *balanceRow) values() []any {
	return []any{&b.ID, &b.Credits, &b.Accrued, &b.Held, &b.head, &b.Entries, &b.Requests, &b.Ever.Spent, &b.Ever.Tokens,
		&b.Ever.Waived, &b.Before.Spent, &b.Before.Tokens, &b.Before.Waived, &b.period, &b.end, &b.allotted, &b.Trail.Acts,
		&b.trail, &b.payer, &b.paid[0], &b.paid[1], &b.paid[2], &b.paid[3]}
}

func (b *balanceRow) account() book.Account {
	b.Head, b.Trail.Head = digestOf(b.head), digestOf(b.trail)
	if b.period != nil && b.end != nil && b.allotted != nil {
		b.Period = book.Period{Number: *b.period, End: moment(*b.end), Allotted: *b.allotted}
	}
	return b.Account
}

// line is the line that has paid last.
func (b *balanceRow) line() *line {
	return &line{id: lineID{b.ID, *b.payer}, Line: book.Line{Cap: *b.paid[0], Spent: *b.paid[1], Before: *b.paid[2]},
		held: *b.paid[3]}
}

// settingRow are settingColumns.
type settingRow struct {
	trail      book.Trail // of the account, when it was read
	name, plan string
	state      ledger.State
	created    int64
	set        book.Settings
	required   book.Required
	mail       string
}

func (r *settingRow) values() []any {
	values := []any{&r.name, &r.plan, &r.state, &r.created}
	for i := range r.set.Limits {
		values = append(values, &r.set.Limits[i])
	}
	return append(values, &r.set.Profile, &r.required.Regions, &r.required.Retention, &r.mail)
}

func (r *settingRow) parse() (err error) {
	r.set.Mail = book.MailOf(r.mail)
	if r.required != (book.Required{}) {
		r.set.Requires, err = config.ParseRequires(strings.FieldsFunc(r.required.Regions, isComma), r.required.Retention)
	}
	return err
}

func (r *settingRow) fill(a *book.Account) {
	a.Name, a.Plan, a.State, a.Created, a.Settings = r.name, r.plan, r.state, moment(r.created), r.set
}

// scanAccount reads selectAccount.
func scanAccount(row pgx.Rows) (book.Account, error) { return scanAccountAnd(row) }

// scanAccountAnd reads balanceColumns and settingColumns, and more behind them.
func scanAccountAnd(row pgx.Rows, more ...any) (a book.Account, err error) {
	var b balanceRow
	var set settingRow
	if err := row.Scan(append(append(b.values(), set.values()...), more...)...); err != nil {
		return a, err
	}
	a, err = b.account(), set.parse()
	set.fill(&a)
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
	return u.query(u.readLine, selectLines+` FROM lines AS l WHERE l.account = $1`, account)
}

func (u *unit) readHold(row pgx.Rows) error {
	var r book.Running
	a, seq, err := scanHold(row, &r)
	if err != nil {
		return err
	}
	is := u.running[r.ID]
	if is == nil {
		is = &running{Running: r}
		u.running[r.ID] = is
	}
	is.rows, is.numbers = is.rows+1, is.numbers+seq
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
	err = row.Scan(&r.Account, &r.ID, &seq, &r.Key, &r.Owner, &r.Endpoint, &r.Profile, &r.Held, &held, &a.Route,
		&a.Provider,
		&a.Model, &a.PriceVersion, &created, &most, &a.Beside, &a.Reference)
	r.Created, a.Created, a.Worst = moment(held), moment(created), worstOf(most)
	a.ID = ledger.AttemptID(r.ID, seq)
	return a, seq, err
}

func (u *unit) readSettled(row pgx.Rows) error {
	s := &settled{}
	if err := row.Scan(&s.Account, &s.ID, &s.Held, &s.ServiceLimit, &s.Surcharge, &s.Charge, &s.Waived, &s.Over,
		&s.Refunded,
		&s.Pending, &s.key, &s.tokens, &s.entry, &s.reason); err != nil {
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
	err = row.Scan(append([]any{&seq, &a.Route, &a.Provider, &a.Model, &a.PriceVersion, &a.Outcome, &u.Input,
		&u.CacheRead,
		&u.CacheWrite, &u.Output, &u.Reasoning, &u.Estimated, &created, &receipt, &most, &input, &output, &a.Key,
		&a.Operator}, more...)...)
	a.ID, a.Created, a.Receipt, a.Worst = ledger.AttemptID(request, seq), moment(created), optionalMoment(receipt),
		worstOf(most)
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
