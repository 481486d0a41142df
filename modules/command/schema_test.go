package command

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/builtin"
)

// TestSchema is `gateway schema`, with the settings of the built-in providers.
func TestSchema(t *testing.T) {
	t.Parallel()
	text, err := run(t, "schema")
	require.NoError(t, err)
	require.Contains(t, text, "## route \"NAME\" (at least one)")
	require.Contains(t, text, "| `max_streams` | 1 to 1,000,000 | `10000` | ")

	v := runJSON[config.Reference](t, "schema")
	require.Contains(t, v.Block.Blocks, "provider")
	for _, name := range builtin.Names() {
		require.Contains(t, text, "## config of plugin \""+name+"\"")
		require.Contains(t, v.Plugins, name)
	}
	require.True(t, v.Plugins["anthropic"].Block.Attributes["api_key"].Sensitive)
	require.NotEmpty(t, v.Plugins["openai"].Block.Attributes["preset"].Choices)
	for name, attribute := range v.Plugins["openai"].Block.Attributes {
		require.NotEmpty(t, attribute.Description, name)
	}

	out, err := run(t, "schema", "--snippets")
	require.NoError(t, err)
	var snippets map[string]config.Snippet
	require.NoError(t, json.Unmarshal([]byte(out), &snippets))
	require.Equal(t, "price {", snippets["route price"].Body[0])
	require.Equal(t, "preset", snippets["config openai preset"].Prefix)

	_, err = run(t, "schema", "--snippets", "--json")
	require.ErrorContains(t, err, "do not go together")
}
