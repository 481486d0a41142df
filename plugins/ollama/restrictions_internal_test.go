package ollama

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestRestrictionsAreProven proves GAP-127 for Ollama. A call cannot be demanded of it (ollama #8421, #11171, #17921):
// the provider does not write that. A text that is no string is refused (#6451, #10255), and never written either.
// Names that its parsers of models do not know are refused by the fake, as by all services; the rest it drops
// (api/types.go).
func TestRestrictionsAreProven(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	o := New().(*Ollama)
	values, err := json.Marshal(map[string]any{"base_url": s.URL()})
	require.NoError(t, err)
	require.NoError(t, provider.Configure(t.Context(), o, values))
	known := func(restriction string) bool {
		_, listed := upstream.Refuses("/ollama", restriction)
		return listed ||
			slices.Contains([]string{"forced_tool_choice", "tool_names_over_64", "tool_name_symbols"}, restriction)
	}
	providertest.RequireRestrictions(t, refuses, known, func(req *llm.Request, refuses []string) error {
		req.Model = "m"
		return o.generate(context.Background(), req, refuses, func(llm.Event) error { return nil })
	})
}
