package routing

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

func request(text string) *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
}

// TestExpectations is issue 14's, of steps by hand: what a panel and a cascade cost, and how good they are.
func TestExpectations(t *testing.T) {
	t.Parallel()
	call := func(quality, cost float64) *Candidate { return &Candidate{Quality: quality, Cost: cost} }
	asked := call(0, 1)
	// Two that are right half of the time agree on what is right in a quarter and a bit, and are both wrong as often.
	const right = 1./4 + together/4
	const split = 1 - right - right*alike
	a, b, best := call(0.5, 3), call(0.5, 4), call(0.8, 20)
	for name, tt := range map[string]struct {
		step          Step
		quality, cost float64
	}{
		// The best has 0.6, one of them 0.8: of the difference the judge makes good half of 0.6.
		"a panel":                         {&Panel{[]*Candidate{call(0.5, 3), call(0.6, 4)}, call(0.5, 5)}, 0.66, 12},
		"a panel whose judge is the best": {&Panel{[]*Candidate{call(0.5, 3), call(0.6, 4)}, call(0.9, 5)}, 0.9, 12},
		"a panel of one":                  {&Panel{[]*Candidate{call(0.6, 4)}, call(0.5, 5)}, 0.6, 9},
		"one try":                         {&Cascade{Tries: []*Candidate{call(0.6, 4)}}, 0.6, 4},
		"a sure try":                      {&Cascade{Tries: []*Candidate{call(1, 4), call(0.9, 40)}}, 1, 4},
		"a try that is asked about":       {&Cascade{Tries: []*Candidate{call(1, 4), call(0.9, 40)}, Asked: asked}, 1, 5},
		"a hopeless try": {&Cascade{Tries: []*Candidate{call(0, 4), call(1, 40)}, Asked: asked}, noticedByRoute,
			5 + 40*noticedByRoute},
		"GAP-131 a validator that no reply to the request can satisfy": {&Cascade{Tries: []*Candidate{call(0.9, 4),
			call(0.5, 40)}, fits: acceptsNone}, 0.5, 44},
		"GAP-131 one that has nothing to judge": {&Cascade{Tries: []*Candidate{call(0.6, 4), call(1, 40)}, fits: acceptsAll},
			0.6, 4},
		"two tries by form": {&Cascade{Tries: []*Candidate{call(0.5, 4), call(1, 40)}}, 0.5 + 0.5*noticedByForm,
			4 + 20*noticedByForm},
		"two that agree, or a third": {&Agree{[]*Candidate{a, b}, best}, right + (0.8-harder*0.4)*split,
			7 + 20*split},
		"two that are always right":      {&Agree{[]*Candidate{call(1, 3), call(1, 4)}, best}, 1, 7},
		"of three that agree or not one": {&Agree{[]*Candidate{a, best, b}, best}, 0.8, 27},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quality, cost := tt.step.Expect()
			require.InDelta(t, tt.quality, quality, 1e-9)
			require.InDelta(t, tt.cost, cost, 1e-9)
		})
	}
}

// TestAgreePays is choice.md's: where recorded answers say that agreement pays, what is expected of it says so, and it
// is chosen where it competes. Each row is from the recorded answers of README.md's data sets: the means of two seats,
// of what they escalate to, and of the best single model, each with its cost as a share of that one's; and what the
// strategy came to.
func TestAgreePays(t *testing.T) {
	t.Parallel()
	type m struct{ quality, cost float64 }
	for name, tt := range map[string]struct {
		a, b, escalate, single, agreed m
	}{
		"MATH, level 5":      {m{0.451, 0.030}, m{0.509, 0.072}, m{0.554, 1}, m{0.554, 1}, m{0.589, 0.764}},
		"MATH, 2nd half":     {m{0.423, 0.082}, m{0.476, 0.278}, m{0.548, 0.040}, m{0.577, 1}, m{0.577, 0.388}},
		"MMLU-Pro":           {m{0.665, 0.067}, m{0.439, 0.094}, m{0.706, 1}, m{0.706, 1}, m{0.711, 0.802}},
		"MMLU-Pro, 2nd half": {m{0.619, 0.065}, m{0.424, 0.086}, m{0.692, 1}, m{0.692, 1}, m{0.694, 0.804}},
		"BFCL":               {m{0.848, 0.041}, m{0.805, 0.053}, m{0.856, 0.650}, m{0.883, 1}, m{0.883, 0.281}},
		"BFCL, 2nd half":     {m{0.866, 0.017}, m{0.846, 0.013}, m{0.879, 0.058}, m{0.911, 1}, m{0.911, 0.048}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := func(of m) *Candidate { return &Candidate{Quality: of.quality, Cost: of.cost} }
			quality, cost := (&Agree{[]*Candidate{call(tt.a), call(tt.b)}, call(tt.escalate)}).Expect()
			require.InDelta(t, tt.agreed.quality, quality, 0.04)
			require.InDelta(t, tt.agreed.cost, cost, 0.1)

			route := func(name string, of m) config.Route {
				price := int64(of.cost * 1e9)
				return config.Route{Name: name, ContextWindow: 10_000, MaxOutput: 1000, Quality: of.quality, Price: config.Price{
					Input: price, CacheRead: price, CacheWrite: price, Output: price}}
			}
			in := Input{InputTokens: 1000, Profile: config.Profile{Cost: 0.1, Quality: 0.9}, Routes: []config.Route{
				route("a", tt.a), route("b", tt.b), route("escalate", tt.escalate), route("single", tt.single)},
				Strategies: []config.Strategy{{Name: "s", Kind: config.Agree, Steps: []string{"a", "b"}, Escalate: "escalate"}}}
			it, err := MakeItinerary(in)
			require.NoError(t, err)
			require.True(t, it.Options[0].Chosen, "%+v", it.Options[0])
			in.Profile = config.Profile{Cost: 1}
			it, err = MakeItinerary(in)
			require.NoError(t, err)
			require.False(t, it.Options[0].Chosen, "where only cost counts one call is cheaper")
		})
	}
}

// TestAgreeCalls: the seats and, where it is none of them, what is escalated to; all of them can cost.
func TestAgreeCalls(t *testing.T) {
	t.Parallel()
	a, b, c := new(Candidate), new(Candidate), new(Candidate)
	for _, tt := range []struct {
		escalate *Candidate
		want     []*Candidate
	}{{c, []*Candidate{a, b, c}}, {b, []*Candidate{a, b}}, {a, []*Candidate{a, b}}} {
		s := &Agree{Seats: []*Candidate{a, b}, Escalate: tt.escalate}
		got := slices.Collect(s.Calls())
		require.Len(t, got, len(tt.want))
		for i := range got {
			require.Same(t, tt.want[i], got[i], i)
		}
		require.Equal(t, len(tt.want) == 2, s.Sits())
		require.Len(t, s.Seats, 2)
	}
}

// TestCascadeCalls: between two tries the route is asked, and behind the last one nobody is.
// TestSuits is GAP-131: a validator of JSON suits requests that ask for it, and one of calls those that have tools.
func TestSuits(t *testing.T) {
	t.Parallel()
	json, tools := Needs{Format: llm.FormatJSONObject}, Needs{Tools: true}
	for _, tc := range []struct {
		validator string
		needs     Needs
		want      suits
	}{
		{config.ValidJSON, Needs{}, acceptsNone}, {config.ValidJSON, json, fitsReplies},
		{config.ValidJSON, tools, fitsReplies},
		{config.ValidSchema, Needs{}, acceptsNone}, {config.ValidSchema, json, fitsReplies},
		{config.ValidToolArguments, Needs{}, acceptsAll}, {config.ValidToolArguments, tools, fitsReplies},
		{config.ValidNonEmpty, Needs{}, fitsReplies}, {config.ValidNotRefusal, json, fitsReplies}, {"", Needs{}, fitsReplies},
	} {
		require.Equal(t, tc.want, suitsOf(tc.validator, tc.needs), "%s %+v", tc.validator, tc.needs)
	}
}

func TestCascadeCalls(t *testing.T) {
	t.Parallel()
	a, b, c, asked := new(Candidate), new(Candidate), new(Candidate), new(Candidate)
	for _, tt := range []struct {
		step *Cascade
		want []*Candidate
	}{
		{&Cascade{Tries: []*Candidate{a, b, c}, Asked: asked}, []*Candidate{a, asked, b, asked, c}},
		{&Cascade{Tries: []*Candidate{a, b}}, []*Candidate{a, b}},
		{&Cascade{Tries: []*Candidate{a}, Asked: asked}, []*Candidate{a}},
	} {
		got := slices.Collect(tt.step.Calls())
		require.Len(t, got, len(tt.want))
		for i := range got {
			require.Same(t, tt.want[i], got[i], i)
			n := 0
			for range tt.step.Calls() {
				if n++; n > i {
					break // whoever has seen enough is given no more
				}
			}
			require.Equal(t, i+1, n)
		}
	}
}

// TestJudgesRead: a judge, and a route that is asked, cost what they read of the others beside what was asked.
func TestJudgesRead(t *testing.T) {
	t.Parallel()
	routes := []config.Route{
		{Name: "a", ContextWindow: 200_000, MaxOutput: 1000, Quality: 0.5, Price: config.Price{Input: 5}},
		{Name: "b", ContextWindow: 200_000, MaxOutput: 1000, Quality: 0.9, Price: config.Price{Input: 7}},
	}
	for _, kind := range []config.StrategyKind{config.Panel, config.Cascade} {
		it, err := MakeItinerary(Input{Routes: routes, Profile: config.Profile{Cost: 1}, InputTokens: 1000,
			Strategies: []config.Strategy{{Name: "s", Kind: kind, Steps: []string{"a", "a"}, Judge: "b", Validator: "b"}}})
		require.NoError(t, err)
		reader := &Candidate{}
		for c := range it.Options[0].Step.Calls() {
			if c.Route.Name == "b" {
				reader = c
			}
		}
		require.Greater(t, reader.Reads, int64(0), kind)
		require.InDelta(t, float64(7*(reader.Input+reader.Reads))/1e6, reader.Cost, 1e-12, kind)
	}
}

// TestFactsOfASight: a condition can ask of each kind how likely it is, and what was not read is said to be so.
func TestFactsOfASight(t *testing.T) {
	t.Parallel()
	p := DefaultPredictor()
	s := &sight{from: p, signal: predict.Signal{Kinds: [predict.NumKinds]float32{predict.Code: 0.75, predict.Math: 0.25}}}
	f := new(Input).facts(s)
	require.Equal(t, map[string]float64{"default": 0, "code": 0.75, "math": 0.25, "tools": 0, "writing": 0}, f.Kinds)
	unseen := new(Input).facts(nil)
	require.Nil(t, unseen.Kinds)
	require.InDelta(t, 0.5, unseen.Difficulty, 0, "nobody knows")
	in := Input{Predictor: p, Request: request("What is the capital of France?")}
	require.Less(t, in.facts(in.read()).Difficulty, 0.5, "an easy question")
}

// TestShadowReasons: why a route is not compared with, of the first reason that holds.
func TestShadowReasons(t *testing.T) {
	t.Parallel()
	a, b, c := &config.Route{Name: "a"}, &config.Route{Name: "b"}, &config.Route{Name: "c"}
	it := &Itinerary{Candidates: []Candidate{{Route: a}, {Route: b}, {Route: b}},
		Rejected: []Rejected{{Route: c, Why: errors.New("it is small")}}}
	it.Candidates[2].Route, it.Candidates[2].Behind = &config.Route{Name: "d"}, errors.New("it is ejected")
	for route, want := range map[string]string{"a": "the route is planned first, and answers it itself", "b": "",
		"c": "it is small", "d": "it is ejected", "e": ""} {
		e := it.shadow(config.Shadow{Route: route, Share: 0.1})
		require.Equal(t, want, e.Reason, route)
	}
	require.Nil(t, it.shadow(config.Shadow{Route: "a"}))
	it.Strategy = new(config.Strategy)
	require.Empty(t, it.shadow(config.Shadow{Route: "a", Share: 0.1}).Reason, "a strategy answers it")
}

// TestDecidedIsExact: with the largest input that is not long, and that fits, it is decided; with one token more not.
func TestDecidedIsExact(t *testing.T) {
	t.Parallel()
	in := Input{Allowance: 100, Routes: []config.Route{{Name: "a", ContextWindow: 2000, MaxOutput: 500}}}
	require.True(t, Decided(in, 1900))
	require.False(t, Decided(in, 1901))
	in.LongAbove = 1000
	require.True(t, Decided(in, 900))
	require.False(t, Decided(in, 901))
	in.LongAbove = 1
	require.False(t, Decided(in, 1))
	in.LongAbove, in.Strategies = 0, make([]config.Strategy, 1)
	require.False(t, Decided(in, 1))
}

// TestForeseeFillsIn: of one route that there is, its quality and its cost are said as of many.
func TestForeseeFillsIn(t *testing.T) {
	t.Parallel()
	r := config.Route{Name: "a", ContextWindow: 200_000, MaxOutput: 1000, Quality: 0.5,
		Price: config.Price{Input: 5, Output: 9}}
	in := Input{Routes: []config.Route{r}, InputTokens: 1000, Allowance: 40, Predictor: DefaultPredictor(),
		Request: request("What is the capital of France?")}
	it, err := MakeItinerary(in)
	require.NoError(t, err)
	it.Candidates[0].Cost = 0
	Foresee(&in, &it)
	c := it.Candidates[0]
	require.Positive(t, c.Quality)
	require.LessOrEqual(t, c.Output, 40.0)
	require.Positive(t, c.Cost)
}

// TestVerdictsAreShort: who is asked for yes or no is allowed no more than that takes, with thoughts where it thinks.
func TestVerdictsAreShort(t *testing.T) {
	t.Parallel()
	for _, reasons := range []bool{false, true} {
		want := int64(16)
		if reasons {
			want = TinyAllowance
		}
		it, err := MakeItinerary(Input{InputTokens: 1000, Routes: []config.Route{
			{Name: "a", ContextWindow: 200_000, MaxOutput: 100_000, Quality: 0.5},
			{Name: "b", ContextWindow: 200_000, MaxOutput: 100_000, Quality: 0.9, Reasons: reasons},
		}, Strategies: []config.Strategy{{Name: "s", Kind: config.Cascade, Steps: []string{"a", "a"}, Validator: "b"}}})
		require.NoError(t, err)
		asked := it.Options[0].Step.(*Cascade).Asked
		require.Equal(t, want, asked.Allowance)
		require.LessOrEqual(t, asked.Output, float64(want))
	}
}

// TestKeepsWithAMargin: who keeps a share of the best one's quality, by how much more than it an estimate has to have,
// which nobody has to have more of than the best.
func TestKeepsWithAMargin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		share, margin, from float64
		want                []bool
	}{
		{0.5, 0, 0.4, []bool{true, true, true, false}},
		{0.5, 0.25, 0.65, []bool{true, true, false, false}},
		{0.75, 0.125, 0.725, []bool{true, false, false, false}},
		{1, 0.25, 0.8, []bool{true, false, false, false}},
	} {
		candidates := []Candidate{{Quality: 0.8}, {Quality: 0.7}, {Quality: 0.5}, {Quality: 0.3}}
		require.InDelta(t, tt.from, keep(candidates, tt.share, tt.margin), 1e-9)
		for i, want := range tt.want {
			require.Equal(t, want, candidates[i].Keeps, "%v of %v", candidates[i].Quality, tt.from)
		}
	}
}

// TestOutputOfAKnownModel: what a route writes is what was measured of its model, unless nobody has measured it, or
// the operator says that this does not count.
func TestOutputOfAKnownModel(t *testing.T) {
	t.Parallel()
	p := DefaultPredictor()
	s := p.read(request("Write a long essay about the history of bridges."))
	defer p.done(s)
	measured := 0
	require.Zero(t, s.signal.Kinds[predict.Tools])
	for model, all := range p.known.byName {
		if len(all) > 1 {
			continue // the mean of them
		}
		have := &all[0]
		r := config.Route{Name: "a", Model: model, Quality: 0.5}
		_, output := s.of(&r)
		require.InDelta(t, s.output, output, 1e-9, "what all write")
		r.QualityWeight = 1
		want, ok := have.route().OutputOf(&s.signal)
		if !ok || have.calls {
			want = s.output
		}
		if _, output = s.of(&r); want != s.output {
			measured++
		}
		require.InDelta(t, want, output, 1e-9, model)
	}
	require.Positive(t, measured)
}
