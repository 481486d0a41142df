package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
