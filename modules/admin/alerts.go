package admin

import (
	"errors"
	"net/http"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
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
}

// summarizeAlerts is nil where there is nothing to say.
func (a *API) summarizeAlerts() *AlertsSummary {
	s := a.engine.Alerts().Standing()
	v := AlertsSummary{Raised: []alerts.Alert{}, Accounts: make(map[string]int), Problem: s.Problem}
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
	if len(v.Raised)+len(v.Accounts)+len(v.Failing) == 0 && v.Problem == "" {
		return nil
	}
	return &v
}

// HookTest says which destinations of alerts are sent a test: those with a name, "" for all.
type HookTest struct {
	Name string `json:"name,omitempty"`
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
	a.engine.Logger().Info("destinations of alerts are tested", "name", in.Name, "by", actorOf(r))
	tested, err := a.engine.Alerts().Test(r.Context(), in.Name)
	switch {
	case errors.Is(err, alerts.ErrUnknown):
		return nil, problem(http.StatusNotFound, "%w", err)
	case err != nil:
		return nil, err
	}
	return HooksTested{tested}, nil
}
