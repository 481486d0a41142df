package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// said are conversations of several kinds.
func said() map[string]*llm.Request {
	user := func(text string) llm.Message {
		return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}
	}
	assistant := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("I see.")}}
	return map[string]*llm.Request{
		"code":    {Messages: []llm.Message{user("Write a python function: def reverse(items): return items[::-1]")}},
		"math":    {Messages: []llm.Message{user("Prove that 2^n > n for every integer n >= 1, where $n \\in N$.")}},
		"writing": {Messages: []llm.Message{user("Write a short poem about a lighthouse and its keeper.")}},
		"strange": {Messages: []llm.Message{user(strings.Repeat("zqx vvk jjw ", 300))}},
		"later":   {Messages: []llm.Message{user("Who was first?"), assistant, user("And who was second?")}},
		"loop": {Tools: []llm.Tool{{Name: "read"}},
			Messages: []llm.Message{user("Read it."), assistant, {Role: llm.RoleTool, Parts: []llm.Part{llm.Text("42")}}}},
	}
}

func learned() []config.Route {
	priced := func(name, model string, quality float64, weight, in, out int64) config.Route {
		return config.Route{Name: name, Model: model, ContextWindow: 100_000, MaxOutput: 8000, Quality: quality,
			QualityWeight: weight, Tools: true, Price: config.Price{Input: in, CacheRead: in / 10, CacheWrite: in, Output: out}}
	}
	p := DefaultPredictor()
	routes := []config.Route{priced("a", "", 0.5, 0, 10_000_000, 40_000_000), priced("b", "", 0.9, 0, 300_000_000,
		1_500_000_000)}
	// Any of them will do, but the same each time: of what is kept the last digits are not, and a choice that hangs on
	// them may be another one.
	name := slices.Min(slices.Collect(maps.Keys(p.known.byName)))
	return append(routes, priced("c", name, 0.7, 10, 50_000_000, 200_000_000))
}

// TestTraitsStandForTheRequest: what is kept of a request, without its text, leads to the same itinerary.
func TestTraitsStandForTheRequest(t *testing.T) {
	t.Parallel()
	routes := learned()
	require.Len(t, routes, 3)
	for name, req := range said() {
		for _, past := range []*Past{nil, {Home: "b", Served: [2]Served{{Route: "b", Warm: 5}}}} {
			in := Input{Routes: routes, Profile: config.Profile{Name: "balanced", Cost: 0.5, Quality: 0.5, KeepQuality: 0.95},
				Needs: NeedsOf(req), InputTokens: 1000, Predictor: DefaultPredictor(), Request: req, Past: past,
				Keep: KeepAll}
			live, err := MakeItinerary(in)
			require.NoError(t, err)
			require.NotNil(t, live.Traits.Signal, name)
			require.NotContains(t, string(live.Traits.Signal), "keeper")

			in.Request, in.Traits = nil, &live.Traits
			again, err := MakeItinerary(in)
			require.NoError(t, err)
			require.Equal(t, live.Stay, again.Stay, name)
			require.Equal(t, live.Home, again.Home, name)
			require.InDelta(t, live.Trust, again.Trust, 1e-4)
			require.InDelta(t, live.KeepFrom, again.KeepFrom, 2e-3)
			for k := range live.Kinds {
				require.InDelta(t, live.Kinds[k], again.Kinds[k], 1e-4)
			}
			for i, c := range live.Candidates {
				o := again.Candidates[i]
				what := fmt.Sprintf("%s on %s", name, c.Route.Name)
				require.Same(t, c.Route, o.Route, what)
				require.InDelta(t, c.Quality, o.Quality, 2e-3, what)
				require.InEpsilon(t, c.Output, o.Output, 0.02, what)
				require.InEpsilon(t, c.Cost, o.Cost, 0.02, what)
				require.Equal(t, c.Cached, o.Cached, what)
			}
		}
	}
}

// TestTraitsAreKeptWhereTheyAreWanted: of a request for which there is nothing to choose, the predictor is asked only
// for the sake of what is kept.
func TestTraitsAreKeptWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	req := said()["loop"]
	in := Input{Routes: learned()[:1], Needs: NeedsOf(req), InputTokens: 10, Predictor: DefaultPredictor(), Request: req}
	traits := func(keep Keep) Traits {
		in.Keep = keep
		it, err := MakeItinerary(in)
		require.NoError(t, err)
		return it.Traits
	}
	require.Zero(t, traits(KeepNothing))
	require.Equal(t, Traits{Turns: 1, Loop: true}, traits(KeepRead))
	all := traits(KeepAll)
	require.NotNil(t, all.Signal)
	require.Equal(t, []any{1, true}, []any{all.Turns, all.Loop})

	in.Routes, in.Keep = learned(), KeepRead
	it, err := MakeItinerary(in)
	require.NoError(t, err)
	require.NotNil(t, it.Traits.Signal, "there is a choice")

	in.Routes = nil
	it, err = MakeItinerary(in)
	require.ErrorIs(t, err, ErrNotOffered)
	require.Equal(t, Traits{Turns: 1, Loop: true}, it.Traits, "also of what is refused")
}

// TestSignalsOfAnotherModelSayNothing: they are as if nothing had been predicted, and never misread.
func TestSignalsOfAnotherModelSayNothing(t *testing.T) {
	t.Parallel()
	in := Input{Routes: learned(), InputTokens: 10, Predictor: DefaultPredictor(), Request: said()["code"], Keep: KeepRead}
	live, err := MakeItinerary(in)
	require.NoError(t, err)
	in.Request = nil
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { b[0]++; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
		func([]byte) []byte { return nil },
	} {
		in.Traits = &Traits{Signal: change(append([]byte{}, live.Traits.Signal...))}
		it, err := MakeItinerary(in)
		require.NoError(t, err)
		require.Zero(t, it.Kinds)
		require.Equal(t, it.Candidates[0].Route.Quality, it.Candidates[0].Quality, "what the operator says")
	}
}
