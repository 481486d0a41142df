package payments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

// keepMethod keeps what a session was paid with, where its payer has consented to that.
func (s *Service) keepMethod(ctx context.Context, store *people.Service, p *people.Payment,
	session *stripe.CheckoutSession) error {
	if session.Customer == nil || session.PaymentIntent == nil {
		return nil
	}
	c := s.o.Config()
	if c == nil {
		return nil
	}
	in := &stripe.PaymentIntentRetrieveParams{}
	in.Expand = []*string{stripe.String("payment_method")}
	intent, err := s.api(c.SecretKey).V1PaymentIntents.Retrieve(ctx, session.PaymentIntent.ID, in)
	if err != nil {
		return wrap(err)
	}
	m := intent.PaymentMethod
	if intent.SetupFutureUsage != stripe.PaymentIntentSetupFutureUsageOffSession || m == nil {
		return nil
	}
	card := string(m.Type)
	if m.Card != nil {
		card = fmt.Sprintf("%s %s", m.Card.Brand, m.Card.Last4)
	}
	_, err = store.ChangeTopUp(ctx, p.Account, "account.keep_payment_method", func(v *people.TopUp) error {
		if v.Method != m.ID {
			v.Customer, v.Method, v.Card = session.Customer.ID, m.ID, card
			v.By = p.By
		}
		return nil
	})
	return err
}

// Setting is how an account is to top itself up: see people.TopUp.
type Setting struct {
	Active    bool  `json:"active"`
	Threshold int64 `json:"threshold_credits"`
	Credits   int64 `json:"credits"`
	Monthly   int64 `json:"monthly_credits"`
	Forget    bool  `json:"forget,omitempty"` // the means of payment, too
}

// SetTopUp sets how an account tops itself up. ErrInvalid where it cannot.
func (s *Service) SetTopUp(ctx context.Context, account string, in Setting) (people.TopUp, error) {
	c, store, err := s.ready()
	if err != nil {
		return people.TopUp{}, err
	}
	amount, ok := c.Price(in.Credits)
	if in.Active && !ok {
		return people.TopUp{}, fmt.Errorf("%w: %d credits: a payment buys %d to %d, in multiples of %d", people.ErrInvalid,
			in.Credits, c.Minimum, c.Maximum, c.UnitCredits)
	}
	switch {
	case !in.Active:
	case in.Threshold < 1 || in.Threshold > ledger.MaxTopUp:
		return people.TopUp{}, fmt.Errorf("%w: the balance below which it is topped up is 1 to %d credits",
			people.ErrInvalid, ledger.MaxTopUp)
	case in.Monthly < in.Credits || in.Monthly > ledger.MaxTopUp:
		return people.TopUp{}, fmt.Errorf("%w: the month's limit is at least one top-up, %d credits", people.ErrInvalid,
			in.Credits)
	}
	return store.ChangeTopUp(ctx, account, "account.set_top_up", func(v *people.TopUp) error {
		if in.Active && v.Method == "" {
			return fmt.Errorf("%w: there is nothing to pay with: buy credits once, and have the card kept", people.ErrInvalid)
		}
		v.Failures, v.Why, v.Next = 0, "", time.Time{}
		if in.Active {
			v.Threshold, v.Credits, v.Monthly = in.Threshold, in.Credits, in.Monthly
			v.Amount, v.Currency = amount, c.Currency
			v.By = ledger.ActorOf(ctx)
		}
		if v.Active = in.Active; in.Forget {
			v.Active, v.Customer, v.Method, v.Card = false, "", "", ""
		}
		return nil
	})
}

// TopUp tops accounts up whose balance has fallen below what they say. One node does it at a time, but what keeps it to
// one payment for each fall is BeginTopUp.
func (s *Service) TopUp(ctx context.Context) error {
	c, store, err := s.ready()
	if err != nil {
		return nil //nolint:nilerr // nobody pays here
	}
	var failed error
	for after := ""; ; {
		list, err := store.TopUps(ctx, after, false, page)
		if err != nil || len(list) == 0 {
			return errors.Join(failed, err)
		}
		for i := range list {
			after = list[i].Account
			if err := s.topUp(ctx, c, store, &list[i]); err != nil {
				failed = errors.Join(failed, fmt.Errorf("topping up account %s: %w", after, err))
			}
		}
	}
}

func (s *Service) topUp(ctx context.Context, c *config.Stripe, store *people.Service, v *people.TopUp) error {
	a, err := s.o.Ledger.Account(ctx, v.Account)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil
	case err != nil:
		return err
	case a.State != ledger.Active || a.Balance.Net() >= v.Threshold*ledger.MicrocentsPerCredit:
		return nil
	}
	p, err := store.BeginTopUp(ctx, v.Account, func(credits int64) (people.Payment, error) {
		switch a, err := s.o.Ledger.Account(ctx, v.Account); {
		case err != nil:
			return people.Payment{}, err
		case a.Balance.Net() >= v.Threshold*ledger.MicrocentsPerCredit:
			return people.Payment{}, people.ErrTopUp
		}
		amount, ok := c.Price(credits)
		if !ok {
			return people.Payment{}, fmt.Errorf("%w: %d credits are not sold any more", people.ErrTopUp, credits)
		}
		return people.Payment{Credits: credits, Amount: amount, Currency: c.Currency, Live: c.IsLive()}, nil
	})
	switch {
	case errors.Is(err, people.ErrTopUp):
		return nil
	case err != nil:
		return err
	}
	return s.charge(ctx, c, store, &p)
}

// charge asks Stripe for the money of a top-up. It is kept already, and its id is the call's idempotency key: repeated
// after a crash it is the same charge, and so it is asked for with what was kept then. Only a card that is declined is
// one that was not charged: after any other answer nobody knows, and it is asked again. Once Stripe may have forgotten
// the key, also for all that a clock says that goes back, an operator has to look.
func (s *Service) charge(ctx context.Context, c *config.Stripe, store *people.Service, p *people.Payment) error {
	if age := s.o.Now().Sub(p.Created); age > repeatable || age < -clockSkew {
		_, err := store.ChangePayment(ctx, p.ID, "payment.wait", func(p *people.Payment) error {
			p.State, p.Why = people.PaymentWaiting, "Stripe has not said within a day whether it is paid"
			return nil
		})
		return err
	}
	in := &stripe.PaymentIntentCreateParams{Amount: &p.Amount, Currency: &p.Currency, Customer: &p.Customer,
		PaymentMethod: &p.Method, OffSession: stripe.Bool(true), Confirm: stripe.Bool(true),
		Description: stripe.String(fmt.Sprintf("%d credits", p.Credits)),
		Metadata:    map[string]string{ours: p.ID, ofAccount: p.Account, ofKind: p.Kind}}
	in.IdempotencyKey = &p.ID
	intent, err := s.api(c.SecretKey).V1PaymentIntents.Create(ctx, in)
	if err == nil {
		return s.takeIntent(ctx, store, intent)
	}
	e, ok := errors.AsType[*stripe.Error](err)
	if !ok || e.Type != stripe.ErrorTypeCard {
		return wrap(err)
	}
	return store.EndTopUp(ctx, p.ID, strings.TrimSpace(fmt.Sprintf("%s %s", e.Code, e.DeclineCode)))
}

// takeIntent takes what Stripe says of the payment of a top-up.
func (s *Service) takeIntent(ctx context.Context, store *people.Service, intent *stripe.PaymentIntent) error {
	p, ok, err := s.find(ctx, store, intent.Metadata, intent.ID)
	switch {
	case err != nil:
		return err
	case !ok && intent.Metadata[ofKind] == people.PaymentAutomatic && intent.Status == stripe.PaymentIntentStatusSucceeded:
		return s.keepUnknown(ctx, store, intent.Metadata, people.Payment{Kind: people.PaymentAutomatic,
			Amount: intent.AmountReceived, Currency: string(intent.Currency), Live: intent.Livemode, Intent: intent.ID})
	case !ok || p.Kind != people.PaymentAutomatic || p.Intent != "" && p.Intent != intent.ID:
		return nil
	}
	switch intent.Status {
	case stripe.PaymentIntentStatusSucceeded:
		switch p.State {
		case people.PaymentCredited, people.PaymentClosed:
			return nil // said again: failures since then count on
		case people.PaymentWaiting, people.PaymentPaid:
		default:
			// First, so that it is done again where notePaid is not reached.
			if err := store.EndTopUp(ctx, p.ID, ""); err != nil {
				return err
			}
		}
		if err := s.notePaid(ctx, store, &p, "", intent.ID, intent.AmountReceived, string(intent.Currency)); err != nil {
			return err
		}
		return s.settle(ctx, store, p.ID)
	case stripe.PaymentIntentStatusProcessing:
		_, err := store.ChangePayment(ctx, p.ID, "", func(p *people.Payment) error {
			if p.State == people.PaymentBegun {
				p.State, p.Intent = people.PaymentPending, intent.ID
			}
			return nil
		})
		return err
	}
	why := string(intent.Status)
	if intent.LastPaymentError != nil {
		why = strings.TrimSpace(fmt.Sprintf("%s %s", intent.LastPaymentError.Code, intent.LastPaymentError.DeclineCode))
	}
	return store.EndTopUp(ctx, p.ID, why)
}
