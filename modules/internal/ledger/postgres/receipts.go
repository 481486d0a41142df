package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// AddReceipt implements ledger.Store.
func (s *Store) AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (
	_ ledger.Charge, _ bool, err error,
) {
	var c ledger.Charge
	var applied bool
	request, seq, _ := ledger.ParseAttemptID(attempt)
	p, err := s.payerOf(ctx, request)
	switch {
	case err == nil:
		op := p.about(request)
		op.alone = true
		op.run = func(u *unit) (err error) {
			c, applied, err = u.addReceipt(p.account, request, seq, usage)
			return err
		}
		err = s.perform(ctx, "receipt", op)
	case isNotFound(err):
		err = book.NoAttempt()
	}
	if err != nil {
		return ledger.Charge{}, false, fmt.Errorf("adding the receipt of attempt %q: %w", attempt, err)
	}
	return c, applied, nil
}

func (u *unit) addReceipt(account, request string, seq int64, usage llm.Usage) (c ledger.Charge, applied bool,
	err error) {
	r, on, err := u.request(account, request)
	if err != nil {
		return c, false, err
	}
	if r != nil && seq <= int64(len(r.Attempts)) {
		a, err := u.look(account)
		if err != nil {
			return c, false, err
		}
		return ledger.Charge{Balance: a.Balance}, false, nil
	}
	if on == nil {
		return c, false, book.NoAttempt()
	}
	a, p, err := u.payerOf(on)
	if err != nil {
		return c, false, err
	}
	proven, taken, err := book.DecideReceipt(p, &on.Request, on.attempts, seq, usage, u.now)
	switch {
	case err != nil:
		return c, false, err
	case !taken:
		u.repeats = true
		return on.Answer(a.Balance), false, nil
	}
	u.prove(a, on, &proven, seq)
	c = on.Answer(a.Balance)
	c.Added, c.OverAdded = proven.Charge, proven.Over
	return c, true, nil
}

// payerOf is who pays for a settled request, whose attempts are read.
func (u *unit) payerOf(on *settled) (*account, book.Payer, error) {
	a, err := u.look(on.Account)
	if err != nil {
		return nil, book.Payer{}, err
	}
	if on.line, err = u.line(on.Account, on.key); err != nil {
		return nil, book.Payer{}, err
	}
	return a, u.payer(a, on.line), u.readAttempts(on)
}

// prove writes what a receipt or a closing has changed.
func (u *unit) prove(a *account, on *settled, p *book.Proven, seq int64) {
	on.Request, on.attempts[seq-1] = p.Request, p.Attempt
	on.tokens += p.Tokens
	u.charge(a, on.line, &p.Charged)
	u.write(`UPDATE requests SET charge = $3, waived = $4, over = $5, pending = $6, tokens = $7
		WHERE account = $1 AND request = $2`, on.Account, on.ID, on.Charge, on.Waived, on.Over, on.Pending, on.tokens)
	use := &p.Attempt.Usage
	u.write(`UPDATE attempts SET outcome = $4, input = $5, cache_read = $6, cache_write = $7, output = $8, reasoning = $9,
		estimated = $10, receipt = $11 WHERE account = $1 AND request = $2 AND seq = $3`, on.Account, on.ID, seq,
		string(p.Attempt.Outcome), use.Input, use.CacheRead, use.CacheWrite, use.Output, use.Reasoning, use.Estimated,
		optionalTime(p.Attempt.Receipt))
	u.write(`DELETE FROM waiting WHERE account = $1 AND request = $2 AND seq = $3`, on.Account, on.ID, seq)
}

// Waiting implements ledger.Store.
func (s *Store) Waiting(ctx context.Context, provider, after string, limit int) (all []ledger.Waiting, err error) {
	request, seq, _ := ledger.ParseAttemptID(after)
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var w ledger.Waiting
		var created int64
		err := row.Scan(&request, &seq, &w.Route, &created, &w.Reference, &w.Key)
		w.Attempt, w.Created = ledger.AttemptID(request, seq), moment(created)
		all = append(all, w)
		return err
	}, `SELECT w.request, w.seq, w.route, w.created, w.reference, w.provider_key FROM waiting AS w
		WHERE w.provider = $1 AND (w.created, w.request, w.seq) >
			(coalesce((SELECT t.created FROM attempts AS t WHERE t.request = $2 AND t.seq = $3 LIMIT 1), -1), $2, $3)
		ORDER BY w.created, w.request, w.seq LIMIT $4`, provider, request, seq, limit)
	if err != nil {
		return nil, fmt.Errorf("listing what waits for receipts: %w", unavailable(err))
	}
	return all, nil
}

// CountWaiting implements ledger.Store.
func (s *Store) CountWaiting(ctx context.Context) (map[string]int64, error) {
	count := map[string]int64{}
	err := queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var provider string
		var n int64
		err := row.Scan(&provider, &n)
		count[provider] = n
		return err
	}, `SELECT provider, count(*) FROM waiting GROUP BY provider`)
	if err != nil {
		return nil, fmt.Errorf("counting what waits for receipts: %w", unavailable(err))
	}
	return count, nil
}

// CloseUnproven implements ledger.Store.
func (s *Store) CloseUnproven(ctx context.Context, before time.Time) (ledger.Closings, error) {
	closed := ledger.Closings{Charged: map[string]int64{}, Over: map[string]int64{}}
	type attempt struct {
		requestID
		seq   int64
		route string
	}
	var due []attempt
	err := queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var a attempt
		err := row.Scan(&a.account, &a.request, &a.seq, &a.route)
		due = append(due, a)
		return err
	}, `SELECT account, request, seq, route FROM waiting WHERE created < $1 ORDER BY created, request, seq`,
		before.UnixNano())
	for _, w := range due {
		if err != nil {
			break
		}
		var charged, over int64
		done := false
		op := &operation{account: w.account, request: []requestID{w.requestID}, alone: true}
		op.run = func(u *unit) error {
			done = false
			_, on, err := u.request(w.account, w.request)
			if err != nil || on == nil {
				return err
			}
			a, p, err := u.payerOf(on)
			if err != nil || !on.attempts[w.seq-1].Waits() {
				return err
			}
			proven, err := book.DecideClosing(p, &on.Request, on.attempts, w.seq, u.now)
			if err != nil {
				return err
			}
			u.prove(a, on, &proven, w.seq)
			charged, over, done = proven.Charge, proven.Over, true
			return nil
		}
		if err = s.perform(ctx, "close_unproven", op); err != nil || !done {
			continue
		}
		closed.Attempts++
		if charged > 0 {
			closed.Charged[w.route] += charged
		}
		if over > 0 {
			closed.Over[w.route] += over
		}
	}
	if err != nil {
		return closed, fmt.Errorf("closing attempts that nobody has proven: %w", unavailable(err))
	}
	return closed, nil
}
