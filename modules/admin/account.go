package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func (a *API) createAccount(r *http.Request) (any, error) {
	in, err := readJSON[NewAccount](r)
	if err != nil {
		return nil, err
	}
	if err := checkMail(in.Mail); err != nil {
		return nil, err
	}
	account, err := CreateAccount(r.Context(), a.engine, in.Name, in.Plan)
	if err != nil {
		return nil, err
	}
	if len(in.Mail) > 0 {
		if account, err = a.engine.Store().SetMail(r.Context(), account.ID, in.Mail); err != nil {
			return nil, fmt.Errorf("account %q is made, and has no mail address yet, which `fareway gateway account set-mail` "+
				"gives it: %w", in.Name, err)
		}
	}
	return a.books.view(account), nil
}

// CreateAccount makes an account; plan is one of the running configuration, or "".
func CreateAccount(ctx context.Context, e *engine.Engine, name, plan string) (ledger.Account, error) {
	if err := checkAccountName(name); err != nil {
		return ledger.Account{}, err
	}
	if plan != "" {
		if err := checkPlan(e, plan); err != nil {
			return ledger.Account{}, err
		}
	}
	account, err := e.Store().CreateAccount(ctx, name, plan)
	if errors.Is(err, ledger.ErrExists) {
		return account, accountExists(name)
	}
	return account, err
}

func checkAccountName(name string) error {
	if err := checkName("account", name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "acct_") {
		return problem(http.StatusBadRequest, "account name %q: a name that begins with acct_ could be mistaken for an "+
			"account's id", name)
	}
	return nil
}

func accountExists(name string) error {
	return problem(http.StatusConflict, "account %q exists already: `fareway gateway account show %s` shows it", name,
		name)
}

func (a *API) renameAccount(r *http.Request) (any, error) {
	in, err := readJSON[NewName](r)
	if err != nil {
		return nil, err
	}
	if err := checkAccountName(in.Name); err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().RenameAccount(r.Context(), account.ID, in.Name)
	if errors.Is(err, ledger.ErrExists) {
		return nil, accountExists(in.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("renaming the account: %w", err)
	}
	return a.books.view(account), nil
}

// noPlan takes an account off its plan, unless the configuration has a plan of that name.
const noPlan = "none"

func (a *API) setPlan(r *http.Request) (any, error) {
	in, err := readJSON[NewPlan](r)
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	plan := in.Plan
	if err := checkPlan(a.engine, plan); err != nil {
		if plan != noPlan {
			return nil, err
		}
		plan = ""
	}
	account, err = a.engine.Store().SetPlan(r.Context(), account.ID, plan)
	if err != nil {
		return nil, fmt.Errorf("changing the plan: %w", err)
	}
	return a.books.view(account), nil
}

func (a *API) setLimit(r *http.Request) (any, error) {
	in, err := readJSON[NewLimit](r)
	if err != nil {
		return nil, err
	}
	limit, err := FindLimit(in.Limit)
	if err != nil {
		return nil, err
	}
	value, err := storedLimit(limit, in.Value)
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetLimit(r.Context(), account.ID, ledger.Limit(limit.Trail()), value)
	if err != nil {
		return nil, fmt.Errorf("setting a limit: %w", err)
	}
	return a.books.view(account), nil
}

func (a *API) setProfile(r *http.Request) (any, error) {
	in, err := readJSON[NewProfile](r)
	if err != nil {
		return nil, err
	}
	profile := in.Profile
	switch {
	case profile == Inherit:
		profile = ""
	case !slices.Contains(config.ProfileNames(), profile):
		return nil, problem(http.StatusBadRequest, "profile %q: a profile is one of %s, or %q for what the account's plan "+
			"says",
			profile, strings.Join(config.ProfileNames(), ", "), Inherit)
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetProfile(r.Context(), account.ID, profile)
	if err != nil {
		return nil, fmt.Errorf("setting the profile: %w", err)
	}
	return a.books.view(account), nil
}

func (a *API) setRequires(r *http.Request) (any, error) {
	in, err := readJSON[NewRequires](r)
	if err != nil {
		return nil, err
	}
	if in.Region == nil && in.Retention == nil {
		return nil, problem(http.StatusBadRequest, "nothing is to change: give region (a list of routes' regions, [] for "+
			"wherever) or retention (\"none\", a duration such as \"30d\", or \"\" for however long)")
	}
	var regions []string
	if in.Region != nil {
		regions = *in.Region
	}
	var retention string
	if in.Retention != nil {
		retention = *in.Retention
	}
	if _, err := config.ParseRequires(regions, retention); err != nil {
		return nil, problem(http.StatusBadRequest, "%w", err)
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetRequires(r.Context(), account.ID,
		ledger.RequiresChange{Regions: in.Region, Retention: in.Retention})
	if err != nil {
		return nil, fmt.Errorf("setting what the account requires: %w", err)
	}
	return a.books.view(account), nil
}

func (a *API) setMail(r *http.Request) (any, error) {
	in, err := readJSON[NewMail](r)
	if err != nil {
		return nil, err
	}
	if in.Mail == nil {
		return nil, problem(http.StatusBadRequest, "mail is missing: a list of addresses, [] for nobody")
	}
	if err := checkMail(*in.Mail); err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetMail(r.Context(), account.ID, *in.Mail)
	if err != nil {
		return nil, fmt.Errorf("setting the mail addresses: %w", err)
	}
	return a.books.view(account), nil
}

func checkMail(addresses []string) error {
	if _, err := config.ParseOwners(addresses); err != nil {
		return problem(http.StatusBadRequest, "%w", err)
	}
	return nil
}

func (a *API) setState(r *http.Request) (any, error) {
	in, err := readJSON[NewState](r)
	if err != nil {
		return nil, err
	}
	states := []ledger.State{ledger.Active, ledger.Suspended, ledger.Inactive}
	if !slices.Contains(states, in.State) {
		return nil, problem(http.StatusBadRequest, "state %q: a state is one of %v", in.State, states)
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetState(r.Context(), account.ID, in.State)
	if err != nil {
		return nil, fmt.Errorf("changing the state: %w", err)
	}
	return a.books.view(account), nil
}
