package routing

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// TestExplain, where little is left to choose: why one route is no candidate is said of that route, a request that
// nothing can take is for no specialty, and the quality to keep is of the one route there is.
func TestExplain(t *testing.T) {
	t.Parallel()
	plain := config.Route{Name: "plain", ContextWindow: 1000, MaxOutput: 100, Quality: 0.5, Price: config.Price{Input: 1}}
	tools := plain
	tools.Name, tools.Tools, tools.JSONObject = "tools", true, true
	short := tools
	short.Name, short.ContextWindow = "short", 50
	hold := func(*Candidate) Worst { return Worst{} }
	in := Input{Routes: []config.Route{plain, tools, short}, InputTokens: 100, Needs: Needs{Tools: true},
		Profile: config.Profile{Name: "max", KeepQuality: 0.9}, Predictor: DefaultPredictor(), Request: &llm.Request{
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("What is the capital of France?")}}}}}
	e := Explain(in, hold, nil)
	require.Equal(t, []Refused{{"plain", "it does not offer tools, which the request needs"},
		{"short", "input and output allowance do not fit its context window"}}, e.Rejected)
	require.Len(t, e.Candidates, 1)
	best := e.Candidates[0].Quality
	require.InDelta(t, min(0.9*best+in.Predictor.margin(0.9), best), e.KeepFrom, 1e-9)

	in.Needs = Needs{Format: llm.FormatJSONSchema}
	e = Explain(in, hold, nil)
	require.Equal(t, Refused{"plain", "it does not offer json_schema or json_object, which the request asks for"},
		e.Rejected[0])

	in.Routes[1].Unsupported, in.Needs = []string{"forced_tool_choice"}, Needs{Tools: true, ForcedCall: true}
	e = Explain(in, hold, nil)
	require.Contains(
		t,
		e.Rejected,
		Refused{"tools", "the route's upstream cannot carry the request: it cannot be made to " +
			"call a tool (forced_tool_choice)"},
		"GAP-127",
	)
	require.Contains(t, e.Refusal, "cannot carry the request")
	in.Routes[1].Unsupported, in.Needs = nil, Needs{Format: llm.FormatJSONSchema}

	in.InputTokens = 5000
	e = Explain(in, hold, nil)
	require.NotEmpty(t, e.Refusal)
	require.Empty(t, e.Specialties, "no route is kept for what is long")
	in.Routes[1].ContextWindow, in.Routes[1].Specialty = 10_000, []config.Specialty{config.LongContext}
	require.Equal(t, []string{"long_context"}, Explain(in, hold, nil).Specialties)
}

// TestExplainNotCovered: what an account covers is explained, what it does not is said to be refused, and of what is
// planned nothing else changes. Which calls are left is LeaveOut's (TestLeaveOut).
func TestExplainNotCovered(t *testing.T) {
	t.Parallel()
	var routes []config.Route
	for _, name := range []string{"a", "b", "c"} {
		routes = append(routes, config.Route{Name: name, ContextWindow: 10_000, MaxOutput: 100, Quality: 0.5})
	}
	in := Input{Routes: routes, InputTokens: 100, Profile: config.Profile{Cost: 1}}
	worst := func(c *Candidate) Worst { return Worst{Microcents: int64(c.Route.Name[0]-'a') + 1} }
	names := func(list []Explained) (names []string) {
		for _, c := range list {
			names = append(names, c.Route)
		}
		return names
	}
	planned := names(Explain(in, worst, nil).Candidates)
	require.ElementsMatch(t, []string{"a", "b", "c"}, planned)
	for room := range int64(4) {
		e := Explain(in, worst, func(w Worst) bool { return w.Microcents <= room })
		kept := slices.IndexFunc(planned, func(name string) bool { return int64(name[0]-'a')+1 > room })
		switch kept {
		case 0:
			require.NotNil(t, e.NotCovered, "GAP-137 not even the first")
			require.Equal(t, int64(planned[0][0]-'a')+1, *e.NotCovered)
			require.Equal(t, planned, names(e.Candidates))
			continue
		case -1:
			kept = len(planned)
		}
		require.Nil(t, e.NotCovered)
		require.Equal(t, planned[:kept], names(e.Candidates))
		var refused []Refused
		for _, name := range planned[kept:] {
			refused = append(refused, Refused{name, ErrNotCovered.Error()})
		}
		require.ElementsMatch(t, refused, e.Rejected, "GAP-137 with %d of three covered", room)
	}
}

// TestExplainedStrategies: what is held for a strategy is all of its calls, and one that lacks a part says so.
func TestExplainedStrategies(t *testing.T) {
	t.Parallel()
	routes := []config.Route{{Name: "a", ContextWindow: 10_000, MaxOutput: 100}, {Name: "b", ContextWindow: 10_000,
		MaxOutput: 100}}
	panel := config.Strategy{Name: "whole", Kind: config.Panel, Steps: []string{"a", "a", "b"}, Judge: "b"}
	lacking := panel
	lacking.Name, lacking.Judge = "lacking", "gone"
	e := Explain(Input{Routes: routes, InputTokens: 100, Profile: config.Profile{Cost: 1},
		Strategies: []config.Strategy{panel, lacking}},
		func(c *Candidate) Worst { return Worst{Microcents: int64(c.Route.Name[0]-'a')*10 + 1} }, nil)
	require.Len(t, e.Strategies, 2)
	require.Equal(t, int64(1+1+11+11), e.Strategies[0].Hold)
	require.Zero(t, e.Strategies[1].Hold)
	require.NotEmpty(t, e.Strategies[1].Reason)
	e.Refuse("gone", ErrNotCovered)
	require.Len(t, e.Candidates, 2, "a route that is none is not refused")
	require.Empty(t, e.Rejected)
}
