package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhichCredits proves that a 402 says whether nothing is left, running requests hold what is left, or it is too
// little: only the second is worth trying again.
func TestWhichCredits(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ERR-16 BILL-12 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				says := func(a answer, text string) {
					t.Helper()
					requireError(t, sh, a, 402, "budget_exceeded")
					require.Contains(t, a.At(t, "error", "message"), text)
				}
				none := g.caller(t, 0)
				says(none.Ask(sh, mode.Field), "no credits left")

				c := g.caller(t, 2)
				says(c.Ask(sh, mode.Field, allowance(sh, 10_000)), "do not cover the request's largest possible cost")
				c.Blocked(hello)
				done := c.Start(t, sh, mode.Field, allowance(sh, 1_000))
				says(c.Ask(sh, mode.Field, allowance(sh, 1_000)), "held by requests that run")
				says(c.Ask(sh, mode.Field, allowance(sh, 10_000)), "do not cover the request's largest possible cost")
				c.Upstream.Open(c.Mark)
				require.EqualValues(t, helloCost, outcomeOf(t, sh, <-done).Billed(t))
				says(c.Ask(sh, mode.Field, allowance(sh, 1_000)), "do not cover the request's largest possible cost")
			})
		}
	}
}
