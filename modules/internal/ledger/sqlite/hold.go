package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Hold implements ledger.Store.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	var b ledger.Balance
	err := s.perform(ctx, "hold", h.Request, "", func(t *tx) (err error) {
		b, err = t.hold(&h)
		return err
	})
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("holding credits for request %q: %w", h.Request, err)
	}
	return b, nil
}

func (t *tx) hold(h *ledger.Hold) (ledger.Balance, error) {
	var none ledger.Balance
	if err := checkHold(h); err != nil {
		return none, err
	}
	if h.Microcents > 0 {
		if err := t.undecided(); err != nil {
			return none, err
		}
	}
	a, err := t.payer(h.Account, h.Key)
	if err != nil {
		return none, err
	}
	if r, ok := t.live[h.Request]; ok {
		if r.account != h.Account {
			return none, fmt.Errorf("%w: a request of another account with this id, which is running", ledger.ErrExists)
		}
		return a.Balance, nil
	}
	if _, found, err := t.settledRequest(h.Request); err != nil || found {
		if err == nil {
			err = fmt.Errorf("%w: a request with this id, which is settled", ledger.ErrExists)
		}
		return none, err
	}
	key, line, err := t.line(a, h.Key)
	if err != nil {
		return none, err
	}
	var next attempt
	if h.Attempt.ID != "" {
		if next, err = t.priced(h.Attempt); err != nil {
			return none, err
		}
	}
	need := need{microcents: h.Microcents, tokens: h.Tokens, others: t.heldBy[key.root]}
	if err := admit(a, line, t.opts.terms(a), need); err != nil {
		return none, err
	}
	if h.Headroom > 1 {
		need.microcents, need.tokens = times(h.Headroom, h.Microcents), times(h.Headroom, h.Tokens)
		if err := admit(a, line, t.opts.terms(a), need); err != nil {
			return none, err
		}
	}
	r := &running{
		id: h.Request, account: a.id, key: key, owner: t.opts.BootID,
		endpoint: h.Endpoint, profile: h.Profile, hold: h.Microcents,
	}
	a.Held += h.Microcents
	t.live[r.id] = r
	if h.Attempt.ID != "" {
		t.begin(r, next, h.Microcents)
	} else {
		t.open(r, h.Microcents)
	}
	return a.Balance, nil
}

func checkHold(h *ledger.Hold) error {
	switch {
	case h.Request == "" || h.Microcents < 0 || h.Tokens < 0 || h.Headroom < 0:
		return fmt.Errorf("%w: a hold needs a request id and amounts that are not negative", ledger.ErrInvalid)
	case h.Attempt != ledger.Attempt{} && !isAttempt(h.Attempt.ID, h.Request, 1):
		return fmt.Errorf("%w: attempt %q; the first attempt of this request is %q",
			ledger.ErrInvalid, h.Attempt.ID, ledger.AttemptID(h.Request, 1))
	}
	return nil
}

// isAttempt is id == ledger.AttemptID(request, seq), without making that for the first nine.
func isAttempt(id, request string, seq int64) bool {
	if n := len(request); seq < 10 && len(id) == n+2 {
		return id[:n] == request && id[n] == '.' && id[n+1] == byte('0'+seq)
	}
	return id == ledger.AttemptID(request, seq)
}

// Begin implements ledger.Store.
func (s *Store) Begin(ctx context.Context, n ledger.Next) error {
	err := s.perform(ctx, "begin", "", n.Attempt.ID, func(t *tx) error { return t.next(&n) })
	if err != nil {
		return fmt.Errorf("beginning an attempt of request %q: %w", n.Request, err)
	}
	return nil
}

func (t *tx) next(n *ledger.Next) error {
	if n.Microcents < 0 || n.Tokens < 0 {
		return fmt.Errorf("%w: an attempt needs amounts that are not negative", ledger.ErrInvalid)
	}
	r, ok := t.live[n.Request]
	if !ok {
		return fmt.Errorf("%w: a running request with this id", ledger.ErrNotFound)
	}
	a, err := t.account(r.account)
	if err != nil {
		return err
	}
	for i := range r.attempts {
		if r.attempts[i].ID == n.Attempt.ID {
			return nil
		}
	}
	seq := int64(len(r.attempts)) + 1
	if !isAttempt(n.Attempt.ID, r.id, seq) {
		return fmt.Errorf("%w: attempt %q; the next attempt of this request is %q",
			ledger.ErrInvalid, n.Attempt.ID, ledger.AttemptID(r.id, seq))
	}
	next, err := t.priced(n.Attempt)
	if err != nil {
		return err
	}
	next.beside = n.Beside
	line, err := a.line(t.conn, r.key.root)
	if err != nil {
		return err
	}
	terms, more := t.opts.terms(a), n.Microcents-r.hold
	need := need{microcents: n.Microcents, tokens: n.Tokens, held: r.hold, others: t.heldBy[r.key.root] - r.hold}
	if more > 0 {
		err = admit(a, line, terms, need)
	} else { // what is held already needs nothing of what is available
		err = within(a, line, terms, need)
	}
	if err != nil {
		return err
	}
	if more > 0 {
		a.Held += more
		r.hold += more
		t.raise(r.key, more)
		first := r.first()
		t.holds.marks -= first.mark
		first.mark = t.mark(r, r.from(), r.hold)
		t.holds.marks += first.mark
		if err := t.exec(`UPDATE holds SET hold = ? WHERE n = ?`, r.hold, first.n); err != nil {
			return err
		}
	}
	t.begin(r, next, 0)
	return nil
}

// Check implements ledger.Store. It asks the writer only when a period has to be ended first.
func (s *Store) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	if microcents < 0 || tokens < 0 {
		return fmt.Errorf("checking an account: %w: an amount that is negative", ledger.ErrInvalid)
	}
	overdue := false
	err := s.read(ctx, "check", func(conn *sqlite.Conn) error {
		a, k, l, err := findPayer(conn, accountHeld, account, key)
		if err != nil {
			return err
		}
		if overdue = s.opts.overdue(a); overdue {
			return nil
		}
		need := need{microcents: microcents, tokens: tokens}
		if l.cap > 0 {
			if need.others, err = heldByLine(conn, k); err != nil {
				return err
			}
		}
		return admit(a, l, s.opts.terms(a), need)
	})
	if err == nil && overdue {
		err = s.write(ctx, "check", func(t *tx) error {
			a, err := t.account(account)
			if err != nil {
				return err
			}
			k, l, err := t.line(a, key)
			if err != nil {
				return err
			}
			return admit(a, l, s.opts.terms(a), need{
				microcents: microcents, tokens: tokens, others: t.heldBy[k.root],
			})
		})
	}
	if err != nil {
		return fmt.Errorf("checking an account: %w", err)
	}
	return nil
}

// heldByLine is what a key and those that it shares its cap with hold. Like accountHeld it reads all running requests.
func heldByLine(conn *sqlite.Conn, k keyRef) (held int64, err error) {
	err = run(conn, `SELECT coalesce(sum(h.hold), 0) FROM holds AS h JOIN keys AS k ON k.n = h.key
		WHERE h.account = ? AND k.root = ?`,
		func(row *sqlite.Stmt) error {
			held = row.ColumnInt64(0)
			return nil
		}, k.account, k.root)
	return held, err
}

// findPayer reads an account, one of its keys and that key's line at one moment, beginning with the key: it is the only
// one to be looked for by its text. held is accountHeld or heldInMemory.
func findPayer(conn *sqlite.Conn, held, accountID, keyID string) (a *account, k keyRef, l *line, err error) {
	err = run(conn, `SELECT `+accountColumns+`, r.n, r.spend_cap, r.spent + iif(b.line = r.n, b.line_spent, 0), `+
		`r.spent_before, k.n, `+held+`
		FROM keys AS k CROSS JOIN accounts AS a ON a.n = k.account CROSS JOIN balances AS b ON b.n = k.account
		CROSS JOIN keys AS r ON r.n = k.root WHERE k.id = ? AND +a.id = ?`,
		func(row *sqlite.Stmt) error {
			a, l = scanRow(row), scanLine(row, accountWidth)
			k = keyRef{n: row.ColumnInt64(accountWidth + 4), id: keyID, account: a.n, root: l.root}
			a.Held = row.ColumnInt64(accountWidth + 5)
			return nil
		}, keyID, accountID)
	if err == nil && a == nil {
		err = fmt.Errorf("%w: key %q of account %q", ledger.ErrNotFound, keyID, accountID)
	}
	return a, k, l, err
}
