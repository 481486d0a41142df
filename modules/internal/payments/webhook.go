package payments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stripe/stripe-go/v85"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

// MaxEvent bounds what Stripe sends, in bytes: its largest events are far below.
const MaxEvent = 256 << 10

// Receive takes an event as Stripe sends it. What it says is done when it returns nil; after any error but ErrForged
// and ErrOff Stripe is to send it again. Events of any version of Stripe's API are taken: of the fields that are read
// none has changed for years, and money that came must not wait for a setting.
func (s *Service) Receive(ctx context.Context, body []byte, signature string) error {
	c, store, err := s.ready()
	if err != nil {
		return err
	}
	e, err := stripe.ConstructEvent(body, signature, c.WebhookSecret, stripe.WithIgnoreAPIVersionMismatch())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForged, err)
	}
	if e.Livemode != c.IsLive() {
		s.o.Log.Warn("an event of Stripe's is of the other mode than the key, and is let be", "event", e.ID, "live",
			e.Livemode)
		return nil
	}
	ctx = ledger.WithActor(ctx, Actor)
	if err := s.take(ctx, store, &e); err != nil {
		return fmt.Errorf("taking %s (%s): %w", e.Type, e.ID, err)
	}
	return nil
}

// read reads what an event is about.
func read[T any](e *stripe.Event) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(e.Data.Raw, v); err != nil {
		return nil, fmt.Errorf("reading its object: %w", err)
	}
	return v, nil
}

func (s *Service) take(ctx context.Context, store *people.Service, e *stripe.Event) error {
	if e.Data == nil {
		return nil
	}
	switch e.Type {
	case stripe.EventTypeCheckoutSessionCompleted, stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded,
		stripe.EventTypeCheckoutSessionAsyncPaymentFailed, stripe.EventTypeCheckoutSessionExpired:
		session, err := read[stripe.CheckoutSession](e)
		if err != nil {
			return err
		}
		if e.Type == stripe.EventTypeCheckoutSessionAsyncPaymentFailed {
			if p, ok, err := s.find(ctx, store, session.Metadata, session.ID); !ok || err != nil {
				return err
			} else if p.Session == session.ID {
				return s.end(ctx, store, p.ID, people.PaymentFailed, "the bank has not paid")
			}
			return nil
		}
		return s.takeSession(ctx, store, session)
	case stripe.EventTypePaymentIntentSucceeded, stripe.EventTypePaymentIntentPaymentFailed:
		intent, err := read[stripe.PaymentIntent](e)
		if err != nil {
			return err
		}
		p, ok, err := s.find(ctx, store, intent.Metadata, intent.ID)
		if err != nil || ok && p.Kind != people.PaymentAutomatic {
			return err // of a checkout the session tells
		}
		return s.takeIntent(ctx, store, intent)
	case stripe.EventTypeChargeRefunded:
		charge, err := read[stripe.Charge](e)
		if err != nil {
			return err
		}
		p, ok, err := s.find(ctx, store, charge.Metadata, charge.ID)
		if !ok || err != nil {
			return err
		}
		if charge.Amount != p.Amount || string(charge.Currency) != p.Currency {
			s.o.Log.Error("a refund is of another amount than its payment, and is let be", "payment", p.ID, "charge", charge.ID)
			return nil
		}
		if err := store.NoteRefund(ctx, p.ID, people.GivenBack{Amount: charge.AmountRefunded,
			Reason: "given back in Stripe"}); err != nil {
			return err
		}
		return s.settle(ctx, store, p.ID)
	case stripe.EventTypeChargeDisputeCreated, stripe.EventTypeChargeDisputeClosed:
		dispute, err := read[stripe.Dispute](e)
		if err != nil {
			return err
		}
		return s.takeDispute(ctx, store, dispute)
	}
	return nil
}

// find finds the payment that an object is about, by its metadata; ok is false where it is none of this gateway's.
func (s *Service) find(ctx context.Context, store *people.Service, about map[string]string, object string,
) (p people.Payment, ok bool, err error) {
	if about[ours] == "" {
		return p, false, nil // the operator sells other things, too
	}
	p, err = store.Payment(ctx, about[ours])
	if errors.Is(err, people.ErrNotFound) {
		s.o.Log.Warn("Stripe speaks of a payment that this gateway does not have", "payment", about[ours], "object", object)
		return p, false, nil
	}
	return p, err == nil, err
}

// takeSession takes what Stripe says of a session.
func (s *Service) takeSession(ctx context.Context, store *people.Service, session *stripe.CheckoutSession) error {
	p, ok, err := s.find(ctx, store, session.Metadata, session.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		if session.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid {
			return nil
		}
		return s.keepUnknown(ctx, store, session.Metadata, people.Payment{Kind: people.PaymentCheckout,
			Amount: session.AmountTotal, Currency: string(session.Currency), Live: session.Livemode, Session: session.ID,
			Intent: idOf(session.PaymentIntent)})
	case p.Kind != people.PaymentCheckout || p.Session != "" && p.Session != session.ID:
		s.o.Log.Error("a session of Stripe's is another one than its payment's, and is let be", "payment", p.ID, "session",
			session.ID)
		return nil
	}
	switch {
	case session.Status == stripe.CheckoutSessionStatusExpired:
		return s.end(ctx, store, p.ID, people.PaymentExpired, "")
	case session.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid:
		if err := s.notePaid(ctx, store, &p, session.ID, idOf(session.PaymentIntent), session.AmountTotal,
			string(session.Currency)); err != nil {
			return err
		}
		if err := s.settle(ctx, store, p.ID); err != nil {
			return err
		}
		if p.State == people.PaymentCredited {
			return nil // said again: what was kept then may have been forgotten since, or given way to another one
		}
		return s.keepMethod(ctx, store, &p, session)
	case session.Status == stripe.CheckoutSessionStatusComplete:
		_, err := store.ChangePayment(ctx, p.ID, "", func(p *people.Payment) error {
			if p.State == people.PaymentBegun || p.State == people.PaymentOpen {
				p.State, p.Session, p.Intent = people.PaymentPending, session.ID, idOf(session.PaymentIntent)
			}
			return nil
		})
		return err
	}
	return nil
}

func idOf(i *stripe.PaymentIntent) string {
	if i == nil {
		return ""
	}
	return i.ID
}

// notePaid notes that a payment is paid, if that is what it was begun for. One that had failed or expired may be paid
// all the same: Stripe's word that money came counts.
func (s *Service) notePaid(ctx context.Context, store *people.Service, p *people.Payment, session, intent string,
	amount int64, currency string) error {
	now, err := store.ChangePayment(ctx, p.ID, "", func(p *people.Payment) error {
		switch p.State {
		case people.PaymentWaiting:
			if p.Intent == "" {
				p.Session, p.Intent = session, intent // for who looks at it, and disputes
			}
			return nil
		case people.PaymentPaid, people.PaymentCredited, people.PaymentClosed:
			return nil
		}
		p.State, p.Session, p.Intent, p.Why = people.PaymentPaid, session, intent, ""
		if amount != p.Amount || currency != p.Currency {
			p.State, p.Why = people.PaymentWaiting, fmt.Sprintf("paid were %d %s, and not %d %s", amount, currency, p.Amount,
				p.Currency)
		}
		return nil
	})
	if err == nil && now.State == people.PaymentWaiting {
		s.o.Log.Error("a payment waits for an operator", "payment", now.ID, "account_id", now.Account, "why", now.Why)
	}
	return err
}

// keepUnknown keeps what was paid for an account of this ledger, and that no payment here is for: the store was put
// back to an earlier time. Nobody is credited by that: an operator looks at it.
func (s *Service) keepUnknown(ctx context.Context, store *people.Service, about map[string]string, p people.Payment,
) error {
	if about[ofAccount] == "" {
		return nil
	}
	a, err := s.o.Ledger.Account(ctx, about[ofAccount])
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil // another gateway's
	case err != nil:
		return err
	}
	p.ID, p.Account, p.By, p.Amount = about[ours], a.ID, Actor, max(p.Amount, 1)
	p.State, p.Why = people.PaymentWaiting, "this gateway did not begin it, or has forgotten it"
	err = store.KeepPayment(ctx, p)
	if errors.Is(err, people.ErrInvalid) {
		return nil // made by somebody else
	}
	return err
}

// takeDispute takes what has become of a dispute. The credits stay until it is lost: that is for banks to decide, and
// what to do with the account for the operator.
func (s *Service) takeDispute(ctx context.Context, store *people.Service, d *stripe.Dispute) error {
	p, err := store.PaymentOf(ctx, idOf(d.PaymentIntent))
	switch {
	case errors.Is(err, people.ErrNotFound):
		return nil // it is about something else
	case err != nil:
		return err
	}
	switch d.Status {
	case stripe.DisputeStatusLost:
		if string(d.Currency) != p.Currency {
			s.o.Log.Error("a dispute is in another currency than its payment, and is left to an operator", "payment", p.ID,
				"dispute", d.ID)
			break
		}
		if err := store.NoteRefund(ctx, p.ID, people.GivenBack{Amount: d.Amount, Dispute: d.ID,
			Reason: "a dispute is lost"}); err != nil {
			return err
		}
		return s.settle(ctx, store, p.ID)
	case stripe.DisputeStatusWon, stripe.DisputeStatusPrevented, stripe.DisputeStatusWarningClosed:
		_, err = store.ChangePayment(ctx, p.ID, "payment.dispute", func(p *people.Payment) error {
			if p.Disputed != "lost" {
				p.Disputed = "won"
			}
			return nil
		})
		return err
	}
	if _, err = store.ChangePayment(ctx, p.ID, "payment.dispute", func(p *people.Payment) error {
		if p.Disputed != "lost" {
			p.Disputed = "open" // after an inquiry that came to nothing, too
		}
		return nil
	}); err != nil {
		return err
	}
	return store.EndTopUps(ctx, p.Account, "a payment is disputed")
}
