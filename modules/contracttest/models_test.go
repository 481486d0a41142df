package contracttest

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
)

// agentNames are what coding agents and client libraries of both families send on their own.
var agentNames = []string{
	"claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2", "claude-opus-4-7", "claude-sonnet-4-5",
	"claude-haiku-4-5-20251001", "claude-sonnet-4-5-20250929",
	"gpt-6.1-sol", "gpt-6-astra", "gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6-sol", "gpt-5.6-terra",
	"gpt-5.6-luna",
	"gpt-5.5", "gpt-5.4-nano", "gpt-5-codex", "gpt-5.1-codex-max", "codex-mini-latest", "codex-auto-review",
	"gpt-daybreak-blue-latest", "gpt-daybreak-red-latest", "gpt-4.1", "gpt-3.5-turbo", "o3",
}

func TestModelEntry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		windows []int64
		largest string
	}{
		{"largest second", []int64{8000, 200000, 128000}, "200000"},
		{"largest gone", []int64{8000, 128000}, "128000"},
	} {
		t.Run("MODEL-01 MODEL-02 MODEL-03 MODEL-05 GEN-07 EP-07 EP-08 EP-09 EP-11 "+tc.name, func(t *testing.T) {
			t.Parallel()
			var routes []route
			for i, w := range tc.windows {
				routes = append(routes, route{Name: string(rune('a' + i)), Window: w, Max: 4000})
			}
			g := startScripted(t, setup{Routes: routes})
			list := g.Get("/v1/models").JSON(t)
			entry := g.Get("/v1/models/service/auto").JSON(t)
			require.Equal(t, []any{entry}, list["data"], "one entry, and the same as the lookup's")
			require.Equal(t, "list", list["object"])
			require.Equal(t, "service/auto", entry["id"])
			require.Equal(t, "model", entry["object"])
			require.Equal(t, "service", entry["owned_by"])
			require.EqualValues(t, tc.largest, entry["context_length"])
			require.Equal(t, list, g.Get("/models").JSON(t))
			for _, path := range []string{"/models/service/auto", "/v1/models/service%2Fauto", "/models/service%2Fauto"} {
				require.Equal(t, entry, g.Get(path).JSON(t), path)
			}
		})
	}
}

// TestModelFieldAndLookup is E30, on every shape and the token count (GAP-10, GAP-11).
func TestModelFieldAndLookup(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	lookup := func(t *testing.T, id string, status int) {
		t.Helper()
		for _, root := range []string{"/v1/models/", "/models/"} {
			a := g.Get(root + id)
			if status == 200 {
				require.Equal(t, 200, a.StatusCode)
			} else {
				requireError(t, shapeOf("chat"), a, status, "model_not_found")
			}
		}
	}
	accepted := append([]string{"service/auto", "auto", "service/budget", "service/balanced", "service/max"},
		agentNames...)
	for _, sh := range posts {
		t.Run("MODEL-06 MODEL-07 MODEL-08 MODEL-09 MODEL-10 MODEL-11 MODEL-13 MODEL-15 HTTP-10 accepted on "+postName(sh),
			func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for _, model := range accepted {
					a := c.Ask(sh, `"model":`+quote(model))
					require.Equal(t, 200, a.StatusCode, "%s: %s", model, a.Raw)
					if sh.Path != wire.Count.Path {
						require.Equal(t, model, a.At(t, "model"))
						require.NotContains(t, string(a.Raw), "standard", "the upstream's model shows")
					}
				}
			})
		t.Run("MODEL-14 MODEL-18 MODEL-19 MODEL-20 ERR-07 ERR-08 refused on "+postName(sh), func(t *testing.T) {
			t.Parallel()
			rich, broke := g.rich(t), g.caller(t, 0)
			for _, model := range []string{"service/turbo", "Service/Auto", " service/auto", "service/auto ", "service/atuo",
				"openrouter/auto", "anthropic/claude-x", "standard", "gpt-4o-typo", "claude", "AUTO", "service/", "service"} {
				for _, mode := range modes {
					for _, c := range []*caller{rich, broke} {
						requireError(t, sh, c.Ask(sh, `"model":`+quote(model), mode.Field), 404, "model_not_found")
					}
				}
			}
			rich.RequireUntouched(t)
			broke.RequireUntouched(t)
		})
		t.Run("MODEL-16 MODEL-17 CHAT-01 RESP-01 MSG-01 required on "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, mode := range modes {
				for _, model := range []string{`""`, `null`, `7`, `["auto"]`, `{}`} {
					requireError(t, sh, c.Ask(sh, `"model":`+model, mode.Field), 400, "invalid_request_error")
				}
				body := map[string]string{"responses": `{"input":"PROMPT"`}[sh.Name]
				if body == "" {
					body = `{"messages":[{"role":"user","content":"PROMPT"}]`
				}
				requireError(t, sh, c.Post(sh.Path, body+","+mode.Field+"}"), 400, "invalid_request_error")
			}
			c.RequireUntouched(t)
		})
		if sh.Path == wire.Count.Path {
			continue
		}
		t.Run("MODEL-13 MODEL-15 echoed in streams on "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, model := range []string{"auto", "service/max", agentNames[0]} {
				a := c.Post(sh.Path, sh.Body("PROMPT", `"model":`+quote(model), modes[1].Field), "X-Service-Profile", "budget")
				require.Equal(t, model, outcomeOf(t, sh, a).Model)
				require.NotContains(t, string(a.Raw), "standard")
			}
		})
	}
	t.Run("EP-09 EP-10 EP-11 GAP-06 only service/auto is looked up", func(t *testing.T) {
		t.Parallel()
		lookup(t, "service/auto", 200)
		lookup(t, "service%2Fauto", 200)
		for _, id := range append(accepted[1:], "gpt-4o", "nope", "Service/Auto", "service/atuo", "openrouter/auto", "7",
			"service") {
			lookup(t, url.PathEscape(id), 404)
		}
		for _, path := range []string{"/v1/models/", "/models/"} {
			requireError(t, shapeOf("chat"), g.Get(path), 404, "invalid_request_error")
		}
	})
}

// Two routes, so that a profile can be seen by the route that it chooses.
func TestModelNamesAndRoutes(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `default_profile = "max"`, Routes: threeRoutes, Extra: threeProfiles})
	for _, sh := range shapes {
		t.Run("MODEL-06 MODEL-07 MODEL-08 MODEL-09 MODEL-10 MODEL-12 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, tc := range []struct{ model, header, profile string }{
				{"service/auto", "", "max"}, {"auto", "", "max"}, {agentNames[0], "", "max"}, {"gpt-5.5", "", "max"},
				{"service/budget", "", "budget"}, {"service/balanced", "", "balanced"}, {"service/max", "", "max"},
				{"service/auto", "budget", "budget"}, {"auto", "balanced", "balanced"}, {agentNames[0], "budget", "budget"},
				{"service/budget", "max", "max"},
			} {
				for _, mode := range modes {
					c := g.rich(t)
					a := c.Post(sh.Path, sh.Body("PROMPT", `"model":`+quote(tc.model), mode.Field), profileHeader(tc.header)...)
					require.Equal(t, tc.model, outcomeOf(t, sh, a).Model)
					require.Equal(t, tc.profile, c.Route(t), "%+v", tc)
				}
			}
		})
	}
}
