package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// exact is a route on which an output token costs one microcent and input is free: an output allowance is a
// hold of as many microcents, and reported output tokens are a charge of as many.
var exact = route{Name: "exact", Window: 100_000_000, Max: 50_000_000, Input: "0", Output: "0.01"}

// charges makes the upstream report a use that costs so many microcents on the exact route.
func charges(microcents int64) upstream.Reply {
	return script(upstream.Usage{Prompt: 1, Completion: microcents}, "stop", upstream.Text("x"))
}

// Spend makes one request that holds and costs these microcents.
func (c *caller) Spend(t testing.TB, sh shape, mode string, hold, cost int64) {
	t.Helper()
	c.Answers(charges(cost))
	o := outcomeOf(t, sh, c.Ask(sh, allowance(sh, hold), mode))
	require.Equal(t, cost, o.Billed(t))
	require.Equal(t, false, o.Usage["billing_pending"])
}

// alternate gives tests of sequences each shape and mode in turn.
func alternate(i int) (shape, string) { return shapes[i%len(shapes)], modes[i%len(modes)].Field }

// TestHolds is a part of E05.
func TestHolds(t *testing.T) {
	t.Parallel()
	standard := startScripted(t, setup{})
	short := startScripted(t, setup{Routes: []route{{Name: "short", Max: 8_192}}})
	for _, sh := range shapes {
		for _, mode := range modes {
			for _, tc := range []struct {
				clauses          string
				g                *scripted
				given, low, high int64 // credits that are too few, and enough
			}{
				{"BILL-10 no allowance, output limit 8,192", short, 0, 12, 13},
				{"BILL-09 an allowance above the output limit", short, 20_000, 12, 13},
			} {
				t.Run("BILL-14 BILL-15 E05 "+tc.clauses+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					fields := []string{mode.Field}
					if tc.given > 0 {
						fields = append(fields, allowance(sh, tc.given))
					}
					few := tc.g.caller(t, tc.low)
					requireError(t, sh, few.Ask(sh, fields...), 402, "budget_exceeded")
					few.RequireUntouched(t)
					c := tc.g.caller(t, tc.high)
					c.Blocked(hello)
					done := c.Start(t, sh, fields...)
					requireCredits(t, c.service, tc.high, tc.high, 0, 0)
					c.Upstream.Open(c.Mark)
					require.EqualValues(t, helloCost, outcomeOf(t, sh, <-done).Billed(t))
					requireCredits(t, c.service, tc.high, 0, helloCost, tc.high-1)
				})
			}
		}
	}
	t.Run("BILL-07 BILL-09 the input is held at its bound, never below what it costs", func(t *testing.T) {
		t.Parallel()
		c := standard.caller(t, 1000)
		text := c.prompt(t, 4_000)
		c.Blocked(script(upstream.Usage{Prompt: 4_000, Completion: 1}, "stop", upstream.Text("x")))
		done := c.Start(t, shapes[0], conversation(shapes[0], [2]string{"user", text}), allowance(shapes[0], 1))
		held := c.Balance().Held
		require.GreaterOrEqual(t, held, int64(4_000*3/2)*300+1500, "GAP-49: half as much again as the estimate")
		require.GreaterOrEqual(t, held, int64(len(text)/3)*300+1500, "GAP-49: a third of the bytes")
		c.Upstream.Open(c.Mark)
		require.LessOrEqual(t, outcomeOf(t, shapes[0], <-done).Billed(t), held)
	})
}

// TestCeiling: whatever an upstream says it used, a request costs what was held for it at most (GAP-110).
func TestCeiling(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{exact}})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-16 GAP-110 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.caller(t, 1)
				c.Answers(charges(99_999_999))
				a := c.Ask(sh, allowance(sh, 1_000_000), mode.Field)
				require.EqualValues(t, 1_000_000, outcomeOf(t, sh, a).Billed(t), "the reply says what the ledger charges")
				require.Zero(t, c.Net())
				r := c.Record(t, a)
				require.Equal(t, []int64{1_000_000, 98_999_999}, []int64{r.Microcents, r.Over})
				require.EqualValues(t, 99_999_999, *r.Attempts[0].Usage.Output, "what the upstream said is on record")
				request := a.Header.Get("X-Request-Id")
				c.Log.Await(t, func(line map[string]any) bool {
					return line["request_id"] == request && line["route"] == exact.Name && line["setting"] == "max_output" &&
						line["over_microcents"] == 98_999_999.0
				})
			})
		}
	}
	for name, tc := range map[string]struct {
		setting string
		used    upstream.Usage
	}{
		"output past the allowance": {"bills_past_allowance", upstream.Usage{Prompt: 5, Completion: 20_000}},
		"input past its bound":      {"template_tokens", upstream.Usage{Prompt: 99_999, Completion: 100}},
	} {
		t.Run("GAP-110 "+name, func(t *testing.T) {
			t.Parallel()
			standard := startScripted(t, setup{})
			c := standard.rich(t)
			c.Answers(script(tc.used, "stop", upstream.Text("x")))
			a := c.Ask(shapes[0], allowance(shapes[0], 100))
			r := c.Record(t, a)
			require.Equal(t, r.Held, r.Microcents)
			require.EqualValues(t, tc.used.Prompt*300+tc.used.Completion*1500, r.Microcents+r.Over)
			request := a.Header.Get("X-Request-Id")
			c.Log.Await(t, func(line map[string]any) bool {
				return line["request_id"] == request &&
					line["setting"] == tc.setting
			})
		})
	}
}

// TestCeilingOfEachAttempt: nor is one attempt charged what was held for another (GAP-123).
func TestCeilingOfEachAttempt(t *testing.T) {
	t.Parallel()
	dear := startScripted(t, setup{Routes: []route{{Name: "cheap", Quality: 0.9, Input: "0.01", Output: "0.02"},
		{Name: "dear", Quality: 0.5, Input: "10", Output: "40"}}})
	panel := startScripted(t, setup{Routes: seats, Extra: strategy("careful", panelOfThree)})
	nonsense := script(upstream.Usage{Prompt: 99_999_999, Completion: 99_999_999}, "stop", upstream.Text("x"))
	answer := script(used(100, 50), "stop", upstream.Text("y"))
	worked := int64(100*300 + 50*1500)
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-123 a cheap route and a dear fallback "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := dear.rich(t)
				c.Answers(nonsense)
				before := c.Net()
				a := c.Ask(sh, allowance(sh, 1_000), mode.Field)
				r := c.Record(t, a)
				require.Len(t, r.Attempts, 1)
				require.Equal(t, "cheap", r.Attempts[0].Route)
				require.Less(t, r.Attempts[0].Worst*100, r.Held, "the fallback was held for")
				require.Equal(t, r.Attempts[0].Worst, r.Microcents)
				require.Equal(t, r.Microcents, before-c.Net())
				require.Equal(t, r.Microcents, outcomeOf(t, sh, a).Billed(t))
				require.NotZero(t, r.Over)
				c.Log.Await(t, func(line map[string]any) bool {
					return line["request_id"] == a.Header.Get("X-Request-Id") &&
						line["worst_microcents"] == float64(r.Attempts[0].Worst)
				})
			})
			for _, who := range []string{"judge", "two"} {
				t.Run("GAP-123 a panel of which one reports nonsense: "+who+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := panel.rich(t)
					replies := map[string]upstream.Reply{"one": answer, "two": answer, "three": answer, "judge": answer}
					replies[who] = nonsense
					c.AnswersBy(byModel(replies))
					a := c.Ask(sh, allowance(sh, 1_000), mode.Field)
					r := c.Record(t, a)
					require.Len(t, r.Attempts, 4)
					want := 3 * worked
					for _, tried := range r.Attempts {
						if tried.Route == who {
							want += tried.Worst
						}
					}
					require.Equal(t, want, r.Microcents)
					require.Equal(t, want, outcomeOf(t, sh, a).Billed(t), "the reply says what the ledger charges")
				})
			}
		}
	}
}

// TestNegativeBalance is E04: an account can owe something, by what an operator or a late receipt takes.
func TestNegativeBalance(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{exact}})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-16 BILL-12 ERR-16 E04 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.caller(t, 1)
				c.Spend(t, sh, mode.Field, 1_000_000, 1_000_000)
				c.Owe(c.Account, 2_400_000)
				ask := func() answer { return c.Ask(sh, allowance(sh, 1_000_000), mode.Field) }
				for _, step := range []struct{ topUp, balance, available int64 }{{0, -2, -3}, {2, 0, -1}, {1, 1, 0}} {
					if step.topUp > 0 {
						c.TopUp(c.Account, step.topUp)
					}
					requireCredits(t, c.service, step.balance, 0, 400_000, step.available)
					requireError(t, sh, ask(), 402, "budget_exceeded")
				}
				require.Len(t, c.Seen(), 1)
				c.TopUp(c.Account, 1)
				requireCredits(t, c.service, 2, 0, 400_000, 1)
				c.Answers(charges(0))
				outcomeOf(t, sh, ask())
			})
		}
	}
	t.Run("BILL-13 BILL-16 not even a request that costs nothing", func(t *testing.T) {
		t.Parallel()
		free := startScripted(t, setup{Routes: []route{{Name: "free", Input: "0", Output: "0"}}})
		for _, sh := range shapes {
			for _, mode := range modes {
				c := free.caller(t, 0)
				requireError(t, sh, c.Ask(sh, mode.Field), 402, "budget_exceeded")
				c.RequireUntouched(t)
				c.TopUp(c.Account, 1)
				require.Zero(t, outcomeOf(t, sh, c.Ask(sh, mode.Field)).Billed(t))
				requireCredits(t, c.service, 1, 0, 0, 1)
			}
		}
	})
	t.Run("BILL-16 owing exactly nothing", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 1)
		c.Owe(c.Account, 4_000_000)
		c.Answers(charges(0))
		for _, topUp := range []int64{0, 3} {
			if topUp > 0 {
				c.TopUp(c.Account, topUp)
			}
			requireError(t, shapes[0], c.Ask(shapes[0], allowance(shapes[0], 1)), 402, "budget_exceeded")
		}
		requireCredits(t, c.service, 0, 0, 0, 0)
		c.TopUp(c.Account, 1)
		outcomeOf(t, shapes[0], c.Ask(shapes[0], allowance(shapes[0], 1_000_000)))
	})
}

// TestPrices: the charge follows what the route reports, to the microcent.
func TestPrices(t *testing.T) {
	t.Parallel()
	odd := startScripted(t, setup{Routes: []route{{Name: "odd", Input: "0.0333", Output: "0.0777"}}})
	for _, sh := range shapes {
		for _, mode := range modes {
			for _, tc := range []struct {
				clauses            string
				g                  *scripted
				prompt, completion int64
				billed             int64
			}{
				// 7 x 3.33 + 3 x 7.77 microcents, summed and then rounded down once (GAP-48).
				{"BILL-03 fractions", odd, 7, 3, 46},
				{"BILL-03 fractions that add up", odd, 100, 100, 1_110},
			} {
				t.Run(tc.clauses+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := tc.g.caller(t, 1000)
					c.Answers(script(upstream.Usage{Prompt: tc.prompt, Completion: tc.completion}, "stop", upstream.Text("x")))
					require.Equal(t, tc.billed, outcomeOf(t, sh, c.Ask(sh, mode.Field)).Billed(t))
					require.Equal(t, 1000*ledger.MicrocentsPerCredit-tc.billed, c.Net())
				})
			}
		}
	}
}
