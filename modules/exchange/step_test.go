package exchange

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// TestEveryKindIsDone: whatever kind of strategy there is, routing plans it and the exchange does it.
func TestEveryKindIsDone(t *testing.T) {
	t.Parallel()
	routes := []config.Route{standard, standard}
	for i, name := range []string{"a", "b"} {
		routes[i].Name, routes[i].ContextWindow, routes[i].MaxOutput = name, 100_000, 4_000
	}
	for _, kind := range config.StrategyKinds() {
		s := config.Strategy{Name: "s", Kind: kind, Steps: []string{"a", "b"}, Validator: config.ValidJSON, Judge: "b",
			Escalate: "b"}
		it, err := routing.MakeItinerary(routing.Input{Routes: routes, Profile: config.Profile{Cost: 1},
			Request:     new(llm.Request),
			InputTokens: 10, Strategies: []config.Strategy{s}})
		require.NoError(t, err)
		require.Len(t, it.Options, 1)
		step := it.Options[0].Step
		require.NotNil(t, step, "%s: %v", kind, it.Options[0].Why)
		require.Contains(t, stepRunners, reflect.TypeOf(step), kind)
		require.NotNil(t, routing.Opening(step))
	}
}
