package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func (a *AdminAPI) createAccount(r *http.Request) (any, error) {
	in, err := readJSON[newAccount](r)
	if err != nil {
		return nil, err
	}
	account, err := createAccount(r.Context(), a.engine, in.Name, in.Plan)
	if err != nil {
		return nil, err
	}
	return viewAccount(account), nil
}

// createAccount makes an account; plan is one of the running configuration, or "".
func createAccount(ctx context.Context, e *engine.Engine, name, plan string) (ledger.Account, error) {
	if err := checkName("account", name); err != nil {
		return ledger.Account{}, err
	}
	if strings.HasPrefix(name, "acct_") {
		return ledger.Account{}, problem(http.StatusBadRequest, "account name %q: a name that begins with acct_ could be mistaken for an account's id", name)
	}
	if err := checkPlan(e, plan); err != nil {
		return ledger.Account{}, err
	}
	account, err := e.Store().CreateAccount(ctx, name, plan)
	if errors.Is(err, ledger.ErrExists) {
		return account, problem(http.StatusConflict, "account %q exists already: `fareway gateway account show %s` shows it", name, name)
	}
	if err != nil {
		return account, err
	}
	e.ForgetKeys()
	return account, nil
}

func (a *AdminAPI) listAccounts(r *http.Request) (any, error) {
	accounts, err := a.engine.Store().Accounts(r.Context())
	if err != nil {
		return nil, err
	}
	views := make([]accountView, len(accounts))
	for i, account := range accounts {
		views[i] = viewAccount(account)
	}
	return views, nil
}

func (a *AdminAPI) showAccount(r *http.Request) (any, error) {
	account, err := a.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return viewAccount(account), nil
}

// account finds an account by name or id.
func (a *AdminAPI) account(ctx context.Context, name string) (ledger.Account, error) {
	if name == "" {
		return ledger.Account{}, problem(http.StatusBadRequest, "the account is missing")
	}
	account, err := a.engine.Store().Account(ctx, name)
	if errors.Is(err, ledger.ErrNotFound) {
		return account, problem(http.StatusNotFound, "there is no account %q: `fareway gateway account list` shows all", name)
	}
	return account, err
}

func (a *AdminAPI) setState(r *http.Request) (any, error) {
	in, err := readJSON[newState](r)
	if err != nil {
		return nil, err
	}
	states := []ledger.State{ledger.Active, ledger.Suspended, ledger.Inactive}
	if !slices.Contains(states, in.State) {
		return nil, problem(http.StatusBadRequest, "state %q: a state is one of %v", in.State, states)
	}
	account, err := a.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	account, err = a.engine.Store().SetState(r.Context(), account.ID, in.State)
	if err != nil {
		return nil, fmt.Errorf("changing the state: %w", err)
	}
	a.engine.ForgetKeys()
	return viewAccount(account), nil
}
