package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModelNames(t *testing.T) {
	t.Parallel()
	names, err := NewModelNames([]string{"my-agent", "claude[1m]", `^acme-(red|blue)-\d{1,2}$`, "^one$|^two$"})
	require.NoError(t, err)
	for name, want := range map[string]bool{
		"my-agent": true, "claude[1m]": true, "acme-red-1": true, "acme-blue-22": true, "one": true, "two": true,
		"": false, "my-agent ": false, "My-agent": false, "my-agent\n": false, "my": false, "acme-red-": false,
		"acme-red-333": false, "xacme-red-1": false, "acme-red-1\n": false, "onetwo": false,
	} {
		require.Equal(t, want, names.Match(name), "%q", name)
	}
	require.False(t, ModelNames{}.Match(""))

	t.Run("GAP-07 another router's names never match", func(t *testing.T) {
		t.Parallel()
		loose, err := NewModelNames([]string{"^.*$"})
		require.NoError(t, err)
		require.True(t, loose.Match("anything"))
		require.False(t, loose.Match("openrouter/auto"))
	})
	for _, entry := range []string{"", "openrouter/auto", "^open/.*$", "^gpt-5", "gpt-5$", "gpt-*", "^gpt-(5$",
		"two words"} {
		_, err := NewModelNames([]string{"good", entry})
		require.Error(t, err, entry)
	}
}

func TestLoosePatterns(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]bool{
		"^a.*$": true, "^a.+$": true, "^a.{2,}$": true, "^(?s)a.*$": true, "^(?s:a.+)$": true, "^(a|b(c.*))$": true,
		"^a.{2,5}$": false, "^a.?$": false, "^a.$": false, "^[a-z]*$": false, "^a+$": false, `^\d{1,}$`: false,
		"^(?s)a.{1,2}$": false,
		"a":             false, "^(.*$": false, "": false,
	} {
		require.Equal(t, want, isLoosePattern(entry), entry)
	}
}
