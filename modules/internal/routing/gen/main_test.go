package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed list has the versions that are pinned, and what the Go libraries have. `make clients` holds it to what
// npm has.
func TestListIsUpToDate(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile(filepath.Join("..", listFile))
	require.NoError(t, err)
	list, _, err := generate("..", string(old))
	require.NoError(t, err)
	require.Equal(t, string(old), list, "run `make models`, and commit it")
}

// A section of a library that is not installed stays; a version that nobody has read the names of is an error.
func TestGenerateKeepsWhatIsNotInstalled(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := filepath.Join(root, "modules/internal/routing")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "examples/clients/node"), 0o700))
	for _, file := range []string{"go.mod", "go.sum", "examples/clients/node/package.json"} {
		b, err := os.ReadFile(filepath.Join("../../../..", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(root, file), b, 0o600))
	}
	_, _, err := generate(folder, "")
	require.ErrorContains(t, err, "the names of openai ")
	require.ErrorContains(t, err, "run `make models`")

	old, err := os.ReadFile(filepath.Join("..", listFile))
	require.NoError(t, err)
	list, missing, err := generate(folder, string(old))
	require.NoError(t, err)
	require.Equal(t, string(old), list)
	require.Equal(t, []string{"openai", "@anthropic-ai/sdk", "@ai-sdk/openai", "@ai-sdk/anthropic"}, missing)
	require.NoError(t, os.WriteFile(filepath.Join(folder, listFile), old, 0o600))
	require.ErrorContains(t, renew(folder, true), "not installed at the pinned version: openai, ")
}

func TestFindNames(t *testing.T) {
	t.Parallel()
	const file = `
	type ChatModel = 'gpt-6-cyber' | "gpt-5.1-codex-max" | 'o3' | 'o1-pro-2025-03-19' | (string & {});
	'gpt-image-2' | 'gpt-4o-mini-tts' | 'gpt-realtime' | 'o2x' | 'opus' | 'claude-code-20250219' | 'claude-' | 'gpt-'
	const ModelClaudeFable5_2 Model = "claude-fable-5-2" // "claude-3-opus-latest"
	"computer-use-2025-01-24" "computer-use-preview" "chatgpt-4o-latest" "gpt-3.5-turbo-instruct" gpt-7 "GPT-5"`
	require.Equal(t, []string{"gpt-6-cyber", "gpt-5.1-codex-max", "o3", "o1-pro-2025-03-19", "claude-fable-5-2",
		"claude-3-opus-latest", "computer-use-preview", "chatgpt-4o-latest"}, findNames([]byte(file)))
}
