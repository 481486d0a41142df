package routing_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// anyInput draws an input with routes of few distinct prices and qualities, so that ties occur.
func anyInput(t *rapid.T) routing.Input {
	in := routing.Input{
		Profile: config.Profile{
			Cost:    rapid.Float64Range(0, 1).Draw(t, "cost weight"),
			Quality: rapid.Float64Range(0, 1).Draw(t, "quality weight"),
		},
		Needs:       routing.Needs{Tools: rapid.Bool().Draw(t, "tools")},
		InputTokens: rapid.Int64Range(0, 200_000).Draw(t, "input"),
		Allowance:   rapid.Int64Range(0, 100_000).Draw(t, "allowance"),
		Graphics:    rapid.Bool().Draw(t, "graphics"),
		LongAbove:   rapid.Int64Range(0, 300_000).Draw(t, "long above"),
		Standing:    where(func(r *config.Route) bool { return r.Provider != "down" }),
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "routes") {
		r := route(fmt.Sprint("r", i),
			rapid.SampledFrom([]float64{0, 0.3, 0.5, 1}).Draw(t, "quality"),
			rapid.SampledFrom([]float64{0, 0.05, 1, 75}).Draw(t, "price"))
		r.ContextWindow = rapid.Int64Range(1, 400_000).Draw(t, "window")
		r.MaxOutput = rapid.Int64Range(1, 64_000).Draw(t, "limit")
		r.Tools = rapid.Bool().Draw(t, "offers tools")
		r.Specialty = rapid.SampledFrom([][]config.Specialty{nil, nil, {config.Graphics}, {config.LongContext},
			{config.LongContext, config.Graphics}}).Draw(t, "specialty")
		r.Provider = rapid.SampledFrom([]string{"up", "up", "down"}).Draw(t, "provider")
		switch template := rapid.Int64Range(0, 50_000); rapid.IntRange(0, 2).Draw(t, "template") {
		case 1:
			r.TemplateTokens = new(template.Draw(t, "set"))
		case 2:
			if in.Templates == nil {
				in.Templates = make(routing.Templates)
			}
			in.Templates[routing.LearnedOf{Route: r.Name}] = template.Draw(t, "learned")
		}
		in.Routes = append(in.Routes, r)
	}
	return in
}

func TestPlanProperties(t *testing.T) {
	t.Parallel()
	t.Run("ALLOW-04 what is decided does not depend on the estimate", rapid.MakeCheck(func(t *rapid.T) {
		in := anyInput(t)
		for i := range in.Routes { // otherwise hardly anything is decided
			in.Routes[i].ContextWindow *= rapid.Int64Range(1, 4).Draw(t, "wider")
		}
		most := in.InputTokens
		if !routing.Decided(in, most) {
			return
		}
		whole, wholeErr := routing.MakeItinerary(in)
		in.InputTokens = rapid.Int64Range(0, most).Draw(t, "guess")
		guessed, guessedErr := routing.MakeItinerary(in)
		require.Equal(t, wholeErr, guessedErr)
		require.Equal(t, whole.Rejected, guessed.Rejected)
		byName := func(it routing.Itinerary) map[string][2]int64 {
			all := make(map[string][2]int64)
			for _, c := range it.Candidates {
				all[c.Route.Name] = [2]int64{c.Allowance, int64(c.Matches)}
			}
			return all
		}
		require.Equal(t, byName(whole), byName(guessed))
	}))
	t.Run("every route is judged once and every candidate is callable", rapid.MakeCheck(func(t *rapid.T) {
		in := anyInput(t)
		it, err := routing.MakeItinerary(in)
		require.Equal(t, len(it.Candidates) == 0, err != nil)
		require.Equal(t, len(in.Routes), len(it.Candidates)+len(it.Rejected))
		for i, c := range it.Candidates {
			require.True(t, c.Route.Tools || !in.Needs.Tools)
			require.NoError(t, in.Standing(c.Route, c.Light).Why)
			require.GreaterOrEqual(t, c.Allowance, int64(1))
			require.LessOrEqual(t, c.Allowance, c.Route.MaxOutput)
			require.Equal(t, in.Templates.Of(c.Route), c.Template)
			require.Equal(t, in.InputTokens+c.Template, c.Input)
			require.LessOrEqual(t, c.Input+c.Allowance, c.Route.ContextWindow)
			for _, v := range []float64{c.Units, c.Utility} {
				require.False(t, math.IsNaN(v))
			}
			require.GreaterOrEqual(t, c.Units, 0.0)
			require.LessOrEqual(t, c.Utility, 1.0)
			if i > 0 {
				before := it.Candidates[i-1]
				require.GreaterOrEqual(t, before.Matches, c.Matches)
				require.True(t, before.Matches > c.Matches || before.Utility >= c.Utility)
			}
		}
	}))
	t.Run("file order decides ties only", rapid.MakeCheck(func(t *rapid.T) {
		in := anyInput(t)
		in.Exchange = routing.NewExchange(in.Routes, nil, nil)
		one, _ := routing.MakeItinerary(in)
		in.Routes = rapid.Permutation(in.Routes).Draw(t, "permuted")
		other, _ := routing.MakeItinerary(in)
		judged := func(it routing.Itinerary) [][3]float64 {
			values := [][3]float64{}
			for _, c := range it.Candidates {
				values = append(values, [3]float64{c.Utility, c.Cost, c.Route.Quality})
			}
			return values
		}
		require.Equal(t, judged(one), judged(other))
		a, b := order(one), order(other)
		slices.Sort(a)
		slices.Sort(b)
		require.Equal(t, a, b)
	}))
	t.Run("a better and cheaper route is never behind", rapid.MakeCheck(func(t *rapid.T) {
		it, _ := routing.MakeItinerary(anyInput(t))
		for i, behind := range it.Candidates {
			for _, before := range it.Candidates[:i] {
				require.False(t, behind.Matches >= before.Matches && behind.Cost < before.Cost &&
					behind.Route.Quality > before.Route.Quality,
					"%s dominates %s", behind.Route.Name, before.Route.Name)
			}
		}
	}))
}

// A request is never refused for a specialty, and a specialty never makes a request fit that did not.
func TestSpecialtiesRefuseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Standing = nil
		with, err := routing.MakeItinerary(in)
		plain := in
		plain.Routes = slices.Clone(in.Routes)
		for i := range plain.Routes {
			plain.Routes[i].Specialty = nil
		}
		without, plainErr := routing.MakeItinerary(plain)
		require.Equal(t, plainErr, err)
		names := order(without)
		for _, c := range with.Candidates {
			require.Contains(t, names, c.Route.Name)
		}
		for _, c := range with.Candidates {
			if in.Allowance > 0 {
				require.GreaterOrEqual(t, c.Allowance, min(in.Allowance, c.Route.MaxOutput), "never lowered")
			}
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	in := routing.Input{
		Routes:  []config.Route{route("small", 0.45, 0.05), route("middle", 0.75, 0.5), route("deep", 0.95, 5)},
		Profile: balanced, InputTokens: 1000,
	}
	in.Exchange = routing.NewExchange(in.Routes, []config.Profile{balanced}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := routing.MakeItinerary(in); err != nil {
			b.Fatal(err)
		}
	}
}
