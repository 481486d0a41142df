package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// TestExamplesLoad: the examples of strategies, rules and shadows are what an operator can begin with.
func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../examples/strategies.hcl")
	require.NoError(t, err)
	rules, err := filepath.Abs("../examples/policy.hcl")
	require.NoError(t, err)
	c, diags := loadText(t, string(text)+"\nscreening {\n  mode  = \"monitor\"\n  rules = \""+rules+"\"\n}\n")
	require.Empty(t, diags.All())
	require.Len(t, c.Strategies, 2)
	for _, s := range c.Strategies {
		require.NotNil(t, s.When)
		require.Len(t, s.Parts(), 2)
	}
	text, err = os.ReadFile("../examples/shadow.hcl")
	require.NoError(t, err)
	c, diags = loadText(t, string(text))
	require.Empty(t, diags.All())
	shadows := 0
	for _, p := range c.Profiles {
		if p.Shadow == (Shadow{Route: "candidate", Share: 0.02}) {
			shadows++
		}
	}
	require.Equal(t, 1, shadows)
}

// TestPredictorExample: the example of a predictor loads with a model that was trained on its routes.
func TestPredictorExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../examples/predictor.hcl")
	require.NoError(t, err)
	_, c, diags := loadModel(t, string(text), new("small-1 0.55\nlarge-1 0.95\n"))
	require.Empty(t, diags.All())
	require.InDelta(t, 0.95, c.Routes[1].Quality, 0)
}

// TestClusterExample: the three gateways of examples/cluster load their file, with what its program puts into the
// environment.
func TestClusterExample(t *testing.T) {
	t.Parallel()
	openai := func(context.Context, PluginRef) (settings.Schema, error) { // the plugin checks them, and is not here
		return settings.Schema{Attributes: []settings.Attribute{{Name: "base_url", Type: settings.String},
			{Name: "first_byte_timeout", Type: settings.String}, {Name: "whole_reply_timeout", Type: settings.String}}}, nil
	}
	config, diags := Load(t.Context(), "../examples/cluster/gateway.hcl", Options{Schema: openai,
		Env: func(name string) (string, bool) {
			value, set := map[string]string{
				"DATABASE_URL": "postgres://fareway:secret@10.77.0.21,10.77.0.22/fareway?target_session_attrs=read-write",
				"REDIS_URL":    "redis://:secret@10.77.0.31:26379,10.77.0.32:26379",
				"UPSTREAM_URL": "http://10.77.0.50:9000/v1",
			}[name]
			return value, set
		}})
	require.Empty(t, diags.All(), "%s", printed(t, diags))
	require.Equal(t, "postgres", config.Store.Kind)
	require.Equal(t, StandbyRequired, config.Store.Standby)
}
