package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/payments"
)

const (
	// settleEvery is how often what was left undone of payments is done, and topUpEvery how often balances are looked at
	// of accounts that top themselves up.
	settleEvery = 30 * time.Second
	topUpEvery  = 10 * time.Second
	// listedPayments is how many payments are told of at a time.
	listedPayments = 100
)

// Payments are how accounts pay; nil where this engine has no portal.
func (e *Engine) Payments() *payments.Service { return e.portal.payments }

// paymentChores are done by one node for all.
func (e *Engine) paymentChores(claim claimer) []*chore {
	when := func(do func(*payments.Service, context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if p := e.Payments(); p != nil {
				return do(p, ctx)
			}
			return nil
		}
	}
	return []*chore{
		claim.once(&chore{name: "settling payments", every: settleEvery, do: when((*payments.Service).Settle)}),
		claim.once(&chore{name: "topping up accounts", every: topUpEvery, first: topUpEvery,
			do: when((*payments.Service).TopUp)}),
	}
}

// findPaymentsWaiting finds those that an operator has to decide about.
func (e *Engine) findPaymentsWaiting(ctx context.Context) (found []alerts.Finding, ok bool) {
	p := e.People()
	if p == nil {
		return nil, true
	}
	list, err := p.Payments(ctx, "*", "", true, listedPayments)
	if err != nil {
		return nil, false
	}
	for i := range list {
		what := "waits: " + list[i].Why
		if list[i].Disputed == "open" {
			what = "is disputed by its payer's bank"
		}
		found = append(found, alerts.Finding{Subject: list[i].ID, Text: fmt.Sprintf("The payment %s of %d credits for the "+
			"account %s %s.", list[i].ID, list[i].Credits, list[i].Account, what),
			Next: "`fareway gateway payment list --waiting` shows it. `payment check ID` tries it once more, where its " +
				"account was away. Or credit the account, or give the money back in Stripe, and say `payment " +
				"close ID --reason TEXT`.",
			Data: map[string]any{"account_id": list[i].Account, "credits": list[i].Credits}})
	}
	return found, true
}

// findTopUpsFailed finds accounts whose top-ups fail.
func (e *Engine) findTopUpsFailed(ctx context.Context) (seen alerts.Seen, ok bool) {
	p := e.People()
	if p == nil {
		return seen, true
	}
	for after := ""; ; {
		list, err := p.TopUps(ctx, after, true, listedPayments)
		if err != nil {
			return seen, false
		}
		for i := range list {
			after = list[i].Account
			a, err := e.store.Account(ctx, after)
			switch {
			case errors.Is(err, ledger.ErrNotFound):
				continue
			case err != nil:
				return seen, false
			}
			f := alerts.Finding{Subject: a.ID, Name: a.Name, Text: fmt.Sprintf("The account %s cannot be topped up by itself: "+
				"%s.", a.Name, list[i].Why), Next: "Its owner has to pay with something else, on the page Credits.",
				Data: map[string]any{"failures": list[i].Failures, "active": list[i].Active}}
			if len(a.Mail) > 0 {
				o := wordsOfTopUp(&a, list[i].Active)
				f.Owner = &o
			}
			seen.Findings = append(seen.Findings, f)
		}
		if len(list) < listedPayments {
			return seen, true
		}
	}
}

// wordsOfTopUp say that a top-up has failed.
func wordsOfTopUp(a *ledger.Account, goesOn bool) alerts.ForOwner {
	o := alerts.ForOwner{Title: fmt.Sprintf("Your account %s could not be topped up", a.Name),
		Text: fmt.Sprintf("The means of payment of your account %s was declined. It is tried again in a few hours.", a.Name),
		Next: "Buy credits on the page Credits of the portal, with a card that works, and have it kept."}
	if !goesOn {
		o.Text = fmt.Sprintf("The means of payment of your account %s was declined several times. It is not topped up any "+
			"more.", a.Name)
	}
	return o
}
