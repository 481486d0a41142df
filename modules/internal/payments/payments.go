// Package payments has accounts pay for credits through Stripe: by its Checkout, and by themselves when a balance is
// low. How far each payment is, people keeps; what it moves, the ledger.
//
// A payment is kept before Stripe is asked for anything, with what it is for and what it costs, and its id is the
// idempotency key there. What Stripe says is believed only where it is signed, or asked for by us, is about a payment
// that is kept here, and has its amount and currency: who can make sessions elsewhere, or sends what is signed again,
// moves nothing. The credits are added by the reference of Stripe's object, which the ledger takes once, so that
// messages may come in any order, twice, to several nodes, and after a crash.
package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

var (
	// ErrOff: the configuration has no block stripe.
	ErrOff = errors.New("nothing is paid here: the HCL file has no block stripe in its portal")
	// ErrStripe: Stripe cannot be reached, or refuses. Nothing was credited.
	ErrStripe = errors.New("asking Stripe")
	// ErrForged: what came is not signed by Stripe, or too old.
	ErrForged = errors.New("not signed by Stripe")
)

const (
	// Actor is who adds credits for payments, in the audit trail.
	Actor = "stripe via portal"
	// patience is how long Stripe may take for an answer.
	patience = 20 * time.Second
	// staleAfter is when Stripe is asked for what it should have said by itself.
	staleAfter = 10 * time.Minute
	// repeatable is how long a call may be repeated by its idempotency key: Stripe keeps them for a day.
	repeatable = 23 * time.Hour
	// clockSkew is how far clocks of nodes may be apart.
	clockSkew = time.Minute
	// paidWithin is how long somebody may take to pay.
	paidWithin = time.Hour
	// noAccount is why a payment waits that is credited once its account is there again.
	noAccount = "the ledger has no such account"
	// page is how many rows are read at a time.
	page = 100
	// ours is the key of the metadata of Stripe's objects that has a payment's id; ofAccount has its account's, and ofKind
	// its kind.
	ours, ofAccount, ofKind = "fareway_payment", "fareway_account", "fareway_kind"
)

// Ledger is what payments move money in.
type Ledger interface {
	Account(ctx context.Context, idOrName string) (ledger.Account, error)
	AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error)
	Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error)
}

// Options are what a Service is made of.
type Options struct {
	Ledger Ledger
	// People has the payments; nil while there is no portal.
	People func() *people.Service
	// Config is the block in force, nil for none.
	Config func() *config.Stripe
	Log    *slog.Logger
	Now    func() time.Time
	// Transport reaches Stripe. nil: as the environment says (HTTPS_PROXY), with the system's authorities.
	Transport http.RoundTripper
}

// Service makes payments. It is safe for concurrent use.
type Service struct {
	o Options

	mu     sync.Mutex
	key    string // of the client
	client *stripe.Client
}

// New makes one.
func New(o Options) *Service { return &Service{o: o} }

// ready is what is in force.
func (s *Service) ready() (*config.Stripe, *people.Service, error) {
	c, p := s.o.Config(), s.o.People()
	if c == nil || p == nil {
		return nil, nil, ErrOff
	}
	return c, p, nil
}

// api is Stripe's, by a key. The library says on its own log what it is asked: it has none.
func (s *Service) api(key string) *stripe.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil || s.key != key {
		b := stripe.NewBackendsWithConfig(&stripe.BackendConfig{EnableTelemetry: stripe.Bool(false),
			HTTPClient:        &http.Client{Timeout: patience, Transport: s.o.Transport},
			LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
			MaxNetworkRetries: stripe.Int64(1)})
		s.client, s.key = stripe.NewClient(key, stripe.WithBackends(b)), key
	}
	return s.client
}

// wrap is an error of a call without what Stripe quotes of it.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*stripe.Error](err)
	if !ok {
		return fmt.Errorf("%w: it cannot be reached: try again", ErrStripe)
	}
	return fmt.Errorf("%w: it answers %d %s %s %s (its request %s)", ErrStripe, e.HTTPStatusCode, e.Type, e.Code,
		e.DeclineCode, e.RequestID)
}

// Checkout is what somebody wants to buy.
type Checkout struct {
	Account, Name string // id, and what people call it
	Credits       int64
	Return        string // where the browser goes afterwards, without a query
	// Keep asks for the means of payment to be kept for top-ups that the account makes by itself.
	Keep bool
}

// Begin begins a payment, and returns where to pay. ErrInvalid where so much cannot be bought.
func (s *Service) Begin(ctx context.Context, of Checkout) (p people.Payment, address string, err error) {
	c, store, err := s.ready()
	if err != nil {
		return p, "", err
	}
	amount, ok := c.Price(of.Credits)
	if !ok {
		return p, "", fmt.Errorf("%w: %d credits: a payment buys %d to %d, in multiples of %d", people.ErrInvalid,
			of.Credits, c.Minimum, c.Maximum, c.UnitCredits)
	}
	topUp, err := store.TopUp(ctx, of.Account)
	if err != nil {
		return p, "", err
	}
	p, err = store.BeginPayment(ctx, people.Payment{Account: of.Account, Kind: people.PaymentCheckout,
		Credits: of.Credits, Amount: amount, Currency: c.Currency, Live: c.IsLive()})
	if err != nil {
		return p, "", err
	}
	about := map[string]string{ours: p.ID, ofAccount: p.Account, ofKind: p.Kind}
	in := &stripe.CheckoutSessionCreateParams{
		Mode: stripe.String(string(stripe.CheckoutSessionModePayment)), ClientReferenceID: &p.ID, Metadata: about,
		SuccessURL: stripe.String(of.Return + "?payment=" + p.ID), CancelURL: stripe.String(of.Return + "?payment=" + p.ID),
		ExpiresAt: stripe.Int64(s.o.Now().Add(paidWithin).Unix()),
		LineItems: []*stripe.CheckoutSessionCreateLineItemParams{{
			Quantity: stripe.Int64(of.Credits / c.UnitCredits),
			PriceData: &stripe.CheckoutSessionCreateLineItemPriceDataParams{Currency: &c.Currency, UnitAmount: &c.UnitAmount,
				ProductData: &stripe.CheckoutSessionCreateLineItemPriceDataProductDataParams{
					Name: stripe.String(fmt.Sprintf("%d credits for %s", c.UnitCredits, of.Name))}},
		}},
		PaymentIntentData: &stripe.CheckoutSessionCreatePaymentIntentDataParams{Metadata: about},
	}
	if of.Keep {
		in.PaymentIntentData.SetupFutureUsage = stripe.String("off_session")
		if in.Customer = &topUp.Customer; topUp.Customer == "" {
			in.Customer, in.CustomerCreation = nil, stripe.String("always")
		}
	}
	in.IdempotencyKey = &p.ID
	session, err := s.api(c.SecretKey).V1CheckoutSessions.Create(ctx, in)
	if err != nil {
		return p, "", wrap(err)
	}
	if !strings.HasPrefix(session.URL, "https://") {
		return p, "", fmt.Errorf("%w: its session has no page over https", ErrStripe)
	}
	p, err = store.ChangePayment(ctx, p.ID, "", func(p *people.Payment) error {
		if p.State == people.PaymentBegun {
			p.State = people.PaymentOpen
		}
		p.Session = session.ID
		return nil
	})
	return p, session.URL, err
}

// Check asks Stripe how far a payment is, where that is not known to the end, and does what follows.
func (s *Service) Check(ctx context.Context, id string) (people.Payment, error) {
	c, store, err := s.ready()
	if err != nil {
		return people.Payment{}, err
	}
	p, err := store.Payment(ctx, id)
	if err != nil {
		return p, err
	}
	switch p.State {
	case people.PaymentBegun, people.PaymentOpen, people.PaymentPending:
		err = s.ask(ctx, c, store, &p)
	case people.PaymentWaiting:
		// The account may be there again; where it is not, it waits on.
		_, err = store.ChangePayment(ctx, id, "", func(p *people.Payment) error {
			if p.State == people.PaymentWaiting && p.Why == noAccount {
				p.State, p.Why = people.PaymentPaid, ""
			}
			return nil
		})
	}
	if err == nil {
		err = s.settle(ctx, store, id)
	}
	if err != nil {
		return p, err
	}
	return store.Payment(ctx, id)
}

// ask has Stripe say what it is.
func (s *Service) ask(ctx context.Context, c *config.Stripe, store *people.Service, p *people.Payment) error {
	switch api := s.api(c.SecretKey); {
	case p.Kind == people.PaymentAutomatic && p.Intent != "":
		intent, err := api.V1PaymentIntents.Retrieve(ctx, p.Intent, nil)
		if err != nil {
			return wrap(err)
		}
		return s.takeIntent(ctx, store, intent)
	case p.Kind == people.PaymentAutomatic:
		return s.charge(ctx, c, store, p)
	case p.Session != "":
		session, err := api.V1CheckoutSessions.Retrieve(ctx, p.Session, nil)
		if err != nil {
			return wrap(err)
		}
		return s.takeSession(ctx, store, session)
	case s.o.Now().Sub(p.Created) > 2*paidWithin:
		// Nobody was ever sent to pay it: the answer to the call that made its session was lost.
		return s.end(ctx, store, p.ID, people.PaymentExpired, "")
	}
	return nil
}

// end ends a payment that nobody has paid.
func (s *Service) end(ctx context.Context, store *people.Service, id string, state people.PaymentState,
	why string) error {
	_, err := store.ChangePayment(ctx, id, "", func(p *people.Payment) error {
		switch p.State {
		case people.PaymentBegun, people.PaymentOpen, people.PaymentPending:
			p.State, p.Why = state, why
		}
		return nil
	})
	return err
}

// settle has the ledger have what is so: the credits of a payment that is paid, and what of it was given back.
func (s *Service) settle(ctx context.Context, store *people.Service, id string) error {
	ctx = ledger.WithActor(ctx, Actor)
	p, err := store.Payment(ctx, id)
	if err != nil {
		return err
	}
	if p.State == people.PaymentPaid {
		_, _, err := s.o.Ledger.AddCredit(ctx, ledger.Credit{Account: p.Account, Credits: p.Credits,
			Reference: p.Reference(), Reason: "payment of " + config.FormatAmount(p.Amount, p.Currency)})
		state, why := people.PaymentCredited, ""
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			state, why = people.PaymentWaiting, noAccount
		case errors.Is(err, ledger.ErrReference):
			state, why = people.PaymentWaiting, "the account has this reference with other figures"
		case err != nil:
			return fmt.Errorf("adding the credits of payment %s: %w", p.ID, err)
		}
		note := ""
		if state == people.PaymentWaiting {
			note = "payment.wait"
			s.o.Log.Error("a payment cannot be credited", "payment", p.ID, "account_id", p.Account, "why", why)
		}
		if p, err = store.ChangePayment(ctx, id, note, func(p *people.Payment) error {
			if p.State == people.PaymentPaid {
				p.State, p.Why = state, why
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if p.State != people.PaymentCredited {
		return nil
	}
	steps, err := store.UnbookedRefunds(ctx, &p)
	if err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Microcents > 0 {
			_, _, err := s.o.Ledger.Correct(ctx, ledger.Correction{Account: p.Account, Microcents: -steps[i].Microcents,
				Reference: steps[i].Reference(&p), Reason: steps[i].Reason})
			if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrReference) {
				return s.leave(ctx, store, &p, "its credits cannot be taken back: "+err.Error())
			}
			if err != nil {
				return fmt.Errorf("taking back the credits of payment %s: %w", p.ID, err)
			}
		}
		if err := store.NoteBooked(ctx, p.ID, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// leave has an operator look at a payment that is credited.
func (s *Service) leave(ctx context.Context, store *people.Service, p *people.Payment, why string) error {
	s.o.Log.Error("a payment waits for an operator", "payment", p.ID, "account_id", p.Account, "why", why)
	_, err := store.ChangePayment(ctx, p.ID, "payment.wait", func(p *people.Payment) error {
		p.State, p.Why = people.PaymentWaiting, why
		return nil
	})
	return err
}

// Close says that an operator has decided about one that waits; the reason is on the audit trail.
func (s *Service) Close(ctx context.Context, id, reason string) (people.Payment, error) {
	store := s.o.People()
	if store == nil {
		return people.Payment{}, ErrOff
	}
	return store.ChangePayment(ctx, id, "payment.close", func(p *people.Payment) error {
		switch {
		case p.State == people.PaymentWaiting:
			p.State = people.PaymentClosed
		case p.Disputed == "open":
			p.Disputed = "closed"
		default:
			return fmt.Errorf("%w: payment %s waits for nobody", people.ErrInvalid, p.ID)
		}
		p.Why = reason
		return nil
	})
}

// Settle does what was left undone: by a crash, a ledger that was away, or a message that never came.
func (s *Service) Settle(ctx context.Context) error {
	_, store, err := s.ready()
	if err != nil {
		return nil //nolint:nilerr // nobody pays here
	}
	list, err := store.UnsettledPayments(ctx, s.o.Now().Add(-staleAfter), page)
	if err != nil {
		return err
	}
	var failed error
	for i := range list {
		p := &list[i]
		if _, err := s.Check(ctx, p.ID); err != nil {
			failed = errors.Join(failed, fmt.Errorf("looking at payment %s: %w", p.ID, err))
		}
		// So that it is another one's turn, as long as nothing is known.
		if _, err := store.ChangePayment(ctx, p.ID, "", func(p *people.Payment) error {
			p.Changed = p.Changed.Add(1)
			return nil
		}); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}
