package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Alerts are what somebody must hear of: what is raised, whom it is told, and what there is to tell.
type Alerts struct {
	alerts.Standing
	Events []AlertEvent `json:"events"`
}

// AlertEvent is something that is told.
type AlertEvent struct {
	Name     string `json:"name"`
	Severity string `json:"severity"` // page or ticket
	About    string `json:"about"`    // "operator", or "account" where it concerns who has an account
	For      string `json:"for"`      // how long it has to hold: "at once", "2m"
	Doc      string `json:"doc"`
	// Destinations are those that hear of it.
	Destinations []string `json:"destinations"`
	Raised       int      `json:"raised"` // how often it is at the moment
}

// alerts says how alerts stand.
func (a *API) alerts(*http.Request) (any, error) {
	v := Alerts{Standing: a.engine.Alerts().Standing(), Events: []AlertEvent{}}
	raised := make(map[string]int)
	for i := range v.Alerts {
		raised[v.Alerts[i].Event]++
	}
	for i := range config.AlertEvents {
		event := &config.AlertEvents[i]
		e := AlertEvent{Name: event.Name, Severity: string(event.Severity), About: "operator", For: event.Lasts(),
			Doc: event.Doc, Destinations: []string{}, Raised: raised[event.Name] + v.Beyond[event.Name]}
		if event.Account {
			e.About = "account"
		}
		for j := range v.Destinations {
			if d := &v.Destinations[j]; d.Hears(event.Name) {
				e.Destinations = append(e.Destinations, d.Key)
			}
		}
		v.Events = append(v.Events, e)
	}
	return v, nil
}

// AlertsSummary is what `status` says of alerts.
type AlertsSummary struct {
	// Raised are those that are the operator's; Accounts counts the others by event.
	Raised   []alerts.Alert `json:"raised"`
	Accounts map[string]int `json:"accounts,omitempty"`
	// Failing are the destinations that take no messages.
	Failing []alerts.Destination `json:"failing,omitempty"`
	Problem string               `json:"problem,omitempty"` // why messages cannot be kept
	Idle    string               `json:"idle,omitempty"`    // why nobody may be told of anything
}

// summarizeAlerts is nil where there is nothing to say.
func (a *API) summarizeAlerts() *AlertsSummary {
	s := a.engine.Alerts().Standing()
	v := AlertsSummary{Raised: []alerts.Alert{}, Accounts: make(map[string]int), Problem: s.Problem,
		Idle: s.Idle}
	about := make(map[string]bool)
	for i := range config.AlertEvents {
		about[config.AlertEvents[i].Name] = config.AlertEvents[i].Account
	}
	for i := range s.Alerts {
		if one := &s.Alerts[i]; about[one.Event] {
			v.Accounts[one.Event]++
		} else {
			v.Raised = append(v.Raised, *one)
		}
	}
	for i := range s.Destinations {
		if d := &s.Destinations[i]; d.Failing != nil || d.Disabled != nil {
			v.Failing = append(v.Failing, *d)
		}
	}
	if len(v.Raised)+len(v.Accounts)+len(v.Failing) == 0 && v.Problem+v.Idle == "" {
		return nil
	}
	return &v
}

// HookTest says which destinations of alerts are sent a test: those with a name, "" for all.
type HookTest struct {
	Name string `json:"name,omitempty"`
	// Account, by name or id, is whose owner is sent it; "": the operators' destinations are.
	Account string `json:"account,omitempty"`
}

// HooksTested is what came of it.
type HooksTested struct {
	Results []alerts.Tested `json:"results"`
}

// testHooks sends a test to destinations of alerts, from this process: by its network, with its secrets.
func (a *API) testHooks(r *http.Request) (any, error) {
	in, err := readJSON[HookTest](r)
	if err != nil {
		return nil, err
	}
	of := alerts.TestOf{Name: in.Name}
	if in.Account != "" {
		account, err := a.books.account(r.Context(), in.Account)
		if err != nil {
			return nil, err
		}
		if len(account.Mail) == 0 {
			return nil, problem(http.StatusBadRequest, "account %q has no mail address: `fareway gateway account set-mail %s "+
				"ADDRESS` gives it one", account.Name, account.Name)
		}
		of.Account, of.AccountName = account.ID, account.Name
	}
	tested, err := a.engine.Alerts().Test(r.Context(), of)
	if errors.Is(err, alerts.ErrUnknown) {
		return nil, problem(http.StatusNotFound, "%w", err)
	}
	if err != nil {
		return nil, err
	}
	a.recordTests(r.Context(), of.Account, tested)
	return HooksTested{tested}, nil
}

// recordTests adds an act for each destination. A test was sent whether the ledger is there or not: often that it is
// away is why somebody tests.
func (a *API) recordTests(ctx context.Context, account string, tested []alerts.Tested) {
	for i := range tested {
		t := &tested[i]
		after := map[string]any{"message_id": t.MessageID, "delivered": t.Delivered}
		if t.Status > 0 {
			after["status"] = t.Status
		}
		if err := a.engine.Store().RecordAct(ctx, "hook.test", account, t.Destination, after); err != nil {
			a.engine.Logger().Warn("a test of a destination of alerts is not on the audit trail", "destination",
				t.Destination, "by", ledger.ActorOf(ctx), "error", err)
		}
	}
}
