package payments_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/payments/stripetest"
	"github.com/fareway/fareway/modules/internal/people"
)

// topsUp is a shop whose account has a card kept and tops itself up by 500 below 600. Its balance is 500.
func topsUp(t *testing.T) (s *shop, bought people.Payment, paid stripetest.Object) {
	t.Helper()
	s = open(t)
	bought = s.begin(500, true)
	paid = s.stripe.Pay(bought.Session)
	require.NoError(t, s.send(paid))
	s.setTopUp()
	s.pass(time.Second) // the newest is one
	return s, bought, paid
}

func (s *shop) setTopUp() {
	s.Helper()
	_, err := s.SetTopUp(s.Context(), s.account.ID, payments.Setting{Active: true, Threshold: 600, Credits: 500,
		Monthly: 5000})
	require.NoError(s, err)
}

func (s *shop) topUpIs() people.TopUp {
	s.Helper()
	v, err := s.people.TopUp(s.Context(), s.account.ID)
	require.NoError(s, err)
	return v
}

// intents is how many payments without a customer present Stripe has taken.
func (s *shop) intents() (n int) {
	s.stripe.Change(func(f *stripetest.Server) { n = len(f.Intents) - 1 }) // without that of the checkout
	return n
}

// newest is the payment that was begun last.
func (s *shop) newest() people.Payment {
	s.Helper()
	list, err := s.people.Payments(s.Context(), s.account.ID, "", false, 1)
	require.NoError(s, err)
	require.Len(s, list, 1)
	return list[0]
}

// TestTopUpIsRepeatedAsItWas: a charge whose answer was lost is asked for again with the card of then, whatever is kept
// by now; what Stripe refuses for any other reason than the card is nobody's decline.
func TestTopUpIsRepeatedAsItWas(t *testing.T) {
	t.Parallel()
	s, _, _ := topsUp(t)
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = true })
	require.Error(t, s.TopUp(t.Context()))
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = false })
	_, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{Forget: true})
	require.NoError(t, err)

	s.stripe.Change(func(f *stripetest.Server) { f.Away = true }) // the key is another one, say
	s.pass(11 * time.Minute)
	require.Error(t, s.Settle(t.Context()))
	require.Equal(t, people.PaymentBegun, s.newest().State)
	require.Zero(t, s.topUpIs().Failures)
	s.stripe.Change(func(f *stripetest.Server) { f.Away = false })
	s.pass(11 * time.Minute)
	require.NoError(t, s.Settle(t.Context()))
	require.Equal(t, people.PaymentCredited, s.newest().State)
	require.Equal(t, 1, s.intents())
	require.Equal(t, int64(1000), s.balance())
}

// TestClockGoesBack: what was begun later than it is now is not asked for again: Stripe may have forgotten its key.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	s, _, _ := topsUp(t)
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = true })
	require.Error(t, s.TopUp(t.Context()))
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = false })
	id := s.newest().ID
	s.pass(-48 * time.Hour)
	_, err := s.Check(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, people.PaymentWaiting, s.state(id))

	// What Stripe says of it later is for who decides.
	var paid stripetest.Object
	s.stripe.Change(func(f *stripetest.Server) {
		for name, o := range f.Intents {
			if o["payment_method"] != nil && name[:7] == "pi_auto" {
				paid = o
			}
		}
	})
	require.NoError(t, s.send(s.stripe.Event("payment_intent.succeeded", paid)))
	require.Equal(t, people.PaymentWaiting, s.state(id))
	p, err := s.people.Payment(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, paid["id"], p.Intent)
	paid["status"] = "requires_payment_method"
	require.NoError(t, s.send(s.stripe.Event("payment_intent.payment_failed", paid)))
	require.Equal(t, people.PaymentWaiting, s.state(id), "it is an operator's by now")
	require.Equal(t, int64(500), s.balance())
}

// TestGivenBackIsNotBoughtAgain: what a refund takes away is not charged to the card a moment later.
func TestGivenBackIsNotBoughtAgain(t *testing.T) {
	t.Parallel()
	s, bought, _ := topsUp(t)
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(1000), s.balance())
	refund := s.stripe.Event("charge.refunded", stripetest.Object{"id": "ch_1", "object": "charge",
		"amount": bought.Amount, "amount_refunded": bought.Amount, "currency": "eur",
		"metadata": stripetest.Object{"fareway_payment": bought.ID}})
	require.NoError(t, s.send(refund))
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(500), s.balance())
	require.Equal(t, 1, s.intents())
	require.Equal(t, "a payment was given back", s.topUpIs().Why)
	s.setTopUp()
	require.NoError(t, s.send(refund))
	require.True(t, s.topUpIs().Active, "what is said again changes nothing")
}

// TestLostAndGivenBack: disputes that are lost and refunds add up, whichever comes first, to the amount and no more.
func TestLostAndGivenBack(t *testing.T) {
	t.Parallel()
	type step struct {
		dispute string
		amount  int64
	}
	for name, c := range map[string]struct {
		steps []step
		left  int64
	}{
		"lost, then given back":  {[]step{{"dp_1", 475}, {"", 475}}, 0},
		"given back, then lost":  {[]step{{"", 475}, {"dp_1", 475}}, 0},
		"two disputes":           {[]step{{"dp_1", 190}, {"dp_2", 190}, {"dp_1", 190}}, 600},
		"older word of a refund": {[]step{{"", 475}, {"dp_1", 190}, {"", 190}}, 300},
		"more than was paid":     {[]step{{"dp_1", 950}, {"", 950}, {"dp_2", 950}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			p := s.begin(1000, false)
			require.NoError(t, s.send(s.stripe.Pay(p.Session)))
			for _, step := range c.steps {
				event := s.stripe.Event("charge.dispute.closed", stripetest.Object{"id": step.dispute, "object": "dispute",
					"amount": step.amount, "currency": "eur", "payment_intent": "pi_" + p.Session, "status": "lost"})
				if step.dispute == "" {
					event = s.stripe.Event("charge.refunded", stripetest.Object{"id": "ch_1", "object": "charge", "amount": 950,
						"amount_refunded": step.amount, "currency": "eur", "metadata": stripetest.Object{"fareway_payment": p.ID}})
				}
				require.NoError(t, s.send(event))
			}
			require.Equal(t, c.left, s.balance())
		})
	}
	s := open(t)
	p := s.begin(1000, false)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	require.NoError(t, s.send(s.stripe.Event("charge.dispute.closed", stripetest.Object{"id": "dp_1", "object": "dispute",
		"amount": 95, "currency": "jpy", "payment_intent": "pi_" + p.Session, "status": "lost"})))
	require.Equal(t, int64(1000), s.balance(), "in another currency it is an operator's")
	require.Equal(t, "open", s.newest().Disputed)
}

// TestForgottenCard: a message that is sent again brings back no card that its owner had forgotten.
func TestForgottenCard(t *testing.T) {
	t.Parallel()
	s, bought, paid := topsUp(t)
	_, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{Forget: true})
	require.NoError(t, err)
	require.NoError(t, s.send(paid))
	_, err = s.Check(t.Context(), bought.ID)
	require.NoError(t, err)
	require.Empty(t, s.topUpIs().Card)
}

// TestNewPrice: nobody is charged by themselves what they have not agreed to.
func TestNewPrice(t *testing.T) {
	t.Parallel()
	s, _, _ := topsUp(t)
	s.config.UnitAmount++
	require.NoError(t, s.TopUp(t.Context()))
	require.Zero(t, s.intents())
	require.False(t, s.topUpIs().Active)
	require.Equal(t, "the price has changed", s.topUpIs().Why)
	s.setTopUp()
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(1000), s.balance())
}

// TestForgottenTopUp: one that was paid, and that a store which was put back does not have, is kept for an operator.
func TestForgottenTopUp(t *testing.T) {
	t.Parallel()
	s := open(t)
	const id = "pay_0123456789abcdef01234567"
	succeeded := func(kind string) error {
		return s.send(s.stripe.Event("payment_intent.succeeded", stripetest.Object{"id": "pi_1", "object": "payment_intent",
			"status": "succeeded", "amount": 475, "amount_received": 475, "currency": "eur",
			"metadata": stripetest.Object{"fareway_payment": id, "fareway_account": s.account.ID, "fareway_kind": kind}}))
	}
	require.NoError(t, succeeded("checkout"))
	_, err := s.people.Payment(t.Context(), id)
	require.ErrorIs(t, err, people.ErrNotFound, "of that its session tells")
	require.NoError(t, succeeded("automatic"))
	require.NoError(t, succeeded("automatic"))
	require.Equal(t, people.PaymentWaiting, s.state(id))
	require.Zero(t, s.balance())
}

// TestDecidedByHand: what is given back of a payment that an operator has closed waits for one again; and so does one
// whose account is gone when its credits are to be taken back.
func TestDecidedByHand(t *testing.T) {
	t.Parallel()
	s := open(t)
	refund := func(p people.Payment) error {
		return s.send(s.stripe.Event("charge.refunded", stripetest.Object{"id": "ch_1", "object": "charge",
			"amount": p.Amount, "amount_refunded": p.Amount, "currency": "eur",
			"metadata": stripetest.Object{"fareway_payment": p.ID}}))
	}
	p := s.begin(500, false)
	s.books.setGone(true)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	_, err := s.Close(t.Context(), p.ID, "credited by hand")
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, refund(p))
		require.Equal(t, people.PaymentWaiting, s.state(p.ID))
	}
	_, err = s.Close(t.Context(), p.ID, "taken back by hand")
	require.NoError(t, err)
	require.NoError(t, refund(p))
	require.Equal(t, people.PaymentClosed, s.state(p.ID), "it was decided")

	s.books.setGone(false)
	p = s.begin(500, false)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	s.books.setGone(true)
	require.NoError(t, refund(p))
	require.Equal(t, people.PaymentWaiting, s.state(p.ID))
	require.NoError(t, s.Settle(t.Context()), "and is not tried for ever")
}

// TestReferenceIsTaken: what an operator has credited by hand, with other figures, is not credited once more.
func TestReferenceIsTaken(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(500, false)
	_, _, err := s.books.AddCredit(t.Context(), ledger.Credit{Account: s.account.ID, Credits: 7, Reference: p.Reference()})
	require.NoError(t, err)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	require.Equal(t, int64(7), s.balance())
	require.Equal(t, people.PaymentWaiting, s.state(p.ID))
	require.Contains(t, s.newest().Why, "with other figures")
	require.Contains(t, s.log.String(), p.ID, "an operator hears of it")
	_, err = s.Check(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, people.PaymentWaiting, s.state(p.ID), "until they have decided")
}

// TestStoreIsAway: Stripe is to send again what cannot be kept, and nothing is begun that nobody would know of.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	s, bought, _ := topsUp(t)
	open := s.begin(500, false)
	event := s.stripe.Pay(open.Session)
	require.NoError(t, s.people.Close())
	for name, do := range map[string]func() error{
		"completed": func() error { return s.send(event) },
		"refund": func() error {
			return s.send(s.stripe.Event("charge.refunded", stripetest.Object{"amount": bought.Amount, "currency": "eur",
				"amount_refunded": 1, "metadata": stripetest.Object{"fareway_payment": bought.ID}}))
		},
		"dispute": func() error {
			return s.send(s.stripe.Event("charge.dispute.created", stripetest.Object{"id": "dp_1", "amount": 1,
				"payment_intent": "pi_" + bought.Session, "status": "needs_response"}))
		},
		"top-up succeeded": func() error {
			return s.send(s.stripe.Event("payment_intent.succeeded", stripetest.Object{"id": "pi_1", "status": "succeeded",
				"metadata": stripetest.Object{"fareway_payment": open.ID, "fareway_account": s.account.ID,
					"fareway_kind": "automatic"}}))
		},
		"settle":  func() error { return s.Settle(t.Context()) },
		"top up":  func() error { return s.TopUp(t.Context()) },
		"check":   func() error { _, err := s.Check(t.Context(), open.ID); return err },
		"close":   func() error { _, err := s.Close(t.Context(), open.ID, "x"); return err },
		"setting": func() error { _, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{}); return err },
		"begin": func() error {
			_, _, err := s.Begin(t.Context(), payments.Checkout{Account: s.account.ID, Credits: 500})
			return err
		},
	} {
		require.Error(t, do(), name)
	}
	s.stripe.Change(func(f *stripetest.Server) { require.Len(t, f.Sessions, 2) })
	require.Zero(t, s.intents()-1, "but for that of the second checkout")
	require.Equal(t, int64(500), s.balance())
}
