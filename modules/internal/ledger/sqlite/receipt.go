package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// Waiting implements ledger.Store. When the attempt with the id after is not known any more, the list begins
// with the first.
func (s *Store) Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	var all []ledger.Waiting
	err := s.read(ctx, "waiting", func(conn *sqlite.Conn) error {
		request, seq, _ := ledger.ParseAttemptID(after)
		begun := int64(-1 << 63)
		err := run(conn, `SELECT created FROM attempts WHERE request = ? AND seq = ?`, to(&begun), request, seq)
		if err != nil {
			return err
		}
		return run(conn, `SELECT w.request, w.seq, w.route, w.created, w.reference, a.provider_key
			FROM waiting AS w CROSS JOIN attempts AS a ON a.request = w.request AND a.seq = w.seq
			WHERE w.provider = ? AND (w.created, w.request, w.seq) > (?, ?, ?)
			ORDER BY w.created, w.request, w.seq LIMIT ?`,
			appendTo(&all, func(row *sqlite.Stmt) (w ledger.Waiting) {
				w.Attempt = ledger.AttemptID(row.ColumnText(0), row.ColumnInt64(1))
				readColumns(row, 2, &w.Route, &w.Created, &w.Reference, &w.Key)
				return w
			}), provider, begun, request, seq, limit)
	})
	return wrapResult(all, err, "listing attempts that wait for a receipt")
}

// CountWaiting implements ledger.Store. It reads the whole table, which has only what waits.
func (s *Store) CountWaiting(ctx context.Context) (map[string]int64, error) {
	waiting := make(map[string]int64)
	err := s.chore(ctx, "count_waiting", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT provider, count(*) FROM waiting GROUP BY provider`, func(row *sqlite.Stmt) error {
			waiting[row.ColumnText(0)] = row.ColumnInt64(1)
			return nil
		})
	})
	return wrapResult(waiting, err, "counting attempts that wait for a receipt")
}

// AddReceipt implements ledger.Store.
func (s *Store) AddReceipt(ctx context.Context, id string, usage llm.Usage) (c ledger.Charge, applied bool, err error) {
	err = s.write(ctx, "add_receipt", func(t *tx) (err error) {
		c, applied, err = t.addReceipt(id, usage)
		return err
	})
	if err != nil {
		return ledger.Charge{}, false, fmt.Errorf("adding a receipt for attempt %q: %w", id, err)
	}
	return c, applied, nil
}

func (t *tx) addReceipt(id string, usage llm.Usage) (c ledger.Charge, applied bool, err error) {
	request, seq, ok := ledger.ParseAttemptID(id)
	if !ok {
		return c, false, fmt.Errorf("%w: it is no attempt's id", ledger.ErrNotFound)
	}
	if r, ok := t.live[request]; ok && seq <= int64(len(r.Attempts)) {
		a, err := t.account(r.Account)
		if err != nil {
			return c, false, err
		}
		return ledger.Charge{Balance: a.Balance}, false, nil // its settlement will say
	}
	s, err := t.readSettled(request)
	switch {
	case err != nil:
		return c, false, err
	case s == nil:
		return c, false, book.NoAttempt()
	}
	p, taken, err := book.DecideReceipt(t.payer(s.account, s.line), &s.Request, s.attempts, seq, usage, t.now())
	switch {
	case err != nil:
		return c, false, err
	case !taken:
		return s.Answer(s.account.Balance), false, nil
	}
	c = p.Request.Answer(p.Account.Balance)
	c.Added, c.OverAdded = p.Charge, p.Over
	return c, true, t.applyProof(s, &p)
}

// onRecord is what a receipt or a closing needs of a settled request.
type onRecord struct {
	settledRequest
	account  *account
	line     *keyLine
	attempts []book.Attempt
}

// readSettled reads a settled request; nil where there is none.
func (t *tx) readSettled(request string) (s *onRecord, err error) {
	r, found, err := t.settledRequest(request)
	if err != nil || !found {
		return nil, err
	}
	s = &onRecord{settledRequest: r}
	if s.attempts, err = t.attemptsOf(r.ID); err != nil {
		return nil, err
	}
	if s.account, err = t.account(r.Account); err != nil {
		return nil, err
	}
	s.line, err = t.lineOf(s.account, r.key)
	return s, err
}

// applyProof writes what a receipt or a closing changes.
func (t *tx) applyProof(s *onRecord, p *book.Proven) error {
	if err := t.applyCharge(s.account, s.line, &p.Charged); err != nil {
		return err
	}
	r, this := &p.Request, &p.Attempt
	request, seq, _ := ledger.ParseAttemptID(this.ID)
	err := t.resum(r.ID, func() error {
		err := t.exec(`UPDATE requests SET charge = ?, waived = ?, over = ?, tokens = tokens + ?, pending = ? WHERE id = ?`,
			r.Charge, r.Waived, r.Over, p.Tokens, r.Pending, r.ID)
		if err != nil {
			return err
		}
		u := this.Usage
		return t.exec(`UPDATE attempts SET outcome = ?, input = ?, cache_read = ?, cache_write = ?, output = ?,
			reasoning = ?, estimated = ?, receipt = ? WHERE request = ? AND seq = ?`,
			string(this.Outcome), u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, u.Estimated,
			optionalTime(this.Receipt), request, seq)
	})
	if err != nil {
		return err
	}
	return t.exec(`DELETE FROM waiting WHERE provider = ? AND created = ? AND request = ? AND seq = ?`,
		this.Provider, this.Created, request, seq)
}

// lineOf finds the line of a key by the key's number.
func (t *tx) lineOf(a *account, key int64) (*keyLine, error) {
	var root int64
	err := run(t.conn, `SELECT root FROM keys WHERE n = ?`, to(&root), key)
	if err != nil {
		return nil, err
	}
	return a.line(t.conn, root)
}

// attemptsOf reads the attempts of a settled request, in their order.
func (t *tx) attemptsOf(request string) ([]book.Attempt, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	var all []book.Attempt
	err := eachDetail(t.conn, `WHERE r.id = ?`, func(r *audit.Request) error {
		for _, a := range r.Attempts {
			p, err := t.price(t.conn, a.Route, a.PriceVersion)
			if err != nil {
				return err
			}
			a.Price, a.Cost = p.price, p.cost
			all = append(all, book.Attempt{AttemptRecord: a})
		}
		return nil
	}, request)
	return all, err
}

// closeBatch is how many attempts one transaction closes.
const closeBatch = 100

// CloseUnproven implements ledger.Store.
func (s *Store) CloseUnproven(ctx context.Context, before time.Time) (ledger.Closings, error) {
	all := ledger.Closings{Charged: map[string]int64{}, Over: map[string]int64{}}
	for more := true; more; {
		var batch ledger.Closings
		err := s.write(ctx, "close_unproven", func(t *tx) (err error) {
			batch, err = t.closeUnproven(before)
			return err
		})
		if err != nil {
			return all, fmt.Errorf("closing attempts without a receipt: %w", err)
		}
		all.Attempts += batch.Attempts
		for route, microcents := range batch.Charged {
			all.Charged[route] += microcents
		}
		for route, microcents := range batch.Over {
			all.Over[route] += microcents
		}
		more = batch.Attempts == closeBatch
	}
	return all, nil
}

func (t *tx) closeUnproven(before time.Time) (ledger.Closings, error) {
	closed := ledger.Closings{Charged: map[string]int64{}, Over: map[string]int64{}}
	var all []string // ids of attempts
	// The providers are read from the index one by one: there are few, and of each only what is old is looked at.
	err := t.query(`WITH RECURSIVE used(provider) AS (
			SELECT min(provider) FROM waiting
			UNION ALL SELECT (SELECT min(provider) FROM waiting WHERE provider > used.provider) FROM used WHERE provider IS `+
		`NOT NULL
		) SELECT w.request, w.seq FROM used CROSS JOIN waiting AS w
		ON w.provider = used.provider AND w.created < ? LIMIT ?`, appendTo(&all, func(row *sqlite.Stmt) string {
		return ledger.AttemptID(row.ColumnText(0), row.ColumnInt64(1))
	}), before, closeBatch)
	if err != nil {
		return closed, err
	}
	for _, id := range all {
		if err := t.closeOne(id, &closed); err != nil {
			return closed, err
		}
	}
	closed.Attempts = int64(len(all))
	return closed, nil
}

// closeOne closes an attempt that waits, at its estimate, and adds what that comes to.
func (t *tx) closeOne(id string, closed *ledger.Closings) error {
	request, seq, _ := ledger.ParseAttemptID(id)
	s, err := t.readSettled(request)
	switch {
	case err != nil:
		return err
	case s == nil || seq > int64(len(s.attempts)):
		return fmt.Errorf("%w: attempt %d of request %q, which waits", ledger.ErrNotFound, seq, request)
	}
	p, err := book.DecideClosing(t.payer(s.account, s.line), &s.Request, s.attempts, seq, t.now())
	if err != nil {
		return err
	}
	if p.Charge > 0 {
		closed.Charged[p.Attempt.Route] += p.Charge
	}
	if p.Over > 0 {
		closed.Over[p.Attempt.Route] += p.Over
		t.opts.Logger.Warn("an attempt was closed at less than its estimate, which is more than was held for it",
			"attempt", p.Attempt.ID, "route", p.Attempt.Route, "over_microcents", p.Over)
	}
	return t.applyProof(s, &p)
}
