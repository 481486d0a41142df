package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// unit is one transaction: the rows that its operations have read, as they have left them, and what is to be written
// at its end. An account's row of balances is its lock, which is taken before anything else of the account is read.
// An operation decides before it changes anything here, so one that is refused leaves its neighbours alone.
type unit struct {
	ctx  context.Context
	s    *Store
	conn *pgx.Conn
	now  time.Time
	live bool // the node's lease has not lapsed
	// clock is the database's, in microseconds, as it was asked last.
	clock int64

	accounts map[string]*account // nil: there is none of this id
	lines    map[lineID]*line
	roots    map[keyID]string    // of keys; "": the account has no such key
	running  map[string]*running // by request; nil: it does not run
	settled  map[string]*settled // by request; nil: it is not on record

	entries  []book.Entry
	acts     []book.Act
	recorded []*running   // that have settled here
	added    *writeBuffer // what is written with the commit
	changed  []func(*pgx.Batch)
	// repeats: an operation has found that it was carried out before, perhaps by a commit of which nobody knows whether a
	// standby has it. What it is told then has to be as durable as what it was not told.
	repeats bool
}

type (
	lineID struct{ account, root string }
	keyID  struct{ account, key string }
)

type account struct {
	book.Account
	dirty bool  // its balance
	bare  bool  // what operators have set is to be read yet
	payer *line // that has paid last: it is read and written with the account
	was   seldom
}

// seldom is what requests seldom change of an account.
type seldom struct {
	before      book.Counters
	period      book.Period
	trail       book.Trail
	payer       lineID
	cap, counts int64
}

func (a *account) seldom() seldom {
	s := seldom{before: a.Before, period: a.Period, trail: a.Trail}
	if l := a.payer; l != nil {
		s.payer, s.cap, s.counts = l.id, l.Cap, l.Before
	}
	return s
}

type line struct {
	id lineID
	book.Line
	held  int64
	dirty bool
}

// running is a request that runs, or did when the unit began.
type running struct {
	book.Running
	line     *line
	rows     int64 // that it has
	numbers  int64 // of its attempts there, added up
	recalled bool  // it is as this process remembers it
	dirty    bool  // they are not what it is
	end      *ledger.Settlement
	settled  book.Settled
}

func (r *running) request() *book.Running {
	if r == nil || r.end != nil {
		return nil
	}
	return &r.Running
}

// settled is a request on record.
type settled struct {
	book.Request
	key      string
	line     *line
	tokens   int64
	entry    int64
	reason   string
	attempts []book.Attempt
}

func newUnit(ctx context.Context, s *Store, conn *pgx.Conn, added *writeBuffer) *unit {
	added.reset()
	return &unit{
		ctx: ctx, s: s, conn: conn, added: added,
		accounts: map[string]*account{}, lines: map[lineID]*line{}, roots: map[keyID]string{},
		running: map[string]*running{}, settled: map[string]*settled{},
	}
}

// by is who decides, and when.
func (u *unit) by(ctx context.Context) book.By {
	return book.By{Actor: ledger.ActorOf(ctx), Now: u.now}
}

// write adds a statement to what is written at the end, in this order and behind all rows.
func (u *unit) write(sql string, args ...any) {
	u.changed = append(u.changed, func(b *pgx.Batch) { b.Queue(sql, args...) })
}

// query reads rows at once.
func (u *unit) query(each func(pgx.Rows) error, sql string, args ...any) error {
	if err := queryRows(u.ctx, u.conn, each, sql, args...); err != nil {
		return &queryError{err}
	}
	return nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type reader interface {
	querier
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// queryRows reads rows.
func queryRows(ctx context.Context, conn querier, each func(pgx.Rows) error, sql string, args ...any) error {
	for _, arg := range args {
		if text, is := arg.(string); is && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
			return nil // no row has what PostgreSQL cannot store
		}
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// to scans a row.
func to(values ...any) func(pgx.Rows) error {
	return func(row pgx.Rows) error { return row.Scan(values...) }
}

// exists reports whether a query has a row.
func (u *unit) exists(sql string, args ...any) (found bool, err error) {
	err = u.query(func(pgx.Rows) error { found = true; return nil }, sql, args...)
	return found, err
}

func (u *unit) terms(a *account) ledger.Terms { return a.Limits.Over(u.s.o.Terms(a.Plan)) }

// look locks an account and brings its periods up to date.
func (u *unit) look(id string) (*account, error) {
	a, known := u.accounts[id]
	if !known {
		if err := u.read([]string{id}, nil, nil); err != nil {
			return nil, err
		}
		a = u.accounts[id]
	}
	if a == nil {
		return nil, book.NoAccount(id)
	}
	terms := u.terms(a)
	if !a.Overdue(terms, u.now) {
		return a, nil
	}
	return a, u.endPeriods(a, terms)
}

func (u *unit) endPeriods(a *account, terms ledger.Terms) error {
	c, err := book.EndPeriods(&a.Account, terms, u.now, func(name string) (bool, error) {
		return u.exists(`SELECT 1 FROM entries WHERE account = $1 AND kind = 'allotment' AND reference = $2`, a.ID, name)
	})
	if err != nil {
		return err
	}
	for _, why := range c.Refused {
		u.s.o.Logger.WarnContext(u.ctx, "an account goes without its plan's credits", "account", a.ID, "error", why)
	}
	if c.Began {
		if err := u.readLines(a.ID); err != nil {
			return err
		}
		for id, l := range u.lines {
			if id.account == a.ID {
				l.Line, l.dirty = l.BeginPeriod(c.Account.Period), true
			}
		}
	}
	a.Account, a.dirty = c.Account, true
	u.entries = append(u.entries, c.Entries...)
	return nil
}

// line finds the line of an account's key.
func (u *unit) line(account, key string) (*line, error) {
	root, known := u.roots[keyID{account, key}]
	if !known {
		if err := u.read(nil, []keyID{{account, key}}, nil); err != nil {
			return nil, err
		}
		root = u.roots[keyID{account, key}]
	}
	l := u.lines[lineID{account, root}]
	if l == nil { // a copy of before the key was made, perhaps
		u.s.roots.Delete(keyID{account, key})
		return nil, book.NoKey(key, account)
	}
	return l, nil
}

func (u *unit) payer(a *account, l *line) book.Payer {
	return book.Payer{Account: &a.Account, Line: &l.Line, Terms: u.terms(a), Held: l.held}
}

// request finds a request that runs, or is on record, of an account.
func (u *unit) request(account, request string) (*running, *settled, error) {
	if _, known := u.running[request]; !known {
		if err := u.read(nil, nil, []requestID{{account, request}}); err != nil {
			return nil, nil, err
		}
	}
	r := u.running[request]
	if r.request() == nil {
		r = nil
	}
	if r != nil && r.line == nil {
		var err error
		if r.line, err = u.line(r.Account, r.Key); err != nil {
			return nil, nil, err
		}
	}
	return r, u.settled[request], nil
}

// finish writes what the operations have changed, and commits. confirm is set where a commit with the same operations
// may have happened already, of which nobody knows whether its standby has it: something is written then even if all
// was done, for only a commit that writes waits for the standby.
func (u *unit) finish(confirm bool) error {
	var b pgx.Batch
	if confirm || u.repeats {
		b.Queue(`UPDATE nodes SET touched = touched + 1 WHERE node = $1`, u.s.o.BootID).Exec(
			func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() == 0 {
					return lapsed()
				}
				return nil
			})
	}
	changed := u.changedRows()
	if b.Len() > 0 || len(u.changed) > 0 || !isPreparing(u.conn) {
		for _, c := range changed {
			b.Queue(c.sql, c.args...)
		}
		for _, write := range u.changed {
			write(&b)
		}
		if b.Len() > 0 {
			if err := u.conn.SendBatch(u.ctx, &b).Close(); err != nil {
				return explainRefusal(err)
			}
		}
		changed = nil
	}
	if err := u.added.execute(u.ctx, u.conn, changed); err != nil {
		return err
	}
	u.addRows()
	if b.Len() == 0 && len(u.added.messages) == 0 {
		_, err := u.conn.Exec(u.ctx, `ROLLBACK`)
		return err
	}
	look := ""
	if u.s.o.NeedsStandby {
		look = waitedSince(u.clock)
	}
	return commit(u.conn, u.added, look)
}

// held is a request that this process holds: who pays for it, and, for its lane alone, how it is committed (nil: to be
// read).
type held struct {
	keyID
	running *book.Running
}

// recall takes requests from memory that this process holds, so that nothing has to be read of them. Their rows are
// looked at when they are deleted.
func (u *unit) recall(request string) bool {
	kept, is := u.s.held.Load(request)
	if !is {
		return false
	}
	h, _ := kept.(*held)
	if h.running == nil {
		return false
	}
	n := int64(len(h.running.Attempts))
	r := &running{Running: *h.running, rows: max(1, n), numbers: n * (n + 1) / 2, recalled: true}
	r.Attempts = slices.Clone(h.running.Attempts)
	u.running[request], u.settled[request] = r, nil
	return true
}

// remember keeps what is committed of the requests that this process holds.
func (u *unit) remember() {
	for id, a := range u.accounts {
		if a != nil && a.payer != nil {
			u.s.payers.Store(id, a.payer.id.root)
		}
	}
	for _, r := range u.recorded {
		for i := range r.Attempts {
			u.s.unmade.Delete(r.Attempts[i].ID)
		}
	}
	for id, r := range u.running {
		kept, is := u.s.held.Load(id)
		if !is || r == nil || !r.dirty {
			continue
		}
		h, _ := kept.(*held)
		if h.running = nil; r.end == nil {
			h.running = &r.Running
		}
	}
}

// forget drops what is remembered of requests, whose rows may be others.
func (u *unit) forget() {
	for id := range u.running {
		if kept, is := u.s.held.Load(id); is {
			h, _ := kept.(*held)
			h.running = nil
		}
	}
}

// forgetAll drops what is remembered of rows, once the database is found to be another copy than it was. What is held
// stays known, and is read again; entries are replaced, for those there are their lanes'.
func (s *Store) forgetAll() {
	for _, m := range [...]*sync.Map{&s.roots, &s.payers, &s.settings, &s.prices} {
		m.Clear()
	}
	s.held.Range(func(request, kept any) bool {
		h, _ := kept.(*held)
		s.held.CompareAndSwap(request, kept, &held{keyID: h.keyID})
		return true
	})
}

// errInDoubt: nobody knows whether the commit is, or is where it has to be.
var errInDoubt = errors.New("whether it was committed is not known")

// commit writes what is added and commits, and looks behind that whether it waited for a standby, where there is to be
// one. The time that it takes is not bounded: who stops to wait for a standby makes a commit that a failover loses.
func commit(conn *pgx.Conn, added *writeBuffer, look string) error {
	notice := noticeOf(conn)
	notice.Store(nil)
	tag, waited, err := added.send(conn.PgConn(), `COMMIT`, look)
	switch {
	case err != nil:
		if isSaid(err) {
			if added.copies > 0 { // PgBouncer keeps a connection for ever on which a copy has failed (its #1470)
				hangUp(conn)
			}
			return explainRefusal(err)
		}
		return fmt.Errorf("%w: %w", errInDoubt, err)
	case tag.String() != "COMMIT":
		return fmt.Errorf("%w: the transaction was taken back", ledger.ErrUnavailable)
	case look != "" && !waited:
		return fmt.Errorf("%w: the server may have stopped waiting for a standby meanwhile", errInDoubt)
	}
	if said := notice.Load(); said != nil {
		return fmt.Errorf("%w: %s", errInDoubt, said.Message)
	}
	return nil
}
