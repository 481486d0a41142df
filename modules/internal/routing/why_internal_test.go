package routing

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
)

// TestLostIsTrue: what is said to make a candidate the first choice does, and a little less does not.
func TestLostIsTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		it := &Itinerary{Unit: 1000}
		it.Rate = rapid.SampledFrom([]float64{0, LeastRate, 0.3, 2, MostRate}).Draw(t, "rate")
		value := func(c *Candidate) { c.Units, c.Utility = worth(c.Quality, c.Cost, it.Unit, it.Rate) }
		keeps := rapid.Bool().Draw(t, "keeps")
		for i := range rapid.IntRange(2, 4).Draw(t, "candidates") {
			// Nothing is so near that rounding decides.
			c := Candidate{Route: &config.Route{Name: fmt.Sprint(i)},
				Quality: float64(rapid.IntRange(0, 1000).Draw(t, "quality")) / 1000,
				Cost:    float64(rapid.IntRange(0, 5000).Draw(t, "cost"))} // on both sides of the unit's
			value(&c)
			it.Candidates = append(it.Candidates, c)
		}
		if keeps {
			it.KeepFrom = keep(it.Candidates, 0.8, 0)
		}
		slices.SortStableFunc(it.Candidates, func(a, b Candidate) int { return compare(&a, &b) })
		require.Nil(t, it.lost(&it.Candidates[0]))
		kept := !keeps && rapid.Bool().Draw(t, "kept")
		if kept { // the second one stays, as long as the first one is not far ahead
			if leaves(it, &it.Candidates[1]) {
				return
			}
			it.Stay = StayHome
			toFront(it.Candidates, 1)
		}
		first := it.Candidates[0]
		wins := func(c Candidate) bool {
			value(&c)
			c.Keeps = keeps && c.Quality >= it.KeepFrom
			if !kept {
				return compare(&c, &first) < 0
			}
			return leaves(&Itinerary{Candidates: []Candidate{c}, Rate: it.Rate}, &first)
		}
		for i := range it.Candidates[1:] {
			c := it.Candidates[i+1]
			lost := it.lost(&it.Candidates[i+1])
			require.NotEmpty(t, lost.Reason)
			const little = 1e-6
			if lost.Better != nil {
				better := c
				better.Quality += *lost.Better + little
				require.True(t, wins(better), "%+v", lost)
				better.Quality -= 2 * little
				require.False(t, *lost.Better > little && wins(better), "%+v", lost)
			}
			if lost.Price != nil && *lost.Price > 1e-3 {
				cheaper := c
				cheaper.Cost *= *lost.Price * (1 - little)
				require.True(t, wins(cheaper), "%+v", lost)
				cheaper.Cost = c.Cost * *lost.Price * (1 + little)
				require.False(t, wins(cheaper), "%+v", lost)
			}
			if lost.Better == nil && lost.Price == nil && !keeps && it.Rate > 0 {
				free, best := c, c
				free.Cost, best.Quality = 0, 1
				free.Quality, best.Quality = free.Quality-little, best.Quality-little
				require.False(t, wins(free) || wins(best), "what would have done is said")
			}
		}
	})
}

// TestLostByRank: what no quality and no price would change is said in words.
func TestLostByRank(t *testing.T) {
	t.Parallel()
	first := Candidate{Route: &config.Route{Name: "a"}, Quality: 0.1}
	for want, c := range map[string]Candidate{
		"it is called where no other is left":     {Behind: ErrBusy},
		"it reasons, and the allowance is tiny":   {Cramped: true},
		"it is as useful, and no cheaper":         {Quality: 0.1},
		"another is kept for such requests":       {Matches: -1},
		"its utility is less":                     {Quality: 0.05},
		"`when` of strategy s holds":              {Quality: 0.9},
		"a turn that answers tool calls stays on": {Quality: 0.8},
	} {
		it := &Itinerary{Candidates: []Candidate{first, c}, Rate: 1, Unit: 1}
		for i := range it.Candidates {
			one := &it.Candidates[i]
			one.Units, one.Utility = worth(one.Quality, one.Cost, it.Unit, it.Rate)
		}
		switch c.Quality {
		case 0.9:
			it.Options = []Option{{Strategy: &config.Strategy{Name: "s", When: new(config.Condition)}, Chosen: true}}
		case 0.8:
			it.Stay = StayLoop
		}
		lost := it.lost(&it.Candidates[1])
		require.Contains(t, lost.Reason, want)
		require.Nil(t, lost.Price)
		require.Equal(t, c.Quality == 0.05 || c.Quality == 0.1, lost.Better != nil)
	}
}

// TestLostToAStrategy: where a competing strategy is what is done, candidates are compared with that (GAP-131).
func TestLostToAStrategy(t *testing.T) {
	t.Parallel()
	it := &Itinerary{Rate: 1, Unit: 1, Candidates: []Candidate{{Route: &config.Route{Name: "a"}, Quality: 0.5},
		{Route: &config.Route{Name: "b"}, Quality: 0.25}}}
	option := Option{Strategy: &config.Strategy{Name: "s"}, Chosen: true, As: Candidate{Quality: 0.75}}
	for _, c := range append([]*Candidate{&option.As}, &it.Candidates[0], &it.Candidates[1]) {
		c.Units, c.Utility = worth(c.Quality, c.Cost, it.Unit, it.Rate)
	}
	require.Nil(t, it.lost(&it.Candidates[0]), "it is first")
	require.InDelta(t, 0.25, *it.lost(&it.Candidates[1]).Better, 1e-9)
	it.Options, it.Stay = []Option{option}, StayHome
	require.InDelta(t, 0.25, *it.lost(&it.Candidates[0]).Better, 1e-9, "nor is it what the conversation stays with")
	require.InDelta(t, 0.5, *it.lost(&it.Candidates[1]).Better, 1e-9)
}

// TestTurn: the request that is said to be hard enough is sent elsewhere, and one a hundredth easier is not. Where
// that cannot be told, nothing is said.
func TestTurn(t *testing.T) {
	t.Parallel()
	price := func(dollars int64) config.Price {
		return config.Price{Input: dollars * 1e6, CacheRead: dollars * 1e6, CacheWrite: dollars * 1e6, Output: dollars * 1e7}
	}
	in := Input{Routes: []config.Route{
		{Name: "small", ContextWindow: 10_000, MaxOutput: 1000, Quality: 0.6, Price: price(5)},
		{Name: "deep", ContextWindow: 10_000, MaxOutput: 1000, Quality: 0.95, Price: price(100)}},
		Profile: config.Profile{Cost: 0.5, Quality: 0.5}, InputTokens: 100, Predictor: DefaultPredictor(),
		Request: request("What is the capital of France?")}
	worst := func(*Candidate) Worst { return Worst{} }
	e := Explain(in, worst, nil)
	require.Equal(t, "small", e.Candidates[0].Route)
	require.NotNil(t, e.Harder)
	require.Equal(t, "deep", e.Harder.Route)
	require.Nil(t, e.Easier)
	in.exchangeFor(nil)
	require.Equal(t, *e.Harder, *in.turn("small", e.Difficulty, true))
	hard := in
	hard.Request = request("Prove that for every prime p > 3 the number p^2 - 1 is divisible by 24, and find all n for " +
		"which n^2 - 1 is.")
	e = Explain(hard, worst, nil)
	require.Equal(t, "deep", e.Candidates[0].Route)
	require.Greater(t, e.Difficulty, 0.85)
	require.Nil(t, e.Harder, "no request is so hard that both fail and the cheaper one does as well")
	require.Equal(t, "small", e.Easier.Route)
	in.Strategies = []config.Strategy{{Name: "s", Kind: config.Single, Steps: []string{"small"}}}
	require.Nil(t, Explain(in, worst, nil).Harder, "a condition may ask for the difficulty")
	in.Strategies, in.Routes[1].Model, in.Routes[1].QualityWeight = nil, "mistralai/mistral-7b-chat", 10
	require.Nil(t, Explain(in, worst, nil).Harder, "recorded answers tell more than the difficulty")
}
