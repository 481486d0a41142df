package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// threeRoutes are named by the profile that chooses them, where profiles are threeProfiles: whatever is asked, budget
// takes the cheapest, max the best, and balanced the one that is nearly as good for a tenth of the price.
var threeRoutes = []route{
	{Name: "max", Quality: 1, Input: "10", Output: "50"},
	{Name: "budget", Quality: 0.001, Input: "0.1", Output: "0.5"},
	{Name: "balanced", Quality: 0.9, Input: "1", Output: "5"},
}

const threeProfiles = `
profile "budget" {
  cost    = 1
  quality = 0
}
profile "max" {
  cost    = 0
  quality = 1
}
`

// profileHeader is the header pair for a profile, none for "".
func profileHeader(profile string) []string {
	if profile == "" {
		return nil
	}
	return []string{"X-Service-Profile", profile}
}

// TestProfiles is E26: who chooses the profile, seen by the route that serves.
func TestProfiles(t *testing.T) {
	t.Parallel()
	balanced := startScripted(t, setup{Routes: threeRoutes, Extra: threeProfiles})
	highest := startScripted(t, setup{Gateway: `default_profile = "max"`, Routes: threeRoutes, Extra: threeProfiles})
	all := []string{"chat", "responses", "messages"}
	effort := []string{"chat", "responses"}

	for _, tc := range []struct {
		clauses                string
		gateway                *scripted
		shapes                 []string
		header, model, members string
		want                   string
	}{
		{"PROF-05 default", balanced, all, "", "service/auto", "", "balanced"},
		{"PROF-04 workspace default", highest, all, "", "service/auto", "", "max"},
		{"PROF-01 PROF-06 header budget", balanced, all, "budget", "service/auto", "", "budget"},
		{"PROF-03 PROF-06 header balanced", highest, all, "balanced", "service/auto", "", "balanced"},
		{"PROF-02 PROF-06 PROF-16 header max", balanced, all, "max", "service/auto", "", "max"},
		{"PROF-16 header on the short form", balanced, all, "max", "auto", "", "max"},
		{"PROF-07 upper case", balanced, all, "BUDGET", "service/auto", "", "budget"},
		{"PROF-07 title case", balanced, all, "Max", "service/auto", "", "max"},
		{"PROF-07 mixed case", highest, all, "bAlAnCeD", "service/auto", "", "balanced"},
		{"PROF-08 model budget", balanced, all, "", "service/budget", "", "budget"},
		{"PROF-08 model balanced", highest, all, "", "service/balanced", "", "balanced"},
		{"PROF-08 model max", balanced, all, "", "service/max", "", "max"},
		{"PROF-09 PROF-17 effort low", balanced, effort, "", "service/auto", `"reasoning_effort":"low"`, "budget"},
		{"PROF-10 RESP-20 effort medium", highest, effort, "", "service/auto", `"reasoning_effort":"medium"`, "balanced"},
		{"PROF-11 PROF-17 RESP-20 effort high on the short form", balanced, effort, "", "auto", `"reasoning_effort":"high"`,
			"max"},
		{"PROF-09 RESP-20 MODEL-12 effort on an agent's name", balanced, effort, "", "gpt-5.5", `"reasoning_effort":"low"`,
			"budget"},
		{"PROF-12 no effort on messages", balanced, []string{"messages"}, "", "service/auto", `"reasoning_effort":"high"`,
			"balanced"},
		{"PROF-12 not even a wrong one", balanced, []string{"messages"}, "", "service/auto", `"reasoning_effort":"bogus"`,
			"balanced"},
		{"PROF-13 header before model", balanced, all, "budget", "service/max", "", "budget"},
		{"PROF-14 model before effort", balanced, effort, "", "service/budget", `"reasoning_effort":"high"`, "budget"},
		{"PROF-15 header before effort", balanced, effort, "max", "service/auto", `"reasoning_effort":"low"`, "max"},
		{"PROF-15 PROF-13 header before both", balanced, effort, "MAX", "service/budget", `"reasoning_effort":"low"`, "max"},
		{"RESP-22 reasoning.effort is not read", balanced, all, "", "service/auto", `"reasoning":{"effort":"high"}`,
			"balanced"},
		{"RESP-22 whatever it says", balanced, all, "", "service/auto", `"reasoning":{"effort":"bogus"}`, "balanced"},
	} {
		for _, family := range tc.shapes {
			sh := shapeOf(family)
			t.Run(tc.clauses+" "+family, func(t *testing.T) {
				t.Parallel()
				for _, mode := range modes {
					c := tc.gateway.rich(t)
					members := []string{`"model":` + quote(tc.model), mode.Field}
					if tc.members != "" {
						members = append(members, tc.members)
					}
					a := c.Post(sh.Path, sh.Body("PROMPT", members...), profileHeader(tc.header)...)
					require.Equal(t, tc.model, outcomeOf(t, sh, a).Model)
					require.Equal(t, tc.want, c.Route(t))
				}
			})
		}
	}
}

func TestProfileHeaderIsJudged(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range posts {
		for name, value := range map[string]string{
			"unknown": "cheap", "two in one": "budget,max", "a model": "auto", "blank": "  ", "inner blank": "ma x",
		} {
			t.Run("PROF-18 PROF-20 "+name+" "+postName(sh), func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for _, mode := range modes {
					a := c.Post(sh.Path, sh.Body("PROMPT", `"model":"service/max"`, mode.Field), "X-Service-Profile", value)
					requireError(t, sh, a, 400, "invalid_request_error")
				}
				c.RequireUntouched(t)
			})
		}
		t.Run("PROF-19 PROF-20 GAP-32 present and empty "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, mode := range modes {
				a := c.raw(t, sh.Path, sh.Body("PROMPT", mode.Field), "X-Service-Profile:")
				requireError(t, sh, a, 400, "invalid_request_error")
			}
			c.RequireUntouched(t)
			require.Equal(t, 200, c.Ask(sh).StatusCode, "absent")
		})
		t.Run("PROF-18 GAP-32 two lines "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			a := c.raw(t, sh.Path, sh.Body("PROMPT"), "X-Service-Profile: max", "X-Service-Profile: max")
			requireError(t, sh, a, 400, "invalid_request_error")
			c.RequireUntouched(t)
		})
	}
	t.Run("PROF-06 GAP-32 blanks around a value do not count", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, sh := range posts {
			require.Equal(t, 200, c.raw(t, sh.Path, sh.Body("PROMPT"), "X-Service-Profile: \t max ").StatusCode)
		}
	})
	t.Run("CHAT-19 RESP-21 GAP-31 effort is validated though outranked", func(t *testing.T) {
		t.Parallel()
		for _, family := range []string{"chat", "responses"} {
			sh, c := shapeOf(family), g.rich(t)
			a := c.Post(sh.Path, sh.Body("PROMPT", `"model":"service/max","reasoning_effort":"x"`), "X-Service-Profile", "max")
			requireError(t, sh, a, 400, "invalid_request_error")
			c.RequireUntouched(t)
		}
	})
	t.Run("PROF-18 GAP-32 GETs do not read it", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/v1/models", "/v1/models/service/auto", "/v1/account"} {
			require.Equal(t, 200, g.Get(path, "X-Service-Profile", "cheap").StatusCode)
		}
	})
}

// TestChoiceIsOfTheRequest: one profile, and each request goes to the route that is expected to be good at it.
func TestChoiceIsOfTheRequest(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: `
route "coder" {
  provider       = "up"
  model          = "coder"
  context_window = 200000
  max_output     = 64000
  quality {
    default = 0.5
    code    = 0.95
  }
  price {
    input  = 3
    output = 15
  }
}
route "writer" {
  provider       = "up"
  model          = "writer"
  context_window = 200000
  max_output     = 64000
  reasons        = true
  quality {
    default = 0.5
    writing = 0.95
  }
  price {
    input  = 3
    output = 2.5
  }
}
`, Routes: []route{{Name: "any", Quality: 0.4, Input: "4", Output: "20"}}})
	for _, sh := range shapes {
		for _, tc := range []struct{ name, prompt, members, want string }{
			{"code", "Write a python function that reverses a list: def reverse(items):", "", "coder"},
			{"a text", "Write me a short poem about the sea.", "", "writer"},
			{"ALLOW-20 a text in few words", "Write me a short poem about the sea.", allowance(sh, 100), "coder"},
		} {
			t.Run("PROF-05 "+tc.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for _, mode := range modes {
					members := []string{mode.Field}
					if tc.members != "" {
						members = append(members, tc.members)
					}
					a := c.Post(sh.Path, sh.Body(tc.prompt+" PROMPT", members...))
					outcomeOf(t, sh, a)
					require.Equal(t, tc.want, c.Route(t))
				}
			})
		}
	}
}
