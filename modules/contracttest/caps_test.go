package contracttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// capped is a plan of the configuration with limits of money.
func capped(name, limits string) string { return fmt.Sprintf("plan %q {\n  %s\n}\n", name, limits) }

// spent makes a request whose charge and tokens are these, on the exact route: a token out costs a microcent.
func (c *caller) spent(t testing.TB, tokens int64) {
	t.Helper()
	c.Spend(t, shapes[0], modes[0].Field, tokens, tokens)
}

// atMost is the member that makes a request's worst case on the exact route this many microcents. Its tokens are a
// few more: the prompt's.
func atMost(sh shape, microcents int64) string { return allowance(sh, microcents) }

// TestTokenBudget is BILL-17's example: a budget of 10,000 tokens of which 9,500 are used.
func TestTokenBudget(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Plan: "budget", Extra: capped("budget", "token_budget = 10000") + capped("raised",
		"token_budget = 10100")})
	used := func(prompt, completion int64) upstream.Reply {
		return script(upstream.Usage{Prompt: prompt, Completion: completion}, "stop", upstream.Text("x"))
	}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-17 ERR-17 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(used(0, 9_500)) // no prompt that is too long for its text: that would be learned to be a template
				outcomeOf(t, sh, c.Ask(sh, mode.Field, allowance(sh, 9_500)))
				require.EqualValues(t, 9_500, c.Period().Tokens)
				c.Answers(used(0, 1))
				// The worst case is the prompt at its bound and the allowance. The bound is found out by where the
				// budget ends; each request that it admits takes a token of it, which the next does not ask for.
				taken := int64(0)
				allowed := func(tokens int64) bool {
					seen := len(c.Seen())
					a := c.Ask(sh, mode.Field, allowance(sh, tokens-taken))
					if a.StatusCode == 200 {
						outcomeOf(t, sh, a)
						taken++
						return true
					}
					requireError(t, sh, a, 402, "budget_exceeded")
					require.Contains(t, str(a.At(t, "error", "message")), "token budget")
					require.Len(t, c.Seen(), seen, "the route was called")
					return false
				}
				require.False(t, allowed(600), "600 out, and the prompt")
				require.False(t, allowed(500), "500 out, and the prompt")
				low, high := int64(1), int64(500)
				for high-low > 1 {
					if middle := (low + high) / 2; allowed(middle) {
						low = middle
					} else {
						high = middle
					}
				}
				bound := 500 - low // of the prompt, which with low comes to 500: exactly what is left
				require.Positive(t, bound)
				require.Less(t, bound, int64(100))
				c.SetPlan("raised")
				require.True(t, allowed(low+100))
				require.False(t, allowed(low+101))
				c.Answers(used(0, 600))
				outcomeOf(t, sh, c.Ask(sh, mode.Field, allowance(sh, 1)))
				require.False(t, allowed(taken+1), "used up")
			})
		}
	}
}

// TestKeySpendCap: a key's own cap bounds the key and nobody else.
func TestKeySpendCap(t *testing.T) {
	t.Parallel()
	const credit = ledger.MicrocentsPerCredit
	g := startScripted(t, setup{Routes: []route{exact}})
	for _, sh := range shapes {
		t.Run("BILL-18 ERR-18 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			other := c.withKey(t)
			limit := int64(5 * credit)
			c.ChangeKey(ledger.KeyChange{SpendCap: &limit})
			c.spent(t, 4*credit)
			c.Answers(charges(0))
			a := c.Ask(sh, atMost(sh, credit+1))
			requireError(t, sh, a, 402, "budget_exceeded")
			require.Contains(t, str(a.At(t, "error", "message")), "key's spend cap")
			outcomeOf(t, sh, c.Ask(sh, atMost(sh, credit)))
			outcomeOf(t, sh, other.Ask(sh, atMost(sh, 50*credit)))
			c.spent(t, credit)
			requireError(t, sh, c.Ask(sh, atMost(sh, 1)), 402, "budget_exceeded")
			limit = 0
			c.ChangeKey(ledger.KeyChange{SpendCap: &limit})
			c.Answers(charges(0))
			outcomeOf(t, sh, c.Ask(sh, atMost(sh, 50*credit)))
		})
	}
}

// TestCapLowered lowers a cap in the configuration while the first route of a request works: its next call is not
// made.
func TestCapLowered(t *testing.T) {
	t.Parallel()
	first, second := exact, exact
	first.Name, first.Quality = "first", 0.9
	second.Name, second.Quality = "second", 0.1
	for _, limit := range []struct{ name, before, after, says string }{
		{"spend cap", "spend_cap_credits = 100", "spend_cap_credits = 1", "spend cap"},
		// what the next call could cross
		{"token budget", "token_budget = 100000000", "token_budget = 2000500", "token budget"},
	} {
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run(fmt.Sprintf("BILL-19 SSE-35 %s %s %s", limit.name, sh.Name, mode.Name), func(t *testing.T) {
					t.Parallel()
					g := startScripted(t, setup{Routes: []route{first, second}, Plan: "capped", Extra: capped("capped", limit.before)})
					c := g.rich(t)
					c.Spend(t, sh, mode.Field, 2_000_000, 2_000_000)
					failing := upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait(c.Mark),
						upstream.Fail(upstream.ServerError())}}
					c.AnswersBy(byRoute(failing, charges(0)))
					sent := c.Send(t, within(t), sh, atMost(sh, 1000), mode.Field, askForCalls(sh))
					require.NoError(t, c.Upstream.AtGate(within(t), c.Mark, 1))
					g.Reload(func(hcl string) string { return strings.Replace(hcl, limit.before, limit.after, 1) })
					c.Upstream.Open(c.Mark)
					var failed wire.Failure
					if mode.Name == "json" {
						a := sent.Answer()
						requireError(t, sh, a, 402, "budget_exceeded")
						failed = errorOf(t, sh, a)
					} else {
						l := sent.Live()
						l.End()
						failed = *judge(t, sh, l).Error
					}
					require.Equal(t, "budget_exceeded", failed.Code)
					require.Contains(t, failed.Message, limit.says)
					require.Len(t, c.Seen(), 2, "the second route was not called")
					require.Zero(t, c.Balance().Held)
					require.EqualValues(t, 2_000_000, c.Credits*ledger.MicrocentsPerCredit-c.Net())
				})
			}
		}
	}
}

// SetPlan puts the caller's account on another plan, as an operator does.
func (c *caller) SetPlan(name string) {
	c.t.Helper()
	_, err := c.Engine.Store().SetPlan(context.Background(), c.Account.ID, name)
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}

// ChangeKey changes the caller's first key, as an operator does.
func (c *caller) ChangeKey(change ledger.KeyChange) {
	c.t.Helper()
	err := c.Engine.Store().Keys(context.Background(), ledger.KeyQuery{Account: c.Account.ID}, func(k ledger.Key) error {
		if k.Name != "first" {
			return nil
		}
		_, err := c.Engine.Store().ChangeKey(context.Background(), k.ID, change)
		return err
	})
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}

// Period is what the ledger has counted for the caller.
func (s *service) Period() ledger.Period {
	s.t.Helper()
	a, err := s.Engine.Store().Account(context.Background(), s.Account.ID)
	require.NoError(s.t, err)
	return a.Period
}
