package verify

import "fmt"

// agentNames are model names that agents and client libraries send on their own (MODEL-11), some of each kind.
var agentNames = []string{
	"claude-opus-5-5", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001", "gpt-6.1-sol", "gpt-5.6-luna",
	"gpt-5-codex", "gpt-4.1", "gpt-3.5-turbo", "o3",
}

func modelChecks() []*Check {
	checks := []*Check{
		check("MODEL-01 MODEL-02 MODEL-05 EP-07 EP-08 EP-09 EP-11", "the model list and the single model", func(t *T) {
			v, _ := t.visit(placeOf("/v1/models"))
			t.Equal(1, len(list(v["data"])), "the number of models")
			entry, _ := at(v, "data", 0).(map[string]any)
			t.Equal("service/auto", str(entry["id"]), "the id")
			n, ok := integer(entry["context_length"])
			t.True(ok && n > 0, "context_length is %s", brief(entry["context_length"]))
			for _, path := range []string{"/v1/models/service/auto", "/models/service/auto"} {
				one, _ := t.visit(placeOf(path))
				t.Equal(any(entry), any(one), path)
			}
			short, _ := t.visit(placeOf("/models"))
			t.Equal(any(v), any(short), "/models")
			encoded := t.ok(lookups, t.do(call{Path: "/v1/models/service%2Fauto"}))
			t.Equal(any(entry), any(encoded), "/v1/models/service%2Fauto")
			a := t.do(call{Method: "GET", Path: "/v1/models", Body: "{no JSON"})
			t.Equal(200, a.Status, "the status of a GET with a body")
		}),
		check("EP-10 EP-11", "single models that there are not", func(t *T) {
			for _, id := range []string{"auto", "service/budget", "gpt-4o", "nope"} {
				for _, root := range []string{"/v1/models/", "/models/"} {
					t.refused(lookups, t.do(call{Path: root + id}), 404, modelNotFound)
				}
			}
		}),
		check("MODEL-07 MODEL-15 HTTP-10", "names of the service", func(t *T) {
			for _, s := range shapes {
				for _, name := range []string{"auto", "service/auto", "service/max"} {
					t.echoes(s, name)
				}
			}
			t.ok(count, t.ask(count, `"model":"auto"`))
		}),
		check("MODEL-15", "the name is echoed, not the profile", func(t *T) {
			for _, s := range shapes {
				for _, name := range []string{"service/auto", "service/budget"} {
					a := t.do(call{Path: s.Path, Body: t.body(s, `"model":`+quote(name)),
						Header: map[string][]string{"X-Service-Profile": {"max"}}})
					t.Equal(name, str(t.ok(s, a)["model"]), "the model of the reply")
				}
			}
		}),
		check("MODEL-11 MODEL-13 HTTP-10", "names of agents", func(t *T) {
			for _, name := range agentNames {
				t.ok(count, t.ask(count, `"model":`+quote(name)))
			}
			for _, s := range shapes {
				t.echoes(s, "claude-opus-5-5")
				t.echoes(s, "gpt-6.1-sol")
			}
		}),
	}
	for _, s := range posts {
		for _, name := range []string{"service/turbo", "Service/Auto", " service/auto", "service/atuo", "openrouter/auto",
			"anthropic/claude-x"} {
			checks = append(checks, check("MODEL-14 MODEL-18 ERR-07 ERR-08 ERR-21", fmt.Sprintf("model %q on %s", name, s.Path),
				func(t *T) {
					t.refused(s, t.ask(s, `"model":`+quote(name)), 404, modelNotFound)
				}))
		}
		first := map[string]string{"chat": " CHAT-01", "responses": " RESP-01", "messages": " MSG-01"}[s.Name]
		checks = append(checks, check("MODEL-16 ERR-10"+first, "no model on "+s.Path, func(t *T) {
			t.refused(s, t.do(call{Path: s.Path, Body: t.without(s, "model")}), 400, invalid)
		}))
	}
	return checks
}

// echoes checks that a name is accepted and echoed.
func (t *T) echoes(s shape, name string) {
	v := memo(t, "echo "+s.Name+" "+name, func() map[string]any { return t.ok(s, t.ask(s, `"model":`+quote(name))) })
	t.Equal(name, str(v["model"]), "the model of the reply")
}
