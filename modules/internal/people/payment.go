package people

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// PaymentState is how far a payment is.
type PaymentState string

// The states. A payment is credited at the latest from PaymentPaid on, and only once.
const (
	PaymentBegun    PaymentState = "begun"    // nobody knows yet what Stripe has made of it
	PaymentOpen     PaymentState = "open"     // somebody is to pay
	PaymentPending  PaymentState = "pending"  // it was paid in a way that takes days
	PaymentPaid     PaymentState = "paid"     // and is not in the ledger yet
	PaymentCredited PaymentState = "credited" // it is
	PaymentFailed   PaymentState = "failed"
	PaymentExpired  PaymentState = "expired" // nobody paid in time
	// PaymentWaiting: it is paid, and cannot be credited: an operator decides.
	PaymentWaiting PaymentState = "waiting"
	PaymentClosed  PaymentState = "closed" // an operator has decided about it
)

// Kinds of payments.
const (
	PaymentCheckout  = "checkout"
	PaymentAutomatic = "automatic"
)

// Payment is money that somebody pays for credits. It is kept here and not in the ledger: the ledger has what moved a
// balance, and most of what a payment goes through moves none.
type Payment struct {
	ID       string       `json:"id"` // "pay_" and 24 lower-case hex characters
	Account  string       `json:"account_id"`
	Kind     string       `json:"kind"`
	By       string       `json:"by"`
	Credits  int64        `json:"credits"`
	Amount   int64        `json:"amount"` // in the smallest unit of the currency
	Currency string       `json:"currency"`
	Live     bool         `json:"live"`
	State    PaymentState `json:"state"`
	Why      string       `json:"why,omitempty"`
	Session  string       `json:"session,omitempty"` // of Stripe's Checkout
	Intent   string       `json:"payment_intent,omitempty"`
	Customer string       `json:"-"`                  // Stripe's, and
	Method   string       `json:"-"`                  // what a top-up is paid with
	Refunded int64        `json:"refunded"`           // of the amount
	Lost     int64        `json:"lost,omitempty"`     // of the amount, in disputes
	Disputed string       `json:"disputed,omitempty"` // "open", "won", "lost", or "closed" by an operator
	Created  time.Time    `json:"created"`
	Changed  time.Time    `json:"changed"`
}

// Reference is what the ledger knows it by.
func (p *Payment) Reference() string {
	if p.Kind == PaymentCheckout {
		return "stripe:" + p.Session
	}
	return "stripe:" + p.Intent
}

// maxPaymentsAnHour is how many payments of an account may be begun within an hour: each is one at Stripe.
const maxPaymentsAnHour = 20

const paymentColumns = `id, account, kind, made_by, credits, amount, currency, live, state, why, session, intent,
	customer, method, refunded, lost, disputed, created, changed`

func readPayment(row scanner) (p Payment, err error) {
	var live, created, changed int64
	err = row.Scan(&p.ID, &p.Account, &p.Kind, &p.By, &p.Credits, &p.Amount, &p.Currency, &live, &p.State, &p.Why,
		&p.Session, &p.Intent, &p.Customer, &p.Method, &p.Refunded, &p.Lost, &p.Disputed, &created, &changed)
	p.Live, p.Created, p.Changed = live != 0, moment(created), moment(changed)
	return p, err
}

func (t *tx) insertPayment(p *Payment) error {
	_, err := t.exec(`INSERT INTO portal_payments (`+paymentColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`, p.ID, p.Account,
		p.Kind, p.By, p.Credits, p.Amount, p.Currency, flag(p.Live), string(p.State), p.Why, p.Session, p.Intent, p.Customer,
		p.Method, p.Refunded, p.Lost, p.Disputed, nanos(p.Created), nanos(p.Changed))
	return err
}

func (r *reader) payment(id string) (Payment, error) { return r.paymentBy("id", id) }

// paymentBy finds one by what a column of its has.
func (r *reader) paymentBy(column, value string) (p Payment, err error) {
	all, err := list(r, readPayment, `SELECT `+paymentColumns+` FROM portal_payments WHERE `+column+` = $1`, value)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: payment %q", ErrNotFound, value)
	}
	if err != nil {
		return p, err
	}
	return all[0], nil
}

// BeginPayment keeps a payment before anybody is asked for money. ErrInvalid where an account begins too many.
func (s *Service) BeginPayment(ctx context.Context, p Payment) (Payment, error) {
	now := s.now()
	p.ID, p.State, p.Created, p.Changed = newID("pay"), PaymentBegun, now, now
	p.By = ledger.ActorOf(ctx)
	err := s.store.transact(ctx, func(t *tx) error {
		var n int64
		if _, err := t.find(`SELECT count(*) FROM portal_payments WHERE account = $1 AND created > $2`,
			[]any{p.Account, nanos(now.Add(-time.Hour))}, &n); err != nil {
			return err
		}
		if n >= maxPaymentsAnHour {
			return fmt.Errorf("%w: %d payments were begun within an hour: wait a little", ErrInvalid, n)
		}
		t.note("payment.begin", p.Account, p.ID, map[string]any{"credits": p.Credits, "amount": p.Amount,
			"currency": p.Currency, "kind": p.Kind})
		return t.insertPayment(&p)
	})
	return p, err
}

// KeepPayment keeps one that nobody here has begun, to be decided by an operator, unless there is one of its id.
func (s *Service) KeepPayment(ctx context.Context, p Payment) error {
	if !isID("pay", p.ID) {
		return fmt.Errorf("%w: the id of a payment", ErrInvalid)
	}
	now := s.now()
	p.Created, p.Changed = now, now
	return s.store.transact(ctx, func(t *tx) error {
		if _, err := t.payment(p.ID); !errors.Is(err, ErrNotFound) {
			return err
		}
		t.note("payment.keep", p.Account, p.ID, map[string]any{"amount": p.Amount, "currency": p.Currency, "why": p.Why})
		return t.insertPayment(&p)
	})
}

// Payment finds one.
func (s *Service) Payment(ctx context.Context, id string) (p Payment, err error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return p, err
	}
	return r.payment(id)
}

// PaymentOf finds one by Stripe's PaymentIntent.
func (s *Service) PaymentOf(ctx context.Context, intent string) (p Payment, err error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return p, err
	}
	if intent == "" { // which all have that nobody has paid
		return p, fmt.Errorf("%w: the payment of no intent", ErrNotFound)
	}
	return r.paymentBy("intent", intent)
}

// Payments are those of an account ("*": of all), the newest first, those that began before the one with the id
// before ("": from the newest on), at most limit. waiting: those that an operator has to look at.
func (s *Service) Payments(ctx context.Context, account, before string, waiting bool, limit int) ([]Payment, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	where, args := `TRUE`, []any{limit}
	bind := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	if account != "*" {
		where += ` AND account = ` + bind(account)
	}
	if waiting {
		where += ` AND (state = 'waiting' OR disputed = 'open')`
	}
	if before != "" {
		p, err := r.payment(before)
		if err != nil {
			return nil, err
		}
		at := bind(nanos(p.Created))
		where += ` AND (created < ` + at + ` OR created = ` + at + ` AND id < ` + bind(p.ID) + `)`
	}
	return list(r, readPayment, `SELECT `+paymentColumns+` FROM portal_payments WHERE `+where+
		` ORDER BY created DESC, id DESC LIMIT $1`, args...)
}

// UnsettledPayments are those for which something is to be done: those that are paid, or of which a step of what was
// given back is not booked, whose state changed before then; and those of which Stripe should have said something by
// now, which changed before stale.
func (s *Service) UnsettledPayments(ctx context.Context, stale time.Time, limit int) ([]Payment, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, readPayment, `SELECT `+paymentColumns+` FROM portal_payments WHERE state = 'paid'
		OR state IN ('begun', 'open', 'pending') AND changed < $2
		OR state = 'credited' AND id IN (SELECT payment FROM portal_refunds WHERE booked = 0)
		ORDER BY changed LIMIT $1`, limit, nanos(stale))
}

// ChangePayment changes one, as change says, which is given it as it is; it may be called again. note is an act of the
// audit trail, "" for none.
func (s *Service) ChangePayment(ctx context.Context, id, note string, change func(p *Payment) error) (p Payment,
	err error) {
	now := s.now()
	err = s.store.transact(ctx, func(t *tx) error {
		p, err = t.payment(id)
		if err != nil {
			return err
		}
		was := p
		if err := change(&p); err != nil || p == was {
			return err
		}
		p.Changed = now
		if note != "" {
			t.note(note, p.Account, p.ID, map[string]any{"state": p.State, "why": p.Why, "disputed": p.Disputed})
		}
		_, err := t.exec(`UPDATE portal_payments SET state = $2, why = $3, session = $4, intent = $5, disputed = $6,
			changed = $7 WHERE id = $1`, p.ID, string(p.State), p.Why, p.Session, p.Intent, p.Disputed, nanos(now))
		return err
	})
	return p, err
}

// Refunded is a step of what was given back of a payment.
type Refunded struct {
	From, To   int64 // of the amount, before and with it
	Microcents int64 // that it takes away
	Reason     string
}

// Reference is what the ledger knows it by.
func (r *Refunded) Reference(p *Payment) string {
	return fmt.Sprintf("%s:refund:%d", p.Reference(), r.To)
}

// takenBy is what is taken away, in microcents, where so much of the amount was given back.
func (p *Payment) takenBy(refunded int64) int64 {
	n := big.NewInt(p.Credits)
	n.Mul(n, big.NewInt(ledger.MicrocentsPerCredit)).Mul(n, big.NewInt(refunded))
	return n.Quo(n, big.NewInt(p.Amount)).Int64()
}

// GivenBack is what Stripe says of a payment's amount: that so much was given back, all together, or, where Dispute is
// its id, that a dispute about so much is lost.
type GivenBack struct {
	Amount  int64
	Dispute string
	Reason  string
}

// NoteRefund notes what was given back. What is known already changes nothing, in whatever order it comes. What it
// takes away has to be booked: see UnbookedRefunds. The account tops itself up no more until its owner says so
// again: what is taken away would be paid for at once. A payment that an operator has decided about waits for one
// again.
func (s *Service) NoteRefund(ctx context.Context, id string, v GivenBack) error {
	now := s.now()
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.payment(id)
		if err != nil {
			return err
		}
		before := min(p.Refunded+p.Lost, p.Amount)
		if v.Dispute == "" {
			p.Refunded = max(p.Refunded, min(v.Amount, p.Amount))
		} else {
			var known int64
			if _, err := t.find(`SELECT count(*) FROM portal_refunds WHERE payment = $1 AND dispute = $2`,
				[]any{p.ID, v.Dispute}, &known); err != nil || known > 0 {
				return err
			}
			p.Lost, p.Disputed = min(p.Lost+v.Amount, p.Amount), disputeLost
		}
		if to := min(p.Refunded+p.Lost, p.Amount); to > before {
			if _, err := t.exec(`INSERT INTO portal_refunds (payment, refunded, dispute, microcents, reason, booked)
				VALUES ($1, $2, $3, $4, $5, 0)`, p.ID, to, v.Dispute, p.takenBy(to)-p.takenBy(before), v.Reason); err != nil {
				return err
			}
			t.note("payment.refund", p.Account, p.ID, map[string]any{"refunded": to, "amount": p.Amount,
				"currency": p.Currency, "reason": v.Reason})
			if p.State == PaymentClosed {
				p.State, p.Why = PaymentWaiting, v.Reason+", after it was closed"
			}
			if err := t.endTopUps(p.Account, "a payment was given back", now); err != nil {
				return err
			}
		}
		_, err = t.exec(`UPDATE portal_payments SET refunded = $2, lost = $3, disputed = $4, state = $5, why = $6
			WHERE id = $1`, p.ID, p.Refunded, p.Lost, p.Disputed, string(p.State), p.Why)
		return err
	})
}

const disputeLost = "lost"

// UnbookedRefunds are the steps that the ledger does not have yet, for all that is known.
func (s *Service) UnbookedRefunds(ctx context.Context, p *Payment) ([]Refunded, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, func(row scanner) (v Refunded, err error) {
		err = row.Scan(&v.To, &v.Microcents, &v.Reason)
		return v, err
	}, `SELECT refunded, microcents, reason FROM portal_refunds WHERE payment = $1 AND booked = 0 ORDER BY refunded`, p.ID)
}

// NoteBooked notes that the ledger has a step.
func (s *Service) NoteBooked(ctx context.Context, payment string, step *Refunded) error {
	return s.store.transact(ctx, func(t *tx) error {
		_, err := t.exec(`UPDATE portal_refunds SET booked = 1 WHERE payment = $1 AND refunded = $2`, payment, step.To)
		return err
	})
}
