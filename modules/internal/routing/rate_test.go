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
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// anyRoutes draws routes of any prices and qualities.
func anyRoutes(t *rapid.T, least int) (routes []config.Route) {
	for i := range rapid.IntRange(least, 5).Draw(t, "routes") {
		r := route(fmt.Sprint("r", i), rapid.Float64Range(0, 1).Draw(t, "quality"),
			rapid.Float64Range(0.01, 80).Draw(t, "dollars"))
		r.Price.Output = int64(float64(r.Price.Input) * rapid.Float64Range(1, 8).Draw(t, "output"))
		r.Tools = rapid.IntRange(0, 3).Draw(t, "tools") > 0
		routes = append(routes, r)
	}
	return routes
}

// predictors are one that knows no workload, none, and one with a reference workload of its own.
func predictors(t testing.TB) map[string]*routing.Predictor {
	t.Helper()
	return map[string]*routing.Predictor{"none": nil, "usual": routing.DefaultPredictor(), "reference": withReference(t)}
}

// withReference is the built-in predictor with a reference workload made of a few texts.
func withReference(t testing.TB) *routing.Predictor {
	t.Helper()
	m := *predict.Default()
	m.Reference = nil
	f, s := predict.NewFeatures(), new(predict.Signal)
	for i, text := range []string{easy, hard, coding, greeting, "Thanks!", "Translate into French: the cat sat."} {
		f.Read(saying(text))
		m.Look(f, s)
		for turns := range 3 {
			m.Reference = append(m.Reference, predict.Sample{Signal: m.Pack(nil, s), Share: float32(1 + i%2),
				Input: int32(100 * (1 + i) * (1 + 20*turns)), Turns: int32(turns), Tools: turns == 2})
		}
	}
	return routing.NewPredictor(&m)
}

func weights(cost, quality float64) config.Profile {
	return config.Profile{Cost: cost, Quality: quality}
}

// TestRates is GAP-131: what the rates promise whatever routes are configured.
func TestRates(t *testing.T) {
	t.Parallel()
	for name, p := range predictors(t) {
		t.Run("GAP-131 "+name, rapid.MakeCheck(func(t *rapid.T) {
			routes := anyRoutes(t, 1)
			x := routing.NewExchange(routes, config.DefaultProfiles(), p)
			low, mid, high := x.Rate(budget), x.Rate(balanced), x.Rate(best)
			require.GreaterOrEqual(t, low, mid)
			require.GreaterOrEqual(t, mid, high)
			require.GreaterOrEqual(t, high, routing.LeastRate)
			require.LessOrEqual(t, low, routing.MostRate)
			require.Zero(t, x.Rate(weights(0, 1)))
			require.True(t, math.IsInf(x.Rate(weights(1, 0)), 1))
			cost, quality := rapid.Float64Range(0.001, 1).Draw(t, "cost"), rapid.Float64Range(0, 1).Draw(t, "quality")
			more := quality + rapid.Float64Range(0, 1).Draw(t, "more")
			require.GreaterOrEqual(t, x.Rate(weights(cost, quality)), x.Rate(weights(cost, more)),
				"more weight of quality never raises the rate")
			points := x.Points()
			for i, point := range points[1:] {
				require.GreaterOrEqual(t, points[i].Rate, point.Rate)
				require.GreaterOrEqual(t, point.Quality, points[i].Quality)
			}
			if len(points) < 2 {
				require.InDelta(t, routing.MostRate, mid, 0, "mean quality cannot rise")
				return
			}
			// At the rate, as much of the way is reached as the weights say, unless a bound holds it back.
			if way := quality / (cost + quality); quality > 0 {
				rate := x.Rate(weights(cost, quality))
				reached := points[0]
				for _, point := range points {
					if point.Rate > rate {
						reached = point
					}
				}
				if rate > routing.LeastRate {
					whole := points[len(points)-1].Quality - points[0].Quality
					require.GreaterOrEqual(t, reached.Quality-points[0].Quality, way*whole-1e-9)
				}
			}
		}))
	}
}

// TestFrontierIsWhatIsChosen: the frontier by breakpoints is what planning each request of the workload comes to.
func TestFrontierIsWhatIsChosen(t *testing.T) {
	t.Parallel()
	for name, p := range predictors(t) {
		t.Run("GAP-131 "+name, rapid.MakeCheck(func(t *rapid.T) {
			routes := anyRoutes(t, 2)
			routes[0].Tools = true
			x := routing.NewExchange(routes, nil, p)
			profile := weights(rapid.Float64Range(0, 1).Draw(t, "cost"), rapid.Float64Range(0.01, 1).Draw(t, "quality"))
			got := routing.Prospects(routing.Input{Routes: routes, Exchange: x, Predictor: p}, []config.Profile{profile})[0]
			want := x.Points()[0]
			for _, point := range x.Points() {
				if point.Rate > x.Rate(profile) {
					want = point
				}
			}
			require.InDelta(t, want.Quality, got.Quality, 1e-6)
			require.InEpsilon(t, want.Microcents, got.Microcents, 1e-6)
			sum := got.Refused // what is too long for all of them
			for _, r := range got.Routes {
				sum += r.Share
			}
			require.InDelta(t, 1, sum, 1e-6)
		}))
	}
}

// TestNeverTaken is GAP-131's promise between any two routes: nothing is given up for a trifle.
func TestNeverTaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		routes := anyRoutes(t, 2)
		dear, cheap := &routes[0], &routes[1]
		for i := range routes { // the first is the dearest
			routes[i].Price.Output = 5 * routes[i].Price.Input
		}
		for i := range routes {
			if routes[i].Price.Input > dear.Price.Input {
				dear.Price, routes[i].Price = routes[i].Price, dear.Price
			}
		}
		profile := weights(rapid.Float64Range(0.01, 1).Draw(t, "cost"), rapid.Float64Range(0.01, 1).Draw(t, "quality"))
		takes := func(routes []config.Route) string {
			x := routing.NewExchange(routes, nil, routing.DefaultPredictor())
			it, err := routing.MakeItinerary(routing.Input{Routes: routes[:2], Profile: profile, Exchange: x, InputTokens: 1000})
			require.NoError(t, err)
			return it.Candidates[0].Route.Name
		}
		dear.Quality, cheap.Quality = 0.9, 0.3
		cheap.Price = dear.Price
		cheap.Price.Input, cheap.Price.Output = dear.Price.Input*95/100, dear.Price.Output*95/100
		require.Equal(t, dear.Name, takes(routes), ".30 over .90 to save 5%")
		dear.Quality, cheap.Quality = 0.9, 0.88
		cheap.Price.Input, cheap.Price.Output = dear.Price.Input/10, dear.Price.Output/10
		require.Equal(t, cheap.Name, takes(routes), "a tenfold price for .02, against the dearest")
	})
}

// TestUnitsOfMoney: what money is called, and what routes are, does not matter; and no price makes a choice that is
// none.
func TestUnitsOfMoney(t *testing.T) {
	t.Parallel()
	p := withReference(t)
	choice := func(routes []config.Route, profile config.Profile) (int, float64) {
		x := routing.NewExchange(routes, nil, p)
		it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: profile, Exchange: x, InputTokens: 1000,
			Predictor: p,
			Request:   saying(coding)})
		require.NoError(t, err)
		return slices.IndexFunc(routes, func(r config.Route) bool { return r.Name == it.Candidates[0].Route.Name }), it.Rate
	}
	t.Run("GAP-131 scaled and renamed", rapid.MakeCheck(func(t *rapid.T) {
		routes := anyRoutes(t, 1)
		profile := weights(rapid.Float64Range(0, 1).Draw(t, "cost"), rapid.Float64Range(0.01, 1).Draw(t, "quality"))
		first, rate := choice(routes, profile)
		other := slices.Clone(routes)
		times := rapid.Int64Range(2, 1000).Draw(t, "times")
		for i := range other {
			other[i].Name = fmt.Sprint("z", 9-i)
			price := &other[i].Price
			price.Input, price.Output = price.Input*times, price.Output*times
			price.CacheRead, price.CacheWrite = price.CacheRead*times, price.CacheWrite*times
		}
		second, scaled := choice(other, profile)
		require.Equal(t, first, second)
		require.InDelta(t, rate, scaled, 1e-6)
	}))
	t.Run("GAP-131 any magnitude", rapid.MakeCheck(func(t *rapid.T) {
		routes := anyRoutes(t, 1)
		for i := range routes {
			price := rapid.SampledFrom([]int64{0, 1, 100, 1e8, 1e17}).Draw(t, "price") // 1e-8 to 1e9 dollars a million
			routes[i].Price = config.Price{Input: price, CacheRead: price, CacheWrite: price,
				Output: price * rapid.Int64Range(0, 10).Draw(t, "more")}
			routes[i].Quality = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "quality")
		}
		for _, profile := range []config.Profile{budget, best, weights(0, 1), weights(1, 0), weights(1e-300, 1e6), {}} {
			x := routing.NewExchange(routes, []config.Profile{profile}, p)
			require.False(t, math.IsNaN(x.Rate(profile)))
			for _, point := range x.Points() {
				require.False(t, math.IsNaN(point.Quality) || math.IsNaN(point.Microcents) || math.IsNaN(point.Rate))
			}
			for _, tokens := range []int64{0, 1, 1000, 150_000} {
				it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: profile, Exchange: x, InputTokens: tokens})
				require.NoError(t, err)
				for _, c := range it.Candidates {
					require.False(t, math.IsNaN(c.Utility) || math.IsInf(c.Utility, 0) || math.IsNaN(c.Units))
				}
				if profile.Quality == 0 && profile.Cost > 0 {
					for _, c := range it.Candidates {
						require.LessOrEqual(t, it.Candidates[0].Cost, c.Cost, "always the cheapest")
					}
				}
			}
		}
	}))
}

// TestRatesOfLittle: what the rate is where there is nothing to weigh, and that it is said.
func TestRatesOfLittle(t *testing.T) {
	t.Parallel()
	free := func(name string, quality float64) config.Route { return route(name, quality, 0) }
	for _, tt := range []struct {
		name    string
		routes  []config.Route
		profile config.Profile
		rate    float64
		why     string
	}{
		{"one route", []config.Route{route("a", 0.5, 1)}, balanced, routing.MostRate, "there is one route"},
		{"free routes", []config.Route{free("a", 0.5), free("b", 0.9)}, balanced, 0, "all routes are free"},
		{"equal routes", []config.Route{route("a", 0.5, 1), route("b", 0.5, 1)}, best, routing.MostRate,
			"no route is expected"},
		{"the cheapest is the best", []config.Route{route("a", 0.9, 1), route("b", 0.5, 2)}, best, routing.MostRate,
			"no route is expected"},
		{"the best costs next to nothing more", []config.Route{route("a", 0.1, 1), route("b", 0.9, 1.001)}, best,
			routing.MostRate, "the most that it is set to"},
		{"the best is hardly better", []config.Route{route("a", 0.90, 1), route("b", 0.91, 10)}, best, routing.LeastRate,
			"the least that it is set to"},
		{"cost has no weight", []config.Route{route("a", 0.5, 1), route("b", 0.9, 2)}, weights(0, 2), 0,
			"cost has no weight"},
		{"quality has none", []config.Route{route("a", 0.5, 1), route("b", 0.9, 2)}, weights(2, 0), math.Inf(1),
			"quality has no weight"},
	} {
		t.Run("GAP-131 "+tt.name, func(t *testing.T) {
			t.Parallel()
			x := routing.NewExchange(tt.routes, []config.Profile{tt.profile}, routing.DefaultPredictor())
			require.InDelta(t, tt.rate, x.Rate(tt.profile), 0)
			require.Contains(t, x.Why(tt.profile), tt.why)
		})
	}
	require.Empty(t, routing.NewExchange(nil, nil, nil).Unit())
	require.InDelta(t, routing.MostRate, routing.NewExchange(nil, nil, nil).Rate(balanced), 0)
}

// TestUnitIsOne: the unit is the dearest route that usual requests go to, whatever keeps it from the request at hand,
// and its price is that at the request's tier.
func TestUnitIsOne(t *testing.T) {
	t.Parallel()
	dear := route("dear", 0.9, 10)
	dear.Price.Tiers = []config.Tier{{Above: 2000, Input: 20 * perMillion, Output: 100 * perMillion}}
	small := route("small", 0.5, 1)
	for name, change := range map[string]func(*config.Route, *routing.Input){
		"a candidate": func(*config.Route, *routing.Input) {},
		"too small":   func(r *config.Route, _ *routing.Input) { r.ContextWindow = 900 },
		"unfit":       func(r *config.Route, _ *routing.Input) { r.Unsupported = []string{"forced_tool_choice"} },
		"without tools": func(r *config.Route, in *routing.Input) {
			r.Tools, in.Needs.Tools = false, true
		},
		"down": func(_ *config.Route, in *routing.Input) {
			in.Standing = where(func(r *config.Route) bool { return r.Name != "dear" })
		},
	} {
		t.Run("GAP-131 "+name, func(t *testing.T) {
			t.Parallel()
			first := dear
			in := routing.Input{Profile: balanced, Needs: routing.Needs{ForcedCall: true}}
			change(&first, &in)
			in.Routes = []config.Route{small, first}
			in.Exchange = routing.NewExchange(in.Routes, nil, nil)
			require.Equal(t, "dear", in.Exchange.Unit())
			turns := int64(1)
			if in.Needs.Tools {
				turns = 5 // which costs the same: nothing is cheaper from the cache
			}
			for tokens, want := range map[int64]float64{1000: 1000*1000 + 500*5000, 2500: 2500*2000 + 500*10_000} {
				in.InputTokens = tokens
				it, err := routing.MakeItinerary(in)
				require.NoError(t, err)
				if turns == 1 || tokens < 2000 {
					require.InDelta(t, want, it.Unit, 1e-6)
				}
				require.InDelta(t, it.Candidates[len(it.Candidates)-1].Cost/it.Unit,
					it.Candidates[len(it.Candidates)-1].Units, 1e-9)
			}
		})
	}
}

// TestUnitIsWorthIt: a route that no usual request goes to is no measure of what the others cost, however dear it is,
// and hardly changes what budget and balanced come to (GAP-131).
func TestUnitIsWorthIt(t *testing.T) {
	t.Parallel()
	usual := []config.Route{route("small", 0.5, 1), route("middle", 0.75, 3), route("large", 0.9, 15)}
	profiles := []config.Profile{budget, balanced, best}
	x := routing.NewExchange(usual, profiles, routing.DefaultPredictor())
	require.Equal(t, "large", x.Unit())
	cost := func(x *routing.Exchange, routes []config.Route) []routing.Prospect {
		return routing.Prospects(routing.Input{Routes: routes, Exchange: x, Predictor: routing.DefaultPredictor()}, profiles)
	}
	special := route("painter", 0.95, 150)
	special.Specialty = []config.Specialty{config.Graphics}
	narrow := route("narrow", 0.95, 150)
	narrow.ContextWindow = 10
	for name, dear := range map[string]config.Route{"hardly better": route("dear", 0.91, 150),
		"worse": route("dear", 0.4, 150), "kept for others": special, "too small for any": narrow} {
		with := routing.NewExchange(append(slices.Clone(usual), dear), profiles, routing.DefaultPredictor())
		require.Equal(t, "large", with.Unit(), name)
		before, after := cost(x, usual), cost(with, append(slices.Clone(usual), dear))
		for i := range before[:2] { // what max has of a better one is its own affair
			require.InEpsilon(t, before[i].Microcents, after[i].Microcents, 0.25, "%s: %s", name, before[i].Profile)
		}
	}
	better := routing.NewExchange(append(slices.Clone(usual), route("dear", 0.99, 20)), profiles,
		routing.DefaultPredictor())
	require.Equal(t, "dear", better.Unit(), "one that is worth its price is the unit")
	alone := routing.NewExchange([]config.Route{special}, profiles, routing.DefaultPredictor())
	require.Equal(t, "painter", alone.Unit(), "where there is nothing else")
}

// TestDroppingOut is GAP-131: at the rates as loaded, a candidate that was not chosen drops out, and the choice does
// not change. The package's doc says where that holds.
func TestDroppingOut(t *testing.T) {
	t.Parallel()
	p := routing.DefaultPredictor()
	rapid.Check(t, func(t *rapid.T) {
		in := routing.Input{Predictor: p, Routes: anyRoutes(t, 3),
			Profile:     weights(rapid.Float64Range(0, 1).Draw(t, "cost"), rapid.Float64Range(0, 1).Draw(t, "quality")),
			InputTokens: rapid.Int64Range(1, 50_000).Draw(t, "input"), Graphics: rapid.Bool().Draw(t, "graphics"),
			Allowance: rapid.SampledFrom([]int64{0, 100, 5000}).Draw(t, "allowance"),
			LongAbove: rapid.SampledFrom([]int64{0, 0, 30_000}).Draw(t, "long above"),
			Request: rapid.SampledFrom([]*llm.Request{saying(easy), saying(hard), turn(easy, "Paris.", coding),
				answering()}).Draw(t, "request"),
			Standing: func(*config.Route, bool) routing.Standing { return routing.Standing{} }}
		for i := range in.Routes {
			r := &in.Routes[i]
			*r = cached(*r)
			r.Tools, r.Reasons = true, rapid.IntRange(0, 3).Draw(t, "reasons") == 0
			r.Quality = rapid.Float64Range(0.5, 0.9).Draw(t, "near") // so that a little decides
			r.ContextWindow = rapid.SampledFrom([]int64{10_000, 100_000, 200_000, 300_000}).Draw(t, "window")
			r.Specialty = rapid.SampledFrom([][]config.Specialty{nil, nil, nil, nil, {config.Graphics}, {config.LongContext},
				{config.LongContext, config.Graphics}}).Draw(t, "specialty")
		}
		name := rapid.SampledFrom([]string{"r0", "r1", "r2"})
		if rapid.Bool().Draw(t, "remembered") {
			in.Past = &routing.Past{Home: name.Draw(t, "home"), Served: [2]routing.Served{
				{Route: name.Draw(t, "last"), Warm: rapid.Int64Range(0, 300_000).Draw(t, "warm")}}}
		}
		for i, kind := range rapid.SliceOfN(rapid.SampledFrom(config.StrategyKinds()), 0, 2).Draw(t, "strategies") {
			in.Strategies = append(in.Strategies, config.Strategy{Name: fmt.Sprint("s", i), Kind: kind,
				Steps: []string{name.Draw(t, "step"), name.Draw(t, "step")}, Escalate: name.Draw(t, "escalate"),
				Judge: name.Draw(t, "judge"), Validator: rapid.SampledFrom([]string{"non_empty", "r1"}).Draw(t, "validator")})
		}
		if in.Past == nil {
			in.Profile.KeepQuality = rapid.SampledFrom([]float64{0, 0.5, 0.9, 1}).Draw(t, "keep")
		}
		in.Exchange = routing.NewExchange(in.Routes, nil, nil)
		whole, err := routing.MakeItinerary(in)
		if err != nil || len(whole.Candidates) < 2 {
			return
		}
		chosen := firstOf(&whole)
		gone := rapid.SampledFrom(whole.Candidates).Draw(t, "gone").Route.Name
		if slices.Contains(chosen, gone) {
			return // it was chosen, or is a part of what was
		}
		how := rapid.SampledFrom([]string{"held off", "behind", "unfit"}).Draw(t, "how")
		var ordinary, left bool
		for _, c := range whole.Candidates {
			plain := len(c.Route.Specialty) == 0
			ordinary, left = ordinary || plain, left || plain && c.Route.Name != gone
		}
		switch how {
		case "unfit":
			if ordinary && !left {
				return // the last ordinary one: what is long is told by those
			}
			in.Needs.ForcedCall = true
			in.Refuses = func(r *config.Route, _ string) bool { return r.Name == gone }
		default:
			standing := in.Standing
			in.Standing = func(r *config.Route, light bool) routing.Standing {
				if r.Name == gone {
					return routing.Standing{Why: fmt.Errorf("%w: here", routing.ErrNotReady), Behind: how == "behind"}
				}
				return standing(r, light)
			}
		}
		without, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		if whole.KeepFrom != without.KeepFrom {
			return // the best one dropped out, which keep_quality looks at
		}
		require.Equal(t, chosen, firstOf(&without), "%s, %s", gone, how)
		require.InDelta(t, whole.Rate, without.Rate, 0)
		if whole.Kinds == without.Kinds { // one candidate alone is not predicted
			require.InDelta(t, whole.Unit, without.Unit, 0)
		}
	})
}

// firstOf are the routes of the first choice, with the strategy's name where it is one.
func firstOf(it *routing.Itinerary) (names []string) {
	if it.Strategy != nil {
		names = append(names, it.Strategy.Name)
	}
	for c := range it.Steps.Steps[0].Calls() {
		names = append(names, c.Route.Name)
	}
	return names
}

// TestExchangeIsMadeOnce: it says what it was made of.
func TestExchangeIsMadeOnce(t *testing.T) {
	t.Parallel()
	routes, profiles := []config.Route{route("a", 0.5, 1), route("b", 0.9, 2)}, config.DefaultProfiles()
	x := routing.NewExchange(routes, profiles, nil)
	require.True(t, x.MadeOf(slices.Clone(routes), slices.Clone(profiles), nil))
	require.False(t, x.MadeOf(routes[:1], profiles, nil))
	require.False(t, x.MadeOf(routes, profiles[:1], nil))
	require.False(t, x.MadeOf(routes, profiles, routing.DefaultPredictor()))
	require.False(t, (*routing.Exchange)(nil).MadeOf(routes, profiles, nil))
	routes[0].Price.Input++
	require.False(t, x.MadeOf(routes, profiles, nil), "it does not change with what it was made of")
}

// BenchmarkExchange is what a load pays: 3,000 requests, 30 routes, three profiles.
func BenchmarkExchange(b *testing.B) {
	m := *predict.Default()
	m.Reference = nil
	f, s := predict.NewFeatures(), new(predict.Signal)
	f.Read(saying(coding))
	m.Look(f, s)
	signal := m.Pack(nil, s)
	for i := range 3000 {
		m.Reference = append(m.Reference, predict.Sample{Signal: signal, Share: 1, Input: int32(100 + i)})
	}
	p := routing.NewPredictor(&m)
	var routes []config.Route
	for i := range 30 {
		routes = append(routes, route(fmt.Sprint("r", i), 0.3+0.02*float64(i), 0.1*float64(1+i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		routing.NewExchange(routes, config.DefaultProfiles(), p)
	}
}

// TestWeights: weights that are proposed for a rate give about that one.
func TestWeights(t *testing.T) {
	t.Parallel()
	p := withReference(t)
	rapid.Check(t, func(t *rapid.T) {
		routes := anyRoutes(t, 2)
		x := routing.NewExchange(routes, nil, p)
		own := weights(rapid.Float64Range(0.01, 1).Draw(t, "cost"), rapid.Float64Range(0.01, 1).Draw(t, "quality"))
		rate := x.Rate(own)
		cost, quality := x.Weights(rate)
		require.InDelta(t, 1, cost+quality, 1e-9)
		given := x.Rate(weights(cost, quality))
		require.GreaterOrEqual(t, given, rate*(1-1e-5), "rounded to the cheaper side")
		if rate > routing.LeastRate && rate < routing.MostRate {
			points := x.Points()
			whole := points[len(points)-1].Quality - points[0].Quality
			require.LessOrEqual(t, x.At(rate).Quality-x.At(given).Quality, whole*0.0021+1e-9)
		}
	})
	cost, quality := routing.NewExchange(nil, nil, nil).Weights(1)
	require.InDelta(t, cost, quality, 0)
}
