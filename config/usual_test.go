package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// What a plugin knows of a model holds with some settings only.
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

// usualModels are what a plugin may say of models: the last ones are not to be believed.
func usualModels(_ context.Context, ref PluginRef) []llm.Model {
	if ref.Plugin != "everything" {
		return nil
	}
	preset := map[string]string{"preset": "groq"}
	return []llm.Model{
		{ID: "mini", Where: preset, Price: &llm.ModelPrice{Input: "0.25", Output: "2.00", CacheRead: "0.025"},
			Source: "prices.example/mini", Date: "2026-11-22"},
		{ID: "plain", Where: preset, Price: &llm.ModelPrice{Input: "3", Output: "15"}},
		{ID: "elsewhere", Where: map[string]string{"preset": "xai"}, Price: &llm.ModelPrice{Input: "1", Output: "1"}},
		{ID: "half", Where: preset, Price: &llm.ModelPrice{Input: "1"}},
		{ID: "odd", Where: preset, Price: &llm.ModelPrice{Input: "cheap", Output: "-1", CacheRead: "1e9"}},
		{ID: "loud", Where: preset, Price: &llm.ModelPrice{Input: "1", Output: "2"}, Source: "a\x1b[31mb\nc"},
		{ID: "unpriced", Where: preset},
	}
}

// loadUsual loads a file with one route, whose price blocks are given.
func loadUsual(t *testing.T, model, prices string) (*Config, *Diagnostics) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`provider "up" {
  plugin = "everything"
  config {
    name   = "n"
    preset = "groq"
    endpoint {
      url = "http://h"
    }
  }
}
route "r" {
  provider       = "up"
  model          = "`+model+`"
  context_window = 1000
  max_output     = 1000
  quality        = 0.5
`+prices+`
}
`), 0o600))
	env := func(name string) (string, bool) { return "250", name == "PRICE" }
	return Load(t.Context(), path, Options{Schema: testSchema, Env: env, Known: usualModels})
}

// A price in the wrong unit is reported with file, line, caret and next step, and serves.
func TestPriceInAnotherUnit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model, prices string
		want          []string // summaries, by line
	}{
		"of a thousand tokens": {"mini", "price {\n input = 0.00025\n output = 0.002\n cache_read = 0.000025\n}", []string{
			"18: input is 1/1,000 of what mini usually costs", "19: output is 1/1,000 of what mini usually costs",
			"20: cache_read is 1/1,000 of what mini usually costs"}},
		"of a token": {"mini", "price {\n input = 0.00000025\n output = 2\n}", []string{
			"18: input is 1/1,000,000 of what mini usually costs"}},
		"too dear": {"mini", "price {\n input = 250\n output = 2000\n}", []string{
			"18: input is 1,000 times what mini usually costs", "19: output is 1,000 times what mini usually costs"}},
		"as it is": {"mini", "price {\n input = 0.25\n output = 2\n}", nil},
		"just not": {"mini", "price {\n input = 74.99999999\n output = 0.0066667\n}", nil},
		"just": {"mini", "price {\n input = 75\n output = 0.00666666\n}", []string{
			"18: input is 300 times what mini usually costs", "19: output is 1/300 of what mini usually costs"}},
		"for nothing": {"mini", "price {\n input = 0\n output = 0\n}", nil},
		"from outside": {"mini", "price {\n input = env(\"PRICE\")\n output = 2\n}", []string{
			"18: input is far from what mini usually costs"}},
		"cost, tiers and later prices": {"plain", "price {\n input = 3\n output = 15\n above \"500\" {\n  input = 3000\n" +
			"  output = 15\n }\n}\ncost {\n input = 3\n output = 0.015\n}\nprice \"2027-01-01\" {\n input = 0.003\n" +
			" output = 15\n}", []string{
			"21: input is 1,000 times what plain usually costs", "27: output is 1/1,000 of what plain usually costs",
			"30: input is 1/1,000 of what plain usually costs"}},
		"with other settings": {"elsewhere", "price {\n input = 1000\n output = 1000\n}", nil},
		"nobody knows":        {"unpriced", "price {\n input = 1000\n output = 1000\n}", nil},
		"one class is known": {"half", "price {\n input = 1000\n output = 1000\n}", []string{
			"18: input is 1,000 times what half usually costs"}},
		"nonsense": {"odd", "price {\n input = 1000\n output = 1000\n}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, diags := loadUsual(t, c.model, c.prices)
			require.NoError(t, diags.Err(), "what can be served is not refused")
			require.NotNil(t, cfg)
			var got []string
			for _, d := range diags.All() {
				if strings.Contains(d.Summary, "usually costs") {
					require.Equal(t, SeverityWarning, d.Severity)
					got = append(got, fmt.Sprintf("%d: %s", d.Line, d.Summary))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
	_, diags := loadUsual(t, "mini", "price {\n  input  = 250\n  output = 2\n}")
	require.Contains(t, printed(t, diags), `gateway.hcl:18:12
   18 |   input  = 250
      |            ^^^
  A price is in US dollars for a million tokens, and this one usually is 0.25 (prices.example/mini, read `+
		"2026-11-22). If it is not meant to be so far from that, write input = 0.25.\n")
}

// Presets have the usual prices of a service: an operator sets a price, and is told the usual one.
func TestMissingPriceIsProposed(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"mini": "Route \"r\" needs one. What mini usually costs (prices.example/mini, read 2026-11-22):\n  price {\n" +
			"    input       = 0.25\n    output      = 2.00\n    cache_read  = 0.025\n  }\n",
		"plain": "What plain usually costs (its plugin):\n  price {\n    input  = 3\n    output = 15\n  }\n",
		"loud":  "What loud usually costs (a [31mb c):\n",
		"half":  "Route \"r\" needs one, for example:\n  price {\n    input  = 0.05\n",
		"odd":   "Route \"r\" needs one, for example:\n",
		"other": "Route \"r\" needs one, for example:\n",
	} {
		_, diags := loadUsual(t, model, "")
		require.Error(t, diags.Err())
		require.Contains(t, printed(t, diags), want, model)
		require.NotContains(t, printed(t, diags), "\x1b")
	}
}
