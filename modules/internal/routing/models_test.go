package routing

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

func TestServiceNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, model, profile string
	}{
		{"MODEL-06 carries no profile", "service/auto", ""},
		{"MODEL-07 short form", "auto", ""},
		{"MODEL-08 budget", "service/budget", "budget"},
		{"MODEL-09 balanced", "service/balanced", "balanced"},
		{"MODEL-10 max", "service/max", "max"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			profile, ok := Accept("service", config.ModelNames{}, tt.model)
			require.True(t, ok)
			require.Equal(t, tt.profile, profile)
		})
	}
	t.Run("another namespace", func(t *testing.T) {
		t.Parallel()
		profile, ok := Accept("acme", config.ModelNames{}, "acme/max")
		require.True(t, ok)
		require.Equal(t, "max", profile)
		_, ok = Accept("acme", config.ModelNames{}, "service/max")
		require.False(t, ok)
	})
}

// The names that the clients of examples/clients send: `make clients` fails when a client sends one that is not in
// this file.
func TestClientNamesOfTheSuite(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../examples/clients/testdata/names.txt")
	require.NoError(t, err)
	names := entries(string(text))
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run("MODEL-11 "+name, func(t *testing.T) {
			t.Parallel()
			profile, ok := Accept("service", config.ModelNames{}, name)
			require.True(t, ok, "add it to models.txt")
			require.Empty(t, profile)
		})
	}
}

// TestClientNames has what clients were seen to send, and what the client libraries have constants for.
func TestClientNames(t *testing.T) {
	t.Parallel()
	const names = `
claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5 claude-fable-5-2 claude-opus-4-1 claude-haiku-4-5-20251001
claude-sonnet-4-5-20250929 claude-opus-4-7 claude-sonnet-4-5 claude-opus-5 claude-sonnet-5 claude-fable-5-1
claude-mythos-5-1 claude-mythos-5 claude-mythos-preview claude-opus-4-8 claude-haiku-4-5 claude-opus-4-5-20251101
claude-opus-4-20250514 claude-3-5-sonnet-20241022 claude-3-7-sonnet-latest claude-3-opus-20240229
gpt-6.1-sol gpt-6-astra gpt-6.1-terra gpt-6-sol gpt-6-luna gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna gpt-5.5
codex-auto-review gpt-daybreak-blue-latest gpt-daybreak-red-latest gpt-5.4-nano gpt-3.5-turbo gpt-4.1 o3 gpt-5-codex
gpt-5.1-codex-max codex-mini-latest gpt-5.4-mini-2026-03-17 gpt-5.5-2026-04-23 gpt-5.3-chat-latest gpt-5.2-pro
gpt-5.2-pro-2025-12-11 gpt-5.1-codex gpt-5.1-codex-mini gpt-5.1-mini gpt-5 gpt-5-mini gpt-5-nano-2025-08-07
gpt-5-chat-latest gpt-4.1-mini gpt-4.1-nano-2025-04-14 o4-mini o4-mini-2025-04-16 o3-2025-04-16 o3-mini o1
o1-preview-2024-09-12 o1-mini gpt-4o gpt-4o-2024-11-20 gpt-4o-mini gpt-4o-mini-2024-07-18 gpt-4o-audio-preview
gpt-4o-mini-search-preview-2025-03-11 gpt-audio-mini gpt-4-turbo gpt-4-turbo-2024-04-09 gpt-4-turbo-preview gpt-4
gpt-4-0613 gpt-4-32k-0314 gpt-3.5-turbo-16k-0613 chatgpt-4o-latest o1-pro o1-pro-2025-03-19 o3-pro o3-pro-2025-06-10
o3-deep-research o4-mini-deep-research-2025-06-26 computer-use-preview gpt-5.5-pro gpt-5-pro-2025-10-06
gpt-5.6-cyber gpt-rosalind-research gpt-6-rosalind
qwen3.7-max qwen3.8-max-0902 qwen3.6-plus qwen3.8-flash qwen3.8-max-preview qwen3-max-2026-01-23 qwen3-coder-plus
qwen3-coder-next coder-model claude-opus-5-5-fast gpt-5.3-codex-spark gpt-5.6-sol-pro gpt-5.6-fast gpt-5.4-mini-fast
gpt-6-luna-fast gpt-6-cyber gpt-6.1-cyber grok-code-fast-1 claude-mythos-5-2 gpt-5.4-pro-2026-03-05 claude-opus-4-0`
	for _, name := range strings.Fields(names) {
		t.Run("MODEL-11 MODEL-12 "+name, func(t *testing.T) {
			t.Parallel()
			profile, ok := Accept("service", config.ModelNames{}, name)
			require.True(t, ok)
			require.Empty(t, profile, "a client's own name selects no profile")
		})
	}
}

func TestOtherNames(t *testing.T) {
	t.Parallel()
	for clause, names := range map[string][]string{
		"MODEL-14 anything else": {
			"service/turbo", "Service/Auto", " service/auto", "service/auto ", "service/", "service", "Auto", "AUTO", "",
			"budget", "max", "/auto", "service/Max", "service//auto", "service/gpt-5", "service/auto\n", "auto\n",
		},
		"MODEL-18 misspelled or another router's": {
			"service/atuo", "openrouter/auto", "anthropic/claude-x", "anthropic/claude-opus-5-5", "openai/gpt-5",
			"claude-x", "claude-opus", "claude-opuss-5-5", "claude-opus-5-5-", "claude-opus-5-5-2025", "xclaude-opus-5-5",
			"claude-opus-5-5-20251001-x", "claude-opus-5-5\n", "gpt-", "gpt-5-", "gpt-5-min", "gpt-5x", "gpt-5-mini-2025",
			"gpt-55", "gpt-5.44", "gpt-7", "GPT-5", "gpt-6", "o", "o2", "o3-mini-", "gpt-4-0000", "claude-3-sonnet",
			"claude-opus-5-5 gpt-5", "qwen/qwen3.7-max", "qwen3.7", "qwen3.7-maxx", "qwen", "qwen3.77-max", "qwen-max",
			"gpt-5-pro-pro", "gpt-5-mini-mini", "claude-opus-5-5-fast-fast",
		},
	} {
		for _, name := range names {
			t.Run(clause+" "+name, func(t *testing.T) {
				t.Parallel()
				_, ok := Accept("service", config.ModelNames{}, name)
				require.False(t, ok)
			})
		}
	}
}

// TestModelList holds the embedded file to its own rules, beside those of every list.
func TestModelList(t *testing.T) {
	t.Parallel()
	list, libraries := entries(clientModels), entries(libraryModels)
	_, err := config.NewModelNames(list)
	require.NoError(t, err)
	for _, name := range libraries {
		require.Regexp(t, `^[a-z0-9][a-z0-9.-]*$`, name)
		require.NotContains(t, list, name, "library_models.txt has it")
	}
	for i, entry := range list {
		if strings.HasPrefix(entry, "^") {
			for _, loose := range []string{"*", "+", ".-", "[^"} {
				require.NotContains(t, strings.ReplaceAll(entry, `\.`, ""), loose, "a pattern leaves open only versions and dates")
			}
			continue
		}
		require.Regexp(t, `^[a-z0-9][a-z0-9.-]*$`, entry)
		others, err := config.NewModelNames(append(slices.Clone(list[:i]), list[i+1:]...))
		require.NoError(t, err)
		require.False(t, others.Match(entry), "%s is there already", entry)
	}
}

func TestOwnNames(t *testing.T) {
	t.Parallel()
	own, err := config.NewModelNames([]string{"my-agent", `^my-agent-\d{4}$`})
	require.NoError(t, err)
	for name, want := range map[string]bool{
		"my-agent": true, "my-agent-2026": true, "gpt-5": true, "service/auto": true,
		"my-agents": false, "my-agent-20260": false, "xmy-agent-2026": false, "My-Agent": false, "service/my-agent": false,
	} {
		profile, ok := Accept("service", own, name)
		require.Equal(t, want, ok, name)
		require.Empty(t, profile)
	}
	_, ok := Accept("service", config.ModelNames{}, "my-agent")
	require.False(t, ok)
}

// FuzzAccept: whatever is accepted is a name of the service or a client's own name without a slash, and only
// the service's names select a profile.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"service/auto", "auto", "gpt-5", "claude-opus-5-5", "openrouter/auto", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, model string) {
		profile, ok := Accept("service", config.ModelNames{}, model)
		if !ok {
			require.Empty(t, profile)
			return
		}
		rest, own := strings.CutPrefix(model, "service/")
		require.NotContains(t, rest, "/", "another router's name")
		require.Equal(t, own && rest != "auto", profile != "")
	})
}
