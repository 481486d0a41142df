package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What the test surroundings hold. The first two must never be printed anywhere.
const (
	secretToken = "sk-from-env-hunter2"
	secretFile  = "sk-from-file-hunter2"
	// Every literal in testdata that stands where a secret was meant contains this.
	secretLiteral = "hunter2"
)

func testEnv(name string) (string, bool) {
	text, ok := map[string]string{
		"SECRET_TOKEN":      secretToken,
		"ANTHROPIC_API_KEY": secretToken,
		"BASE_URL":          "https://user:" + secretToken + "@example.test/v1",
		"MODEL":             "model-of-the-day",
		"BASE_URL_REDIS":    "redis://me:" + secretToken + "@one.test,two.test:26380",
		"WINDOW":            "131072",
		"QUALITY":           "0.7",
		"PRICE":             "0.05",
		"COUNT":             "12",
		"CAREFUL":           "true",
		"EMPTY":             "",
		"HOOK_SECRET":       "whsec_hunter2hunter2hunter2hunter2hunt",

		"STRIPE_SECRET_KEY":     "sk_test_hunter2hunter2",
		"STRIPE_WEBHOOK_SECRET": "whsec_hunter2hunter2",
		"HOOK_SHORT":            "whsec_hunter2hunter2",
		"HOOK_URL":              "https://hooks.example.test/" + secretToken,

		"FAREWAY_VAR_COUNT":       "12",
		"FAREWAY_VAR_number":      " 45 ",
		"FAREWAY_VAR_flag":        "true",
		"FAREWAY_VAR_list":        `["b", "c"]`,
		"FAREWAY_VAR_outside_key": "one-hunter2,two-hunter2",
		"FAREWAY_VAR_NUMBER":      "hunter2",
		"FAREWAY_VAR_FLAG":        "hunter2",
		"FAREWAY_VAR_LIST":        `{"hunter2": 1}`,
		"FAREWAY_VAR_JSON_NULL":   "null",
		"FAREWAY_VAR_NOT_TEXT":    "hunter2\xff",
		"FAREWAY_VAR_EXTREME":     "1e99999",
		"NOT_TEXT":                "hunter2\xff",
		"ENDLESS":                 "1" + strings.Repeat("0", 1000),
	}[name]
	return text, ok
}

// testSchema knows a few plugins like those that exist, and one with every kind of setting.
func testSchema(_ context.Context, ref PluginRef) (settings.Schema, error) {
	key := settings.Attribute{Name: "api_key", Type: settings.String, Secret: true}
	url := settings.Attribute{Name: "base_url", Type: settings.String, Required: true}
	switch ref.Plugin {
	case "echo":
		return settings.Schema{Attributes: []settings.Attribute{{Name: "delay", Type: settings.String}}}, nil
	case "openai":
		return settings.Schema{Attributes: []settings.Attribute{url, key}}, nil
	case "anthropic":
		key.Required = true
		return settings.Schema{Attributes: []settings.Attribute{key}}, nil
	case "everything":
		return settings.Schema{
			Attributes: []settings.Attribute{
				{Name: "name", Type: settings.String, Required: true},
				{Name: "token", Type: settings.String, Secret: true},
				{Name: "prefixed", Type: settings.String, Secret: true},
				{Name: "tokens", Type: settings.ListString, Secret: true},
				{Name: "headers", Type: settings.MapString, Secret: true},
				{Name: "temperature", Type: settings.Number},
				{Name: "count", Type: settings.Number},
				{Name: "careful", Type: settings.Bool},
				{Name: "tags", Type: settings.ListString},
				{Name: "labels", Type: settings.MapString},
				{Name: "preset", Type: settings.String, OneOf: []string{"groq", "mistral", "xai"}},
				{Name: "patience", Type: settings.String, Duration: true},
			},
			Blocks: []settings.Block{
				{Name: "endpoint", Schema: settings.Schema{Attributes: []settings.Attribute{
					{Name: "url", Type: settings.String, Required: true},
					{Name: "token", Type: settings.String, Secret: true},
				}}},
				{Name: "retry", Many: true, Schema: settings.Schema{Attributes: []settings.Attribute{
					{Name: "after", Type: settings.String, Required: true},
				}}},
			},
		}, nil
	case "newer":
		return settings.Schema{Attributes: []settings.Attribute{{Name: "when", Type: "timestamp"}}}, nil
	case "twice":
		return settings.Schema{Attributes: []settings.Attribute{key, key}}, nil
	}
	return settings.Schema{}, errors.New("finding plugin: there is no built-in provider of this name; the built-in " +
		"ones are echo and openai")
}

func testLoad(t testing.TB, path string) (*Config, *Diagnostics) {
	t.Helper()
	can := func(_ context.Context, ref PluginRef, _ string) bool { return ref.Plugin != "openai" }
	return Load(t.Context(), path, Options{Schema: testSchema, Can: can, Env: testEnv})
}

// loadText loads a text as a file of its own.
func loadText(t testing.TB, text string) (*Config, *Diagnostics) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return testLoad(t, path)
}

// printed is what Write says to people.
func printed(t testing.TB, diags *Diagnostics) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, diags.Write(&b, false))
	return b.String()
}

// requireNoSecret looks at every form in which findings and a configuration leave this package.
func requireNoSecret(t testing.TB, config *Config, diags *Diagnostics) {
	t.Helper()
	asJSON, err := json.Marshal(diags)
	require.NoError(t, err)
	forms := []string{printed(t, diags), string(asJSON), diags.Error(), fmt.Sprintf("%+v", diags.All()),
		fmt.Sprintf("%#v", diags.All())}
	if config != nil {
		asJSON, err = json.Marshal(config)
		require.NoError(t, err)
		forms = append(forms, string(asJSON), config.String(), fmt.Sprintf("%v %+v %#v", config, *config, *config))
	}
	for _, form := range forms {
		require.NotContains(t, form, secretLiteral)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	require.Equal(t, string(want), string(got))
}

func examples(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.hcl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestGoodFiles(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	for _, path := range examples(t, "good") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			config, diags := testLoad(t, path)
			require.NoError(t, diags.Err())
			require.Regexp(t, "^[0-9a-f]{64}$", config.Hash)
			requireNoSecret(t, config, diags)

			text := config.String()
			text = strings.ReplaceAll(text, here+string(filepath.Separator), "HERE/")
			text = strings.ReplaceAll(text, config.Hash, "HASH")
			golden(t, strings.TrimSuffix(path, ".hcl")+".json", []byte(text+"\n"))

			warnings := strings.TrimSuffix(path, ".hcl") + ".txt"
			if len(diags.All()) > 0 {
				golden(t, warnings, []byte(printed(t, diags)))
			} else {
				require.NoFileExists(t, warnings)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	files := examples(t, "bad")
	require.GreaterOrEqual(t, len(files), 30)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			config, diags := testLoad(t, path)
			require.Nil(t, config)
			require.Error(t, diags.Err())
			requireNoSecret(t, nil, diags)
			golden(t, strings.TrimSuffix(path, ".hcl")+".txt", []byte(printed(t, diags)))
		})
	}
}

// A run with -update must not bless a leak: the golden files themselves are searched, too.
func TestGoldenFilesHoldNoSecret(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"testdata/*/*.json", "testdata/bad/*.txt", "testdata/good/*.txt"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.False(t, bytes.Contains(text, []byte(secretLiteral)), path)
		}
	}
}
