package contracttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// drawing is what makes a request one for graphics; the caller's mark is in it.
const drawing = "PROMPT Draw a pelican on a bicycle as SVG."

// specialRoutes are one route of each class, of which the special ones have the standard prices too.
var specialRoutes = []route{
	{Name: "standard", Window: 20_000},
	{Name: "graphics", Window: 100_000, More: `specialty = ["graphics"]`},
	{Name: "long", Window: 100_000, More: `specialty = ["long_context"]`},
}

// TestRaisedAllowance is worked example E06, where the special route has less room than the raised allowance.
func TestRaisedAllowance(t *testing.T) {
	t.Parallel()
	narrow := startScripted(t, setup{Routes: []route{{Name: "graphics", Max: 2048, More: `specialty = ["graphics"]`}}})
	room := startScripted(t, setup{Routes: []route{{Name: "long", Window: 6000, More: `specialty = ["long_context"]`}}})
	for _, tc := range []struct {
		clauses      string
		gateway      *scripted
		text         string
		input, given int64 // input 0: the text as it is; given 0: none
		route        string
		sent         int64
	}{
		{"ALLOW-14 GAP-35", narrow, drawing, 0, 100, "graphics", 2048},
		{"ALLOW-13 GAP-35", room, "", 5000, 100, "long", 1000},
	} {
		for _, sh := range shapes {
			t.Run(fmt.Sprintf("%s %s given %d %s", tc.clauses, tc.route, tc.given, sh.Name), func(t *testing.T) {
				t.Parallel()
				c := tc.gateway.rich(t)
				text := tc.text
				if tc.input > 0 {
					text = c.prompt(t, tc.input)
				}
				for _, mode := range modes {
					fields := []string{mode.Field}
					if tc.given > 0 {
						fields = append(fields, allowance(sh, tc.given))
					}
					outcomeOf(t, sh, c.Post(sh.Path, sh.Body(text, fields...)))
					require.Equal(t, tc.route, c.Route(t))
					require.EqualValues(t, tc.sent, c.Sent(t)["max_tokens"])
				}
			})
		}
	}
}

// TestRaisedAllowanceMoney: the hold is sized by what is sent, the charge by what was generated.
func TestRaisedAllowanceMoney(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "graphics", More: `specialty = ["graphics"]`}}})
	plain := startScripted(t, setup{})
	// held is what a request with such an allowance has on hold.
	held := func(t *testing.T, g *scripted, sh shape, given int64, mode string) (*caller, int64, answer) {
		t.Helper()
		c := g.rich(t)
		c.Blocked(script(used(10, 250), "stop", upstream.Text("<svg/>")))
		done := c.Start(t, sh, allowance(sh, given), mode)
		held := c.Balance().Held
		g.Upstream.Open(c.Mark)
		return c, held, <-done
	}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ALLOW-18 ALLOW-19 BILL-09 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c, raised, a := held(t, g, sh, 100, mode.Field)
				o := outcomeOf(t, sh, a)
				require.Equal(t, "<svg/>", o.Text)
				require.Equal(t, map[string]string{"chat": "stop", "responses": "completed", "messages": "end_turn"}[sh.Name],
					o.Finish)
				require.Equal(t, int64(10*300+250*1500), c.Credits*1_000_000-c.Net(), "250 tokens are billed, not 4,096")

				_, given, _ := held(t, plain, sh, 100, mode.Field)
				_, full, _ := held(t, plain, sh, 4096, mode.Field)
				require.InDelta(t, full, raised, 300*4, "a caller's mark may be a digit longer")
				require.InDelta(t, (4096-100)*1500, raised-given, 300*4)
			})
		}
	}
}

// TestSpecialRoutes proves GAP-37 as clients see it.
func TestSpecialRoutes(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: specialRoutes, Extra: `
special "graphics" {
  terms = ["pelican"]
}
special "long_context" {
  above = 5000
}
`})
	for _, sh := range shapes {
		for _, tc := range []struct {
			name, text string
			allowance  int64
			route      string
		}{
			{"a term of the operator's", "PROMPT a Pelican!", 100, "graphics"},
			{"not one of the defaults", "PROMPT an SVG", 100, "standard"},
			{"above the threshold", "PROMPT hello", 5000, "long"},
			{"below it", "PROMPT hello", 4000, "standard"},
		} {
			t.Run("GAP-37 "+tc.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				for _, mode := range modes {
					c := g.rich(t)
					outcomeOf(t, sh, c.Post(sh.Path, sh.Body(tc.text, allowance(sh, tc.allowance), mode.Field)))
					require.Equal(t, tc.route, c.Route(t))
				}
			})
		}
		t.Run("GAP-37 GAP-39 an ordinary route stands in for a special one "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(func(req *upstream.Request) upstream.Reply {
				if req.Model == "graphics" {
					return upstream.Refuse(upstream.ServerError())
				}
				return hello
			})
			outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT pelican", allowance(sh, 100))))
			require.Len(t, c.Seen(), 2)
			require.Equal(t, "standard", c.Route(t))
			require.EqualValues(t, 100, c.Sent(t)["max_tokens"], "not raised there")
		})
	}
}
