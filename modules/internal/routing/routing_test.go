package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// perMillion is a price of one US dollar per million tokens, in microcents.
const perMillion = 100_000_000

// route makes a route with a large window that costs dollars per million input tokens, five times as much
// for output.
func route(name string, quality, dollars float64) config.Route {
	price := int64(dollars * perMillion)
	return config.Route{
		Name: name, Provider: name, ContextWindow: 200_000, MaxOutput: 64_000, Quality: quality, Tools: true,
		Price: config.Price{Input: price, CacheRead: price, CacheWrite: price, Output: 5 * price},
	}
}

// The weights of the reference configuration.
var (
	budget   = config.Profile{Name: "budget", Cost: 0.8, Quality: 0.2}
	balanced = config.Profile{Name: "balanced", Cost: 0.5, Quality: 0.5}
	best     = config.Profile{Name: "max", Cost: 0.1, Quality: 0.9}
)

// order names the candidates of an itinerary.
func order(it routing.Itinerary) []string {
	names := []string{}
	for _, c := range it.Candidates {
		names = append(names, c.Route.Name)
	}
	return names
}

func TestProfilesPick(t *testing.T) {
	t.Parallel()
	small, middle, deep := route("small", 0.45, 0.05), route("middle", 0.75, 0.5), route("deep", 0.95, 5)
	for _, tt := range []struct {
		name    string
		profile config.Profile
		routes  []config.Route
		text    string
		order   []string // the first ones
	}{
		{"PROF-01 budget favours cost", budget, []config.Route{deep, small}, easy, []string{"small", "deep"}},
		{"PROF-02 max favours quality", best, []config.Route{small, deep}, hard, []string{"deep", "small"}},
		{"PROF-03 balanced picks the middle", balanced, []config.Route{small, deep, middle}, middling,
			[]string{"middle"}},
		{"PROF-01 budget of three", budget, []config.Route{deep, middle, small}, easy,
			[]string{"small", "middle", "deep"}},
		{"PROF-02 max of three", best, []config.Route{small, middle, deep}, hard, []string{"deep", "middle", "small"}},
		{"PROF-03 balanced of two extremes takes the cheaper for what is easy", balanced, []config.Route{deep, small}, easy,
			[]string{"small", "deep"}},
		{"PROF-03 balanced of two extremes takes the dearer for what is hard", balanced, []config.Route{deep, small}, hard,
			[]string{"deep", "small"}},
		{"one route", budget, []config.Route{deep}, easy, []string{"deep"}},
		{"free routes differ by quality", budget, []config.Route{route("a", 0.1, 0), route("b", 0.9, 0)}, easy,
			[]string{"b", "a"}},
		{"equal quality goes to the cheaper", best, []config.Route{route("a", 0.5, 2), route("b", 0.5, 1)}, easy,
			[]string{"b", "a"}},
		{"equal utility goes to the cheaper, though cost has no weight", config.Profile{Quality: 1},
			[]config.Route{route("a", 0.5, 2), route("b", 0.5, 1)}, easy, []string{"b", "a"}},
		{"equal cost goes to the better", config.Profile{Cost: 1}, []config.Route{route("a", 0.4, 1), route("b", 0.5, 1)},
			easy, []string{"b", "a"}},
		{"only cost counts", config.Profile{Cost: 1}, []config.Route{deep, middle, small}, hard,
			[]string{"small", "middle", "deep"}},
		{"only quality counts", config.Profile{Quality: 1}, []config.Route{small, middle, deep}, easy,
			[]string{"deep", "middle", "small"}},
		{"equal routes keep file order", balanced, []config.Route{route("b", 0.5, 1), route("a", 0.5, 1)}, easy,
			[]string{"b", "a"}},
		{"no weights weigh both alike", config.Profile{}, []config.Route{small, deep, middle}, middling,
			[]string{"middle"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			it := choose(t, routing.Input{Routes: tt.routes, Profile: tt.profile, Request: saying(tt.text)})
			require.Equal(t, tt.order, order(it)[:len(tt.order)])
			require.Len(t, it.Candidates, len(tt.routes))
		})
	}
}

// TestFit is worked example E27.
func TestFit(t *testing.T) {
	t.Parallel()
	const none = 0
	for _, tt := range []struct {
		name                            string
		window, maxOutput, input, given int64
		sent                            int64 // 0: does not fit
	}{
		{"ALLOW-04 exactly fits", 10_000, 8_192, 4_000, 6_000, 6_000},
		{"ALLOW-04 one token too many", 10_000, 8_192, 4_000, 6_001, 0},
		{"ALLOW-12 sent up to the route's limit", 200_000, 8_192, 1_000, 20_000, 8_192},
		{"ALLOW-06 default", 200_000, 64_000, 1_000, none, 32_768},
		{"ALLOW-07 default up to the route's limit", 200_000, 8_192, 1_000, none, 8_192},
		{"ALLOW-08 default up to the room left", 40_000, 64_000, 30_000, none, 10_000},
		{"ALLOW-09 no room left", 40_000, 64_000, 40_000, none, 0},
		{"one token of room", 40_000, 64_000, 39_999, none, 1},
		{"fit is judged on what was given", 200_000, 64_000, 8, 10_000_000, 0},
		{"input and allowance beyond int64", 200_000, 64_000, 1, 1<<63 - 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := route("only", 0.5, 1)
			r.ContextWindow, r.MaxOutput = tt.window, tt.maxOutput
			it, err := routing.MakeItinerary(routing.Input{
				Routes: []config.Route{r}, Profile: balanced, InputTokens: tt.input, Allowance: tt.given,
			})
			if tt.sent == 0 {
				require.ErrorIs(t, err, routing.ErrTooLarge)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.sent, it.Candidates[0].Allowance)
		})
	}
}

func TestRejections(t *testing.T) {
	t.Parallel()
	plain, narrow, down := route("plain", 0.5, 1), route("narrow", 0.5, 1), route("down", 0.5, 1)
	plain.Tools = false
	narrow.ContextWindow = 100
	up := route("up", 0.5, 1)
	in := func(routes ...config.Route) routing.Input {
		return routing.Input{
			Routes: routes, Profile: balanced, Needs: routing.Needs{Tools: true}, InputTokens: 1000, Allowance: 50,
			Standing: where(func(r *config.Route) bool { return r.Provider != "down" }),
		}
	}
	for _, tt := range []struct {
		name   string
		routes []config.Route
		err    error
	}{
		{"nothing offers it", []config.Route{plain}, routing.ErrNotOffered},
		{"no routes", nil, routing.ErrNotOffered},
		{"nothing that offers it fits", []config.Route{narrow, plain}, routing.ErrTooLarge},
		{"nothing that fits is ready", []config.Route{plain, down, narrow}, routing.ErrNotReady},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(in(tt.routes...))
			require.ErrorIs(t, err, tt.err)
			require.Empty(t, it.Candidates)
			require.Len(t, it.Rejected, len(tt.routes), "every route has its reason")
		})
	}
	t.Run("one is left", func(t *testing.T) {
		t.Parallel()
		it, err := routing.MakeItinerary(in(plain, narrow, up, down))
		require.NoError(t, err)
		require.Equal(t, []string{"up"}, order(it))
		reasons := map[string]error{}
		for _, r := range it.Rejected {
			reasons[r.Route.Name] = r.Why
		}
		require.Equal(t, map[string]error{
			"plain": routing.ErrNotOffered, "narrow": routing.ErrTooLarge, "down": routing.ErrNotReady,
		}, reasons)
	})
}

func TestNeedsOf(t *testing.T) {
	t.Parallel()
	call := llm.Part{Call: &llm.ToolCall{ID: "1", Name: "f"}}
	for _, tt := range []struct {
		name  string
		req   llm.Request
		tools bool
	}{
		{"text", llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}, false},
		{"tools declared", llm.Request{Tools: []llm.Tool{{Name: "f"}}}, true},
		{"a call in the conversation", llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant,
			Parts: []llm.Part{call}}}}, true},
		{"a result in the conversation", llm.Request{Messages: []llm.Message{{Role: llm.RoleTool, CallID: "1"}}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.tools, routing.NeedsOf(&tt.req).Tools)
		})
	}
}

// TestScores follows the formula of the package's doc by hand (GAP-131).
func TestScores(t *testing.T) {
	t.Parallel()
	cheap, dear := route("cheap", 0.4, 0.01), route("dear", 0.8, 1)
	it, err := routing.MakeItinerary(routing.Input{
		Routes: []config.Route{cheap, dear}, Profile: config.Profile{Cost: 3, Quality: 1}, InputTokens: 1000, Allowance: 100,
	})
	require.NoError(t, err)
	first, second := it.Candidates[1], it.Candidates[0]

	// 1000 input tokens x 1 microcent and 100 output tokens x 5; a hundred times that.
	require.InDelta(t, 1500, first.Cost, 1e-9)
	require.InDelta(t, 150_000, second.Cost, 1e-9)
	require.InDelta(t, 150_000, it.Unit, 1e-9)
	require.InDelta(t, 0.01, first.Units, 1e-9)
	require.InDelta(t, 1, second.Units, 1e-9)
	// 0.4 more quality for 0.99 of the unit, at every length.
	require.InEpsilon(t, 0.4/0.99, it.Rate, 2e-6)
	require.Less(t, it.Rate, 0.4/0.99, "at the edge itself none would be better")
	require.InDelta(t, 0.4-0.01*it.Rate, first.Utility, 1e-9)
	require.InDelta(t, 0.8-it.Rate, second.Utility, 1e-9)
}

func TestExpectedOutputIsBounded(t *testing.T) {
	t.Parallel()
	r := route("only", 0.5, 0.01)
	it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{r}, Profile: balanced, InputTokens: 0,
		Allowance: 60_000})
	require.NoError(t, err)
	require.InDelta(t, 5*routing.ExpectedOutput, it.Candidates[0].Cost, 1e-9)
	require.Equal(t, int64(60_000), it.Candidates[0].Allowance, "the hold counts the whole allowance")
}

// TestFormats proves what GAP-78 decides: which routes a request for JSON goes to, and why there is none.
func TestFormats(t *testing.T) {
	t.Parallel()
	plain, object, schema := route("plain", 0.5, 1), route("object", 0.5, 1), route("schema", 0.5, 1)
	object.JSONObject, schema.JSONSchema = true, true
	small, down, toolless := object, object, object
	small.Name, small.ContextWindow = "small", 100
	down.Name, down.Provider = "down", "down"
	toolless.Name, toolless.Tools = "toolless", false
	narrow := plain
	narrow.Name, narrow.ContextWindow = "narrow", 100
	for _, tt := range []struct {
		name   string
		format llm.FormatKind
		routes []config.Route
		order  []string
		err    error
	}{
		{"STRUCT-09 an object", llm.FormatJSONObject, []config.Route{plain, object, schema}, []string{"object"}, nil},
		{"STRUCT-10 a schema", llm.FormatJSONSchema, []config.Route{plain, object, schema}, []string{"object", "schema"},
			nil},
		{"STRUCT-31 none configured", llm.FormatJSONObject, []config.Route{plain, schema}, nil, routing.ErrNoJSON},
		{"STRUCT-31 none configured, and nothing fits", llm.FormatJSONSchema, []config.Route{narrow}, nil, routing.ErrNoJSON},
		{"STRUCT-31 none of them fits, another would", llm.FormatJSONSchema, []config.Route{plain, small}, nil,
			routing.ErrNoJSON},
		{"STRUCT-31 none of them knows tools, another does", llm.FormatJSONSchema, []config.Route{plain, toolless}, nil,
			routing.ErrNoJSON},
		{"GAP-78 nothing fits at all", llm.FormatJSONObject, []config.Route{narrow, small}, nil, routing.ErrTooLarge},
		{"GAP-78 they are down", llm.FormatJSONObject, []config.Route{plain, small, down}, nil, routing.ErrNotReady},
		{"no format, no JSON", "", []config.Route{plain}, []string{"plain"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{
				Routes: tt.routes, Profile: balanced, Needs: routing.Needs{Tools: true, Format: tt.format}, InputTokens: 1000,
				Allowance: 50,
				Standing:  where(func(r *config.Route) bool { return r.Provider != "down" }),
			})
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
				require.Len(t, it.Rejected, len(tt.routes))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.order, order(it))
		})
	}
	t.Run("the need comes from the request", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, llm.FormatJSONSchema, routing.NeedsOf(
			&llm.Request{Format: &llm.Format{Kind: llm.FormatJSONSchema}}).Format)
		require.Empty(t, routing.NeedsOf(&llm.Request{}).Format)
	})
}

// TestUnfit proves GAP-127 where routes are chosen: what an upstream is known to refuse, and cannot be said otherwise,
// keeps a request off its route, by the route's own list and by what its provider says.
func TestUnfit(t *testing.T) {
	t.Parallel()
	picky, other := route("picky", 0.9, 1), route("other", 0.5, 1)
	tool := []llm.Tool{{Name: "f"}}
	forced := &llm.Request{Tools: tool, ToolChoice: llm.ToolChoice{Mode: llm.ToolRequired}}
	named := &llm.Request{Tools: tool, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}}
	formatted := &llm.Request{Tools: tool, Format: &llm.Format{Kind: llm.FormatJSONObject}}
	for name, tt := range map[string]struct {
		req     *llm.Request
		refuses string
		unfit   bool
	}{
		"a call is demanded":                {forced, "forced_tool_choice", true},
		"a call of a tool is demanded":      {named, "forced_tool_choice", true},
		"a format beside tools":             {formatted, "json_with_tools", true},
		"a call, where a format is refused": {forced, "json_with_tools", false},
		"a format, where a call is refused": {formatted, "forced_tool_choice", false},
		"tools alone":                       {&llm.Request{Tools: tool}, "forced_tool_choice", false},
		"a format alone":                    {&llm.Request{Format: formatted.Format}, "json_with_tools", false},
		"what can be said otherwise":        {forced, "named_tool_choice", false},
	} {
		for _, who := range []string{"operator", "provider"} {
			t.Run("GAP-127 "+name+", says the "+who, func(t *testing.T) {
				t.Parallel()
				first, second := picky, other
				first.Tools, first.JSONObject, second.Tools, second.JSONObject = true, true, true, true
				in := routing.Input{Profile: balanced, Needs: routing.NeedsOf(tt.req), InputTokens: 100, Allowance: 50}
				if who == "operator" {
					first.Unsupported = []string{tt.refuses}
				} else {
					in.Refuses = func(r *config.Route, restriction string) bool {
						return r.Name == "picky" && restriction == tt.refuses
					}
				}
				in.Routes = []config.Route{first, second}
				it, err := routing.MakeItinerary(in)
				require.NoError(t, err)
				in.Routes = in.Routes[:1]
				alone, err := routing.MakeItinerary(in)
				if !tt.unfit {
					require.Len(t, it.Candidates, 2)
					require.NoError(t, err)
					return
				}
				require.Equal(t, "other", it.Candidates[0].Route.Name)
				require.ErrorIs(t, it.Rejected[0].Why, routing.ErrUnfit)
				require.ErrorIs(t, err, routing.ErrUnfit)
				require.Empty(t, alone.Candidates)
			})
		}
	}
	t.Run("GAP-127 what is kept for others serves where the rest is unfit", func(t *testing.T) {
		t.Parallel()
		first, kept := picky, other
		first.Tools, first.Unsupported = true, []string{"forced_tool_choice"}
		kept.Tools, kept.Specialty = true, []config.Specialty{config.Graphics}
		it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{first, kept}, Profile: balanced,
			Needs: routing.NeedsOf(forced), InputTokens: 100, Allowance: 50})
		require.NoError(t, err)
		require.Equal(t, "other", it.Candidates[0].Route.Name)
	})
}
