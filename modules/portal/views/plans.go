package views

import (
	"net/url"
	"time"
)

// Plans is the page of plans, for operators.
type Plans struct{ List []Plan }

// Plan is one of them.
type Plan struct {
	Name     string // "": of accounts on none
	Gone     bool   // the configuration does not have it
	Accounts int64  // how many are on it
	Facts    []Fact
}

// Fact is something that is said of a plan, in the language: its name, what it is, and a note.
type Fact struct{ Name, Is, Note string }

// OwnPlan is what an account gets.
type OwnPlan struct {
	Name  string     // of the plan, "" for none
	Ends  *time.Time // its period; nil: it has none
	Facts []Fact     // empty where they are not known
}

// planID is the id of a plan's heading.
func planID(name string) string { return "plan-" + name }

// accountsOn is where the accounts on a plan are listed.
func accountsOn(plan string) string {
	if plan == "" {
		plan = "none"
	}
	return Link("/portal/operator/accounts", url.Values{"plan": {plan}})
}
