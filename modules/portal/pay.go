package portal

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// shownPayments is how many payments the page of credits has.
const shownPayments = 20

// stripe is how accounts pay, nil for not at all.
func (v *visit) stripe() *config.Stripe {
	if g := v.engine.Current(); g != nil && g.Config.Portal != nil {
		return g.Config.Portal.Stripe
	}
	return nil
}

// payView is what the page of credits has of payments; nil where nobody pays here.
func (v *visit) payView(a account) (*views.Pay, error) {
	c := v.stripe()
	if c == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	view := &views.Pay{Unit: c.UnitCredits, Minimum: c.Minimum, Maximum: c.Maximum,
		Price: config.FormatAmount(c.UnitAmount, c.Currency), May: v.viewer.Account.Role == string(people.RoleOwner)}
	for _, n := range []int64{1, 2, 5, 10, 20, 50, 100} {
		if amount, ok := c.Price(c.Minimum * n); ok {
			view.Choices = append(view.Choices, views.PayChoice{Credits: c.Minimum * n,
				Cost: config.FormatAmount(amount, c.Currency)})
		}
	}
	var page admin.Payments
	if err := a.Call(v.r.Context(), http.MethodGet, "/fareway/payments?"+url.Values{"account": {a.id},
		"limit": {strconv.Itoa(shownPayments)}}.Encode(), nil, &page); err != nil {
		return nil, err
	}
	for i := range page.Payments {
		p := &page.Payments[i]
		view.Payments = append(view.Payments, views.Payment{Payment: *p, Cost: config.FormatAmount(p.Amount, p.Currency)})
	}
	err := a.Call(v.r.Context(), http.MethodGet, "/fareway/accounts/"+url.PathEscape(a.id)+"/top-up", nil, &view.TopUp)
	return view, err
}

// returnFromPayment says what is known of a payment that somebody comes back from, and asks Stripe for that: its own
// message may be late.
func (v *visit) returnFromPayment(a account, id string) error {
	p, err := v.service.Payment(v.r.Context(), id)
	if err == nil && p.Account != a.id {
		err = errNotFound
	}
	if err != nil {
		return err
	}
	switch p.State {
	case people.PaymentBegun, people.PaymentOpen, people.PaymentPending, people.PaymentPaid:
		if p.Kind != people.PaymentCheckout || v.viewer.Account.Role != string(people.RoleOwner) {
			break // nobody comes back from that, or it is not they who pay
		}
		var now people.Payment
		if err := a.Call(v.r.Context(), http.MethodPost, "/fareway/payments/"+url.PathEscape(id)+"/check", nil,
			&now); err != nil {
			v.log.Warn("asking how far a payment is", "payment", id, "error", err)
		} else {
			p = now
		}
	}
	switch p.State {
	case people.PaymentCredited:
		v.notice = v.language.Text("Thank you: %s credits are added.", v.language.Number(p.Credits))
	case people.PaymentPending, people.PaymentPaid:
		v.notice = v.language.Text("The payment is on its way. The credits are added when it has arrived.")
	case people.PaymentWaiting, people.PaymentClosed:
		v.notice = v.language.Text("The payment has arrived, and who runs this service looks at it.")
	case people.PaymentFailed:
		v.fault = v.language.Text("The payment has failed. Nothing was added.")
	default:
		v.fault = v.language.Text("Nothing is paid yet. Nothing was added.")
	}
	return nil
}

// changeCredits buys credits, or sets how the account tops itself up or what it may spend.
func changeCredits(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	a := v.ofAccount()
	switch form.Get("act") {
	case "buy":
		text := form.Get("other")
		if text == "" {
			text = form.Get("credits")
		}
		n, perr := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if perr != nil {
			return errBadForm
		}
		var begun admin.BegunPayment
		err = a.Call(v.r.Context(), http.MethodPost, "/fareway/payments", admin.NewPayment{Account: a.id, Credits: n,
			Return: v.origin() + "/portal/credits", Keep: form.Get("keep") == "yes"}, &begun)
		if err == nil {
			http.Redirect(v.w, v.r, begun.Address, http.StatusSeeOther) // Stripe's page, as Stripe has said it
			return nil
		}
	case "top-up", "top-up-off", "forget", "own-cap":
		if form.Get("act") == "own-cap" {
			err = v.setOwnCap(a, form)
		} else {
			err = v.setTopUp(a, form)
		}
		if errors.Is(err, errChanged) {
			v.status = http.StatusConflict
			v.fault = v.language.Text("Somebody has changed it meanwhile: nothing was done. This is how it is now.")
			return showCredits(v)
		}
		if err == nil {
			v.done("/portal/credits", "saved")
			return nil
		}
	default:
		return errBadForm
	}
	if admin.StatusOf(err) == http.StatusBadGateway {
		v.log.Warn("a payment cannot be begun", "error", err)
		v.status, v.fault = http.StatusBadGateway, v.language.Text("The payment service cannot be reached, or refuses. "+
			"Nothing was paid. Try again later.")
		return showCredits(v)
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return showCredits(v)
	}
	return err
}

var errChanged = errors.New("somebody has changed it meanwhile")

func (v *visit) setTopUp(a account, form url.Values) error {
	path := "/fareway/accounts/" + url.PathEscape(a.id) + "/top-up"
	var is people.TopUp
	if err := a.Call(v.r.Context(), http.MethodGet, path, nil, &is); err != nil {
		return err
	}
	if form.Get("was") != views.TopUpFields(&is) {
		return errChanged
	}
	in := payments.Setting{Active: form.Get("act") == "top-up", Forget: form.Get("act") == "forget"}
	if in.Active {
		for name, to := range map[string]*int64{"threshold": &in.Threshold, "credits": &in.Credits, "monthly": &in.Monthly} {
			var err error
			if *to, err = strconv.ParseInt(strings.TrimSpace(form.Get(name)), 10, 64); err != nil {
				return errBadForm
			}
		}
	}
	return a.Call(v.r.Context(), http.MethodPost, path, in, &is)
}

// receiveStripe takes what Stripe sends. It says that it has arrived once what it says is done.
func receiveStripe(v *visit) error {
	body, err := io.ReadAll(v.r.Body)
	if err != nil {
		http.Error(v.w, "the event is too large, or was not sent whole", http.StatusBadRequest)
		return nil
	}
	err = v.engine.Payments().Receive(v.r.Context(), body, v.r.Header.Get("Stripe-Signature"))
	switch {
	case err == nil:
		v.w.WriteHeader(http.StatusOK)
	case errors.Is(err, payments.ErrOff):
		http.NotFound(v.w, v.r)
	case errors.Is(err, payments.ErrForged):
		v.log.Warn("what came for Stripe's webhook is not signed by it", "address", v.client.Address)
		http.Error(v.w, "the signature does not fit", http.StatusBadRequest)
	default:
		v.log.Error("an event of Stripe's cannot be taken now, and is to be sent again", "error", err)
		http.Error(v.w, "not now", http.StatusServiceUnavailable)
	}
	return nil
}
