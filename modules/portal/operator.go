package portal

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// powers are what the operator may do.
func (v *visit) powers() views.Powers {
	is := people.Operator(v.viewer.Operator)
	return views.Powers{Change: is == people.Admin, Help: is == people.Admin || is == people.Support}
}

// shownAccounts is how many accounts a page shows.
const shownAccounts = 100

func showAccounts(v *visit) error {
	q := v.r.URL.Query()
	view := views.OperatorAccounts{Search: q.Get("q"), On: q.Get("plan"), MayMake: v.powers().Change, Plans: v.plans()}
	api := v.api(v.engine, v.actor())
	query := url.Values{"after": {q.Get("after")}, "limit": {strconv.Itoa(shownAccounts + 1)}, "search": {view.Search}}
	if view.On != "" {
		query.Set("plan", view.On)
	}
	err := admin.ReadList(v.r.Context(), api, "/fareway/accounts", query, func(a admin.Account) error {
		view.Accounts = append(view.Accounts, a)
		return nil
	})
	if err != nil {
		return err
	}
	if len(view.Accounts) > shownAccounts {
		view.Accounts = view.Accounts[:shownAccounts]
		view.Next = view.Accounts[shownAccounts-1].ID
	}
	return v.show(views.OperatorAccountsPage(v.page("Accounts"), view))
}

// plans are those of the configuration that serves.
func (v *visit) plans() (names []string) {
	g := v.engine.Current()
	if g == nil {
		return nil
	}
	for i := range g.Config.Plans {
		names = append(names, g.Config.Plans[i].Name)
	}
	return names
}

func makeAccount(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	var made admin.Account
	err = v.api(v.engine, v.actor()).Call(v.r.Context(), http.MethodPost, "/fareway/accounts",
		admin.NewAccount{Name: form.Get("name"), Plan: form.Get("plan")}, &made)
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return showAccounts(v)
	}
	if err != nil {
		return err
	}
	v.done("/portal/operator/accounts/"+made.ID, "made")
	return nil
}

func showAccount(v *visit) error { return v.accountPage(v.r.PathValue("id"), nil) }

func (v *visit) accountPage(id string, link *views.MadeLink) error {
	a := account{v.api(v.engine, v.actor()), id}
	is, err := a.read(v.r.Context())
	if err != nil {
		return err
	}
	a.id = is.ID
	view := views.OperatorAccount{Account: is, Plans: v.plans(), May: v.powers(), Link: link}
	if view.Keys, view.NextKeys, err = a.keys(v.r.Context(), v.r.URL.Query().Get("keys-after")); err != nil {
		return err
	}
	now := v.engine.Now().Add(time.Second)
	if view.Acts, _, err = v.acts(is.ID, now.Add(-3*auditSpan), now, 50); err != nil {
		return err
	}
	page := v.page("Account")
	page.Title = v.language.Text("Account %s", is.Name)
	return v.show(views.OperatorAccountPage(page, view))
}

// acts are the newest acts from between two times, about an account or any, the newest first, and whether there are
// more than so many.
func (v *visit) acts(account string, since, until time.Time, most int) (list []admin.Act, more bool, err error) {
	q := url.Values{"since": {since.UTC().Format(time.RFC3339Nano)}, "until": {until.UTC().Format(time.RFC3339Nano)}}
	if account != "" {
		q.Set("account", account)
	}
	n := 0
	err = admin.ReadList(v.r.Context(), v.api(v.engine, v.actor()), "/fareway/ledger/audit", q, func(a admin.Act) error {
		if len(list) < most {
			list = append(list, a)
		} else {
			list[n%most] = a
		}
		n++
		return nil
	})
	if n > most {
		list = slices.Concat(list[n%most:], list[:n%most])
	}
	slices.Reverse(list)
	return list, n > most, err
}

func changeAccount(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	ctx, api := v.r.Context(), v.api(v.engine, v.actor())
	is, err := readAccount(ctx, api, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	id, act, notice := is.ID, form.Get("act"), "saved"
	path := "/fareway/accounts/" + url.PathEscape(id)
	if !v.powers().Change && slices.Contains([]string{"credit", "plan", "state", "invite"}, act) {
		return errMayNot
	}
	// What somebody has seen is what they decide on.
	if was := form.Get("was"); act == "plan" && was != is.Plan || act == "state" && was != is.State {
		v.status = http.StatusConflict
		v.fault = v.language.Text("Somebody has changed it meanwhile: nothing was done. This is how it is now.")
		return v.accountPage(id, nil)
	}
	switch act {
	case "credit":
		n, perr := strconv.ParseInt(form.Get("credits"), 10, 64)
		if perr != nil {
			return errBadForm
		}
		var credit admin.Credit
		err = api.Call(ctx, http.MethodPost, "/fareway/credits", admin.NewCredit{Account: id, Credits: n,
			Reference: strings.TrimSpace(form.Get("reference")), Reason: form.Get("reason")}, &credit)
		if notice = "credited"; err == nil && !credit.Applied {
			notice = "again"
		}
	case "plan":
		err = api.Call(ctx, http.MethodPost, path+"/plan", admin.NewPlan{Plan: form.Get("plan")}, new(admin.Account))
	case "state":
		err = api.Call(ctx, http.MethodPost, path+"/state", admin.NewState{State: ledger.State(form.Get("state"))},
			new(admin.Account))
	case "refund":
		// Of this account: a refund of another one's request would be somebody else's mistake.
		if _, err = (account{api, id}).request(ctx, strings.TrimSpace(form.Get("request"))); err == nil {
			notice = "refunded"
			err = api.Call(ctx, http.MethodPost, "/fareway/refunds", admin.NewRefund{
				Request: strings.TrimSpace(form.Get("request")), Reason: form.Get("reason")}, new(admin.Correction))
		}
	case "revoke":
		if _, err = (account{api, id}).key(ctx, form.Get("key")); err == nil {
			notice = "ended"
			err = api.Call(ctx, http.MethodDelete, "/fareway/keys/"+url.PathEscape(form.Get("key")), nil, new(admin.Key))
		}
	case "invite":
		var token string
		var made people.Invitation
		if token, made, err = v.service.Invite(v.acting(), people.Invitation{Email: form.Get("email"), Account: id,
			Role: people.RoleOwner, By: v.person.Email, Maker: v.person.ID}); err == nil {
			return v.accountPage(id, v.linkOf(token, &made, true))
		}
	default:
		return errBadForm
	}
	if err == nil {
		v.done("/portal/operator/accounts/"+url.PathEscape(id), notice)
		return nil
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.accountPage(id, nil)
	}
	return err
}

// auditSpan is how much time a page of the audit trail is about at most, and auditPage how many acts it has.
const (
	auditSpan = 30 * 24 * time.Hour
	auditPage = 200
)

func showAudit(v *visit) error {
	until := v.engine.Now().Add(time.Second)
	if text := v.r.URL.Query().Get("until"); text != "" {
		var err error
		if until, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return errBadForm
		}
	}
	view := views.Audit{Account: v.r.URL.Query().Get("account"), Since: until.Add(-auditSpan)}
	acts, more, err := v.acts(view.Account, view.Since, until, auditPage)
	if err != nil {
		return err
	}
	if view.Acts = acts; more {
		view.Since = acts[len(acts)-1].Time
	}
	return v.show(views.AuditPage(v.page("Audit trail"), view))
}

func showConfiguration(v *visit) error {
	api := v.api(v.engine, v.actor())
	var view views.Configuration
	if err := api.Call(v.r.Context(), http.MethodGet, "/fareway/status", nil, &view.Status); err != nil {
		return err
	}
	var kept []admin.Configuration
	if err := api.Call(v.r.Context(), http.MethodGet, "/fareway/configurations", nil, &kept); err != nil {
		return err
	}
	number := view.Status.Number
	if n, err := strconv.ParseInt(v.r.URL.Query().Get("number"), 10, 64); err == nil {
		number = n
	}
	for _, k := range kept {
		view.Kept = append(view.Kept, views.Kept{Number: k.Number, Since: k.Since, By: k.By})
	}
	var one admin.Configuration
	if err := api.Call(v.r.Context(), http.MethodGet, "/fareway/configurations/"+strconv.FormatInt(number, 10), nil,
		&one); err != nil && admin.StatusOf(err) != http.StatusNotFound {
		return err
	}
	for _, f := range one.Files {
		if f.Text != nil {
			view.Files = append(view.Files, views.File{Path: f.Path, Text: *f.Text})
		}
	}
	view.Number = number
	if from, err := strconv.ParseInt(v.r.URL.Query().Get("from"), 10, 64); err == nil && from != number {
		var before admin.Configuration
		if err := v.get("/fareway/configurations/"+strconv.FormatInt(from, 10), &before); err != nil {
			return err
		}
		view.Difference = new(admin.DiffOf(before, one))
	}
	return v.show(views.ConfigurationPage(v.page("Configuration"), view))
}

func showPeople(v *visit) error { return v.peoplePage(nil) }

func (v *visit) peoplePage(link *views.MadeLink) error {
	list, err := v.service.People(v.r.Context(), v.r.URL.Query().Get("after"), shownPeople+1)
	if err != nil {
		return err
	}
	view := views.OperatorPeople{Link: link, May: v.powers()}
	if len(list) > shownPeople {
		list = list[:shownPeople]
		view.Next = list[shownPeople-1].Email
	}
	view.People = list
	return v.show(views.OperatorPeoplePage(v.page("People"), view))
}

func changePeople(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	ctx, service, id, act := v.acting(), v.service, form.Get("person"), form.Get("act")
	if slices.Contains([]string{"invite", "disable", "enable"}, act) && !v.powers().Change {
		return errMayNot
	}
	var token string
	var made people.Invitation
	notice := "saved"
	switch act {
	case "invite":
		token, made, err = service.Invite(ctx, people.Invitation{Email: form.Get("email"),
			Operator: people.Operator(cmp.Or(form.Get("operator"), string(people.ReadOnly))), By: v.person.Email,
			Maker: v.person.ID})
	case "reset":
		// Support helps members of accounts: a link for an admin's password would make it one.
		most := people.Operator("")
		if v.powers().Change {
			most = people.Admin
		}
		if token, made, err = service.InviteResetBelow(ctx, id, v.person, most); errors.Is(err, people.ErrAbove) {
			return errMayNot
		}
	case "disable", "enable":
		err = service.SetDisabled(ctx, id, act == "disable")
	default:
		return errBadForm
	}
	switch text, ok := v.refusedText(err); {
	case ok:
		v.status, v.fault = http.StatusBadRequest, text
		return v.peoplePage(nil)
	case err != nil:
		return err
	case token != "":
		return v.peoplePage(v.linkOf(token, &made, act == "invite"))
	}
	v.done("/portal/operator/people", notice)
	return nil
}
