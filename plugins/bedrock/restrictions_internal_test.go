package bedrock

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

// TestRestrictionsAreProven proves GAP-127 for Bedrock, with a model of Nova and another one.
func TestRestrictionsAreProven(t *testing.T) {
	t.Parallel()
	// What the fake's decoder refuses, by the API reference, ToolUseBlock and ToolSpecification (November 2026), Kiro
	// #11027 and archestra #401; the rest is in its table of refusals, with sources.
	decoded := []string{"call_ids_over_64", "call_id_symbols", "assistant_first", "system_alone", "blank_text"}
	for _, model := range []string{"amazon.nova-pro-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			b := New().(*Bedrock)
			values, err := json.Marshal(map[string]any{"base_url": s.URL(), "region": "eu-central-1", "access_key_id": "k",
				"secret_access_key": "s"})
			require.NoError(t, err)
			require.NoError(t, provider.Configure(t.Context(), b, values))
			known := func(restriction string) bool {
				_, listed := upstream.Refuses("/bedrock", restriction)
				ofModel := restriction != "schema_root_keywords" || slices.Contains(refuses(model), restriction)
				return (listed || slices.Contains(decoded, restriction)) && ofModel
			}
			providertest.RequireRestrictions(t, refuses(model), known, func(req *llm.Request, refuses []string) error {
				req.Model = model
				return b.generate(context.Background(), req, refuses, func(llm.Event) error { return nil })
			})
		})
	}
}
