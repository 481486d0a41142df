package routing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// where is a Standing by which routes serve, or are not ready.
func where(ready func(*config.Route) bool) func(*config.Route, bool) routing.Standing {
	if ready == nil {
		return nil
	}
	return func(r *config.Route, _ bool) routing.Standing {
		if ready(r) {
			return routing.Standing{}
		}
		return routing.Standing{Why: routing.ErrNotReady}
	}
}

var (
	errOpen    = fmt.Errorf("its breaker is open: %w", routing.ErrNotReady)
	errLimited = fmt.Errorf("it is rate limited: %w", routing.ErrBusy)
)

// standing gives each route the standing of its name, and all others that they serve.
func standing(by map[string]routing.Standing) func(*config.Route, bool) routing.Standing {
	return func(r *config.Route, _ bool) routing.Standing { return by[r.Name] }
}

// TestStanding: what a route's state at the moment does to a plan.
func TestStanding(t *testing.T) {
	t.Parallel()
	good, fair, poor := route("good", 0.9, 1), route("fair", 0.7, 1), route("poor", 0.2, 1)
	out, busy := routing.Standing{Why: errOpen}, routing.Standing{Why: errLimited}
	behind := routing.Standing{Why: errOpen, Behind: true}
	for _, tt := range []struct {
		name  string
		by    map[string]routing.Standing
		order []string
		err   error
	}{
		{"all serve", nil, []string{"good", "fair", "poor"}, nil},
		{"one is out", map[string]routing.Standing{"good": out}, []string{"fair", "poor"}, nil},
		{"one is busy", map[string]routing.Standing{"fair": busy}, []string{"good", "poor"}, nil},
		{"one stands behind", map[string]routing.Standing{"good": behind}, []string{"fair", "poor", "good"}, nil},
		{"all stand behind", map[string]routing.Standing{"good": behind, "fair": behind, "poor": behind},
			[]string{"good", "fair", "poor"}, nil},
		{"what stands behind serves where nothing else does",
			map[string]routing.Standing{"good": out, "fair": behind, "poor": busy}, []string{"fair"}, nil},
		{"GAP-39 all are out", map[string]routing.Standing{"good": out, "fair": out, "poor": out}, []string{},
			routing.ErrNotReady},
		{"GAP-39 LIM-12 one of those that are left is busy",
			map[string]routing.Standing{"good": out, "fair": busy, "poor": out}, []string{}, routing.ErrBusy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{poor, fair, good}, InputTokens: 10,
				Profile: config.Profile{Quality: 1}, Standing: standing(tt.by)})
			require.Equal(t, tt.err, err)
			require.Equal(t, tt.order, order(it))
			for _, r := range it.Rejected {
				require.Equal(t, tt.by[r.Route.Name].Why, r.Why, "its own reason, word for word")
			}
			for _, c := range it.Candidates {
				require.Equal(t, tt.by[c.Route.Name].Why, c.Behind)
			}
		})
	}
	t.Run("keep_quality compares with those that serve", func(t *testing.T) {
		t.Parallel()
		in := routing.Input{Routes: []config.Route{good, fair, poor}, InputTokens: 10,
			Profile: config.Profile{Cost: 1, KeepQuality: 1}, Standing: standing(map[string]routing.Standing{"good": behind})}
		it, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		require.Equal(t, []string{"fair", "poor", "good"}, order(it))
		require.InDelta(t, 0.7, it.KeepFrom, 1e-9)
		require.True(t, it.Candidates[0].Keeps)
	})
	t.Run("a special route that stands behind is behind ordinary ones", func(t *testing.T) {
		t.Parallel()
		special := good
		special.Specialty = []config.Specialty{config.Graphics}
		it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{special, fair}, InputTokens: 10, Graphics: true,
			Profile: balanced, Standing: standing(map[string]routing.Standing{"good": behind})})
		require.NoError(t, err)
		require.Equal(t, []string{"fair", "good"}, order(it))
	})
}

// TestLight: which requests may try a route that was down.
func TestLight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		input, allowance int64
		light            bool
	}{{10, 100, true}, {4000, 4096, true}, {4001, 100, false}, {10, 4097, false}, {10, 0, false}} {
		asked := !tt.light
		it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{route("only", 0.5, 1)}, InputTokens: tt.input,
			Allowance: tt.allowance, Profile: balanced, Standing: func(_ *config.Route, light bool) routing.Standing {
				asked = light
				return routing.Standing{}
			}})
		require.NoError(t, err)
		require.Equal(t, tt.light, asked, "%+v", tt)
		require.Equal(t, tt.light, it.Candidates[0].Light, "%+v", tt)
	}
}

// TestConversationsAndStanding: a conversation leaves a route that is not to be called, and comes back.
func TestConversationsAndStanding(t *testing.T) {
	t.Parallel()
	home, other := cached(route("home", 0.9, 1)), cached(route("other", 0.5, 1))
	for name, s := range map[string]routing.Standing{
		"its breaker is open": {Why: errOpen}, "its upstream takes no more": {Why: errLimited},
		"it is ejected": {Why: errOpen, Behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{home, other}, InputTokens: 50_000,
				Profile: balanced,
				Past:    at50k("home", 50_000), Request: turn(easy, "Paris.", "And of Spain?"),
				Standing: standing(map[string]routing.Standing{"home": s})})
			require.NoError(t, err)
			require.Equal(t, "other", it.Candidates[0].Route.Name)
			require.Equal(t, routing.StayGone, it.Stay)
			require.Equal(t, "home", it.Home)
		})
	}
	t.Run("a loop of tools stays with a route that is ejected", func(t *testing.T) {
		t.Parallel()
		it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{home, other}, InputTokens: 50_000,
			Profile: balanced,
			Past:    at50k("home", 50_000), Request: answering(),
			Standing: standing(map[string]routing.Standing{"home": {Why: errOpen, Behind: true}})})
		require.NoError(t, err)
		require.Equal(t, "home", it.Candidates[0].Route.Name)
	})
}
