package payments_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/payments/stripetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// books is a ledger that may be away.
type books struct {
	ledger.Store
	mu   sync.Mutex
	away bool
	gone bool // the account
}

func (b *books) isAway() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.away:
		return ledger.ErrUnavailable
	case b.gone:
		return ledger.ErrNotFound
	}
	return nil
}

func (b *books) setGone(gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = gone
}

func (b *books) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// AddCredit implements payments.Ledger.
func (b *books) AddCredit(ctx context.Context, c ledger.Credit) (ledger.Balance, bool, error) {
	if err := b.isAway(); err != nil {
		return ledger.Balance{}, false, err
	}
	return b.Store.AddCredit(ctx, c)
}

// Correct implements payments.Ledger.
func (b *books) Correct(ctx context.Context, c ledger.Correction) (ledger.Balance, bool, error) {
	if err := b.isAway(); err != nil {
		return ledger.Balance{}, false, err
	}
	return b.Store.Correct(ctx, c)
}

// shop is a service with all that it needs, and an account.
type shop struct {
	*testing.T
	*payments.Service
	stripe  *stripetest.Server
	people  *people.Service
	books   *books
	account ledger.Account
	config  *config.Stripe
	log     bytes.Buffer

	mu  sync.Mutex
	now time.Time
}

func (s *shop) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shop) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// onBothStores runs a test with the payments in a file, and in PostgreSQL.
func onBothStores(t *testing.T, test func(s *shop)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(open(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(openOn(t, postgrestest.Database(t)))
	})
}

func open(t *testing.T) *shop {
	t.Helper()
	return openOn(t, "")
}

// openOn opens a shop whose payments are in a database of PostgreSQL's, "" for a file.
func openOn(t *testing.T, dsn string) *shop {
	t.Helper()
	s := &shop{T: t, stripe: stripetest.New(t), now: time.Now(), config: &config.Stripe{SecretKey: stripetest.Key,
		WebhookSecret: stripetest.Secret, Currency: "eur", UnitAmount: 95, UnitCredits: 100, Minimum: 500, Maximum: 100_000}}
	s.books = &books{Store: ledgertest.OpenMemory(t, ledgertest.Options{Dir: t.TempDir(), BootID: "boot",
		Now: s.clock, Terms: func(string) ledger.Terms { return ledger.Terms{} }})}
	a, err := s.books.CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	s.account = a
	path := filepath.Join(t.TempDir(), "portal.db")
	if dsn != "" {
		path = ""
	}
	s.people = people.New(people.Options{Path: path, DSN: dsn, Log: slog.New(slog.DiscardHandler),
		Config: func() config.Portal { return config.Portal{} }, Now: s.clock,
		Limiter: ratelimit.NewMemory(ratelimit.Options{}), Record: s.books.RecordAct})
	t.Cleanup(func() { require.NoError(t, s.people.Close()) })
	s.Service = payments.New(payments.Options{Ledger: s.books, People: func() *people.Service { return s.people },
		Config: func() *config.Stripe { return s.config }, Log: slog.New(slog.NewTextHandler(&s.log, nil)), Now: s.clock,
		Transport: s.stripe.Transport()})
	return s
}

func (s *shop) begin(credits int64, keep bool) people.Payment {
	s.Helper()
	p, address, err := s.Begin(s.Context(), payments.Checkout{Account: s.account.ID, Name: "ann", Credits: credits,
		Return: "https://portal.example/portal/credits", Keep: keep})
	require.NoError(s, err)
	require.Equal(s, "https://checkout.stripe.com/c/pay/"+p.Session, address)
	return p
}

func (s *shop) send(event stripetest.Object) error {
	body, signature := stripetest.Sign(event, stripetest.Secret, time.Now())
	return s.Receive(s.Context(), body, signature)
}

func (s *shop) balance() int64 {
	s.Helper()
	a, err := s.books.Account(s.Context(), s.account.ID)
	require.NoError(s, err)
	return a.Balance.Credits
}

func (s *shop) state(id string) people.PaymentState {
	s.Helper()
	p, err := s.people.Payment(s.Context(), id)
	require.NoError(s, err)
	return p.State
}

// TestPaidOnce: a payment is credited once, whatever comes twice, late, or at the same time, and whoever looks.
func TestPaidOnce(t *testing.T) {
	t.Parallel()
	onBothStores(t, payOnce)
}

func payOnce(s *shop) {
	t := s.T
	p := s.begin(1000, false)
	require.Equal(t, int64(950), p.Amount)
	require.Equal(t, people.PaymentOpen, p.State)
	event := s.stripe.Pay(p.Session)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { _ = s.send(event) }) // a node that lost the race may ask for it again
		wait.Go(func() { _, _ = s.Check(t.Context(), p.ID) })
	}
	wait.Wait()
	require.NoError(t, s.send(event))
	late := s.stripe.Event("checkout.session.async_payment_succeeded",
		event["data"].(stripetest.Object)["object"].(stripetest.Object))
	require.NoError(t, s.send(late))
	require.NoError(t, s.send(s.stripe.Event("checkout.session.expired", stripetest.Object{"id": p.Session,
		"status": "expired", "metadata": stripetest.Object{"fareway_payment": p.ID}})))
	require.Equal(t, int64(1000), s.balance())
	require.Equal(t, people.PaymentCredited, s.state(p.ID))
	var entries []ledger.Entry
	require.NoError(t, s.books.Entries(t.Context(), ledger.Query{Account: s.account.ID}, func(e ledger.Entry) error {
		entries = append(entries, e)
		return nil
	}))
	require.Len(t, entries, 1)
	require.Equal(t, "stripe:"+p.Session, entries[0].Reference)
	require.Equal(t, "payment of EUR 9.50", entries[0].Reason)
}

// TestWhoeverForges: what is not signed, too old, of another payment, another amount or another currency moves nothing.
func TestWhoeverForges(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(1000, false)
	event := s.stripe.Pay(p.Session)
	session := event["data"].(stripetest.Object)["object"].(stripetest.Object)
	altered := func(change func(o stripetest.Object)) stripetest.Object {
		o := stripetest.Object{}
		for k, v := range session {
			o[k] = v
		}
		change(o)
		return s.stripe.Event("checkout.session.completed", o)
	}
	body, signature := stripetest.Sign(event, "whsec_another", time.Now())
	require.ErrorIs(t, s.Receive(t.Context(), body, signature), payments.ErrForged)
	body, signature = stripetest.Sign(event, stripetest.Secret, time.Now().Add(-10*time.Minute))
	require.ErrorIs(t, s.Receive(t.Context(), body, signature), payments.ErrForged, "sent again by who has read it")
	body, signature = stripetest.Sign(event, stripetest.Secret, time.Now())
	require.ErrorIs(t, s.Receive(t.Context(), append(body, ' '), signature), payments.ErrForged)
	require.ErrorIs(t, s.Receive(t.Context(), body, ""), payments.ErrForged)
	require.ErrorIs(t, s.Receive(t.Context(), nil, signature), payments.ErrForged)

	live := altered(func(stripetest.Object) {})
	live["livemode"] = true
	require.NoError(t, s.send(live))
	require.NoError(t, s.send(altered(func(o stripetest.Object) { o["metadata"] = stripetest.Object{} })))
	require.NoError(t, s.send(altered(func(o stripetest.Object) { o["id"] = "cs_elsewhere" })))
	require.NoError(t, s.send(altered(func(o stripetest.Object) { o["payment_status"] = "unpaid"; o["status"] = "open" })))
	require.NoError(t, s.send(altered(func(o stripetest.Object) {
		o["metadata"] = stripetest.Object{"fareway_payment": "pay_0123456789abcdef01234567"}
	})))
	require.Zero(t, s.balance())
	require.Equal(t, people.PaymentOpen, s.state(p.ID))

	for name, change := range map[string]func(o stripetest.Object){
		"too little":       func(o stripetest.Object) { o["amount_total"] = 1 },
		"too much":         func(o stripetest.Object) { o["amount_total"] = int64(1) << 62 },
		"another currency": func(o stripetest.Object) { o["currency"] = "jpy" },
	} {
		p = s.begin(1000, false)
		event = s.stripe.Pay(p.Session)
		session = event["data"].(stripetest.Object)["object"].(stripetest.Object)
		require.NoError(t, s.send(altered(change)), name)
		require.Equal(t, people.PaymentWaiting, s.state(p.ID), "%s: it is kept for an operator", name)
	}
	require.Zero(t, s.balance())
	waiting, err := s.people.Payments(t.Context(), "*", "", true, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 3)
	_, err = s.Close(t.Context(), p.ID, "given back by hand")
	require.NoError(t, err)
	_, err = s.Close(t.Context(), p.ID, "twice")
	require.ErrorIs(t, err, people.ErrInvalid)
	require.NotContains(t, s.log.String(), stripetest.Key)
	require.NotContains(t, s.log.String(), stripetest.Secret)
}

// TestLedgerAway: Stripe is told to send again until the credits are in the ledger, and a payment is not lost by it.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(500, false)
	event := s.stripe.Pay(p.Session)
	s.books.setAway(true)
	require.ErrorIs(t, s.send(event), ledger.ErrUnavailable)
	require.Equal(t, people.PaymentPaid, s.state(p.ID))
	require.Error(t, s.Settle(t.Context()))
	s.books.setAway(false)
	require.NoError(t, s.Settle(t.Context()))
	require.NoError(t, s.send(event))
	require.Equal(t, int64(500), s.balance())
}

// TestMessageNeverComes: what Stripe did not say is asked for.
func TestMessageNeverComes(t *testing.T) {
	t.Parallel()
	s := open(t)
	paid, unpaid := s.begin(500, false), s.begin(600, false)
	s.stripe.Pay(paid.Session)
	s.stripe.Change(func(f *stripetest.Server) { f.Sessions[unpaid.Session]["status"] = "expired" })
	require.NoError(t, s.Settle(t.Context()))
	require.Zero(t, s.balance(), "it has time")
	s.pass(11 * time.Minute)
	require.NoError(t, s.Settle(t.Context()))
	require.Equal(t, int64(500), s.balance())
	require.Equal(t, people.PaymentExpired, s.state(unpaid.ID))
}

// TestAccountGone: a payment for an account that is not in the ledger is kept, and credited once it is there again.
func TestAccountGone(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(500, false)
	s.books.setGone(true)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	require.Equal(t, people.PaymentWaiting, s.state(p.ID))
	_, err := s.Check(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, people.PaymentWaiting, s.state(p.ID), "it is not there yet")
	s.books.setGone(false)
	for range 2 {
		_, err = s.Check(t.Context(), p.ID)
		require.NoError(t, err)
	}
	require.Equal(t, people.PaymentCredited, s.state(p.ID))
	require.Equal(t, int64(500), s.balance())
	_, err = s.books.SetState(t.Context(), s.account.ID, ledger.Suspended)
	require.NoError(t, err)
	p = s.begin(500, false)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	require.Equal(t, int64(1000), s.balance(), "one that is suspended has its money")
}

// TestForgottenPayment: a session that was paid, and whose payment a store that was put back does not have, is kept for
// an operator, and moves nothing.
func TestForgottenPayment(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(500, false)
	event := s.stripe.Pay(p.Session)
	session := event["data"].(stripetest.Object)["object"].(stripetest.Object)
	session["metadata"] = stripetest.Object{"fareway_payment": "pay_0123456789abcdef01234567",
		"fareway_account": s.account.ID}
	require.NoError(t, s.send(event))
	require.NoError(t, s.send(event))
	require.Zero(t, s.balance())
	require.Equal(t, people.PaymentWaiting, s.state("pay_0123456789abcdef01234567"))
}

// TestGivenBack: what is given back takes credits away in proportion, once, in whatever order it is said.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(1000, false)
	paid := s.stripe.Pay(p.Session)
	charge := func(refunded int64) stripetest.Object {
		return s.stripe.Event("charge.refunded", stripetest.Object{"id": "ch_1", "object": "charge", "amount": 950,
			"amount_refunded": refunded, "currency": "eur", "payment_intent": "pi_" + p.Session,
			"metadata": stripetest.Object{"fareway_payment": p.ID}})
	}
	require.NoError(t, s.send(charge(475)), "before it is known to be paid")
	require.Zero(t, s.balance())
	require.NoError(t, s.send(paid))
	require.Equal(t, int64(500), s.balance())
	require.NoError(t, s.send(charge(100)), "an older one")
	require.NoError(t, s.send(charge(475)))
	require.Equal(t, int64(500), s.balance())
	require.NoError(t, s.send(charge(950)))
	require.NoError(t, s.send(charge(9500)))
	require.Zero(t, s.balance(), "all of it, and no more")
}

// TestDispute: a dispute takes nothing and ends automatic top-ups; one that is lost is taken back, once.
func TestDispute(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.begin(1000, true)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	_, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{Active: true, Threshold: 10, Credits: 500,
		Monthly: 500})
	require.NoError(t, err)
	dispute := func(kind, status string) error {
		return s.send(s.stripe.Event("charge.dispute."+kind, stripetest.Object{"id": "dp_1", "object": "dispute",
			"amount": 950, "currency": "eur", "payment_intent": "pi_" + p.Session, "status": status}))
	}
	require.NoError(t, dispute("created", "needs_response"))
	require.Equal(t, int64(1000), s.balance())
	v, err := s.people.TopUp(t.Context(), s.account.ID)
	require.NoError(t, err)
	require.False(t, v.Active)
	waiting, err := s.people.Payments(t.Context(), "*", "", true, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	for range 2 {
		require.NoError(t, dispute("closed", "lost"))
		require.NoError(t, dispute("created", "needs_response"))
	}
	require.Zero(t, s.balance())
}

// TestTopUp: one payment for each time that the balance falls, within the month's credits, and none after failures.
func TestTopUp(t *testing.T) {
	t.Parallel()
	onBothStores(t, topUp)
}

func topUp(s *shop) {
	t := s.T
	_, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{Active: true, Threshold: 600, Credits: 500,
		Monthly: 1000})
	require.ErrorIs(t, err, people.ErrInvalid, "there is nothing to pay with")
	p := s.begin(500, true)
	require.NoError(t, s.send(s.stripe.Pay(p.Session)))
	set := func() {
		v, err := s.SetTopUp(t.Context(), s.account.ID, payments.Setting{Active: true, Threshold: 600, Credits: 500,
			Monthly: 1000})
		require.NoError(t, err)
		require.Equal(t, "visa 4242", v.Card)
	}
	set()
	for bad, in := range map[string]payments.Setting{
		"not sold":     {Active: true, Threshold: 600, Credits: 550, Monthly: 1000},
		"limit":        {Active: true, Threshold: 600, Credits: 500, Monthly: 400},
		"no threshold": {Active: true, Credits: 500, Monthly: 1000},
	} {
		_, err := s.SetTopUp(t.Context(), s.account.ID, in)
		require.ErrorIs(t, err, people.ErrInvalid, bad)
	}
	var wait sync.WaitGroup
	for range 4 { // nodes that take the same turn
		wait.Go(func() { _ = s.TopUp(t.Context()) })
	}
	wait.Wait()
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(1000), s.balance())

	spend := func() {
		_, _, err := s.books.Correct(t.Context(), ledger.Correction{Account: s.account.ID, Reason: "spent",
			Microcents: -500 * ledger.MicrocentsPerCredit})
		require.NoError(t, err)
	}
	spend()
	// The answer is lost, as in a crash: what is asked again is the same charge.
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = true })
	require.Error(t, s.TopUp(t.Context()))
	require.Equal(t, int64(500), s.balance())
	s.stripe.Change(func(f *stripetest.Server) { f.Lose = false })
	require.NoError(t, s.TopUp(t.Context()), "one is on its way")
	s.pass(11 * time.Minute)
	require.NoError(t, s.Settle(t.Context()))
	require.Equal(t, int64(1000), s.balance())
	s.stripe.Change(func(f *stripetest.Server) { require.Len(t, f.Intents, 3, "of the checkout and of two top-ups") })

	var paid stripetest.Object
	list, err := s.people.Payments(t.Context(), s.account.ID, "", false, 1)
	require.NoError(t, err)
	credited := list[0]
	require.Equal(t, people.PaymentCredited, credited.State)
	spend()
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(500), s.balance(), "the month's credits are used up")
	s.pass(32 * 24 * time.Hour)
	s.stripe.Change(func(f *stripetest.Server) { f.Decline = "insufficient_funds" })
	for range 3 {
		require.NoError(t, s.TopUp(t.Context()))
		require.NoError(t, s.TopUp(t.Context()), "it waits after a failure")
		s.pass(25 * time.Hour)
	}
	v, err := s.people.TopUp(t.Context(), s.account.ID)
	require.NoError(t, err)
	require.False(t, v.Active)
	require.Equal(t, int64(3), v.Failures)
	require.Equal(t, "card_declined insufficient_funds", v.Why)
	s.stripe.Change(func(f *stripetest.Server) { paid = f.Intents[credited.Intent] })
	require.NoError(t, s.send(s.stripe.Event("payment_intent.succeeded", paid)))
	again, err := s.people.TopUp(t.Context(), s.account.ID)
	require.NoError(t, err)
	require.Equal(t, v, again, "what is said again ends no failures")
	failed, err := s.people.TopUps(t.Context(), "", true, 10)
	require.NoError(t, err)
	require.Len(t, failed, 1)
	s.stripe.Change(func(f *stripetest.Server) { f.Decline = "" })
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(500), s.balance())
	set()
	require.NoError(t, s.TopUp(t.Context()))
	require.Equal(t, int64(1000), s.balance())
}

// TestBegin: what cannot be bought is refused before Stripe is asked, and Stripe's words stand in no error.
func TestBegin(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, credits := range []int64{0, -500, 499, 550, 100_100, 1 << 62} {
		_, _, err := s.Begin(t.Context(), payments.Checkout{Account: s.account.ID, Credits: credits})
		require.ErrorIs(t, err, people.ErrInvalid, credits)
	}
	s.stripe.Change(func(f *stripetest.Server) { f.Away = true })
	_, _, err := s.Begin(t.Context(), payments.Checkout{Account: s.account.ID, Credits: 500})
	require.ErrorIs(t, err, payments.ErrStripe)
	require.NotContains(t, err.Error(), stripetest.Key)
	s.stripe.Change(func(f *stripetest.Server) { f.Away = false })
	for range 19 {
		s.begin(500, false)
	}
	_, _, err = s.Begin(t.Context(), payments.Checkout{Account: s.account.ID, Credits: 500})
	require.ErrorIs(t, err, people.ErrInvalid, "each is a session at Stripe")
	s.config = nil
	_, _, err = s.Begin(t.Context(), payments.Checkout{Account: s.account.ID, Credits: 500})
	require.ErrorIs(t, err, payments.ErrOff)
	require.NoError(t, s.Settle(t.Context()))
	require.NoError(t, s.TopUp(t.Context()))
}

// FuzzEvent: nothing that is signed and not what it should be breaks it, or moves money.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{`{"object":"event"}`, `{"object":"event","type":"checkout.session.completed","data":{}}`,
		`{"object":"event","type":"charge.refunded","data":{"object":{"payment_intent":7,"metadata":[]}}}`,
		`{"object":"event","type":"charge.dispute.created","data":{"object":{"id":"dp"}}}`, `[]`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := open(t)
		var o stripetest.Object
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		_ = s.send(o) // any answer is one
		require.Zero(t, s.balance())
		require.False(t, strings.Contains(s.log.String(), stripetest.Secret))
	})
}
