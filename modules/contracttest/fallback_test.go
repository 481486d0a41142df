package contracttest

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// twoRoutes are tried in this order by every profile, and cost the same.
var twoRoutes = []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1}}

// byRoute answers with the reply of the route that is called.
func byRoute(first, second upstream.Reply) func(*upstream.Request) upstream.Reply {
	return func(req *upstream.Request) upstream.Reply {
		if req.Model == "first" {
			return first
		}
		return second
	}
}

// worked accepts, reports its usage and fails before text.
func worked(u upstream.Usage) upstream.Reply {
	return upstream.Reply{Usage: upstream.UsageAlways,
		Steps: []upstream.Step{upstream.Headers(), upstream.ReportTokens(u), upstream.Fail(upstream.ServerError())}}
}

// askForCalls makes the gateway ask its upstream for a stream, in which a failed attempt can prove its work,
// also where the client asks for JSON: the place of a stop sequence among calls is seen in a stream only.
func askForCalls(sh shape) string {
	return sh.Tools(wire.Function{Name: "f"}) + "," + stopField(sh, "<end>")
}

// TestFallback is worked example E07, as far as it is about two routes.
func TestFallback(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: twoRoutes})
	answered := script(used(100, 20), "stop", upstream.Text("Hello"))
	const second = 100*300 + 20*1500
	for _, sh := range shapes {
		promptTokens := map[string]string{"chat": "prompt_tokens", "responses": "input_tokens",
			"messages": "input_tokens"}[sh.Name]
		for _, mode := range modes {
			t.Run("ERR-25 the second route answers "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byRoute(upstream.Refuse(upstream.ServerError()), answered))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "Hello", o.Text)
				require.Equal(t, "service/auto", o.Model)
				require.Len(t, c.Seen(), 2)
				require.Equal(t, int64(second), o.Billed(t), "a refusal is a proven zero (GAP-57)")
				require.Equal(t, false, o.Usage["billing_pending"])
			})
			t.Run("BILL-23 the failed attempt's work is charged "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byRoute(worked(used(100, 0)), answered))
				before := c.Net()
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field, askForCalls(sh)))
				require.Equal(t, int64(90000), o.Billed(t))
				require.Equal(t, false, o.Usage["billing_pending"])
				require.Equal(t, json.Number("100"), o.Usage[promptTokens], "tokens are those of the route that answered (GAP-13)")
				require.Equal(t, int64(90000), before-c.Net())
			})
			t.Run("BILL-28 the failed attempt proved nothing "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byRoute(upstream.Reply{Steps: []upstream.Step{upstream.Headers(),
					upstream.Fail(upstream.ServerError())}}, answered))
				before := c.Net()
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field, askForCalls(sh)))
				require.Equal(t, int64(60000), o.Billed(t))
				require.Equal(t, int64(60000), before-c.Net())
				require.Equal(t, mode.Name == "json", o.Usage["billing_pending"], "a stream's charge is final (GAP-57)")
				require.Zero(t, c.Balance().Held)
			})
			t.Run("BILL-21 all routes fail "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.AnswersBy(byRoute(worked(used(100, 0)), upstream.Refuse(upstream.ServerError())))
				before := c.Net()
				a := c.Ask(sh, mode.Field, askForCalls(sh))
				if mode.Name == "json" {
					requireError(t, sh, a, 502, "upstream_error") // whole: no usage in it (BILL-32)
				}
				line := c.Access(a.Header.Get("X-Request-Id"))
				require.InDelta(t, 30000, line["microcents"], 0, "the operator's record has it (BILL-33)")
				require.Equal(t, int64(30000), before-c.Net())
				require.Zero(t, c.Balance().Held)
			})
		}
		t.Run("BILL-21 SSE-50 work before a failure in mid-reply "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Reply{Usage: upstream.UsageEveryChunk, Steps: []upstream.Step{upstream.Text("Hel"),
				upstream.ReportTokens(used(10, 300)), upstream.Fail(upstream.ServerError())}})
			before := c.Net()
			l := c.Open(t, sh)
			l.End()
			require.Equal(t, "upstream_error", judge(t, sh, l).Error.Code)
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, strconv.FormatInt(before-c.Net(), 10),
				strconv.FormatFloat(line["microcents"].(float64), 'f', 0, 64))
			require.Equal(t, int64(10*300+300*1500), before-c.Net())
			require.Zero(t, c.Balance().Held)
			require.Len(t, c.Seen(), 1, "no other route once text was shown (GAP-39)")
		})
		t.Run("GAP-39 nothing shown yet, though accepted "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(byRoute(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Cut()}}, answered))
			v := c.Stream(t, sh)
			require.Equal(t, "Hello", v.Text)
			require.True(t, v.Complete)
		})
		t.Run("GAP-39 a JSON reply shows nothing before its end "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(byRoute(upstream.Reply{Steps: []upstream.Step{upstream.Text("Not this. "), upstream.Cut()}}, answered))
			require.Equal(t, "Hello", outcomeOf(t, sh, c.Ask(sh, askForCalls(sh))).Text)
		})
		t.Run("STOP-26 STOP-32 no other route once a stop sequence has matched "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(byRoute(upstream.Reply{Steps: []upstream.Step{upstream.Text("END b"), upstream.Cut()}}, answered))
			requireError(t, sh, c.Ask(sh, askForCalls(sh), stopField(sh, "END")), 502, "upstream_error")
			require.Equal(t, "stream_error", c.Stream(t, sh, stopField(sh, "END")).Error.Code)
			for _, req := range c.Seen() {
				require.Equal(t, "first", req.Model)
			}
		})
		t.Run("GAP-39 all at capacity "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Refuse(upstream.RateLimited("6")))
			a := c.Ask(sh, streamField)
			requireError(t, sh, a, 429, "rate_limit_exceeded")
			require.Empty(t, a.Header.Get("Retry-After"))
			require.Len(t, c.Seen(), 2)
		})
	}
}

// TestFallbackBudget proves that the next attempt is not made on credit (GAP-49).
func TestFallbackBudget(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: twoRoutes})
	for _, sh := range shapes {
		t.Run("BILL-23 SSE-35 the credits do not cover another attempt "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.caller(t, 1)
			c.AnswersBy(byRoute(worked(used(0, 300)), hello)) // 450,000 of 1,000,000
			l := c.Open(t, sh, allowance(sh, 300), askForCalls(sh))
			l.End()
			require.Equal(t, "budget_exceeded", judge(t, sh, l).Error.Code)
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, "first", line["route"])
			require.InDelta(t, 1, line["attempts"], 0)
			require.Equal(t, int64(1_000_000-450_000), c.Net())
			require.Len(t, c.Seen(), 1)
			require.Zero(t, c.Balance().Held)
		})
	}
}

// TestFallbackOfLongPrompts: what was too long for a route is tried on those with a window at least as large.
func TestFallbackOfLongPrompts(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "first", Window: 50_000, Quality: 0.9}, {Name: "equal", Window: 50_000, Quality: 0.8},
		{Name: "smaller", Window: 40_000, Quality: 0.7}, {Name: "larger", Window: 100_000, Quality: 0.1},
	}})
	for _, sh := range shapes {
		t.Run("GAP-126 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(func(req *upstream.Request) upstream.Reply {
				if req.Model == "larger" {
					return hello
				}
				return upstream.Refuse(upstream.ContextLength())
			})
			outcomeOf(t, sh, c.Ask(sh))
			var models []string
			for _, req := range c.Seen() {
				models = append(models, req.Model)
			}
			require.Equal(t, []string{"first", "equal", "larger"}, models)
		})
	}
}
