package portal

import (
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// planFacts say what a plan gives and allows.
func planFacts(p *views.Page, v *admin.AccountPlan) []views.Fact {
	list := termFacts(p, v.MonthlyCredits, v.Periods, &v.Limits, v.DefaultProfile, nil)
	list = append(list, requiredFacts(p, &v.Requires)...)
	if v.Declines != nil {
		list = append(list, views.Fact{Name: p.Text("Suspended by itself"),
			Is: p.Text("after %s refused prompts within %s", p.Number(v.Declines.Count), v.Declines.Window)})
	}
	return list
}

// accountFacts say what an account gets, by its plan and what was set for it.
func accountFacts(p *views.Page, a *admin.Account) []views.Fact {
	if a.Limits == nil {
		return nil
	}
	l := a.Limits
	list := termFacts(p, l.MonthlyCredits, a.Period.End != nil, &l.Limits, l.DefaultProfile, l.From)
	if a.Requires != nil {
		both := a.Requires.Plan.And(a.Requires.Account)
		list = append(list, requiredFacts(p, &both)...)
	}
	return list
}

// termFacts say what holds for an account; from is as in admin.Limits, nil for a plan itself.
func termFacts(p *views.Page, monthly int64, periods bool, l *config.Limits, profile string,
	from map[string]string) []views.Fact {
	given := views.Fact{Name: p.Text("Period"), Is: p.Text("none: what is below is for good")}
	switch {
	case monthly > 0:
		given.Is = p.Text("a month, which begins with %s credits", p.Number(monthly))
	case periods:
		given.Is = p.Text("a month")
	}
	list := []views.Fact{given}
	for i := range config.PlanLimits {
		limit := &config.PlanLimits[i]
		list = append(list, views.Fact{Name: limitName(p, limit), Is: limitText(p, limit, *limit.In(l)),
			Note: fromText(p, from[limit.Name])})
	}
	return append(list, views.Fact{Name: p.Text("Profile of requests that name none"), Is: profile,
		Note: fromText(p, from["default_profile"])})
}

// limitName is what people call a limit of the configuration's table; one that has no words yet is called as in there.
func limitName(p *views.Page, l *config.Limit) string {
	switch l.Name {
	case "spend_cap_credits":
		return p.Text("Spent in a period, at most")
	case "token_budget":
		return p.Text("Tokens in a period, at most")
	case "fair_use_microcents":
		return p.Text("Free in a period, where a limit of the service ends a request")
	case "concurrent_requests":
		return p.Text("Requests at a time")
	case "requests_per_minute.key":
		return p.Text("Requests a minute, of a key")
	case "requests_per_minute.account":
		return p.Text("Requests a minute, of all keys")
	case "requests_per_minute.address":
		return p.Text("Requests a minute, from an address")
	case "max_streams":
		return p.Text("Of the gateway's streams, at most")
	}
	return l.Name
}

func limitText(p *views.Page, l *config.Limit, n int64) string {
	switch {
	case l.Unit == config.Microcents:
		return p.Text("%s credits", p.Credits(n))
	case n == 0:
		return p.Text("no limit")
	case l.Unit == config.Credits:
		return p.Text("%s credits", p.Number(n))
	}
	return p.Number(n)
}

// fromText says where a limit comes from, if not from the plan.
func fromText(p *views.Page, from string) string {
	switch from {
	case admin.FromAccount:
		return p.Text("set for this account")
	case admin.FromOwner:
		return p.Text("set by the account's owner")
	}
	return ""
}

// requiredFacts say what the routes of requests must be.
func requiredFacts(p *views.Page, q *config.Requires) (list []views.Fact) {
	regions, retention := q.Texts()
	if len(regions) > 0 {
		list = append(list, views.Fact{Name: p.Text("Requests go only to regions"), Is: strings.Join(regions, ", ")})
	}
	if q.Retention != nil {
		list = append(list, views.Fact{Name: p.Text("Prompts are kept upstream for at most"), Is: retention})
	}
	return list
}
