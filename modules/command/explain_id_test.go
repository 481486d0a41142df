package command

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// routed is a gateway with three routes, which remembers how requests are routed.
func routed(t *testing.T) *engine.Engine {
	t.Helper()
	priced := func(name string, quality float64, in, out int64) config.Route {
		return config.Route{Name: name, Provider: "p", Model: name, ContextWindow: 100_000, MaxOutput: 10_000,
			Quality: quality, Tools: true, Price: config.Price{Input: in, CacheRead: in / 10, CacheWrite: in, Output: out},
			Cost: config.Price{Input: in / 2, CacheRead: in / 20, CacheWrite: in / 2, Output: out / 2}}
	}
	e := enginetest.Start(t, &config.Config{
		Gateway: config.Gateway{MaxBodyMemory: 1 << 20}, Hash: "0123456789abcdef", Path: "/etc/gateway.hcl",
		Routes: []config.Route{priced("small", 0.5, 10_000_000, 50_000_000), priced("middle", 0.7, 100_000_000, 500_000_000),
			priced("large", 0.95, 300_000_000, 1_500_000_000)},
		Profiles:    []config.Profile{{Name: "balanced", Cost: 0.5, Quality: 0.5}, {Name: "max", Quality: 1}},
		DecisionLog: config.DefaultDecisionLog(),
	}, engine.Options{})
	serve(t, e)
	return e
}

// decided is what the gateway remembers of a request with that text, on the route that it was planned for.
func decided(t *testing.T, e *engine.Engine, id, profile, text string) *decisions.Record {
	t.Helper()
	cfg := e.Current().Config
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
	in := routing.NewInput(cfg, cfg.Routes, profile, req)
	in.InputTokens, in.Predictor, in.Keep = 1000, routing.DefaultPredictor(), routing.KeepRead
	it, err := routing.MakeItinerary(in)
	require.NoError(t, err)
	choice := it.Candidates[0].Route.Name
	return &decisions.Record{ID: id, Account: "acct_0", Plan: "starter", Endpoint: "chat", Profile: profile,
		Config: cfg.Hash[:decisions.ConfigDigits], Begun: time.Now(), Ended: time.Now(), InputTokens: 1000, InputBound: 2000,
		Traits: it.Traits, Choice: choice, Status: 200, Reason: "ok", Charge: 12_000, Cost: 6_000,
		Attempts: []decisions.Attempt{{Route: choice, Outcome: "finished",
			Usage: decisions.Usage{Known: true, Input: 900, CacheRead: 100, Output: 200}}}}
}

// TestExplainARequest is `gateway explain REQUEST_ID`: by what is kept of a request, as it was.
func TestExplainARequest(t *testing.T) {
	t.Parallel()
	e := routed(t)
	const id = "req_0193b0a7c5d07f3a9c1e5d2b7a604f11"
	e.Decisions().Add(decided(t, e, id, "max", "Write a python function that reverses a list: def reverse(items):"))
	v := runJSON[admin.Explanation](t, "explain", id, "--data", e.DataDir())
	require.Equal(t, []any{"/etc/gateway.hcl", "chat", "starter", "max"}, []any{v.File, v.Family, v.Plan, v.Profile.Name})
	require.Len(t, v.Candidates, 3)
	require.Equal(t, v.Request.Choice, v.Candidates[0].Route)
	require.Greater(t, v.Kinds["code"], 0.3)
	for _, c := range v.Candidates {
		require.Positive(t, c.Quality)
		require.Positive(t, c.Output)
		require.Positive(t, c.Cost)
		require.Len(t, c.ByKind, 5)
	}
	require.Equal(t, int64(2000*300+10_000*1500), v.Candidates[0].Hold, "BILL-09 by the bound that it was held for")
	require.False(t, v.Request.OtherFile)
	require.Equal(t, []admin.Elsewhere{
		{Route: "small", Microcents: 1000*10 + 200*50, Cost: 1000*5 + 200*25, Output: 200}, // a cache is cold there
		{Route: "middle", Microcents: 1000*100 + 200*500, Cost: 1000*50 + 200*250, Output: 200},
		{Route: "large", Microcents: 900*300 + 100*30 + 200*1500, Cost: 900*150 + 100*15 + 200*750, Output: 200},
	}, v.Request.Elsewhere, "what each route would have cost")
	require.Nil(t, v.Request.Shadow)
	require.Equal(t, []admin.Tried{{Route: v.Request.Choice, Outcome: "finished",
		Usage: &admin.TriedTokens{Input: 900, CacheRead: 100, Output: 200}}}, v.Request.Attempts)

	text, err := run(t, "explain", id, "--data", e.DataDir())
	require.NoError(t, err)
	for _, want := range []string{"Request " + id, "with 1000 tokens in (100 of them cached) and 200 out",
		"charged US$0.000120", "ROUTE", "It looks like code", "would have come to", "it was there"} {
		require.Contains(t, text, want)
	}
}

// TestExplainWhatItWouldHaveComeTo: elsewhere a route that reasons writes more, one that could not take the request
// has no price for it, and a cache that its conversation left is warm.
func TestExplainWhatItWouldHaveComeTo(t *testing.T) {
	t.Parallel()
	e := routed(t)
	cfg := e.Current().Config
	cfg.Routes[1].Reasons, cfg.Routes[0].ContextWindow = true, 500
	const id = "req_0193b0a7c5d07f3a9c1e5d2b7a604f13"
	d := decided(t, e, id, "max", "How are you?")
	require.Equal(t, "large", d.Choice)
	d.Past = &routing.Past{Home: "large",
		Served: [2]routing.Served{{Route: "large", Warm: 900}, {Route: "middle", Warm: 600}}}
	e.Decisions().Add(d)
	v := runJSON[admin.Explanation](t, "explain", id, "--data", e.DataDir())
	outputs := map[string]float64{}
	for _, c := range v.Candidates {
		outputs[c.Route] = c.Output
	}
	more := int64(200 * outputs["middle"] / outputs["large"])
	require.Greater(t, more, int64(400), "a route that reasons")
	require.Equal(t, []admin.Elsewhere{
		{Route: "middle", Microcents: 400*100 + 600*10 + more*500, Cost: 400*50 + 600*5 + more*250, Output: more},
		{Route: "large", Microcents: 900*300 + 100*30 + 200*1500, Cost: 900*150 + 100*15 + 200*750, Output: 200},
	}, v.Request.Elsewhere)
	text, err := run(t, "explain", id, "--data", e.DataDir())
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`middle +%d +0\.\d+ +0\.\d+ *\n`, more), text)
}

// TestExplainWhatWasTheMatter: routes that were full or not ready then are said to have been, a conversation stays as
// it stayed, and another configuration shows.
func TestExplainWhatWasTheMatter(t *testing.T) {
	t.Parallel()
	e := routed(t)
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = fmt.Sprintf("req_%032x", i)
		r := decided(t, e, ids[i], "balanced", "How are you?")
		switch i {
		case 0:
			r.Full, r.Config, r.Waited = []string{"large"}, "ffffffffffff", 2100*time.Millisecond
			r.Stood = []decisions.Stood{{Route: "middle", Why: "its breaker is open"}}
		case 1:
			r.Past = &routing.Past{Home: "large", Served: [2]routing.Served{{Route: "large", Warm: 900}}}
			r.Traits.Loop = true
		case 2:
			r.Requires = config.Requires{Regions: []string{"eu"}}
			r.Choice, r.Refused, r.Status, r.Attempts = "", "feature_unavailable", 503, nil
		case 3:
			r.Attempts[0].Usage, r.Pending = decisions.Usage{}, true
		}
		e.Decisions().Add(r)
	}
	explain := func(i int) admin.Explanation {
		return runJSON[admin.Explanation](t, "explain", ids[i], "--data", e.DataDir())
	}
	v := explain(0)
	require.Len(t, v.Candidates, 1)
	require.Equal(t, []routing.Refused{{Route: "middle", Reason: "its breaker is open"},
		{Route: "large", Reason: routing.ErrFull.Error()}}, v.Rejected)
	require.True(t, v.Request.OtherFile)
	text, err := run(t, "explain", ids[0], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "Another configuration served then")
	require.Contains(t, text, "large: the route was full")
	require.EqualValues(t, 2100, v.Request.Waited)
	require.Contains(t, text, "It waited 2100 ms for a route whose upstream had said when it takes more.")

	v = explain(1)
	require.Equal(t, routing.StayLoop, v.Stay)
	require.Equal(t, "large", v.Candidates[0].Route)
	require.Equal(t, int64(900), v.Candidates[0].Cached)
	text, err = run(t, "explain", ids[1], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "It answers tool calls")
	require.Contains(t, text, "900 tokens in its cache")

	v = explain(2)
	require.Empty(t, v.Candidates)
	require.Equal(t, routing.ErrRequired.Error(), v.Refusal)
	text, err = run(t, "explain", ids[2], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "refused with 503 feature_unavailable")

	v = explain(3)
	require.True(t, v.Request.Pending)
	require.Empty(t, v.Request.Elsewhere, "nothing is proven")
	require.Nil(t, v.Request.Attempts[0].Usage)
	text, err = run(t, "explain", ids[3], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "not proven yet")

	_, err = run(t, "explain", "req_00000000000000000000000000000009", "--data", e.DataDir())
	require.ErrorContains(t, err, "gateway usage")
	_, err = run(t, "explain", ids[0], "--profile", "max", "--data", e.DataDir())
	require.ErrorContains(t, err, "--profile is for the body")
}

// TestExplainJudgesStrategies: a request of the past is explained with the strategies.
func TestExplainJudgesStrategies(t *testing.T) {
	t.Parallel()
	e := routed(t)
	const id = "req_0193b0a7c5d07f3a9c1e5d2b7a604f12"
	cfg := e.Current().Config
	cfg.Strategies = []config.Strategy{{Name: "climb", Kind: config.Cascade, Steps: []string{"small", "large"},
		Validator: "non_empty"}, {Name: "gone", Kind: config.Single, Steps: []string{"other"}}}
	e.Decisions().Add(decided(t, e, id, "max", "How are you?"))
	v := runJSON[admin.Explanation](t, "explain", id, "--data", e.DataDir())
	require.Len(t, v.Strategies, 2)
	require.Positive(t, v.Strategies[0].Quality)
	require.Positive(t, v.Strategies[0].Hold)
	require.Contains(t, v.Strategies[1].Reason, "a route of it cannot serve the request: other")
	text, err := run(t, "explain", id, "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "Strategies:\n  climb: ")
}

// TestExplainAShadow: what came of the call that was made for comparison is explained, never with a text.
func TestExplainAShadow(t *testing.T) {
	t.Parallel()
	e := routed(t)
	ids := []string{"req_0193b0a7c5d07f3a9c1e5d2b7a604f21", "req_0193b0a7c5d07f3a9c1e5d2b7a604f22"}
	answered := decided(t, e, ids[0], "max", "How are you?")
	answered.Shadow = &decisions.Shadow{Route: "small", Result: "answered", Finish: "length", Cost: 12_300,
		Took: 900 * time.Millisecond, First: 80 * time.Millisecond, ReplyFinish: "stop", ReplyTook: 1200 * time.Millisecond,
		ReplyFirst: 70 * time.Millisecond, Usage: decisions.Usage{Known: true, Input: 800, Output: 321}}
	failed := decided(t, e, ids[1], "max", "How are you?")
	failed.Shadow = &decisions.Shadow{Route: "small", Result: "too_many", ReplyFinish: "stop"}
	e.Decisions().Add(answered)
	e.Decisions().Add(failed)
	want := &admin.Compared{Route: "small", Result: "answered", Finish: "length", Cost: 12_300, Took: 900, First: 80,
		Usage: &admin.TriedTokens{Input: 800, Output: 321}}
	want.Reply.Finish, want.Reply.Took, want.Reply.First = "stop", 1200, 70
	require.Equal(t, want, runJSON[admin.Explanation](t, "explain", ids[0], "--data", e.DataDir()).Request.Shadow)
	text, err := run(t, "explain", ids[0], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "Shadow: for comparison small answered as well, with 321 tokens out, in 900 ms (the first "+
		"after 80) where the reply took 1200 (70), finish length where the reply had stop. It cost you US$0.000123 and "+
		"nobody else")
	text, err = run(t, "explain", ids[1], "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "Shadow: no reply of small is there for comparison (too_many); it cost US$0.000000.")
}
