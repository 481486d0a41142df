package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Issue 11: what a plugin knows of a model holds with some settings only.
func TestModelsForSettings(t *testing.T) {
	t.Parallel()
	known := []llm.Model{{ID: "always"}, {ID: "openai", Where: map[string]string{"preset": "openai"}},
		{ID: "itself", Where: map[string]string{"base_url": "", "careful": "true"}}}
	for values, want := range map[string][]string{
		``:                                {"always"},
		`{"preset":"openai"}`:             {"always", "openai"},
		`{"preset":"x"}`:                  {"always"},
		`{"careful":true}`:                {"always", "itself"},
		`{"careful":true,"base_url":"h"}`: {"always"},
		`no JSON`:                         nil,
	} {
		var ids []string
		for _, m := range ModelsFor(settings.Values(values), known) {
			ids = append(ids, m.ID)
		}
		require.Equal(t, want, ids, values)
	}
}
