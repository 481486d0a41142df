package contracttest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// conduct is how a route behaves, and what that is proven to have cost at the usual prices.
type conduct struct {
	name  string
	reply upstream.Reply
	cost  int64
}

var conducts = []conduct{
	{"answers", hello, helloCost},
	{"answers something else", script(used(100, 20), "stop", upstream.Text("Goodbye")), 100*300 + 20*1500},
	{"is cut", script(used(10, 3), "length", upstream.Text("Hel")), 10*300 + 3*1500},
	{"says nothing", script(used(10, 4), "stop"), 10*300 + 4*1500},
	{"calls a tool wrongly", upstream.Reply{Steps: []upstream.Step{upstream.ToolCall(0, "c", "nonsense"),
		upstream.Arguments(0, `{}`), upstream.Finish("tool_calls"), upstream.ReportTokens(used(10, 5)),
		upstream.Done()}}, 10*300 + 5*1500},
	{"refuses", upstream.Refuse(upstream.ServerError()), 0},
	{"is busy", upstream.Refuse(upstream.Overloaded()), 0},
	{"works and fails", worked(used(100, 7)), 100*300 + 7*1500},
	{"fails and proves nothing", upstream.Reply{Steps: []upstream.Step{upstream.Headers(),
		upstream.Fail(upstream.ServerError())}}, 0},
	{"declines", upstream.Refuse(upstream.ContentFilter()), 0},
	{"ends by policy", script(used(10, 1), "content_filter"), 10*300 + 1500},
}

// anyStrategy is a strategy of the routes a to e for requests with this allowance.
func anyStrategy(random *rand.Rand, n int) string {
	routes := []string{"a", "b", "c", "d", "e"}
	random.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
	some := `["` + strings.Join(routes[:2+random.IntN(3)], `", "`) + `"]`
	any := func() string { return routes[random.IntN(len(routes))] }
	body := ""
	switch random.IntN(4) {
	case 0:
		body = "kind = \"single\"\n  steps = " + some
	case 1:
		validators := []string{"non_empty", "not_refusal", "json", "schema", "tool_arguments", any()}
		body = fmt.Sprintf("kind = \"cascade\"\n  steps = %s\n  validator = %q", some, validators[random.IntN(6)])
	case 2:
		body = fmt.Sprintf("kind = \"agree\"\n  seats = %s\n  escalate = %q", some, any())
	case 3:
		body = fmt.Sprintf("kind = \"panel\"\n  seats = %s\n  judge = %q", some, any())
	}
	return fmt.Sprintf("strategy \"s%d\" {\n  when = request.allowance == %d\n  %s\n}\n", n, n+1000, body)
}

// anyStrategies are the routes a to e, the first of which is the best, and so many strategies of them, from a seed.
func anyStrategies(seed uint64, strategies int) (routes []route, extra string) {
	random := rand.New(rand.NewPCG(14, seed))
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		routes = append(routes, route{Name: name, Quality: 0.9 - 0.1*float64(i)})
	}
	for n := range strategies {
		extra += anyStrategy(random, n)
	}
	return routes, extra
}

// TestStrategiesAreSound is a model of the runner: whatever tree of steps, and however its routes behave, a request
// has one end, no hold is left, and what it is charged is what its calls are proven to have used.
func TestStrategiesAreSound(t *testing.T) {
	t.Parallel()
	const strategies = 40
	routes, extra := anyStrategies(14, strategies)
	g := startScripted(t, setup{Routes: routes, Extra: extra})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-49 GAP-85 BILL-21 BILL-23 BILL-24 SSE-50 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				rapid.Check(t, func(rt *rapid.T) {
					which := rapid.IntRange(0, strategies-1).Draw(rt, "strategy")
					behaves := map[string]conduct{}
					for _, r := range routes {
						at := rapid.IntRange(0, len(conducts)-1).Draw(rt, r.Name)
						behaves[r.Name] = conducts[at]
					}
					c.AnswersBy(func(req *upstream.Request) upstream.Reply { return behaves[req.Model].reply })
					seen, before := len(c.Seen()), c.Net()
					a := c.Ask(sh, mode.Field, askForCalls(sh), allowance(sh, int64(which+1000)))
					var want int64
					var calls []string
					for _, req := range c.Seen()[seen:] {
						want += behaves[req.Model].cost
						calls = append(calls, req.Model+" "+behaves[req.Model].name)
					}
					r := c.Record(t, a)
					require.Equal(rt, want, before-c.Net(), "s%d: %v: %s", which, calls, a.Raw)
					require.Equal(rt, want, r.Microcents)
					require.Len(rt, r.Attempts, len(calls), "%v", calls)
					require.Zero(rt, c.Balance().Held)
					require.Equal(rt, r.Status == 200, a.StatusCode == 200 && !strings.Contains(string(a.Raw), `"error":{`) &&
						!strings.Contains(string(a.Raw), `event: error`), "%s", a.Raw)
					if r.Status == 200 {
						outcomeOf(t, sh, a) // whole, with one end
					}
				})
			})
		}
	}
}

// TestHedgesAreSound is the same where a call that is late gets another one beside it, at whatever moment anything
// happens to either: the account pays for one of the two, whichever it is, and the other is the operator's.
func TestHedgesAreSound(t *testing.T) {
	t.Parallel()
	const strategies = 20
	routes, extra := anyStrategies(15, strategies)
	g := startScripted(t, setup{Routes: routes, Extra: extra + hedging(1)})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-49 BILL-21 BILL-23 SSE-50 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				run := 0
				rapid.Check(t, func(rt *rapid.T) {
					// A call that was given up may reach the upstream when the next run has begun.
					run++
					prompt := fmt.Sprintf("PROMPT run %d.", run)
					mine := []byte(strings.ReplaceAll(prompt, "PROMPT", c.Mark))
					which := rapid.IntRange(0, 2*strategies-1).Draw(rt, "strategy") // from strategies on: none
					late := rapid.SampledFrom([]string{"not", "until the second one came", "until it ended"}).Draw(rt, "late")
					behaves := map[string]conduct{}
					for _, r := range routes {
						at := rapid.IntRange(0, len(conducts)-1).Draw(rt, r.Name)
						behaves[r.Name] = conducts[at]
					}
					ctx, done := context.WithCancel(context.Background())
					defer done()
					hedged := which >= strategies || strings.Contains(extra, fmt.Sprintf(
						"strategy \"s%d\" {\n  when = request.allowance == %d\n  kind = \"single\"", which, which+1000))
					var calls atomic.Int64
					released := newGate()
					c.AnswersBy(func(req *upstream.Request) upstream.Reply {
						if !bytes.Contains(req.Body, mine) {
							return hello
						}
						reply := behaves[req.Model].reply
						switch n := calls.Add(1); {
						case n == 1 && hedged && late != "not":
							return after(released, reply)
						case n == 2 && late == "until it ended":
							go func() {
								_, _ = c.Upstream.Ended(ctx, req.N)
								released.open()
							}()
						case n == 2:
							released.open()
						}
						return reply
					})
					before := c.Net()
					a := c.Post(sh.Path, sh.Body(prompt, mode.Field, askForCalls(sh), allowance(sh, int64(which+1000))))
					r := c.Record(t, a)
					var want int64
					seen := map[string]int{}
					for _, attempt := range r.Attempts {
						seen[attempt.Route]++
						if !attempt.Operator {
							want += behaves[attempt.Route].cost
						}
					}
					require.Equal(rt, want, before-c.Net(), "s%d, late %s: %v: %s", which, late, r.Attempts, a.Raw)
					require.Equal(rt, want, r.Microcents)
					require.Zero(rt, c.Balance().Held)
					if !hedged {
						require.Empty(rt, operators(r))
					} else {
						require.LessOrEqual(rt, len(operators(r)), 1)
						for route, n := range seen {
							require.Equal(rt, 1, n, route)
						}
						if late != "not" {
							require.Len(rt, operators(r), 1, "%v", r.Attempts)
						}
					}
					require.Equal(rt, r.Status == 200, a.StatusCode == 200 && !strings.Contains(string(a.Raw), `"error":{`) &&
						!strings.Contains(string(a.Raw), `event: error`), "%s", a.Raw)
					if r.Status == 200 {
						outcomeOf(t, sh, a) // whole, with one end
					}
				})
			})
		}
	}
}
