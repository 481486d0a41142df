package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/people"
)

// NewPayment is what POST /fareway/payments takes. Return is a page where whoever pays comes back to.
type NewPayment struct {
	Account string `json:"account"`
	Credits int64  `json:"credits"`
	Return  string `json:"return"`
	Keep    bool   `json:"keep,omitempty"` // the means of payment, for top-ups that the account makes by itself
}

// BegunPayment is where it is paid.
type BegunPayment struct {
	people.Payment
	Address string `json:"address"`
}

// Payments is a page of payments, the newest first.
type Payments struct {
	Payments []people.Payment `json:"payments"`
	Next     string           `json:"next,omitempty"` // `before` asks for the page behind this one by it
}

// PaymentReason is what closes a payment that waits.
type PaymentReason struct {
	Reason string `json:"reason"`
}

func (a *API) paymentRoutes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "GET /fareway/payments", Handler: reply(a.listPayments)},
		{Pattern: "POST /fareway/payments", Handler: a.change(a.beginPayment)},
		{Pattern: "POST /fareway/payments/{id}/check", Handler: a.change(a.checkPayment)},
		{Pattern: "POST /fareway/payments/{id}/close", Handler: a.change(a.closePayment)},
		{Pattern: "GET /fareway/accounts/{name}/top-up", Handler: reply(a.showTopUp)},
		{Pattern: "POST /fareway/accounts/{name}/top-up", Handler: a.change(a.setTopUp)},
	}
}

// sayPayment gives errors of payments their status.
func sayPayment(err error) error {
	switch {
	case errors.Is(err, payments.ErrOff):
		return problem(http.StatusConflict, "%w", err)
	case errors.Is(err, payments.ErrStripe):
		return problem(http.StatusBadGateway, "%w", err)
	}
	return err
}

func (a *API) beginPayment(r *http.Request) (any, error) {
	in, err := readJSON[NewPayment](r)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(in.Return); err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http" {
		return nil, problem(http.StatusBadRequest, "return %q: it is a whole url without a query, where whoever pays comes "+
			"back to", in.Return)
	}
	if _, _, err := a.people(); err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	p, address, err := a.engine.Payments().Begin(r.Context(), payments.Checkout{Account: account.ID, Name: account.Name,
		Credits: in.Credits, Return: in.Return, Keep: in.Keep})
	if err != nil {
		return nil, sayPayment(err)
	}
	return BegunPayment{p, address}, nil
}

func (a *API) listPayments(r *http.Request) (any, error) {
	p, _, err := a.people()
	if err != nil {
		return nil, err
	}
	v, id, limit := r.URL.Query(), "*", usualLatest
	if name := v.Get("account"); name != "" {
		account, err := a.books.account(r.Context(), name)
		if err != nil {
			return nil, err
		}
		id = account.ID
	}
	if text := v.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostLatest {
			return nil, problem(http.StatusBadRequest, "limit %q: it is 1 to %d", text, mostLatest)
		}
	}
	list, err := p.Payments(r.Context(), id, v.Get("before"), v.Get("waiting") == "true", limit+1)
	if err != nil {
		return nil, err
	}
	page := Payments{Payments: []people.Payment{}}
	if len(list) > limit {
		list = list[:limit]
		page.Next = list[limit-1].ID
	}
	page.Payments = append(page.Payments, list...)
	return page, nil
}

func (a *API) checkPayment(r *http.Request) (any, error) {
	if _, _, err := a.people(); err != nil {
		return nil, err
	}
	p, err := a.engine.Payments().Check(r.Context(), r.PathValue("id"))
	return p, sayPayment(err)
}

func (a *API) closePayment(r *http.Request) (any, error) {
	if _, _, err := a.people(); err != nil {
		return nil, err
	}
	in, err := readJSON[PaymentReason](r)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Reason) == "" {
		return nil, problem(http.StatusBadRequest, "the reason is missing: say what was decided")
	}
	if err := checkTexts("", in.Reason); err != nil {
		return nil, err
	}
	p, err := a.engine.Payments().Close(r.Context(), r.PathValue("id"), in.Reason)
	return p, sayPayment(err)
}

func (a *API) showTopUp(r *http.Request) (any, error) {
	p, _, err := a.people()
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return p.TopUp(r.Context(), account.ID)
}

func (a *API) setTopUp(r *http.Request) (any, error) {
	if _, _, err := a.people(); err != nil {
		return nil, err
	}
	in, err := readJSON[payments.Setting](r)
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	v, err := a.engine.Payments().SetTopUp(r.Context(), account.ID, in)
	return v, sayPayment(err)
}
