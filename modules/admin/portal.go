package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/people"
)

// InvitationPath is where the portal takes what is behind it for the token of an invitation.
const InvitationPath = "/portal/invitation/"

// NewInvitation is what POST /fareway/portal/invitations takes: to an account, to be an operator, or both.
type NewInvitation struct {
	Email    string          `json:"email"`
	Account  string          `json:"account,omitempty"` // by name or id
	Role     people.Role     `json:"role,omitempty"`
	Operator people.Operator `json:"operator,omitempty"`
	Mail     bool            `json:"mail,omitempty"` // the link is mailed to them, too
}

// NewReset is what POST /fareway/portal/people/{email}/reset takes; it may be empty.
type NewReset struct {
	Mail bool `json:"mail,omitempty"`
}

// PortalLink is a link to hand over: whoever has it may use it, once.
type PortalLink struct {
	// URL is the host that the configuration names, "" where it names none; Path is what comes behind.
	URL     string     `json:"url"`
	Path    string     `json:"path"`
	Email   string     `json:"email,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// Mailed: it was mailed to Email. MailError is why it was not, where that was asked for: the link is good all the
	// same.
	Mailed    bool   `json:"mailed,omitempty"`
	MailError string `json:"mail_error,omitempty"`
}

// PortalPerson is a person, with what they are in accounts.
type PortalPerson struct {
	people.Person
	Accounts []PortalMembership `json:"accounts"`
}

// PortalMembership is what a person is in an account.
type PortalMembership struct {
	Account string      `json:"account"` // its name
	Role    people.Role `json:"role"`
}

// PortalRole is what POST /fareway/portal/people/{email}/role takes: a role in an account, "none" for no member any
// more; or what the person is for the gateway, "none" for nothing.
type PortalRole struct {
	Account  string `json:"account,omitempty"`
	Role     string `json:"role,omitempty"`
	Operator string `json:"operator,omitempty"`
}

// PortalState is what POST /fareway/portal/people/{email}/state takes.
type PortalState struct {
	Disabled bool `json:"disabled"`
}

// noneOf is what is said for no role.
const noneOf = "none"

// portalRoutes are those about who may sign in to the portal.
func (a *API) portalRoutes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "POST /fareway/portal/first", Handler: a.change(a.linkFirst)},
		{Pattern: "GET /fareway/portal/people", Handler: lines(a.listPeople)},
		{Pattern: "GET /fareway/portal/people/{email}", Handler: reply(a.showPerson)},
		{Pattern: "POST /fareway/portal/people/{email}/reset", Handler: a.change(a.resetPerson)},
		{Pattern: "POST /fareway/portal/people/{email}/state", Handler: a.change(a.setPersonState)},
		{Pattern: "POST /fareway/portal/people/{email}/role", Handler: a.change(a.setPersonRole)},
		{Pattern: "GET /fareway/portal/people/{email}/sessions", Handler: lines(a.listSessions)},
		{Pattern: "DELETE /fareway/portal/people/{email}/sessions", Handler: a.change(a.revokeSessions)},
		{Pattern: "DELETE /fareway/portal/people/{email}/sessions/{id}", Handler: a.change(a.revokeSessions)},
		{Pattern: "GET /fareway/portal/invitations", Handler: lines(a.listInvitations)},
		{Pattern: "POST /fareway/portal/invitations", Handler: a.change(a.invite)},
		{Pattern: "DELETE /fareway/portal/invitations/{id}", Handler: a.change(a.withdraw)},
	}
}

// people are who may sign in, and the portal block in force.
func (a *API) people() (*people.Service, *config.Portal, error) {
	g, p := a.engine.Current(), a.engine.People()
	if p == nil || g == nil || g.Config.Portal == nil {
		return nil, nil, problem(http.StatusConflict, "the gateway has no portal: write `portal {}` into its HCL file, and "+
			"look at `fareway gateway status`")
	}
	return p, g.Config.Portal, nil
}

// personOf is the person of a request's path.
func (a *API) personOf(r *http.Request) (*people.Service, people.Person, error) {
	p, _, err := a.people()
	if err != nil {
		return nil, people.Person{}, err
	}
	email := r.PathValue("email")
	person, err := p.FindPerson(r.Context(), email)
	if errors.Is(err, people.ErrNotFound) {
		err = problem(http.StatusNotFound, "there is no person %s: `fareway gateway portal people` shows all", email)
	}
	return p, person, err
}

func linkOf(at *config.Portal, token string, v people.Invitation) PortalLink {
	return PortalLink{URL: at.URL, Path: InvitationPath + token, Email: v.Email, Expires: &v.Expires}
}

// linkFirst is an empty link where there is an admin.
func (a *API) linkFirst(r *http.Request) (any, error) {
	p, at, err := a.people()
	if err != nil {
		return nil, err
	}
	return FirstLink(r.Context(), p, at)
}

// FirstLink is the link by which the first operator comes in; an empty one where there is an admin.
func FirstLink(ctx context.Context, p *people.Service, at *config.Portal) (PortalLink, error) {
	token, v, err := p.FirstLink(ctx)
	if err != nil || token == "" {
		return PortalLink{}, err
	}
	return linkOf(at, token, v), nil
}

func (a *API) invite(r *http.Request) (any, error) {
	p, at, err := a.people()
	if err != nil {
		return nil, err
	}
	in, err := readJSON[NewInvitation](r)
	if err != nil {
		return nil, err
	}
	v := people.Invitation{Email: in.Email, Role: in.Role, Operator: in.Operator}
	if in.Account != "" {
		account, err := a.books.account(r.Context(), in.Account)
		if err != nil {
			return nil, err
		}
		v.Account = account.ID
	}
	if in.Mail {
		if err := a.mailsLinks(); err != nil {
			return nil, err
		}
	}
	token, v, err := p.Invite(r.Context(), v)
	if err != nil {
		return nil, err
	}
	link := linkOf(at, token, v)
	if in.Mail {
		MailLink(r.Context(), a.engine, &link, &v, fmt.Sprintf)
	}
	return link, nil
}

func (a *API) resetPerson(r *http.Request) (any, error) {
	_, at, err := a.people()
	if err != nil {
		return nil, err
	}
	p, person, err := a.personOf(r)
	if err != nil {
		return nil, err
	}
	var in NewReset
	if r.ContentLength != 0 {
		if in, err = readJSON[NewReset](r); err != nil {
			return nil, err
		}
	}
	if in.Mail {
		if err := a.mailsLinks(); err != nil {
			return nil, err
		}
	}
	token, v, err := p.InviteReset(r.Context(), person.ID, "")
	if err != nil {
		return nil, err
	}
	link := linkOf(at, token, v)
	if in.Mail {
		MailLink(r.Context(), a.engine, &link, &v, fmt.Sprintf)
	}
	return link, nil
}

func (a *API) setPersonState(r *http.Request) (any, error) {
	p, person, err := a.personOf(r)
	if err != nil {
		return nil, err
	}
	in, err := readJSON[PortalState](r)
	if err != nil {
		return nil, err
	}
	if err := p.SetDisabled(r.Context(), person.ID, in.Disabled); err != nil {
		return nil, err
	}
	return a.viewPerson(r.Context(), p, person.ID)
}

func (a *API) setPersonRole(r *http.Request) (any, error) {
	p, person, err := a.personOf(r)
	if err != nil {
		return nil, err
	}
	in, err := readJSON[PortalRole](r)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Operator != "" && in.Account+in.Role == "":
		o := people.Operator(in.Operator)
		if in.Operator == noneOf {
			o = ""
		}
		err = p.SetOperator(r.Context(), person.ID, o)
	case in.Operator != "" || in.Role == "":
		return nil, problem(http.StatusBadRequest, "say an account and a role there, or what the person is as an operator")
	default:
		account, findErr := a.books.account(r.Context(), in.Account)
		if findErr != nil {
			return nil, findErr
		}
		if in.Role == noneOf {
			err = p.RemoveMember(r.Context(), account.ID, person.ID)
		} else {
			err = p.SetRole(r.Context(), account.ID, person.ID, people.Role(in.Role))
		}
		if errors.Is(err, people.ErrNotFound) {
			err = problem(http.StatusNotFound, "%s is no member of the account: `fareway gateway portal invite %s --account "+
				"%s` invites them", person.Email, person.Email, account.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	return a.viewPerson(r.Context(), p, person.ID)
}

func (a *API) showPerson(r *http.Request) (any, error) {
	p, person, err := a.personOf(r)
	if err != nil {
		return nil, err
	}
	return a.viewPerson(r.Context(), p, person.ID)
}

func (a *API) viewPerson(ctx context.Context, p *people.Service, id string) (v PortalPerson, err error) {
	if v.Person, err = p.Person(ctx, id); err != nil {
		return v, err
	}
	memberships, err := p.Memberships(ctx, id)
	if err != nil {
		return v, err
	}
	v.Accounts = []PortalMembership{}
	for _, m := range memberships {
		v.Accounts = append(v.Accounts, PortalMembership{a.accountName(ctx, m.Account), m.Role})
	}
	return v, nil
}

// accountName is its id where the ledger does not say.
func (a *API) accountName(ctx context.Context, id string) string {
	if account, err := a.books.books.Account(ctx, id); err == nil {
		return account.Name
	}
	return id
}

// listPage is how many rows of a list are read at a time.
const listPage = 500

func (a *API) listPeople(r *http.Request, out *lineWriter) error {
	p, _, err := a.people()
	if err != nil {
		return err
	}
	ctx := r.Context()
	if name := r.URL.Query().Get("account"); name != "" {
		account, err := a.books.account(ctx, name)
		if err != nil {
			return err
		}
		return eachPage(func(after string) ([]people.Member, error) {
			return p.Members(ctx, account.ID, after, listPage)
		}, func(m people.Member) (string, error) {
			return m.Email, out.emit(PortalPerson{m.Person, []PortalMembership{{account.Name, m.Role}}})
		})
	}
	return eachPage(func(after string) ([]people.Person, error) { return p.People(ctx, after, listPage) },
		func(person people.Person) (string, error) {
			v, err := a.viewPerson(ctx, p, person.ID)
			if err != nil {
				return "", err
			}
			return person.Email, out.emit(v)
		})
}

// eachPage goes through a list. each returns by what a row comes after the one before it.
func eachPage[T any](read func(after string) ([]T, error), each func(T) (string, error)) error {
	for after := ""; ; {
		page, err := read(after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, v := range page {
			if after, err = each(v); err != nil {
				return err
			}
		}
	}
}

func (a *API) listInvitations(r *http.Request, out *lineWriter) error {
	p, _, err := a.people()
	if err != nil {
		return err
	}
	id := "*"
	if name := r.URL.Query().Get("account"); name != "" {
		account, err := a.books.account(r.Context(), name)
		if err != nil {
			return err
		}
		id = account.ID
	}
	return eachPage(func(after string) ([]people.Invitation, error) {
		return p.Invitations(r.Context(), id, after, listPage)
	}, func(v people.Invitation) (string, error) {
		if v.Account != "" {
			v.Account = a.accountName(r.Context(), v.Account)
		}
		return v.ID, out.emit(v)
	})
}

func (a *API) withdraw(r *http.Request) (any, error) {
	p, _, err := a.people()
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	return map[string]string{"withdrawn": id}, p.WithdrawInvitation(r.Context(), "*", id)
}

func (a *API) listSessions(r *http.Request, out *lineWriter) error {
	p, person, err := a.personOf(r)
	if err != nil {
		return err
	}
	all, err := p.Sessions(r.Context(), person.ID)
	if err != nil {
		return err
	}
	for i := range all {
		if err := out.emit(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// PortalRevoked is which session of whom has ended, "" for all of them.
type PortalRevoked struct {
	Email   string `json:"email"`
	Session string `json:"session,omitempty"`
}

func (a *API) revokeSessions(r *http.Request) (any, error) {
	p, person, err := a.personOf(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	return PortalRevoked{person.Email, id}, p.Revoke(r.Context(), person.ID, id)
}
