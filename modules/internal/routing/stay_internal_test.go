package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestLeaves, to the bound: when a conversation goes from its route to the first one.
func TestLeaves(t *testing.T) {
	t.Parallel()
	const from = 0.5
	keeping := func(quality, cost float64) Candidate { return Candidate{Keeps: true, Quality: quality, Cost: cost} }
	for name, tt := range map[string]struct {
		first, home Candidate
		turns       int // that something is predicted of; 0: nothing is
		want        bool
	}{
		"as useful":           {Candidate{Utility: 0.5}, Candidate{Utility: 0.5, Units: 1}, 0, false},
		"a little better":     {Candidate{Utility: 2 * patience * 0.1}, Candidate{Units: 0.1}, 0, false},
		"much better":         {Candidate{Utility: 2*patience*0.1 + 1e-9}, Candidate{Units: 0.1}, 0, true},
		"better than free":    {Candidate{Utility: 1e-9}, Candidate{}, 0, true},
		"another specialty":   {Candidate{Matches: 1}, Candidate{}, 0, true},
		"less cramped":        {Candidate{}, Candidate{Cramped: true}, 0, true},
		"keeps exactly":       {keeping(0.9, 0), Candidate{Quality: from}, 0, false},
		"keeps no more":       {keeping(0.9, 0), Candidate{Quality: from - 1e-9}, 0, true},
		"nobody is sure":      {keeping(0.9, 0), Candidate{Quality: from - around}, 1, false},
		"one turn is enough":  {keeping(0.9, 0), Candidate{Quality: from - around - 1e-9}, 1, true},
		"after four turns":    {keeping(0.9, 0), Candidate{Quality: from - around/2 - 1e-9}, 4, true},
		"a little dearer":     {keeping(from, 1), Candidate{Quality: 0.9, Cost: 1 + cheaper}, 0, false},
		"much dearer":         {keeping(from, 1), Candidate{Quality: 0.9, Cost: 1.06}, 0, true},
		"dearer, and unsure":  {keeping(from, 1), Candidate{Quality: 0.9, Cost: 9}, 1, false},
		"dearer, surely good": {keeping(from+around, 1), Candidate{Quality: 0.9, Cost: 9}, 1, true},
		"whatever is near":    {keeping(0.9, 0), Candidate{Quality: 0.9, Utility: -1}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it := &Itinerary{Candidates: []Candidate{tt.first}, KeepFrom: from, Rate: 2}
			it.Work.Turns = tt.turns
			require.Equal(t, tt.want, leaves(it, &tt.home))
		})
	}
}

// TestSpare: what is made beside a late call is the next call that is a step by itself, of another route that serves.
func TestSpare(t *testing.T) {
	t.Parallel()
	a, b := &Candidate{Route: &config.Route{Name: "a"}}, &Candidate{Route: &config.Route{Name: "b"}}
	again, behind := &Candidate{Route: a.Route}, &Candidate{Route: &config.Route{Name: "c"}, Behind: ErrBusy}
	panel := &Panel{Seats: []*Candidate{b}, Judge: b}
	hedge := config.Hedge{Quantile: 0.9}
	for name, tt := range map[string]struct {
		steps []Step
		step  int
		want  *Candidate
	}{
		"the next one":              {[]Step{a, b}, 0, b},
		"the same route":            {[]Step{a, again, b}, 0, b},
		"one that stands behind":    {[]Step{a, behind, b}, 0, b},
		"nothing but such":          {[]Step{a, again, behind}, 0, nil},
		"what is no call by itself": {[]Step{a, panel, b}, 0, b},
		"beside no call":            {[]Step{panel, b}, 0, nil},
		"of the last one":           {[]Step{a, b}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Same(t, tt.want, (&First{Steps: tt.steps, Hedge: hedge}).Spare(tt.step))
			require.Nil(t, (&First{Steps: tt.steps}).Spare(tt.step), "nobody asked for it")
		})
	}
}

// TestRoomIsExact: a judge needs room for an answer of each seat beside what it is asked and what it may say, to the
// token.
func TestRoomIsExact(t *testing.T) {
	t.Parallel()
	const input, allowance = 1000, 100
	seat := &Candidate{Allowance: allowance, Route: new(config.Route)}
	seats := []*Candidate{seat, seat}
	for spare, want := range map[int64]error{0: nil, -1: ErrNoRoom} {
		judge := &Candidate{Input: input, Allowance: allowance, Route: &config.Route{
			ContextWindow: input + allowance + instructions + 2*config.AnswerRoom + spare}}
		room, err := new(parts).room(judge, seats)
		require.ErrorIs(t, err, want)
		require.Equal(t, want == nil, room > 0, "%d tokens", room)
	}
}

// TestQualityByKind: what is expected of a route for one kind of work goes by what is known of it there.
func TestQualityByKind(t *testing.T) {
	t.Parallel()
	r := &config.Route{Quality: 0.5, QualityBy: map[string]float64{"code": 0.95, "math": 0.05}}
	in := Input{Predictor: DefaultPredictor(), Request: request("What is the capital of France?")}
	for _, s := range []*sight{nil, in.read()} {
		got := s.byKind(r)
		require.Greater(t, got["code"], got["writing"])
		require.Greater(t, got["writing"], got["math"])
	}
}
