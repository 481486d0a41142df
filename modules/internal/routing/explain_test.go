package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// TestExplain is issue 13's, where little is left to choose: why one route is no candidate is said of that route, a
// request that nothing can take is for no specialty, and the quality to keep is of the one route there is.
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
