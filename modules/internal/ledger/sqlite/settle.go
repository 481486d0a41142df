package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Settle implements ledger.Store.
func (s *Store) Settle(ctx context.Context, st ledger.Settlement) (ledger.Charge, error) {
	var c ledger.Charge
	err := s.write(ctx, "settle", func(t *tx) (err error) {
		c, err = t.settle(&st)
		return err
	})
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("settling request %q: %w", st.Request, err)
	}
	return c, nil
}

func (t *tx) settle(st *ledger.Settlement) (ledger.Charge, error) {
	var none ledger.Charge
	if err := book.CheckSettlement(st); err != nil {
		return none, err
	}
	r, ok := t.live[st.Request]
	if !ok {
		return t.answerSettled(st.Request)
	}
	a, err := t.account(r.Account)
	if err != nil {
		return none, err
	}
	l, err := a.line(t.conn, r.key.root)
	if err != nil {
		return none, err
	}
	s, err := book.DecideSettlement(st, t.payer(a, l), &r.Running, t.unmade, t.now())
	if err != nil {
		return none, err
	}
	for _, left := range s.LeftOut {
		t.opts.Logger.Error(left.String(), "attempt", left.Attempt, "error", left.Err)
	}
	t.end(r)
	return s.Answer(), t.recordEnd(r, a, l, st, &s)
}

// recordEnd puts a request that has ended on record.
func (t *tx) recordEnd(r *running, a *account, l *keyLine, st *ledger.Settlement, s *book.Settled) error {
	if err := t.applyCharge(a, l, &s.Charged); err != nil {
		return err
	}
	t.settled.Add(r.ID)
	e := ended{r, st, s.Part, s.Pending, s.At, a.last}
	t.ends = append(t.ends, e)
	return t.unsummed.count(t.conn, &e)
}

// applyCharge writes what a part changes.
func (t *tx) applyCharge(a *account, l *keyLine, c *book.Charged) error {
	if c.Charge > 0 {
		before := l
		if a.payer != 0 {
			var err error
			if before, err = a.line(t.conn, a.payer); err != nil {
				return err
			}
		}
		t.changeLine(before)
		t.changeLine(l)
		l.Line = c.Line
		a.payer, a.owed = l.root, l.Spent-l.row
	}
	t.postEntry(a, c.Account, c.Entry)
	return nil
}

// ended is a request that was settled, whose row still is in holds and not yet in requests.
type ended struct {
	*running
	st *ledger.Settlement
	book.Part
	pending bool
	settled time.Time
	entry   int64 // where its charge lies
}

const insertRequest = `INSERT OR FAIL INTO requests (id, account, key, owner, endpoint, profile, hold, status, ` +
	`reason, free, service_limit,
	surcharge, charge, waived, tokens, refunded, pending, created, settled, entry, over)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`

func bindRequest(row *rows, e *ended) {
	row.text(e.ID)
	row.number(e.key.account, e.key.n)
	row.usual(e.Owner, e.Endpoint, e.Profile)
	row.number(e.Held, int64(e.st.Status))
	row.usual(e.st.Reason)
	row.number(boolToInt(e.st.Free), boolToInt(e.st.ServiceLimit), e.st.Surcharge, e.Charge, e.Waived, e.Tokens,
		boolToInt(e.pending), e.Created.UnixNano(), e.settled.UnixNano(), e.entry, e.Over)
}

// made is an attempt of a request that was settled.
type made struct {
	*book.Attempt
	request string
	seq     int64
}

const insertAttempt = `INSERT OR FAIL INTO attempts (request, seq, route, provider, model, price_version, outcome,
	input, cache_read, cache_write, output, reasoning, estimated, created, receipt, worst, estimate_input, estimate_output,
	provider_key, operator)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?)`

func bindAttempt(row *rows, a *made) {
	row.text(a.request)
	row.number(a.seq)
	row.usual(a.Route, a.Provider, a.Model)
	row.number(a.PriceVersion)
	row.usual(string(a.Outcome))
	row.count(a.Usage.Input, a.Usage.CacheRead, a.Usage.CacheWrite, a.Usage.Output, a.Usage.Reasoning)
	row.number(boolToInt(a.Usage.Estimated), a.Created.UnixNano())
	row.worst(a.Worst)
	row.estimate(a.Estimate)
	row.usual(a.Key)
	row.truth(a.Operator)
}

// flushEnds moves the requests that were settled from holds to requests and attempts, in the order of their ids:
// that is where they lie.
func (t *tx) flushEnds() error {
	slices.SortFunc(t.ends, func(a, b ended) int { return strings.Compare(a.ID, b.ID) })
	attempts, numbers := make([]made, 0, len(t.ends)), make([]int64, 0, len(t.ends))
	for i := range t.ends {
		r := t.ends[i].running
		for seq := r.from(); seq <= len(r.Attempts); seq++ {
			a := r.row(seq)
			if a.Row.N > 0 { // else it had no row in holds yet
				numbers = append(numbers, a.Row.N)
			}
			if seq > 0 {
				attempts = append(attempts, made{a, r.ID, int64(seq)})
			}
		}
		if err := t.ends[i].wait(t.conn); err != nil {
			return err
		}
	}
	if err := t.deleteHolds(numbers); err != nil {
		return err
	}
	if err := insert(t.stmts.insertRequest, t.ends, bindRequest); err != nil {
		return err
	}
	return insert(t.stmts.insertAttempt, attempts, bindAttempt)
}

// wait records the attempts that wait for a receipt.
func (e *ended) wait(conn *sqlite.Conn) error {
	for i := range e.Attempts {
		a := &e.Attempts[i]
		if !e.pending || !a.Waits() {
			continue
		}
		err := run(conn, `INSERT INTO waiting (provider, created, request, seq, route, reference)
			VALUES (?, ?, ?, ?, ?, nullif(?, ''))`, nil, a.Provider, a.Created, e.ID, i+1, a.Route, a.Reference)
		if err != nil {
			return err
		}
	}
	return nil
}

// answerSettled is the answer to a settlement of a request that does not run.
func (t *tx) answerSettled(id string) (ledger.Charge, error) {
	r, found, err := t.settledRequest(id)
	switch {
	case err != nil:
		return ledger.Charge{}, err
	case !found:
		return ledger.Charge{}, book.NoRequest()
	}
	a, err := t.account(r.Account)
	if err != nil {
		return ledger.Charge{}, err
	}
	return r.Answer(a.Balance), nil
}

// settledRequest is the part of a settled request's row that later operations need.
type settledRequest struct {
	book.Request
	key int64
}

func (t *tx) settledRequest(id string) (s settledRequest, found bool, err error) {
	if t.settled.IsNew(id) {
		return s, false, nil
	}
	err = t.query(`SELECT a.id, r.key, r.service_limit, r.surcharge, r.charge, r.waived, r.refunded, r.pending, r.hold, `+
		`r.over
		FROM requests AS r JOIN accounts AS a ON a.n = r.account WHERE r.id = ?`, func(row *sqlite.Stmt) error {
		found = true
		s.ID = id
		readColumns(row, 0, &s.Account, &s.key, &s.ServiceLimit, &s.Surcharge, &s.Charge, &s.Waived, &s.Refunded, &s.Pending,
			&s.Held, &s.Over)
		return nil
	}, id)
	return s, found, err
}
