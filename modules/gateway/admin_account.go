package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.@-]{1,64}$`)

// checkName keeps the names of accounts and keys to what is safe in a URL, a shell and a log.
func checkName(kind, name string) error {
	if !namePattern.MatchString(name) {
		return problem(http.StatusBadRequest, "%s name %q: a name is 1 to 64 letters, digits and - _ . @", kind, name)
	}
	return nil
}

func (a *AdminAPI) status(*http.Request) (any, error) {
	v := statusView{PID: os.Getpid(), Version: version(), Data: a.engine.DataDir(),
		Providers: []providerView{}, Routes: []routeView{}, Plans: []string{}}
	if err := a.engine.Ready(); err != nil {
		v.Reason = err.Error()
	}
	v.Ready = v.Reason == ""
	g := a.engine.Current()
	if g == nil {
		return v, nil
	}
	v.Config, v.ConfigHash, v.Generation = g.Config.Path, g.Config.Hash, g.Number
	for _, p := range g.Config.Providers {
		v.Providers = append(v.Providers, providerView{Name: p.Name, Plugin: p.Plugin, Ready: g.Ready(p.Name)})
	}
	for _, r := range g.Config.Routes {
		v.Routes = append(v.Routes, routeView{Name: r.Name, Provider: r.Provider, Model: r.Model})
	}
	v.Plans = append(v.Plans, planNames(g)...)
	return v, nil
}

// version is this module's version in the executable: its main module, or a dependency in a build by xcaddy.
func version() string {
	const path = "github.com/fareway/fareway"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}

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

func checkPlan(e *engine.Engine, plan string) error {
	if plan == "" {
		return nil
	}
	g := e.Current()
	if g == nil {
		return problem(http.StatusServiceUnavailable, "no configuration is active yet: try again in a moment")
	}
	if _, ok := g.Plan(plan); ok {
		return nil
	}
	names := planNames(g)
	if len(names) == 0 {
		return problem(http.StatusBadRequest, "plan %q is not in %s: it has no plans; add a block `plan %q {}` or leave the plan out", plan, g.Config.Path, plan)
	}
	if name := nearest(plan, names); name != "" {
		return problem(http.StatusBadRequest, "plan %q is not in %s: did you mean %q?", plan, g.Config.Path, name)
	}
	return problem(http.StatusBadRequest, "plan %q is not in %s: it has %s", plan, g.Config.Path, strings.Join(names, ", "))
}

func planNames(g *engine.Generation) []string {
	names := make([]string, len(g.Config.Plans))
	for i, p := range g.Config.Plans {
		names[i] = p.Name
	}
	return names
}

// nearest is the known name that given was most likely meant to be, or "".
func nearest(given string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	best := slices.MinFunc(known, func(a, b string) int {
		return levenshtein.Distance(given, a, nil) - levenshtein.Distance(given, b, nil)
	})
	// Two letters in each other's place are a distance of 2.
	if d := levenshtein.Distance(given, best, nil); d > max(2, len(given)/3) || d >= len(given) {
		return ""
	}
	return best
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
