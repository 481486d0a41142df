package modules_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequiresOfAPlan is issue 13's floors: what a plan requires of routes holds whatever a request asks for, also as a
// fallback, and where no route is left nothing is charged and nothing is called.
func TestRequiresOfAPlan(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "us", Quality: 0.9, More: "region = \"us\"\nretention = \"30d\""},
		{Name: "unsaid", Quality: 0.8, Input: "0.1", Output: "0.1"},
		{Name: "eu", Quality: 0.1, Input: "30", Output: "90", More: "region = \"eu\"\nretention = \"none\""},
	}, Extra: `
plan "floor" {
  requires {
    region    = ["eu"]
    retention = "none"
  }
}
plan "nowhere" {
  requires {
    region = ["mars"]
  }
}
`})
	for _, sh := range shapes {
		t.Run(sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.SetPlan("floor")
			for _, profile := range []string{"budget", "balanced", "max"} {
				for _, mode := range modes {
					a := c.Post(sh.Path, sh.Body("PROMPT", mode.Field), profileHeader(profile)...)
					outcomeOf(t, sh, a)
					require.Equal(t, "eu", c.Route(t), profile)
				}
			}
			nobody := g.rich(t)
			nobody.SetPlan("nowhere")
			for _, mode := range modes {
				a := nobody.Post(sh.Path, sh.Body("PROMPT", mode.Field))
				requireError(t, sh, a, 503, "feature_unavailable")
				require.Equal(t, "false", a.Header.Get("X-Should-Retry"), "ERR-30")
			}
			nobody.RequireUntouched(t)
		})
	}
}
