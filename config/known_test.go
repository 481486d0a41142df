package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// withQuality is a file with a route of a model, and what is said of its quality.
func withQuality(model, quality string) string {
	return fmt.Sprintf(`provider "local" {
  plugin = "echo"
}
route "small" {
  provider       = "local"
  model          = %s
  context_window = 32768
  max_output     = 8192
  %s
  price {
    input  = 0.05
    output = 0.20
  }
}
`, model, quality)
}

// TestKnownQualities: each row has its public source and date, and no model two rows.
func TestKnownQualities(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(measured), "\n")[1:]
	names := map[string]bool{}
	for _, line := range lines {
		fields := strings.Split(line, ",")
		require.Len(t, fields, 8, line)
		for name := range strings.FieldsSeq(fields[0]) {
			require.False(t, names[strings.ToLower(name)], "%s is there twice", name)
			names[strings.ToLower(name)] = true
			known, ok := qualityOf(name)
			require.True(t, ok, name)
			require.True(t, strings.HasPrefix(known.source, "https://"), line)
			day, err := time.Parse(time.DateOnly, known.date)
			require.NoError(t, err, line)
			require.False(t, day.After(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)), line)
			month, err := time.Parse("2006-01", known.released)
			require.NoError(t, err, line)
			require.False(t, month.After(day), "it was measured before it came: %s", line)
			require.True(t, strings.HasPrefix(known.from, "https://"), line)
			for _, q := range []float64{known.quality, known.by[KindCode], known.by[KindMath]} {
				require.True(t, q > 0 && q < 1, line)
			}
		}
	}
	require.Len(t, knownModels().byName, len(names))
}

// TestQualityAuto: a model of the table gets its qualities from there, by any of its names.
func TestQualityAuto(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]float64{
		"gpt-4o": 0.883, "gpt-4o-2024-08-06": 0.883, "openai/gpt-4o": 0.883,
		"claude-3-5-haiku-latest": 0.796, "us.anthropic.claude-3-5-haiku-20241022-v1:0": 0.796,
		"meta-llama/Llama-3.1-70B-Instruct": 0.830, "accounts/x/models/QWEN2.5-72b-instruct": 0.856,
		"models/gemini-1.5-pro": 0.828,
		// as operators write them
		"openai/gpt-4o-mini": 0.815, "openai/gpt-4o-mini:free": 0.815, "gpt-4o-mini-2024-07-18": 0.815, "GPT-4o-mini": 0.815,
		"gpt-4o-2024-11-20": 0.883, "gpt-4o-2024-05-13": 0.880, "azure/gpt-4o": 0.883,
		"anthropic/claude-3.5-sonnet": 0.889, "claude-3-5-sonnet-20240620": 0.860, "claude-3-5-sonnet@20240620": 0.860,
		"eu.anthropic.claude-3-5-sonnet-20240620-v1:0": 0.860, "apac.anthropic.claude-3-haiku-20240307-v1:0": 0.723,
		"arn:aws:bedrock:us-east-1:1234:inference-profile/us.anthropic.claude-3-5-sonnet-20241022-v2:0": 0.889,
		"anthropic/claude-3-haiku": 0.723, "claude-3-opus-latest": 0.825,
		"us.meta.llama3-1-70b-instruct-v1:0": 0.830, "llama3.1:70b": 0.830, "llama3.1:8b-instruct-q4_K_M": 0.672,
		"meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo": 0.672, "@cf/meta/llama-3.1-8b-instruct-fp8": 0.672,
		"accounts/fireworks/models/llama-v3p1-405b-instruct": 0.862, "llama-3.1-8b-instant": 0.672, "llama3-70b-8192": 0.780,
		"qwen2.5:7b": 0.751, "Qwen/Qwen2.5-72B-Instruct-AWQ": 0.856, "gemma2:9b": 0.728, "google/gemma-2-27b-it:free": 0.757,
		"gemini-1.5-flash-latest": 0.774, "gemini-1.5-flash-002": 0.774, "x-ai/grok-2-1212": 0.874,
		"deepseek/deepseek-v2.5": 0.803, "gpt-3.5-turbo": 0.684, "o1-preview-2024-09-12": 0.928,
	} {
		cfg, diags := loadText(t, withQuality(fmt.Sprintf("%q", model), `quality = "auto"`))
		require.False(t, diags.HasErrors(), "%s: %v", model, diags)
		r := cfg.Routes[0]
		require.InDelta(t, want, r.Quality, 0.0005, model)
		require.Less(t, r.QualityFor(KindMath), r.Quality, model)
		require.InDelta(t, r.Quality, r.QualityFor(KindWriting), 0, "nothing was measured of it")
	}
	cfg, diags := loadText(t, withQuality(`"gpt-4o-mini"`, "quality {\n default=\"auto\"\n math=0.25\n weight=10\n}"))
	require.False(t, diags.HasErrors(), "%v", diags)
	r := cfg.Routes[0]
	require.InDelta(t, 0.815, r.Quality, 0)
	require.InDelta(t, 0.25, r.QualityFor(KindMath), 0, "what the operator says counts")
	require.InDelta(t, 0.759, r.QualityFor(KindCode), 0.0005)
	require.EqualValues(t, 10, r.QualityWeight)
	other, _ := qualityOf("gpt-4o-mini")
	require.InDelta(t, 0.5215, other.by[KindMath], 0.001, "the table is as it was")
}

// TestQualityAutoOfTheUnknown: a model that nobody has measured is told of when the file is loaded.
func TestQualityAutoOfTheUnknown(t *testing.T) {
	t.Parallel()
	for quality, says := range map[string][]string{
		`"my-own-model"`: {"Nothing is known of this model's quality", "as in quality = 0.7."},
		`"gpt-4o-minni"`: {"Nothing is known of this model's quality", `or did you mean the model "gpt-4o-mini"?`},
		`"gpt-4.1"`:      {"Nothing is known of this model's quality", "from 0 to 1"},
		`"gpt-5-mini"`: {"ends with those of 2024-12", "The nearest relative is gpt-4o-mini, of 2024-07",
			"quality = 0.815  # like gpt-4o-mini (2024-07)"},
		`"openai/gpt-5-mini-2025-08-07"`: {"# like gpt-4o-mini (2024-07)"},
		`"gpt-5"`:                        {"# like gpt-4o (2024-08)"},
		`"gpt-5-nano"`:                   {"of another size", "# like gpt-4o-mini (2024-07)"},
		`"o4-mini"`:                      {"# like o1-mini (2024-09)"},
		`"o3"`:                           {"# like o1-preview (2024-09)"},
		`"claude-opus-4-1-20250805"`:     {"# like claude-3-opus (2024-03)"},
		`"global.anthropic.claude-sonnet-4-5-20250929-v1:0"`: {"# like claude-3-5-sonnet-latest (2024-10)"},
		`"anthropic/claude-haiku-4.5"`:                       {"# like claude-3-5-haiku-latest (2024-10)"},
		`"gemini-3-pro-preview"`:                             {"# like gemini-1.5-pro"},
		`"models/gemini-2.5-flash-lite"`:                     {"# like gemini-1.5-flash"},
		`"meta-llama/llama-3.3-70b-instruct:free"`:           {"# like Llama-3.1-70B-Instruct (2024-07)"},
		`"qwen3:32b"`:       {"# like Qwen2.5-32B-Instruct (2024-09)"},
		`"qwen3:8b-q4_K_M"`: {"more if it is better", "# like Qwen2.5-7B-Instruct (2024-09)"},
		`"llama3.3:70b"`:    {"more if it is better", "# like Llama-3.1-70B-Instruct (2024-07)"},
		`"llama3.3"`: {"does not say how large it is", "as in llama3.1:8b", "# like Llama-3.1-8B-Instruct (2024-07)",
			"# like Llama-3.1-70B-Instruct (2024-07)", "# like Llama-3.1-405B-Instruct (2024-07)"},
		`"claude-2.1"`:                          {"a later version", "no more than this", "# like claude-3"},
		`"llama2:13b-chat"`:                     {"a later version", "8B-Instruct"},
		`"mistral:7b"`:                          {"of its line are of other sizes", "# like Qwen2.5-7B-Instruct"},
		`"codellama:34b"`:                       {"No model of the table is of its line", "one of its size is"},
		`"kimi-k2"`:                             {"To compare: gpt-4o has 0.883, gpt-4o-mini has 0.815"},
		`"deepseek-chat"`:                       {"# like DeepSeek-V2.5 (2024-09)"},
		`"mistral-large-latest"`:                {"# like mistral-large-2407 (2024-07)"},
		`"grok-4"`:                              {"# like grok-2 (2024-12)"},
		`"gemma3:27b"`:                          {"# like gemma-2-27b-it (2024-06)"},
		`"ft:gpt-4o-mini-2024-07-18:acme::abc"`: {"tuned for something", "# like gpt-4o-mini (2024-07)"},
		`"gpt-oss-120b"`:                        {"No model of the table is of its line"},
		`"text-embedding-3-large"`:              {"No model of the table is of its line"},
		`"🦙"`:                                   {"No model of the table is of its line"},
		`"---"`:                                 {"No model of the table is of its line"},
		`":free"`:                               {"No model of the table is of its line"},
		`""`:                                    {"must not be empty"},
	} {
		_, diags := loadText(t, withQuality(quality, `quality = "auto"`))
		require.Len(t, diags.All(), 1, quality)
		text := fmt.Sprint(diags.Err())
		for _, want := range says {
			require.Contains(t, text, want, quality)
		}
	}
	_, diags := loadText(t, withQuality(`"gpt-4o"`, `quality = "automatic"`))
	require.ErrorContains(t, diags.Err(), "a number from 0 to 1")
}
