package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestWeightsMoveTheChoice: weights that are given choose as a profile with them would.
func TestWeightsMoveTheChoice(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Gateway: config.Gateway{Namespace: "service", DefaultProfile: config.ProfileBalanced},
		Profiles: config.DefaultProfiles(), Routes: []config.Route{
			{Name: "small", Model: "small-1", Quality: 0.3, ContextWindow: 128_000, MaxOutput: 4096,
				Price: enginetest.ExampleCost, Cost: enginetest.ExampleCost},
			{Name: "deep", Model: "deep-1", Quality: 0.9, ContextWindow: 128_000, MaxOutput: 4096,
				Price: enginetest.ExamplePrice, Cost: enginetest.ExampleCost},
		}}
	body := admin.Body{JSON: []byte(`{"model":"service/auto","messages":[{"role":"user","content":"Prove it."}]}`)}
	for route, w := range map[string]admin.Weights{"small": {Cost: 1}, "deep": {Quality: 1}} {
		body.Weights = &w
		v, err := admin.ExplainBody(cfg, body, admin.Moment{Routes: cfg.Routes, Predictor: routing.PredictorOf(cfg)})
		require.NoError(t, err)
		require.Equal(t, route, v.Candidates[0].Route)
		require.Len(t, v.Candidates, 2)
	}
}
