package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestRequiresOfAPlan: what a plan requires of routes holds whatever a request asks for, also as
// a fallback, and where no route is left nothing is charged and nothing is called.
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

// TestRequiresOfAnAccount: what was set for an account holds from its next request on, besides what its plan
// requires, and is taken away again.
func TestRequiresOfAnAccount(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "us", Quality: 0.9, More: "region = \"us\"\nretention = \"none\""},
		{Name: "kept", Quality: 0.8, More: "region = \"eu\"\nretention = \"30d\""},
		{Name: "eu", Quality: 0.1, Input: "30", Output: "90", More: "region = \"eu\"\nretention = \"none\""},
	}, Extra: `
plan "floor" {
  requires {
    region = ["eu"]
  }
}
`})
	for _, sh := range shapes {
		t.Run(sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			served := func(want string) {
				t.Helper()
				for _, mode := range modes {
					outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT", mode.Field), profileHeader("max")...))
					require.Equal(t, want, c.Route(t))
				}
			}
			served("us")
			c.SetPlan("floor")
			served("kept")
			c.SetRequires(ledger.RequiresChange{Retention: new("none")})
			served("eu")
			c.SetPlan("")
			served("us")
			c.SetRequires(ledger.RequiresChange{Regions: &[]string{"eu"}, Retention: new("90d")})
			served("kept")

			nobody := g.rich(t)
			nobody.SetPlan("floor")
			nobody.SetRequires(ledger.RequiresChange{Regions: &[]string{"us"}})
			for _, mode := range modes {
				a := nobody.Post(sh.Path, sh.Body("PROMPT", mode.Field))
				requireError(t, sh, a, 503, "feature_unavailable")
			}
			nobody.RequireUntouched(t)
			nobody.SetRequires(ledger.RequiresChange{Regions: &[]string{}})
			outcomeOf(t, sh, nobody.Post(sh.Path, sh.Body("PROMPT", modes[0].Field)))
		})
	}
}

// SetRequires changes what the caller's account requires of routes, as an operator does.
func (c *caller) SetRequires(change ledger.RequiresChange) {
	c.t.Helper()
	_, err := c.Engine.Store().SetRequires(c.t.Context(), c.Account.ID, change)
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}
