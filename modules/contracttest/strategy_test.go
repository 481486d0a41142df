package contracttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// seats are routes of one price; a strategy of them is used for every request.
var seats = []route{{Name: "one", Quality: 0.5}, {Name: "two", Quality: 0.4}, {Name: "three", Quality: 0.3},
	{Name: "judge", Quality: 0.9}}

func strategy(name, rest string) string {
	return fmt.Sprintf("strategy %q {\n  when = true\n  %s\n}\n", name, rest)
}

const panelOfThree = `kind = "panel"
  seats = ["one", "two", "three"]
  judge = "judge"`

// byModel answers each route with its own reply; others say nothing that can be used.
func byModel(replies map[string]upstream.Reply) func(*upstream.Request) upstream.Reply {
	return func(req *upstream.Request) upstream.Reply {
		if r, ok := replies[req.Model]; ok {
			return r
		}
		return upstream.Refuse(upstream.ServerError())
	}
}

// called are the routes that were called, sorted.
func (c *caller) called() []string {
	var names []string
	for _, req := range c.Seen() {
		names = append(names, req.Model)
	}
	slices.Sort(names)
	return names
}

// last is the text of the last message that a route was sent.
func (c *caller) last(t testing.TB, model string) string {
	t.Helper()
	for _, req := range c.Seen() {
		if req.Model != model {
			continue
		}
		var body struct {
			Messages []struct{ Content any }
		}
		require.NoError(t, json.Unmarshal(req.Body, &body))
		return str(body.Messages[len(body.Messages)-1].Content)
	}
	t.Fatalf("route %q was not called", model)
	return ""
}

var inputName = map[string]string{"chat": "prompt_tokens", "responses": "input_tokens", "messages": "input_tokens"}

var outputName = map[string]string{"chat": "completion_tokens", "responses": "output_tokens",
	"messages": "output_tokens"}

// TestPanel is worked example E07, as far as it is about a panel, and what GAP-85 says of replies worked on in several
// steps.
func TestPanel(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: seats, Extra: strategy("careful", panelOfThree)})
	answer := func(text string) upstream.Reply { return script(used(100, 50), "stop", upstream.Text(text)) }
	whole := map[string]upstream.Reply{"one": answer("first"), "two": answer("second"), "three": answer("third"),
		"judge": script(used(400, 80), "stop", upstream.Text("the "), upstream.Text("best"))}
	const e07 = 555_000
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("BILL-24 GAP-13 GAP-85 the seats and the judge are charged "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(whole))
				before := c.Net()
				a := c.Ask(sh, mode.Field, stopField(sh, "nowhere"))
				o := outcomeOf(t, sh, a)
				require.Equal(t, "the best", o.Text)
				require.Equal(t, int64(e07), o.Billed(t))
				require.Equal(t, int64(e07), before-c.Net())
				require.Equal(t, json.Number("700"), o.Usage[inputName[sh.Name]])
				require.Equal(t, json.Number("230"), o.Usage[outputName[sh.Name]])
				require.Equal(t, []string{"judge", "one", "three", "two"}, c.called())
				told := c.last(t, "judge")
				for _, said := range []string{"first", "second", "third"} {
					require.Contains(t, told, said)
				}
				require.NotContains(t, c.last(t, "one"), "second")
				r := c.Record(t, a)
				require.Len(t, r.Attempts, 4)
				require.Zero(t, c.Balance().Held)
				line := c.Access(a.Header.Get("X-Request-Id"))
				require.Equal(t, "careful", line["strategy"])
				require.Equal(t, "judge", line["route"])
			})
			t.Run("GAP-85 a seat that fails is left out "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"two": answer("second"), "judge": whole["judge"],
					"three": script(used(100, 50), "stop")}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "the best", o.Text)
				require.Equal(t, int64(2*105_000+240_000), o.Billed(t), "a seat that said nothing has worked")
				require.Contains(t, c.last(t, "judge"), "second")
			})
			t.Run("ERR-25 the routes are fallen back on "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(func(req *upstream.Request) upstream.Reply {
					if req.Model == "judge" && !strings.Contains(string(req.Body), "assistants") {
						return hello
					}
					return upstream.Refuse(upstream.ServerError())
				})
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "Hello", o.Text)
				require.Equal(t, int64(helloCost), o.Billed(t))
				require.Equal(t, json.Number("10"), o.Usage[inputName[sh.Name]])
			})
			clause := map[string]string{"json": "SSE-42", "streamed": "SSE-41"}[mode.Name]
			t.Run(clause+" the last step has no visible text "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				for finish, charged := range map[string]int64{"stop": 105_000 + 240_000, "length": 0} {
					c := g.rich(t)
					replies := map[string]upstream.Reply{"one": answer("first"), "judge": script(used(400, 80), finish)}
					c.AnswersBy(byModel(replies))
					before := c.Net()
					requireLate(t, c, sh, mode.Field, 502, "upstream_error")
					require.Equal(t, charged, before-c.Net(), "like any route that failed (GAP-55), or a limit of ours (GAP-54)")
				}
			})
			t.Run("SSE-47 BILL-19 the cap is reached between two steps "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(func(req *upstream.Request) upstream.Reply {
					if req.Model == "one" {
						c.setLimit(ledger.LimitSpendCap, 1)
					}
					return whole[req.Model]
				})
				before := c.Net()
				requireLate(t, c, sh, mode.Field, 402, "budget_exceeded")
				require.Equal(t, int64(3*105_000), before-c.Net())
				require.Equal(t, []string{"one", "three", "two"}, c.called())
			})
			t.Run("POL-02 a seat declines "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": answer("first"),
					"two": upstream.Refuse(upstream.ContentFilter()), "judge": whole["judge"]}))
				requireLate(t, c, sh, mode.Field, 400, "invalid_request_error")
				require.NotContains(t, c.called(), "judge")
			})
		}
	}
	t.Run("STOP-07 the judge's reply ends at a stop sequence", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.AnswersBy(byModel(whole))
		v := askBoth(t, c, shapes[0], stopField(shapes[0], "best"))
		require.Equal(t, "the ", v.Text)
	})
	t.Run("BILL-22 GAP-47 the client leaves while the seats are at work", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.AnswersBy(func(req *upstream.Request) upstream.Reply {
			return upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Text("x"), upstream.Wait(c.Mark),
				upstream.Finish("stop"), upstream.ReportTokens(used(100, 50)), upstream.Done()}}
		})
		before := c.Net()
		left := c.Departure()
		ctx, leave := context.WithCancel(within(t))
		l := c.Send(t, ctx, shapes[0], streamField).Live()
		l.Start(shapes[0])
		leave()
		requireClosed(t, left)
		g.Upstream.Open(c.Mark)
		line := c.Access(l.Header.Get("X-Request-Id"))
		require.Equal(t, "client_left", line["reason"])
		require.Equal(t, int64(3*105_000), before-c.Net(), "they are read to their ends")
		require.NotContains(t, c.called(), "judge")
	})
}

// requireLate asks for what fails in a later step: JSON gets its status, a stream of which a step was accepted a
// frame.
func requireLate(t testing.TB, c *caller, sh shape, field string, status int, code string) {
	t.Helper()
	a := c.Ask(sh, field)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		if status == http.StatusBadRequest {
			requireError(t, sh, a, status, code)
		} else {
			requirePassing(t, sh, a, status, code)
		}
		return
	}
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, string(a.Raw), code)
	require.Contains(t, string(a.Raw), `"billing_pending":true`)
	require.NotContains(t, string(a.Raw), "[DONE]")
	require.Equal(t, status, c.Record(t, a).Status)
}

// TestCascadeTeaches: what a validator says of a route's replies is learned.
func TestCascadeTeaches(t *testing.T) {
	t.Parallel()
	const cascade = "kind = \"cascade\"\n  steps = [\"one\", \"two\"]\n  validator = "
	for name, validator := range map[string]string{"by form": `"not_refusal"`, "by a route": `"three"`} {
		for said, want := range map[string]map[string]float64{
			"I am sorry, but I cannot help with that.": {"one not_accepted": 1, "two worked": 1},
			"It is blue.": {"one worked": 1},
		} {
			t.Run(name+" "+said, func(t *testing.T) {
				t.Parallel()
				g := startScripted(t, setup{Routes: seats, Extra: strategy("climb", cascade+validator)})
				c := g.rich(t)
				opinion := "yes"
				if len(want) > 1 {
					opinion = "no"
				}
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": script(used(10, 9), "stop", upstream.Text(said)),
					"two": hello, "three": script(used(10, 1), "stop", upstream.Text(opinion))}))
				require.Equal(t, 200, c.Ask(shapes[0]).StatusCode)
				got := g.outcomes(t)
				delete(got, "three worked")
				require.Equal(t, want, got)
			})
		}
	}
}

// outcomes are what routes have been found to do, by route and outcome.
func (s *service) outcomes(t testing.TB) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	all := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != "fareway_route_outcomes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				all[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = n
			}
		}
	}
	return all
}

// TestCascade: each step in turn until a reply is accepted.
func TestCascade(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	const cascade = "kind = \"cascade\"\n  steps = [\"one\", \"two\"]\n  validator = "
	g := startScripted(t, setup{Routes: seats, Extra: strategy("climb", cascade+`"tool_arguments"`)})
	asked := startScripted(t, setup{Routes: seats, Extra: strategy("ask", cascade+`"three"`)})
	for _, sh := range shapes {
		f := sh.Tools(wire.Function{Name: "f", Schema: schema})
		for _, mode := range modes {
			t.Run("GAP-85 the first step is accepted "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				good := upstream.Call("call_1", "f", `{"n":1}`)
				good.Usage = upstream.UsageAlways
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": good}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field, f))
				require.Len(t, o.Calls, 1)
				require.JSONEq(t, `{"n":1}`, o.Calls[0].Arguments)
				require.Equal(t, []string{"one"}, c.called())
			})
			t.Run("GAP-85 it is not, and the last one is the reply "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				bad := upstream.Call("call_1", "f", `{"n":"one"}`)
				bad.Steps = append(bad.Steps[:len(bad.Steps)-1], upstream.ReportTokens(used(100, 20)), upstream.Done())
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": bad, "two": script(used(100, 50), "stop",
					upstream.Text("No such thing."))}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field, f))
				require.Equal(t, "No such thing.", o.Text)
				require.Empty(t, o.Calls)
				require.Equal(t, []string{"one", "two"}, c.called())
				require.Equal(t, o.Billed(t), before-c.Net())
				require.Equal(t, json.Number("200"), o.Usage[inputName[sh.Name]], "the sum of the steps")
			})
			t.Run("ERR-25 a step fails "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"two": hello}))
				require.Equal(t, "Hello", outcomeOf(t, sh, c.Ask(sh, mode.Field, f)).Text)
			})
			for verdict, want := range map[string]string{"Yes.": "Hello", "no": "better", "": "better"} {
				t.Run("GAP-85 a route is asked, and says "+quote(verdict)+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := asked.rich(t)
					c.AnswersBy(byModel(map[string]upstream.Reply{"one": hello,
						"three": script(used(40, 1), "stop", upstream.Text(verdict)),
						"two":   script(used(10, 2), "stop", upstream.Text("better"))}))
					before := c.Net()
					o := outcomeOf(t, sh, c.Ask(sh, mode.Field, stopField(sh, "es")))
					require.Equal(t, want, o.Text)
					require.Equal(t, o.Billed(t), before-c.Net())
					require.Contains(t, c.last(t, "three"), "Hello")
					if want == "better" {
						require.NotContains(t, c.last(t, "two"), "Hello")
					}
				})
			}
		}
	}
}

// TestAgree: what the seats agree on is the reply, otherwise another route's.
func TestAgree(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: seats, Extra: strategy("heads",
		"kind = \"agree\"\n  seats = [\"one\", \"two\"]\n  escalate = \"judge\"")})
	sits := startScripted(t, setup{Routes: seats, Extra: strategy("heads",
		"kind = \"agree\"\n  seats = [\"one\", \"two\"]\n  escalate = \"two\"")})
	say := func(text string) upstream.Reply { return script(used(10, 2), "stop", upstream.Text(text)) }
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-85 they agree "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("It is 42."), "two": say("it is **42**")}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "It is 42.", o.Text)
				require.Equal(t, int64(2*helloCost), o.Billed(t))
				require.Equal(t, []string{"one", "two"}, c.called())
			})
			t.Run("GAP-85 they do not "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("42"), "two": say("43"), "judge": say("44")}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "44", o.Text)
				require.Equal(t, int64(3*helloCost), o.Billed(t))
			})
			t.Run("GAP-85 a seat is escalated to "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := sits.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("42"), "two": say("43")}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "43", o.Text)
				require.Equal(t, []string{"one", "two"}, c.called())
			})
		}
	}
}

// What a strategy still needs can be at capacity, and so can all that could be fallen back on: then the client is to
// come again, and what was done so far is charged. A route that the strategy has called is not called again.
func TestStrategyAtCapacity(t *testing.T) {
	t.Parallel()
	routes := []route{{Name: "small", Quality: 0.3}, {Name: "deep", Quality: 0.9, More: "max_concurrent = 1"}}
	const climb = `strategy "apart" {
  when  = account.name == "caller-1-"
  kind  = "single"
  steps = ["deep"]
}
strategy "climb" {
  when      = true
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "json"
}
strategy "pair" {
  kind     = "agree"
  seats    = ["small", "deep"]
  escalate = "deep"
}
`
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-39 BILL-21 SSE-50 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				g := startScripted(t, setup{Routes: routes, Extra: climb})
				busy, c := g.rich(t), g.rich(t)
				busy.Blocked(hello)
				busy.Start(t, sh)
				c.Answers(hello) // which is no JSON
				before := c.Net()
				requireLate(t, c, sh, mode.Field, 429, "rate_limit_exceeded")
				require.Equal(t, []string{"small"}, c.called())
				require.EqualValues(t, helloCost, before-c.Net())
				require.Zero(t, c.Balance().Held)
			})
		}
	}
}

// Where a strategy fails, what is fallen back on is what it has not called.
func TestFallingBackFromAStrategy(t *testing.T) {
	t.Parallel()
	const pair = `strategy "pair" {
  when     = true
  kind     = "agree"
  seats    = ["one", "two"]
  escalate = "three"
}
`
	g := startScripted(t, setup{Routes: seats, Extra: pair})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ERR-25 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": hello, "judge": hello,
					"two": script(used(10, 2), "stop", upstream.Text("Goodbye"))}))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "Hello", o.Text)
				require.Equal(t, []string{"judge", "one", "three", "two"}, c.called(), "each once")
				require.EqualValues(t, 3*helloCost, c.Credits*ledger.MicrocentsPerCredit-c.Net())
			})
		}
	}
}
