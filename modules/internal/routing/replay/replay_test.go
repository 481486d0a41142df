package replay

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

func routed(name string, quality float64, input int64) config.Route {
	return config.Route{Name: name, ContextWindow: 1000, MaxOutput: 100, Quality: quality, Tools: true,
		Price: config.Price{Input: input * 1e6, CacheRead: input * 1e5, CacheWrite: input * 2e6, Output: 1e6}}
}

func turn(input, output int64, after time.Duration, messages ...llm.Message) Turn {
	return Turn{Request: &llm.Request{Messages: messages}, Input: input, Output: output, After: after}
}

func said(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}}
}

// TestCaches: what a turn costs on one route, by hand: what is not in the cache is written to it, what is there is
// read, until it is cold.
func TestCaches(t *testing.T) {
	t.Parallel()
	hi, answer := said(llm.RoleUser, "hi"), said(llm.RoleAssistant, "hello")
	one := Set{Name: "one", Conversations: []Conversation{{
		turn(100, 10, 0, hi),
		turn(150, 10, time.Minute, hi, answer, hi),
		turn(200, 10, affinity.Warm, hi, answer, hi, answer, hi),
	}, {turn(100, 10, 0, hi)}}}
	r, err := Play(Setup{Routes: []config.Route{routed("only", 0.5, 10)}, Profile: config.Profile{Name: "max"}}, one)
	require.NoError(t, err)
	want := float64(100*20+10) + float64(40*20+110*1+10) + float64(200*20+10) + float64(100*20+10)
	require.InDelta(t, want, r.Kept.Microcents, 0)
	require.InDelta(t, want, r.Afresh.Microcents, 0)
	require.InDelta(t, want, r.Fixed["only"].Microcents, 0)
	require.Equal(t, Result{Set: "one", Conversations: 2, Turns: 4, Kept: r.Kept, Afresh: r.Kept, Route: "only",
		Fixed: map[string]Way{"only": r.Kept}, Mix: want}, r)
	require.InDelta(t, 0.5, r.Kept.Quality, 0)
}

// TestRoutesThatCannot: a route that cannot serve every turn is no fixed one, and where none can, that is said.
func TestRoutesThatCannot(t *testing.T) {
	t.Parallel()
	big := routed("big", 0.4, 20)
	big.ContextWindow = 10_000
	set := Set{Name: "long", Conversations: []Conversation{{turn(100, 10, 0, said(llm.RoleUser, "hi")),
		turn(5000, 10, time.Minute, said(llm.RoleUser, "hi"))}}}
	setup := Setup{Routes: []config.Route{routed("small", 0.5, 1), big}, Profile: config.Profile{Name: "max"}}
	r, err := Play(setup, set)
	require.NoError(t, err)
	require.NotContains(t, r.Fixed, "small")
	require.Equal(t, 1, r.Kept.Moves)
	setup.Routes = setup.Routes[:1]
	_, err = Play(setup, set)
	require.ErrorContains(t, err, "choosing a route in long")
}

// TestMade, on made conversations: a tool loop is never broken, staying costs no more than choosing each turn does
// over all sorts of them together, and is never dearer than the cheapest route of the same quality.
func TestMade(t *testing.T) {
	t.Parallel()
	require.Equal(t, Made(7), Made(7), "the same seed makes the same ones")
	profiles := append(config.DefaultProfiles(), config.Profile{Name: "keeps", KeepQuality: 0.9})
	for _, profile := range profiles {
		setup := Setup{Routes: Routes(), Profile: profile, Predictor: routing.DefaultPredictor()}
		var results []Result
		for _, set := range Made(1) {
			r, err := Play(setup, set)
			require.NoError(t, err)
			name := profile.Name + ", " + set.Name
			require.LessOrEqual(t, r.Kept.Moves, r.Afresh.Moves, name)
			results = append(results, r)
			require.NotEmpty(t, r.Route, name)
			require.GreaterOrEqual(t, r.SavedFixed, -0.005, name)
			if profile.Name == config.ProfileBalanced && set.Name == "agent loops without tools" {
				require.Greater(t, r.Afresh.Moves, r.Turns/3, "%s: each turn looks like work of another kind", name)
				require.Positive(t, r.SavedAfresh, name)
			}
			if profile.KeepQuality > 0 && set.Name == "agent loops without tools" {
				require.Greater(t, r.SavedAfresh, 0.1, "%s: what is asked is harder and easier by turns", name)
			}
		}
		require.GreaterOrEqual(t, Total(results).SavedAfresh, -0.01, profile.Name)
	}
}

// TestMade_mix: under no profile what conversations come to is dearer by more than 1% than the cheapest mix of fixed
// routes that is as good.
func TestMade_mix(t *testing.T) {
	t.Parallel()
	for _, profile := range append(config.DefaultProfiles(), config.Profile{Name: "keeps", KeepQuality: 0.9}) {
		for seed := range uint64(4) {
			var results []Result
			for _, set := range Made(seed + 1) {
				r, err := Play(Setup{Routes: Routes(), Profile: profile, Predictor: routing.DefaultPredictor()}, set)
				require.NoError(t, err)
				results = append(results, r)
			}
			all := Total(results)
			require.NotEmpty(t, all.Route, profile.Name)
			require.LessOrEqual(t, all.Kept.Microcents, 1.01*all.Mix, "%s, seed %d", profile.Name, seed+1)
			require.GreaterOrEqual(t, all.SavedMix, -0.01)
		}
	}
}

// TestMade_cacheless: a conversation that stays is never dearer than the cheapest route of the same quality, also
// where a route is cheap for one turn and dear for a loop of them, because its upstream has no cache.
func TestMade_cacheless(t *testing.T) {
	t.Parallel()
	plain := Routes()[0]
	plain.Name, plain.Price = "plain", config.Price{Input: 70e6, CacheRead: 70e6, CacheWrite: 70e6, Output: 800e6}
	for _, profile := range append(config.DefaultProfiles(), config.Profile{Name: "keeps", KeepQuality: 0.9}) {
		setup := Setup{Routes: append([]config.Route{plain}, Routes()...), Profile: profile,
			Predictor: routing.DefaultPredictor()}
		r, err := Play(setup, Made(1)[0])
		require.NoError(t, err)
		require.Greater(t, r.Fixed["plain"].Microcents, 2*r.Fixed["coder"].Microcents)
		require.NotEmpty(t, r.Route, profile.Name)
		require.GreaterOrEqual(t, r.SavedFixed, 0.0, profile.Name)
		require.GreaterOrEqual(t, r.SavedMix, -0.01, profile.Name)
	}
}

// TestTotal: several sets together, by hand.
func TestTotal(t *testing.T) {
	t.Parallel()
	way := func(cost, quality float64, moves int) Way {
		return Way{Microcents: cost, Quality: quality, Moves: moves}
	}
	one := Result{Conversations: 1, Turns: 1, Kept: way(10, 0.5, 1), Afresh: way(20, 0.5, 2), Route: "a", Mix: 12,
		Fixed: map[string]Way{"a": way(15, 0.8, 0), "b": way(5, 0.1, 0)}}
	two := Result{Conversations: 2, Turns: 3, Kept: way(30, 0.7, 0), Afresh: way(30, 0.9, 1), Route: "a", Mix: 38,
		Fixed: map[string]Way{"a": way(35, 0.8, 0)}}
	all := Total([]Result{one, two})
	require.Equal(t, Result{Set: "all", Conversations: 3, Turns: 4, Kept: way(40, 0.65, 1), Afresh: way(50, 0.8, 3),
		Fixed: map[string]Way{"a": way(50, 0.8, 0)}, Route: "a", Mix: 50, SavedAfresh: 0.2, SavedFixed: 0.2, SavedMix: 0.2},
		rounded(all))
	two.Route = ""
	require.Zero(t, Total([]Result{one, two}).Mix, "where one has nothing as good, the whole has not")
}

// rounded is a result without what adding leaves behind the ninth decimal.
func rounded(r Result) Result {
	short := func(v *float64) { *v = math.Round(*v*1e9) / 1e9 }
	for _, v := range []*float64{&r.Kept.Quality, &r.Afresh.Quality, &r.SavedAfresh, &r.SavedFixed, &r.SavedMix} {
		short(v)
	}
	for name, way := range r.Fixed {
		short(&way.Quality)
		r.Fixed[name] = way
	}
	return r
}

// TestMix: some conversations on one route and the others on another are as good as they are together, by hand.
func TestMix(t *testing.T) {
	t.Parallel()
	fixed := map[string]Way{"cheap": {Microcents: 100, Quality: 0.6}, "middle": {Microcents: 310, Quality: 0.7},
		"dear": {Microcents: 500, Quality: 0.8}, "worse": {Microcents: 600, Quality: 0.75}}
	for quality, want := range map[float64]float64{0.5: 100, 0.6: 100, 0.65: 200, 0.7: 300, 0.75: 400, 0.8: 500} {
		require.InDelta(t, want, mix(fixed, quality), 1e-9, quality)
	}
	require.InDelta(t, 500, mix(fixed, 0.801), 1e-9, "none is better than the best")
	require.Zero(t, mix(nil, 0.5))
}

// TestMade_tools: a made tool gives back what tools do, in the theme of the conversation most of the time.
func TestMade_tools(t *testing.T) {
	t.Parallel()
	said, sets := map[string]bool{}, Made(1)
	for _, c := range slices.Concat(sets[1].Conversations, sets[2].Conversations, sets[3].Conversations) {
		require.Empty(t, c[0].Request.Tools)
	}
	for _, c := range sets[0].Conversations {
		require.NotEmpty(t, c[0].Request.Tools)
		for _, m := range c[len(c)-1].Request.Messages {
			if m.Role == llm.RoleTool {
				text, _ := m.Parts[0].Text.Plain()
				said[text] = true
			}
		}
	}
	require.Greater(t, len(said), 500, "they are hardly ever the same")
	all := 0
	for i := range themes {
		require.Greater(t, len(themes[i].results), 8, themes[i].name)
		all += len(themes[i].results)
	}
	require.Equal(t, strings.Count("\n"+resultsText, "\n#### "), all, "each text is of a theme")
}

func asks(text string) bool {
	return slices.ContainsFunc(themes, func(t theme) bool { return slices.Contains(t.asks, text) })
}

// TestCaptured: conversations have the turns, roles, tools and tokens of those captured; those of agents go on.
func TestCaptured(t *testing.T) {
	t.Parallel()
	call := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "f"}}}}
	sys, hi := said(llm.RoleSystem, "lorem"), said(llm.RoleUser, "ipsum")
	back := llm.Message{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text("dolor")}}
	one := func(client string, tokens int64, tools int, messages ...llm.Message) Capture {
		return Capture{Client: client, Tokens: tokens, Request: &llm.Request{Messages: messages,
			Tools: make([]llm.Tool, tools)}}
	}
	list := []Capture{
		one("a", 10, 0, hi), // of another kind: no tools
		one("a", 900, 2, sys, hi),
		one("b", 20, 2, sys, hi), // of another client
		one("a", 950, 2, sys, hi, call, back),
		one("a", 990, 2, sys, hi, call, back, said(llm.RoleAssistant, "sit"), hi),
		one("a", 900, 2, sys, hi), // begins anew
		one("a", 0, 0),
	}
	sets := Captured(list, 5)
	require.Equal(t, sets, Captured(list, 5), "the same seed makes the same ones")
	as, on := sets[0].Conversations, sets[1].Conversations
	require.Len(t, as, 4*4)
	require.Len(t, on, 4)
	loop := as[4]
	require.Len(t, loop, 3)
	for i, want := range []Capture{list[1], list[3], list[4]} {
		require.Equal(t, want.Tokens, loop[i].Input)
		require.Len(t, loop[i].Request.Tools, 2)
		require.Len(t, loop[i].Request.Messages, len(want.Request.Messages))
		for j, m := range want.Request.Messages {
			have := loop[i].Request.Messages[j]
			require.Equal(t, m.Role, have.Role)
			require.Equal(t, m.CallID, have.CallID)
			require.Len(t, have.Parts, len(m.Parts))
			require.Equal(t, loop[2].Request.Messages[j], have, "a turn says again what was said before")
			if m.Role == llm.RoleUser {
				text, _ := have.Parts[0].Text.Plain()
				require.True(t, asks(text), "a user asks: %q", text)
			}
			if text, _ := have.Parts[0].Text.Plain(); have.Parts[0].Call == nil {
				require.NotContains(t, text, "lorem")
			}
		}
	}
	for _, c := range on {
		require.Greater(t, len(c), 8)
		require.Equal(t, loop[0].Input, c[0].Input)
		require.Len(t, c[0].Request.Messages, 2)
		last := c[len(c)-1].Request.Messages
		require.Equal(t, llm.RoleTool, last[len(last)-1].Role)
	}
}
