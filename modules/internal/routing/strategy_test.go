package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestStrategyThatIsNoBetter: a strategy from which no more is to be had than from the best route is left out: it
// takes more calls.
func TestStrategyThatIsNoBetter(t *testing.T) {
	t.Parallel()
	it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{route("a", 1, 1), route("b", 0.9, 100)},
		Profile: config.Profile{Quality: 1}, InputTokens: 10,
		Strategies: []config.Strategy{{Name: "s", Kind: config.Cascade, Steps: []string{"a", "b"}}}})
	require.NoError(t, err)
	first, o := it.Candidates[0], it.Options[0]
	require.NotNil(t, o.Step)
	require.Equal(t, []float64{first.Quality, first.Cost}, []float64{o.Quality, o.Cost}, "its first try is always right")
	require.False(t, o.Chosen)
}

// TestStrategyLacksAPart: a strategy of which any part is no candidate is passed over, whatever kind it is.
func TestStrategyLacksAPart(t *testing.T) {
	t.Parallel()
	routes := []config.Route{route("a", 0.5, 1), route("b", 0.9, 10)}
	for _, kind := range config.StrategyKinds() {
		for _, missing := range []string{"part", "escalate", "judge", "validator"} {
			s := config.Strategy{Name: "s", Kind: kind, Steps: []string{"a", "b"}, Escalate: "b", Judge: "b", Validator: "b"}
			switch missing {
			case "part":
				s.Steps = []string{"a", "gone"}
			case "escalate":
				s.Escalate = "gone"
			case "judge":
				s.Judge = "gone"
			case "validator":
				s.Validator = "gone"
			}
			it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: config.Profile{Cost: 1}, InputTokens: 10,
				Strategies: []config.Strategy{s}})
			require.NoError(t, err)
			o := it.Options[0]
			require.Equal(t, o.Why != nil && o.Step == nil, missing == "part" || missing == map[config.StrategyKind]string{
				config.Cascade: "validator", config.Agree: "escalate", config.Panel: "judge"}[kind], "%s %s", kind, missing)
			for c := range it.Steps.Calls() {
				require.NotNil(t, c)
			}
		}
	}
}
