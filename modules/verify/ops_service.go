package verify

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// profileRoutes are the routes of profileGate by the profile that picks them.
var profileRoutes = map[string]string{"budget": "cheap", "balanced": "middle", "max": "dear"}

func opsServiceChecks() []opsCheck {
	// picks checks which profile a request was under, and so which route got it.
	picks := func(o *ops, s shape, profile string, header http.Header, members ...string) {
		a := o.do(call{Path: s.Path, Body: o.body(s, members...), Header: header})
		o.ok(s, a)
		o.Equal(profile, str(o.record(a)["profile"]), "the profile of "+a.call.String())
		o.Equal(profileRoutes[profile], o.sent().Model, "the route of "+a.call.String())
	}
	as := func(profile string) http.Header { return http.Header{"X-Service-Profile": {profile}} }
	checks := []opsCheck{
		onEach("GEN-05 PROF-01 PROF-02 PROF-03 PROF-06", "the header's profile picks the route", profileGate,
			func(o *ops, s shape) {
				for profile := range profileRoutes {
					picks(o, s, profile, as(profile))
				}
			}),
		onEach("PROF-07", "the header in other cases", profileGate, func(o *ops, s shape) {
			picks(o, s, "budget", as("BUDGET"))
			picks(o, s, "max", as("Max"))
			picks(o, s, "balanced", as("bAlAnCeD"))
		}),
		onEach("MODEL-06 PROF-05 PROF-16", "service/auto and auto have no profile of their own", profileGate,
			func(o *ops, s shape) {
				for _, name := range []string{`"model":"service/auto"`, `"model":"auto"`} {
					picks(o, s, "balanced", nil, name)
					picks(o, s, "max", as("max"), name)
				}
			}),
		onEach("MODEL-08 MODEL-10 PROF-08 PROF-13", "profile model ids, and the header over them", profileGate,
			func(o *ops, s shape) {
				picks(o, s, "budget", nil, `"model":"service/budget"`)
				picks(o, s, "max", nil, `"model":"service/max"`)
				picks(o, s, "budget", as("budget"), `"model":"service/max"`)
			}),
		{"PROF-09 PROF-10 PROF-11 PROF-14 PROF-15 PROF-17", "reasoning_effort, and what outranks it", profileGate,
			func(o *ops) {
				for _, s := range []shape{chat, responses} {
					picks(o, s, "budget", nil, `"reasoning_effort":"low"`)
					picks(o, s, "balanced", nil, `"reasoning_effort":"medium"`)
					picks(o, s, "max", nil, `"reasoning_effort":"high"`)
					picks(o, s, "budget", nil, `"model":"service/budget","reasoning_effort":"high"`)
					picks(o, s, "max", as("max"), `"reasoning_effort":"low"`)
					picks(o, s, "max", as("max"), `"model":"service/budget","reasoning_effort":"low"`)
				}
			}},
		onEach("MODEL-09 PROF-04", "a default profile of the configuration, and service/balanced", specialGate,
			func(o *ops, s shape) {
				for name, profile := range map[string]string{"service/auto": "max", "service/balanced": "balanced"} {
					a := o.ask(s, `"model":`+quote(name))
					o.ok(s, a)
					o.Equal(profile, str(o.record(a)["profile"]), "the profile of "+name)
				}
			}),
		{"PROF-12", "reasoning_effort on messages", profileGate, func(o *ops) {
			for _, effort := range []string{`"high"`, `"low"`, `"bogus"`} {
				picks(o, messages, "balanced", nil, `"reasoning_effort":`+effort)
			}
		}},
		{"RESP-22", "reasoning.effort on responses", profileGate, func(o *ops) {
			picks(o, responses, "balanced", nil, `"reasoning":{"effort":"high"}`)
			picks(o, responses, "balanced", nil, `"reasoning":{"effort":"bogus"}`)
		}},
		onEach("MODEL-12", "names of agents are routed as service/auto is", profileGate, func(o *ops, s shape) {
			for _, name := range []string{`"model":"claude-opus-5-5"`, `"model":"gpt-6.1-sol"`} {
				picks(o, s, "balanced", nil, name)
				picks(o, s, "max", as("max"), name)
			}
		}),
		onEach("GEN-06", "nothing that a client sends pins a route", profileGate, func(o *ops, s shape) {
			for _, name := range []string{"cheap", "dear"} {
				pin := fmt.Sprintf(`"provider":%[1]q,"route":%[1]q,"models":[%[1]q]`, name)
				picks(o, s, "balanced", http.Header{"X-Route": {name}, "X-Model": {name}}, pin)
				o.refused(s, o.ask(s, `"model":`+quote(name)), 404, modelNotFound)
			}
		}),
		{"MODEL-03", "the largest window of three routes", profileGate, func(o *ops) {
			v := o.ok(lookups, o.do(call{Path: "/v1/models/service/auto"}))
			n, _ := integer(v["context_length"])
			o.Equal(int64(standardWindow), n, "context_length")
		}},
		onEach("GEN-11 CHAT-03 RESP-04 RESP-06", "a conversation of ten turns arrives whole", standardGate,
			func(o *ops, s shape) {
				var turns []string
				want := []string{"system: Be brief."}
				for i := range 5 {
					turns = append(turns, fmt.Sprintf(`{"role":"user","content":"question %d"}`, i),
						fmt.Sprintf(`{"role":"assistant","content":"answer %d"}`, i))
					want = append(want, fmt.Sprintf("user: question %d", i), fmt.Sprintf("assistant: answer %d", i))
				}
				turns, want = append(turns, `{"role":"user","content":"last"}`), append(want, "user: last")
				system := map[string]string{"chat": "", "responses": `"instructions":"Be brief."`,
					"messages": `"system":"Be brief."`}[s.Name]
				if s.Name == "chat" {
					turns = append([]string{`{"role":"developer","content":"Be brief."}`}, turns...)
				}
				o.ok(s, o.ask(s, quote(s.input)+":["+strings.Join(turns, ",")+"]", system))
				var got []string
				for _, m := range o.sent().Messages {
					got = append(got, m.Role+": "+m.Text)
				}
				o.Equal(want, got, "what the route got")
			}),
		onEach("GEN-19 HTTP-06", "the id finds the record", standardGate, func(o *ops, s shape) {
			plain := o.record(o.ask(s))
			heads := http.Header{"X-Source": {"verify-source"}, "Http-Referer": {"https://verify-referer.example"},
				"X-Title": {"verify-title"}}
			titled := o.record(o.do(call{Path: s.Path, Body: o.body(s), Header: heads}))
			for _, name := range []string{"route", "profile", "microcents", "status", "account"} {
				o.Equal(plain[name], titled[name], name)
			}
			o.Equal(o.account.Name, str(plain["account"]), "the account of the record")
			o.Equal(any(float64(helloCost)), plain["microcents"], "the charge of the record")
			o.answers(upstream.Refuse(upstream.ServerError()))
			a := o.ask(s)
			o.Equal(502, a.Status, "the status of a route that fails")
			o.Equal(any(float64(502)), o.record(a)["status"], "the status of its record")
		}),
		onEach("HTTP-07", "headers are not forwarded", standardGate, func(o *ops, s shape) {
			heads := http.Header{"X-Source": {"verify-source"}, "Http-Referer": {"https://verify-referer.example"},
				"X-Title": {"verify-title"}}
			o.ok(s, o.do(call{Path: s.Path, Body: o.body(s), Header: heads}))
			all := fmt.Sprint(o.sent().Header)
			for name, value := range heads {
				o.Equal("", o.sent().Header.Get(name), "the route's "+name)
				o.True(!strings.Contains(all, value[0]), "the route got the value of %s", name)
			}
		}),
		{"CNT-02", "the count is the service's own, and grows", standardGate, func(o *ops) {
			n := func(members ...string) int64 {
				v, _ := integer(o.ok(count, o.ask(count, members...))["input_tokens"])
				return v
			}
			least := n()
			o.Equal(least, n(), "the count of the same body")
			for _, more := range []string{`"system":"Be very brief."`, messages.tools(),
				messages.answered(toolCall{"c1", toolName, "{}"}, strings.Repeat("rain ", 50))} {
				o.True(n(more) > least, "the count does not grow by %s", more)
			}
			o.Equal(0, len(o.calls()), "the number of calls to the route")
		}},
		onEach("AUTH-14 AUTH-15 STATE-03 ERR-20", "accounts that are suspended or inactive", standardGate,
			func(o *ops, s shape) {
				for _, state := range []string{"suspended", "inactive"} {
					o.setState(state)
					for _, p := range places {
						a := o.do(p.call(o.T, nil))
						o.Equal(403, a.Status, "the status of "+a.call.String())
						o.errorForm(p.shape, a, "permission_denied")
					}
					o.refused(s, o.do(call{Path: s.Path, Body: o.body(s), Header: http.Header{"Authorization": {"Bearer wrong"}}}),
						401,
						authentication)
				}
				o.setState("active")
				o.ok(s, o.ask(s))
			}),
		{"AUTH-12 STATE-05", "a revoked key", standardGate, func(o *ops) {
			other := o.newKey("second")
			o.as("DELETE", "/fareway/keys/"+o.account.KeyID, nil)
			for _, p := range places {
				o.refused(p.shape, o.do(p.call(o.T, nil)), 401, authentication)
			}
			o.ok(lookups, o.do(call{Path: "/v1/account", Header: http.Header{"Authorization": {"Bearer " + other}}}))
		}},
		onEach("MEDIA-01", "media never reach the route", standardGate, func(o *ops, s shape) {
			before := o.balance()
			for _, m := range s.media() {
				for _, mode := range modes {
					o.refused(s, o.ask(s, m.members, mode), 400, unsupportedContent)
				}
			}
			o.untouched(before)
		}),
	}
	return checks
}
