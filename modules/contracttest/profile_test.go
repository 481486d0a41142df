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

func TestBlanksAroundAProfile(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	t.Run("PROF-06 GAP-32", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, sh := range posts {
			require.Equal(t, 200, c.raw(t, sh.Path, sh.Body("PROMPT"), "X-Service-Profile: \t max ").StatusCode)
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
