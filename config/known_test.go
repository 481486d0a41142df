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

// TestKnownQualities is issue 13: each row has its public source and date, and no model two rows.
func TestKnownQualities(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(measured), "\n")[1:]
	names := map[string]bool{}
	for _, line := range lines {
		fields := strings.Split(line, ",")
		require.Len(t, fields, 6, line)
		for name := range strings.FieldsSeq(fields[0]) {
			require.False(t, names[strings.ToLower(name)], "%s is there twice", name)
			names[strings.ToLower(name)] = true
			known, ok := qualityOf(name)
			require.True(t, ok, name)
			require.True(t, strings.HasPrefix(known.source, "https://"), line)
			day, err := time.Parse(time.DateOnly, known.date)
			require.NoError(t, err, line)
			require.False(t, day.After(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)), line)
			for _, q := range []float64{known.quality, known.by[KindCode], known.by[KindMath]} {
				require.True(t, q > 0 && q < 1, line)
			}
		}
	}
	require.Len(t, knownQualities(), len(names))
}

// TestQualityAuto is issue 13: a model of the table gets its qualities from there, by any of its names.
func TestQualityAuto(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]float64{
		"gpt-4o": 0.883, "gpt-4o-2024-08-06": 0.883, "openai/gpt-4o": 0.883,
		"claude-3-5-haiku-latest": 0.796, "us.anthropic.claude-3-5-haiku-20241022-v1:0": 0.796,
		"meta-llama/Llama-3.1-70B-Instruct": 0.830, "accounts/x/models/QWEN2.5-72b-instruct": 0.856,
		"models/gemini-1.5-pro": 0.828,
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

// TestQualityAutoOfTheUnknown is issue 13: a model that nobody has measured is told of when the file is loaded.
func TestQualityAutoOfTheUnknown(t *testing.T) {
	t.Parallel()
	for quality, says := range map[string][]string{
		`"my-own-model"`: {"Nothing is known of this model's quality", "as in quality = 0.7."},
		`"gpt-4o-minni"`: {"Nothing is known of this model's quality", `or did you mean the model "gpt-4o-mini"?`},
		`"gpt-4.1"`:      {"Nothing is known of this model's quality", "from 0 to 1"},
		`""`:             {"must not be empty"},
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
