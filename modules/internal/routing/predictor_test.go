package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// saying is a request with one text of the user's.
func saying(text string) *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
}

const (
	easy = "What is the capital of France?"
	hard = "Let $f$ be a polynomial of degree 5 with integer coefficients such that f(n) is divisible by 7 for all " +
		"integers n. Compute the number of such f modulo 7 whose leading coefficient is 1."
	coding = "Write a python function that takes a list of integers and returns the two that sum to a target:\n" +
		"def two_sum(numbers, target):"
	greeting = "Hello"
	medium   = "Python: group log lines by hour and print the three slowest urls of each."
	middling = "Write a SQL query that lists for each customer the last order and the sum of the last 90 days, " +
		"customers without orders too."
)

// choose plans with the predictor that is built in.
func choose(t require.TestingT, in routing.Input) routing.Itinerary {
	in.Predictor, in.InputTokens = routing.DefaultPredictor(), 1000
	it, err := routing.MakeItinerary(in)
	require.NoError(t, err)
	return it
}

// at makes a route better or worse at a kind of work.
func at(r config.Route, kind string, quality float64) config.Route {
	r.QualityBy = map[string]float64{kind: quality}
	return r
}

// TestProfilesPickForARequest: what the profiles promise holds for whatever is asked: balanced takes nothing cheaper
// or worse than budget, and max nothing cheaper or worse than balanced. The request decides where between them.
func TestProfilesPickForARequest(t *testing.T) {
	t.Parallel()
	three := []config.Route{route("small", 0.3, 0.1), route("middle", 0.7, 1), route("deep", 0.95, 10)}
	used := make(map[string]map[string]bool)
	for _, text := range []string{easy, medium, hard, coding, greeting, "", strings.Repeat("qzx vkj ", 500)} {
		var cost, quality float64
		for _, profile := range []config.Profile{budget, balanced, best} {
			first := choose(t, routing.Input{Routes: three, Profile: profile, Request: saying(text)}).Candidates[0]
			require.GreaterOrEqual(t, first.Cost, cost, "PROF-01 PROF-02 PROF-03 %s: %.20q", profile.Name, text)
			require.GreaterOrEqual(t, first.Quality, quality, "PROF-01 PROF-02 PROF-03 %s: %.20q", profile.Name, text)
			cost, quality = first.Cost, first.Quality
			if used[profile.Name] == nil {
				used[profile.Name] = make(map[string]bool)
			}
			used[profile.Name][first.Route.Name] = true
		}
	}
	for profile, routes := range used {
		require.Greater(t, len(routes), 1, "GAP-131 the request decides under %s, too", profile)
	}
	coder := at(route("coder", 0.5, 1), config.KindCode, 0.95)
	mathematician := at(route("mathematician", 0.5, 1), config.KindMath, 0.95)
	writer := at(route("writer", 0.5, 1), config.KindWriting, 0.95)
	caller := at(route("caller", 0.5, 1), config.KindTools, 0.95)
	all := []config.Route{writer, coder, caller, mathematician}
	tools := saying("What is the weather in Paris?")
	tools.Tools = []llm.Tool{{Name: "weather", Schema: []byte(`{"type":"object"}`)}}
	for _, tc := range []struct {
		req  *llm.Request
		want string
	}{
		{saying(hard), "mathematician"},
		{saying(coding), "coder"},
		{saying("Write me a short poem about the sea."), "writer"},
		{tools, "caller"},
	} {
		it := choose(t, routing.Input{Routes: all, Profile: balanced, Request: tc.req})
		require.Equal(t, tc.want, it.Candidates[0].Route.Name)
		sum := float32(0)
		for _, share := range it.Kinds {
			sum += share
		}
		require.InDelta(t, 1, sum, 1e-3)
	}
}

// TestHardRequestsGoToBetterRoutes: the same routes and profile, and the request decides.
func TestHardRequestsGoToBetterRoutes(t *testing.T) {
	t.Parallel()
	two := []config.Route{route("small", 0.7, 1), route("deep", 0.9, 3)}
	profile := config.Profile{Cost: 0.46, Quality: 0.54}
	quality := func(text string) (small, deep float64, first string) {
		it := choose(t, routing.Input{Routes: two, Profile: profile, Request: saying(text)})
		by := map[string]float64{}
		for _, c := range it.Candidates {
			by[c.Route.Name] = c.Quality
		}
		return by["small"], by["deep"], it.Candidates[0].Route.Name
	}
	small, deep, first := quality(easy)
	require.Equal(t, "small", first)
	require.Greater(t, small, 0.7, "easier than most")
	smallHard, deepHard, first := quality(hard)
	require.Equal(t, "deep", first)
	require.Less(t, smallHard, 0.7, "harder than most")
	require.Greater(t, deepHard-smallHard, deep-small, "it sets them apart")
}

// TestTinyAllowances is ALLOW-20: thoughts share the allowance with what the client sees.
func TestTinyAllowances(t *testing.T) {
	t.Parallel()
	thinker, plain := route("thinker", 0.9, 1), route("plain", 0.4, 2)
	thinker.Reasons = true
	both := []config.Route{thinker, plain}
	for _, tc := range []struct {
		allowance int64
		routes    []config.Route
		want      string
	}{
		{routing.TinyAllowance - 1, both, "plain"},
		{routing.TinyAllowance, both, "thinker"},
		{0, both, "thinker"},
		{100, []config.Route{thinker}, "thinker"},
	} {
		for _, keep := range []float64{0, 0.98} {
			profile := best
			profile.KeepQuality = keep
			it := choose(t, routing.Input{Routes: tc.routes, Profile: profile, Request: saying(easy),
				Allowance: tc.allowance})
			require.Equal(t, tc.want, it.Candidates[0].Route.Name, "ALLOW-20 %d", tc.allowance)
			require.Len(t, it.Candidates, len(tc.routes), "it may still be tried")
		}
	}
	it := choose(t, routing.Input{Routes: both, Profile: best, Request: saying(easy)})
	require.InDelta(t, predict.Thinking*it.Candidates[1].Output, it.Candidates[0].Output, 1e-6)
}

// TestKeepQuality: the cheapest route that keeps the share, whatever the weights say.
func TestKeepQuality(t *testing.T) {
	t.Parallel()
	routes := []config.Route{route("deep", 0.9, 10), route("fair", 0.89, 1), route("small", 0.5, 0.1)}
	for _, tc := range []struct {
		keep float64
		want []string
	}{
		{1, []string{"deep", "small", "fair"}},
		{0.95, []string{"fair", "deep", "small"}},
		{0.3, []string{"small", "fair", "deep"}},
	} {
		it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: config.Profile{Cost: 1, KeepQuality: tc.keep},
			InputTokens: 1000})
		require.NoError(t, err)
		require.Equal(t, tc.want, order(it), tc.keep)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Profile.KeepQuality = rapid.Float64Range(0.01, 1).Draw(t, "keep")
		in.Request = saying(rapid.SampledFrom([]string{easy, hard, coding}).Draw(t, "text"))
		in.Predictor = routing.DefaultPredictor()
		it, err := routing.MakeItinerary(in)
		if err != nil {
			return
		}
		keeps := 0
		for i, c := range it.Candidates {
			require.Equal(t, c.Quality >= it.KeepFrom, c.Keeps)
			if c.Keeps {
				keeps++
			}
			if i == 0 {
				continue
			}
			b := it.Candidates[i-1]
			if b.Matches == c.Matches && b.Cramped == c.Cramped && c.Keeps {
				require.True(t, b.Keeps && b.Cost <= c.Cost)
			}
		}
		require.Positive(t, keeps, "the best one keeps its own quality")
	})
}

// TestPredictorNeverFails: a request does not fail for the predictor's sake.
func TestPredictorNeverFails(t *testing.T) {
	t.Parallel()
	routes := []config.Route{route("a", 0.5, 1), route("b", 0.9, 1)}
	broken := routing.NewPredictor(&predict.Model{})
	it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: best, Request: saying(hard),
		Predictor: broken})
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a"}, order(it))
	require.InDelta(t, 0.9, it.Candidates[0].Quality, 0, "what the operator says")
	require.Zero(t, it.Trust)
	for _, req := range []*llm.Request{nil, {}, {Messages: []llm.Message{{Role: llm.RoleTool}}},
		{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: llm.Quoted(`\u00`)}}}}}} {
		require.NotPanics(t, func() { choose(t, routing.Input{Routes: routes, Profile: best, Request: req}) })
	}
}

// TestWeightOfWhatTheOperatorSays: it counts alone without a weight, and for a model that nobody knows.
func TestWeightOfWhatTheOperatorSays(t *testing.T) {
	t.Parallel()
	quality := func(model string, weight int64) float64 {
		a := route("a", 0.99, 1)
		a.Model, a.QualityWeight = model, weight
		it := choose(t, routing.Input{Routes: []config.Route{a, route("b", 0.1, 1)}, Profile: best, Request: saying(coding)})
		for _, c := range it.Candidates {
			if c.Route.Name == "a" {
				return c.Quality
			}
		}
		return -1
	}
	const known = "mistralai/mistral-7b-chat" // far from 0.99 at this
	alone := quality("nobody/knows-this", 0)
	require.InDelta(t, alone, quality(known, 0), 1e-9)
	require.InDelta(t, alone, quality("nobody/knows-this", 1), 1e-9)
	require.Less(t, quality(known, 1), 0.7)
	require.Greater(t, quality(known, 1000), quality(known, 1))
}

// TestStable: the same request gets the same routes, whatever was looked at before it.
func TestStable(t *testing.T) {
	t.Parallel()
	routes := []config.Route{route("a", 0.6, 1), route("b", 0.7, 1.2), route("c", 0.8, 2)}
	ask := func(text string) string {
		return fmt.Sprint(order(choose(t, routing.Input{Routes: routes, Profile: balanced, Request: saying(text)})))
	}
	for _, text := range []string{easy, hard, coding, greeting} {
		once := ask(text)
		for _, other := range []string{coding, hard, easy} {
			ask(other)
			require.Equal(t, once, ask(text))
		}
	}
}
