package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/providertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, New, providertest.Options{Settings: settings.Values(`{"greeting": "Good morning"}`)})
}

func TestTheReadmeShowsThisCode(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../plugins/README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(code)+"```\n", "copy main.go into the README")
	require.Less(t, strings.Count(string(code), "\n"), 60)
}
