package people

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TopUp is how an account tops itself up: where its balance is below Threshold, by Credits, as long as that is within
// Monthly in a month of UTC.
type TopUp struct {
	Account   string    `json:"account_id"`
	Active    bool      `json:"active"`
	Threshold int64     `json:"threshold_credits"`
	Credits   int64     `json:"credits"`
	Monthly   int64     `json:"monthly_credits"`
	Amount    int64     `json:"amount,omitempty"` // what one costs, as its owner agreed to
	Currency  string    `json:"currency,omitempty"`
	Customer  string    `json:"-"`                // Stripe's
	Method    string    `json:"-"`                // Stripe's; "": nobody has consented
	Card      string    `json:"method,omitempty"` // for people
	Failures  int64     `json:"failures,omitempty"`
	Next      time.Time `json:"next,omitzero"` // it is not tried before
	Why       string    `json:"why,omitempty"` // it is not active, or what failed last
	By        string    `json:"by,omitempty"`
	Changed   time.Time `json:"changed,omitzero"`
}

const (
	// maxTopUpFailures is after how many failures in a row it ends.
	maxTopUpFailures = 3
	// retryTopUp is how long it waits after the first failure, and twice as long after the second.
	retryTopUp = 6 * time.Hour
)

// ErrTopUp: there is no top-up now: one is on its way, or the month's credits are used up.
var ErrTopUp = errors.New("no top-up now")

const topUpColumns = `account, active, threshold, credits, monthly, amount, currency, customer, method, method_text,
	failures, next, why, made_by, changed`

func readTopUp(row scanner) (v TopUp, err error) {
	var active, next, changed int64
	err = row.Scan(&v.Account, &active, &v.Threshold, &v.Credits, &v.Monthly, &v.Amount, &v.Currency, &v.Customer,
		&v.Method, &v.Card, &v.Failures, &next, &v.Why, &v.By, &changed)
	v.Active, v.Next, v.Changed = active != 0, moment(next), moment(changed)
	return v, err
}

func (r *reader) topUp(account string) (v TopUp, found bool, err error) {
	all, err := list(r, readTopUp, `SELECT `+topUpColumns+` FROM portal_top_ups WHERE account = $1`, account)
	if err != nil || len(all) == 0 {
		return TopUp{Account: account}, false, err
	}
	return all[0], true, nil
}

// TopUp is how an account tops itself up; one that does not is not Active.
func (s *Service) TopUp(ctx context.Context, account string) (v TopUp, err error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return v, err
	}
	v, _, err = r.topUp(account)
	return v, err
}

// TopUps are those that are active, or that ended by failures, in the order of accounts, after one, at most limit.
func (s *Service) TopUps(ctx context.Context, after string, failed bool, limit int) ([]TopUp, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	where := `active = 1`
	if failed {
		where = `failures > 0`
	}
	return list(r, readTopUp, `SELECT `+topUpColumns+` FROM portal_top_ups WHERE `+where+` AND account > $1
		ORDER BY account LIMIT $2`, after, limit)
}

// ChangeTopUp changes how an account tops itself up, as change says, which may be called again. note is the act.
func (s *Service) ChangeTopUp(ctx context.Context, account, note string, change func(v *TopUp) error) (v TopUp,
	err error) {
	now := s.now()
	err = s.store.transact(ctx, func(t *tx) error {
		is, found, err := t.topUp(account)
		if err != nil {
			return err
		}
		v = is
		if err := change(&v); err != nil || v == is {
			return err
		}
		v.Changed = now
		if note != "" {
			t.note(note, account, account, map[string]any{"active": v.Active, "threshold_credits": v.Threshold,
				"credits": v.Credits, "monthly_credits": v.Monthly, "method": v.Card, "why": v.Why})
		}
		return t.writeTopUp(&v, found)
	})
	return v, err
}

func (t *tx) writeTopUp(v *TopUp, found bool) error {
	query := `INSERT INTO portal_top_ups (active, threshold, credits, monthly, amount, currency, customer, method,
		method_text, failures, next, why, made_by, changed, account)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
	if found {
		query = `UPDATE portal_top_ups SET active = $1, threshold = $2, credits = $3, monthly = $4, amount = $5,
			currency = $6, customer = $7, method = $8, method_text = $9, failures = $10, next = $11, why = $12, made_by = $13,
			changed = $14 WHERE account = $15`
	}
	_, err := t.exec(query, flag(v.Active), v.Threshold, v.Credits, v.Monthly, v.Amount, v.Currency, v.Customer, v.Method,
		v.Card, v.Failures, nanos(v.Next), v.Why, v.By, nanos(v.Changed), v.Account)
	return err
}

// endTopUps has an account top itself up no more.
func (t *tx) endTopUps(account, why string, now time.Time) error {
	v, _, err := t.topUp(account)
	if err != nil || !v.Active {
		return err
	}
	v.Active, v.Why, v.Changed = false, why, now
	t.note("account.set_top_up", account, account, map[string]any{"active": false, "why": why})
	return t.writeTopUp(&v, true)
}

// EndTopUps has an account top itself up no more, for a reason.
func (s *Service) EndTopUps(ctx context.Context, account, why string) error {
	now := s.now()
	return s.store.transact(ctx, func(t *tx) error { return t.endTopUps(account, why, now) })
}

// BeginTopUp keeps the payment of a top-up before Stripe is asked for it. ErrTopUp where one is on its way already, it
// is not the time, or the month's credits do not suffice: so there is one for each time that the balance falls, whoever
// looks, and however often. price says what it costs, or ErrTopUp where the balance needs none; where that is not what
// the owner has agreed to, there is none any more.
func (s *Service) BeginTopUp(ctx context.Context, account string, price func(credits int64) (Payment, error),
) (p Payment, err error) {
	now := s.now()
	id := newID("pay")
	agreed := true
	err = s.store.transact(ctx, func(t *tx) error {
		v, found, err := t.topUp(account)
		switch {
		case err != nil:
			return err
		case !found || !v.Active || v.Method == "" || now.Before(v.Next):
			return ErrTopUp
		}
		var n, used, lately int64
		if _, err := t.find(`SELECT count(*) FROM portal_payments WHERE account = $1 AND kind = 'automatic'
			AND state IN ('begun', 'open', 'pending', 'paid', 'waiting')`, []any{account}, &n); err != nil {
			return err
		}
		month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		if _, err := t.find(`SELECT coalesce(sum(credits), 0) FROM portal_payments WHERE account = $1
			AND kind = 'automatic' AND state <> 'failed' AND created >= $2`, []any{account, nanos(month)}, &used); err != nil {
			return err
		}
		if _, err := t.find(`SELECT count(*) FROM portal_payments WHERE account = $1 AND created > $2`,
			[]any{account, nanos(now.Add(-time.Hour))}, &lately); err != nil {
			return err
		}
		switch {
		case n > 0 || lately >= maxPaymentsAnHour:
			return ErrTopUp
		case used+v.Credits > v.Monthly:
			return fmt.Errorf("%w: %d credits of the month's %d are used", ErrTopUp, used, v.Monthly)
		}
		// Asked now, when no other one is on its way: a balance that was read before may lack what that has added.
		if p, err = price(v.Credits); err != nil {
			return err
		}
		if agreed = p.Amount == v.Amount && p.Currency == v.Currency; !agreed {
			return t.endTopUps(account, "the price has changed", now)
		}
		p.Customer, p.Method = v.Customer, v.Method
		p.ID, p.Account, p.Kind, p.By, p.State = id, account, PaymentAutomatic, "top-up set by "+v.By, PaymentBegun
		p.Created, p.Changed = now, now
		t.note("payment.begin", account, p.ID, map[string]any{"credits": p.Credits, "amount": p.Amount,
			"currency": p.Currency, "kind": p.Kind})
		return t.insertPayment(&p)
	})
	if err == nil && !agreed {
		err = ErrTopUp
	}
	return p, err
}

// EndTopUp notes how the payment of a top-up has ended: after some failures in a row there is none any more.
func (s *Service) EndTopUp(ctx context.Context, id, failure string) error {
	now := s.now()
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.payment(id)
		if err != nil {
			return err
		}
		if failure != "" {
			switch p.State {
			case PaymentBegun, PaymentPending:
			default:
				return nil // it was noted, or has ended otherwise
			}
			if _, err := t.exec(`UPDATE portal_payments SET state = 'failed', why = $2, changed = $3 WHERE id = $1`, id,
				failure, nanos(now)); err != nil {
				return err
			}
		}
		v, found, err := t.topUp(p.Account)
		if err != nil || !found {
			return err
		}
		is := v
		if failure == "" {
			v.Failures, v.Next, v.Why = 0, time.Time{}, ""
		} else {
			v.Failures, v.Next, v.Why = v.Failures+1, now.Add(retryTopUp<<min(v.Failures, 4)), failure
			if v.Failures >= maxTopUpFailures {
				v.Active = false
			}
			t.note("payment.fail", p.Account, p.ID, map[string]any{"why": failure, "failures": v.Failures,
				"active": v.Active})
		}
		if v == is {
			return nil
		}
		v.Changed = now
		return t.writeTopUp(&v, true)
	})
}
