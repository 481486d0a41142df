package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Waiting implements ledger.Store. When the attempt with the id after is not known any more, the list begins
// with the first.
func (s *Store) Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	var all []ledger.Waiting
	err := s.read(ctx, "waiting", func(conn *sqlite.Conn) error {
		request, seq, _ := ledger.ParseAttemptID(after)
		begun := int64(-1 << 63)
		err := run(conn, `SELECT created FROM attempts WHERE request = ? AND seq = ?`, func(row *sqlite.Stmt) error {
			begun = row.ColumnInt64(0)
			return nil
		}, request, seq)
		if err != nil {
			return err
		}
		return run(conn, `SELECT w.request, w.seq, w.route, w.created, w.reference, a.provider_key
			FROM waiting AS w CROSS JOIN attempts AS a ON a.request = w.request AND a.seq = w.seq
			WHERE w.provider = ? AND (w.created, w.request, w.seq) > (?, ?, ?)
			ORDER BY w.created, w.request, w.seq LIMIT ?`,
			func(row *sqlite.Stmt) error {
				all = append(all, ledger.Waiting{
					Attempt:   ledger.AttemptID(row.ColumnText(0), row.ColumnInt64(1)),
					Route:     row.ColumnText(2),
					Created:   columnTime(row, 3),
					Reference: row.ColumnText(4),
					Key:       row.ColumnText(5),
				})
				return nil
			}, provider, begun, request, seq, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing attempts that wait for a receipt: %w", err)
	}
	return all, nil
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
	if err != nil {
		return nil, fmt.Errorf("counting attempts that wait for a receipt: %w", err)
	}
	return waiting, nil
}

// waits reports whether a receipt may add to the attempt.
func (a *attempt) waits() bool { return a.outcome == ledger.Unproven && a.receipt.IsZero() }

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
	if r, ok := t.live[request]; ok && seq <= int64(len(r.attempts)) {
		a, err := t.account(r.account)
		if err != nil {
			return c, false, err
		}
		return ledger.Charge{Balance: a.Balance}, false, nil // its settlement will say
	}
	r, found, err := t.settledRequest(request)
	if err != nil {
		return c, false, err
	}
	attempts, err := t.attemptsOf(request)
	switch {
	case err != nil:
		return c, false, err
	case !found || seq > int64(len(attempts)):
		return c, false, fmt.Errorf("%w: no attempt has this id", ledger.ErrNotFound)
	}
	a, err := t.account(r.account)
	if err != nil {
		return c, false, err
	}
	this := &attempts[seq-1]
	if !r.pending || !this.waits() {
		return r.result(a), false, nil
	}
	l, err := t.lineOf(a, r.key)
	if err != nil {
		return c, false, err
	}
	if !usage.Known() {
		return c, false, fmt.Errorf("%w: the receipt says nothing", ledger.ErrUsage)
	}
	this.usage, this.receipt = usage, t.now()
	p, err := t.prove(a, l, &r, attempts, this, ledger.Receipt)
	if err != nil {
		return c, false, err
	}
	c = r.result(a)
	c.Added, c.OverAdded = p.charge, p.over
	return c, true, nil
}

// prove adds to a settled request what one of its attempts is now known, or taken, to have used: kind is why. What it
// adds is at most that attempt's worst, and with what the request is charged already at most its hold (GAP-123).
func (t *tx) prove(a *account, l *line, r *settledRequest, attempts []attempt, this *attempt, kind ledger.EntryKind) (
	p part, err error,
) {
	due, err := billOf(attempts, r.surcharge)
	if err != nil {
		return p, err
	}
	ceiling, prices := max(0, r.hold-r.charge-r.waived), ""
	if this.Worst >= 0 {
		ceiling = min(ceiling, this.Worst)
	}
	if this.usage.Known() {
		p = t.judge(a, r.serviceLimit, due.microcents-r.charge-r.waived-r.over, ceiling, tokens(this.usage))
		prices = this.priceName()
	}
	now, detail := this.receipt, this.record()
	if kind == ledger.Closing {
		now = t.now()
	}
	err = t.charge(a, l, p, ledger.Entry{
		Kind: kind, Request: r.id, Prices: prices, Created: now, Detail: detail.Detail(),
	})
	if err != nil {
		return p, err
	}
	r.charge, r.waived, r.over, r.pending = r.charge+p.charge, r.waived+p.waived, r.over+p.over, due.Pending
	request, seq, _ := ledger.ParseAttemptID(this.ID)
	err = t.resum(r.id, func() error {
		err := t.exec(`UPDATE requests SET charge = ?, waived = ?, over = ?, tokens = tokens + ?, pending = ? WHERE id = ?`,
			r.charge, r.waived, r.over, p.tokens, r.pending, r.id)
		if err != nil {
			return err
		}
		u := this.usage
		return t.exec(`UPDATE attempts SET outcome = ?, input = ?, cache_read = ?, cache_write = ?, output = ?,
			reasoning = ?, estimated = ?, receipt = ? WHERE request = ? AND seq = ?`,
			string(this.outcome), u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, u.Estimated,
			optionalTime(this.receipt), request, seq)
	})
	if err != nil {
		return p, err
	}
	return p, t.exec(`DELETE FROM waiting WHERE provider = ? AND created = ? AND request = ? AND seq = ?`,
		this.Provider, this.created, request, seq)
}

// lineOf finds the line of a key by the key's number.
func (t *tx) lineOf(a *account, key int64) (*line, error) {
	var root int64
	err := run(t.conn, `SELECT root FROM keys WHERE n = ?`, func(row *sqlite.Stmt) error {
		root = row.ColumnInt64(0)
		return nil
	}, key)
	if err != nil {
		return nil, err
	}
	return a.line(t.conn, root)
}

// attemptsOf reads the attempts of a settled request, in their order.
func (t *tx) attemptsOf(request string) ([]attempt, error) {
	var all []attempt
	err := t.query(`SELECT seq, route, provider, model, price_version, outcome,
		input, cache_read, cache_write, output, reasoning, estimated, created, receipt,
		worst, estimate_input, estimate_output, provider_key, operator
		FROM attempts WHERE request = ? ORDER BY seq`, func(row *sqlite.Stmt) error {
		a := attempt{
			Attempt: ledger.Attempt{
				ID:           ledger.AttemptID(request, row.ColumnInt64(0)),
				Route:        row.ColumnText(1),
				Provider:     row.ColumnText(2),
				Model:        row.ColumnText(3),
				PriceVersion: row.ColumnInt64(4),
				Worst:        columnWorst(row, 14),
				Key:          row.ColumnText(17),
			},
			outcome: ledger.Outcome(row.ColumnText(5)),
			usage: llm.Usage{
				Input:      columnCount(row, 6),
				CacheRead:  columnCount(row, 7),
				CacheWrite: columnCount(row, 8),
				Output:     columnCount(row, 9),
				Reasoning:  columnCount(row, 10),
				Estimated:  row.ColumnBool(11),
			},
			created:  columnTime(row, 12),
			receipt:  columnOptionalTime(row, 13),
			estimate: columnEstimate(row, 15),
			operator: row.ColumnBool(18),
		}
		var err error
		a.tariff, err = t.price(t.conn, a.Route, a.PriceVersion)
		all = append(all, a)
		return err
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
	type waiting struct {
		request string
		seq     int64
	}
	var all []waiting
	// The providers are read from the index one by one: there are few, and of each only what is old is looked at.
	err := t.query(`WITH RECURSIVE used(provider) AS (
			SELECT min(provider) FROM waiting
			UNION ALL SELECT (SELECT min(provider) FROM waiting WHERE provider > used.provider) FROM used WHERE provider IS `+
		`NOT NULL
		) SELECT w.request, w.seq FROM used CROSS JOIN waiting AS w
		ON w.provider = used.provider AND w.created < ? LIMIT ?`, func(row *sqlite.Stmt) error {
		all = append(all, waiting{row.ColumnText(0), row.ColumnInt64(1)})
		return nil
	}, before, closeBatch)
	if err != nil {
		return closed, err
	}
	for _, w := range all {
		if err := t.closeOne(w.request, w.seq, &closed); err != nil {
			return closed, err
		}
	}
	closed.Attempts = int64(len(all))
	return closed, nil
}

// closeOne closes an attempt that waits, at its estimate, and adds what that comes to.
func (t *tx) closeOne(request string, seq int64, closed *ledger.Closings) error {
	r, found, err := t.settledRequest(request)
	if err != nil {
		return err
	}
	attempts, err := t.attemptsOf(request)
	switch {
	case err != nil:
		return err
	case !found || seq > int64(len(attempts)):
		return fmt.Errorf("%w: attempt %d of request %q, which waits", ledger.ErrNotFound, seq, request)
	}
	a, err := t.account(r.account)
	if err != nil {
		return err
	}
	l, err := t.lineOf(a, r.key)
	if err != nil {
		return err
	}
	this := &attempts[seq-1]
	this.outcome = ledger.Closed
	if this.estimate != nil {
		this.usage = *this.estimate
	}
	p, err := t.prove(a, l, &r, attempts, this, ledger.Closing)
	if p.charge > 0 {
		closed.Charged[this.Route] += p.charge
	}
	if p.over > 0 {
		closed.Over[this.Route] += p.over
	}
	if err == nil && p.over > 0 {
		t.opts.Logger.Warn("an attempt was closed at less than its estimate, which is more than was held for it",
			"attempt", this.ID, "route", this.Route, "over_microcents", p.over)
	}
	return err
}
