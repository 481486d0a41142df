package contracttest

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/requestlog"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// cheapThenDear are a first choice at a microcent for a token out, and what is fallen back on, at a hundred.
var cheapThenDear = []route{
	{Name: "first", Quality: 0.9, Input: "0", Output: "0.01", Window: 10_000_000, Max: 5_000_000},
	{Name: "second", Quality: 0.1, Input: "0", Output: "1", Window: 10_000_000, Max: 5_000_000},
}

// TestHoldThatTheBalanceCanBear: what the account does not cover is left out of the itinerary, unless it is the first
// choice.
func TestHoldThatTheBalanceCanBear(t *testing.T) {
	t.Parallel()
	const tokens = 1_000_000 // a credit on the first route, and 100 on the second
	past := []route{cheapThenDear[0], cheapThenDear[1]}
	past[1].More, past[1].Output = "bills_past_allowance = true", "0.01"
	screened := setup{Routes: cheapThenDear, Extra: screening("enforce")}
	for name, tc := range map[string]struct {
		setup   setup
		credits int64
		change  func(*caller)
	}{
		"available credits": {setup{Routes: cheapThenDear}, 12, func(*caller) {}},
		"the spend cap": {setup{Routes: cheapThenDear, Plan: "capped", Extra: capped("capped", "spend_cap_credits = 12")},
			1000, func(*caller) {}},
		"the token budget": {setup{Routes: past, Plan: "capped", Extra: capped("capped", "token_budget = 2000000")},
			1000, func(*caller) {}},
		"the key's cap": {setup{Routes: cheapThenDear}, 1000,
			func(c *caller) { c.ChangeKey(ledger.KeyChange{SpendCap: new(int64(12_000_000))}) }},
		"screened": {screened, 12, func(*caller) {}},
	} {
		g := startScripted(t, tc.setup)
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run("GAP-137 BILL-13 "+name+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := g.caller(t, tc.credits)
					tc.change(c)
					c.Blocked(upstream.Refuse(upstream.ServerError()))
					done := c.Start(t, sh, allowance(sh, tokens), mode.Field)
					held := c.Balance().Held
					require.GreaterOrEqual(t, held, int64(tokens))
					require.Less(t, held, int64(12_000_000), "the hold is the first choice's")
					c.topUp(t, 1000)
					g.Upstream.Open(c.Mark)
					a := <-done
					if mode.Name == "json" {
						requireError(t, sh, a, 502, "upstream_error")
					}
					require.Len(t, c.Seen(), 1, "and what is left out is not called, though credits came")
					require.Equal(t, []string{"second"}, decided(t, g, a).LeftOut)
					require.Zero(t, c.Balance().Held)

					rich := g.caller(t, 100_000)
					if name != "the spend cap" && name != "the token budget" {
						rich.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), hello))
						a = rich.Ask(sh, allowance(sh, tokens), mode.Field)
						require.Equal(t, "Hello", outcomeOf(t, sh, a).Text, "an account that covers it has its fallback")
						require.Empty(t, decided(t, g, a).LeftOut)
					}
				})
			}
		}
	}
}

// topUp adds credits.
func (c *caller) topUp(t testing.TB, credits int64) {
	t.Helper()
	_, _, err := c.Engine.Store().AddCredit(within(t), ledger.Credit{Account: c.Account.ID, Credits: credits})
	require.NoError(t, err)
}

// TestRefusalsOfMoneySayHowMuch: a 402 says what the request can come to, what is there, and which allowance fits; and
// it does.
func TestRefusalsOfMoneySayHowMuch(t *testing.T) {
	t.Parallel()
	dear := []route{{Name: "first", Quality: 0.9, Input: "1", Output: "1", Window: 10_000_000, Max: 5_000_000}}
	fits := regexp.MustCompile(`: an output allowance of at most (\d+) tokens fits\.$`)
	said := func(t *testing.T, a answer) string {
		t.Helper()
		var e struct{ Error struct{ Message string } }
		require.NoError(t, json.Unmarshal(a.Raw, &e))
		return e.Error.Message
	}
	for name, tc := range map[string]struct {
		setup   setup
		credits int64
		want    string
		kept    requestlog.Refused
	}{
		"available credits": {setup{Routes: dear}, 12, `It can come to 100\.\d{6} credits, and 12\.000000 are available`,
			requestlog.Refused{By: "balance", Unit: "microcents", Limit: 12_000_000, Left: 12_000_000}},
		"the spend cap": {setup{Routes: dear, Plan: "capped", Extra: capped("capped", "spend_cap_credits = 7")}, 1000,
			`It can come to 100\.\d{6} credits, and 7\.000000 are available`,
			requestlog.Refused{By: "spend_cap", Unit: "microcents", Limit: 7_000_000, Left: 7_000_000}},
		"the token budget": {setup{Routes: dear, Plan: "capped", Extra: capped("capped", "token_budget = 5000")}, 1000,
			`It can come to 1,000,\d{3} tokens \(100\.\d{6} credits\), and 5,000 tokens are available`,
			requestlog.Refused{By: "token_budget", Unit: "tokens", Limit: 5000, Left: 5000}},
	} {
		g := startScripted(t, tc.setup)
		for _, sh := range shapes {
			t.Run("GAP-137 ERR-17 "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.caller(t, tc.credits)
				a := c.Ask(sh, allowance(sh, 1_000_000))
				requireError(t, sh, a, 402, "budget_exceeded")
				text := said(t, a)
				require.Regexp(t, tc.want, text)
				found := fits.FindStringSubmatch(text)
				require.NotNil(t, found, text)
				largest, err := strconv.ParseInt(found[1], 10, 64)
				require.NoError(t, err)
				kept, err := g.Engine.FindRequest(within(t), a.Header.Get("X-Request-Id"))
				require.NoError(t, err)
				require.NotNil(t, kept.Refused)
				require.Greater(t, kept.Refused.Needed, kept.Refused.Left)
				want := tc.kept
				want.Needed, want.Allowance, want.Resets = kept.Refused.Needed, largest, kept.Refused.Resets
				require.Equal(t, want, *kept.Refused)
				requireError(t, sh, c.Ask(sh, allowance(sh, largest+1)), 402, "budget_exceeded")
				c.RequireUntouched(t)
				c.Answers(hello)
				require.Equal(t, "Hello", outcomeOf(t, sh, c.Ask(sh, allowance(sh, largest))).Text)
			})
		}
	}
	t.Run("GAP-137 where nothing fits", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Routes: dear})
		a := g.caller(t, 0).Ask(shapes[0], allowance(shapes[0], 100))
		requireError(t, shapes[0], a, 402, "budget_exceeded")
		require.Regexp(t, `The account has no credits left\. .* It can come to 0\.\d{6} credits, and 0\.000000 are `+
			`available: no output allowance is small enough to fit\.$`, said(t, a))
	})
}
