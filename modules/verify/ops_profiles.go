package verify

import (
	"fmt"
	"net/http"
)

// profileRoutes are the routes of profileGate by the profile that picks them.
var profileRoutes = map[string]string{"budget": "cheap", "balanced": "middle", "max": "dear"}

// profileCase is a request and the profile that it is under (E26). On profileGate the default is balanced, and the
// route shows the profile; on specialGate the default is max.
type profileCase struct {
	clauses                string
	gate                   gateKind
	shapes                 []shape
	header, model, members string
	want                   string
}

var withEffort = []shape{chat, responses}

var profileCases = []profileCase{
	{"PROF-05 MODEL-06", profileGate, shapes, "", "service/auto", "", "balanced"},
	{"PROF-05 MODEL-07", profileGate, shapes, "", "auto", "", "balanced"},
	{"PROF-04", specialGate, shapes, "", "service/auto", "", "max"},
	{"PROF-01 PROF-06 MODEL-06", profileGate, shapes, "budget", "service/auto", "", "budget"},
	{"PROF-03 PROF-06", specialGate, shapes, "balanced", "service/auto", "", "balanced"},
	{"PROF-02 PROF-06 PROF-16", profileGate, shapes, "max", "service/auto", "", "max"},
	{"PROF-16 MODEL-07", profileGate, shapes, "max", "auto", "", "max"},
	{"PROF-07", profileGate, shapes, "BUDGET", "service/auto", "", "budget"},
	{"PROF-07", profileGate, shapes, "Max", "service/auto", "", "max"},
	{"PROF-07", specialGate, shapes, "bAlAnCeD", "service/auto", "", "balanced"},
	{"PROF-08 MODEL-08", profileGate, shapes, "", "service/budget", "", "budget"},
	{"PROF-08 MODEL-09", specialGate, shapes, "", "service/balanced", "", "balanced"},
	{"PROF-08 MODEL-10", profileGate, shapes, "", "service/max", "", "max"},
	{"PROF-09 PROF-17", profileGate, withEffort, "", "service/auto", `"reasoning_effort":"low"`, "budget"},
	{"PROF-10 RESP-20", specialGate, withEffort, "", "service/auto", `"reasoning_effort":"medium"`, "balanced"},
	{"PROF-11 PROF-17 RESP-20", profileGate, withEffort, "", "auto", `"reasoning_effort":"high"`, "max"},
	{"PROF-09 RESP-20 MODEL-12", profileGate, withEffort, "", "gpt-5.5", `"reasoning_effort":"low"`, "budget"},
	{"PROF-12", profileGate, []shape{messages}, "", "service/auto", `"reasoning_effort":"high"`, "balanced"},
	{"PROF-12", profileGate, []shape{messages}, "", "service/auto", `"reasoning_effort":"bogus"`, "balanced"},
	{"PROF-13", profileGate, shapes, "budget", "service/max", "", "budget"},
	{"PROF-13", profileGate, shapes, "max", "service/budget", "", "max"},
	{"PROF-14", profileGate, withEffort, "", "service/budget", `"reasoning_effort":"high"`, "budget"},
	{"PROF-15", profileGate, withEffort, "max", "service/auto", `"reasoning_effort":"low"`, "max"},
	{"PROF-15 PROF-13", profileGate, withEffort, "MAX", "service/budget", `"reasoning_effort":"low"`, "max"},
	{"RESP-22", profileGate, shapes, "", "service/auto", `"reasoning":{"effort":"high"}`, "balanced"},
	{"RESP-22", profileGate, shapes, "", "service/auto", `"reasoning":{"effort":"bogus"}`, "balanced"},
	{"MODEL-12", profileGate, shapes, "", "claude-opus-5-5", "", "balanced"},
	{"MODEL-12", profileGate, shapes, "max", "claude-opus-5-5", "", "max"},
	{"MODEL-12", profileGate, shapes, "", "gpt-6.1-sol", "", "balanced"},
	{"MODEL-12", specialGate, shapes, "budget", "claude-opus-5-5", "", "budget"},
}

// asProfile is the header for a profile, none for "".
func asProfile(profile string) http.Header {
	if profile == "" {
		return nil
	}
	return http.Header{"X-Service-Profile": {profile}}
}

func (c profileCase) run(o *ops) {
	for _, s := range c.shapes {
		for _, mode := range modes {
			a := o.do(call{Path: s.Path, Body: o.body(s, mode, `"model":`+quote(c.model), c.members),
				Header: asProfile(c.header)})
			o.Equal(c.model, s.OutcomeOf(o, a.Status, a.Header, a.Raw).Model, "the model of the reply")
			if c.gate == profileGate {
				o.Equal(profileRoutes[c.want], o.sent().Model, "the route of "+a.call.String())
			} else {
				o.Equal(c.want, str(o.record(a)["profile"]), "the profile of "+a.call.String())
			}
		}
	}
}

func opsProfileChecks() []opsCheck {
	checks := []opsCheck{
		onEach("GEN-05", "the profile picks the route", profileGate, requireRouteOfProfile),
		onEach("GEN-06", "nothing that a client sends pins a route", profileGate, requireNothingPins),
		{"PROF-18 PROF-19 PROF-20", "headers that name no profile", standardGate, requireBadProfiles},
		{"PROF-18", "GETs do not read the header (GAP-32)", standardGate, requireProfileUnread},
	}
	for _, c := range profileCases {
		does := fmt.Sprintf("profile %s by header %q, model %q and %q", c.want, c.header, c.model, c.members)
		checks = append(checks, opsCheck{c.clauses, does, c.gate, c.run})
	}
	return checks
}

func requireRouteOfProfile(o *ops, s shape) {
	for profile, route := range profileRoutes {
		a := o.do(call{Path: s.Path, Body: o.body(s), Header: asProfile(profile)})
		o.ok(s, a)
		o.Equal(route, o.sent().Model, "the route")
		r := o.record(a)
		o.Equal(route, str(r["route"]), "the route of the record")
		o.Equal(profile, str(r["profile"]), "the profile of the record")
	}
}

func requireNothingPins(o *ops, s shape) {
	for _, name := range []string{"cheap", "dear"} {
		pin := fmt.Sprintf(`"provider":%[1]q,"route":%[1]q,"models":[%[1]q]`, name)
		for profile, route := range profileRoutes {
			o.ok(s, o.do(call{Path: s.Path, Body: o.body(s, pin), Header: http.Header{"X-Route": {name}, "X-Model": {name},
				"X-Provider": {"up"}, "X-Service-Profile": {profile}}}))
			o.Equal(route, o.sent().Model, "the route")
			_, there := o.sentBody()["provider"]
			o.True(!there, "the route got the provider")
		}
		o.refusedFree(s, 404, modelNotFound, `"model":`+quote(name))
	}
}

// requireBadProfiles puts each endpoint to headers that are no profile. Two lines are one value too many (GAP-32).
func requireBadProfiles(o *ops) {
	before := o.balance()
	for _, s := range posts {
		for _, values := range [][]string{{"cheap"}, {"budget,max"}, {"auto"}, {"  "}, {"ma x"}, {""}, {"max", "max"}} {
			for _, mode := range modes {
				c := call{Path: s.Path, Body: o.body(s, `"model":"service/max"`, mode),
					Header: http.Header{"X-Service-Profile": values}}
				o.refused(s, o.do(c), 400, invalid)
			}
		}
	}
	o.untouched(before)
}

func requireProfileUnread(o *ops) {
	for _, p := range places {
		if p.method == http.MethodGet {
			o.Equal(200, o.do(p.call(o.T, asProfile("cheap"))).Status, "the status of "+p.path)
		}
	}
}
