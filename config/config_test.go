package config

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// minimal is a whole configuration, before which a test writes what it is about.
const minimal = `
provider "local" {
  plugin = "echo"
}
route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 0.20
  }
}
`

func TestDefaults(t *testing.T) {
	t.Parallel()
	config, diags := loadText(t, minimal)
	require.Empty(t, diags.All())
	require.NoError(t, diags.Err())

	require.Equal(t, Store{Kind: "sqlite", Path: "fareway.db", Durability: DurablePower}, config.Store)
	require.Equal(t, 10*time.Minute, config.Gateway.RequestTimeout)
	require.Equal(t, int64(32<<20), config.Gateway.MaxBody, "GAP-17")
	require.Empty(t, config.Gateway.PluginDir)
	require.Equal(t, 10*time.Second, config.Providers[0].StartTimeout)
	require.JSONEq(t, "{}", string(config.Providers[0].Settings))
	require.Equal(t, MeteringReported, config.Routes[0].Metering)
	require.Equal(t, 5*time.Minute, config.Routes[0].Timeout)

	t.Run("PROF-05 the default profile is balanced", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "balanced", config.Gateway.DefaultProfile)
	})
	t.Run("BILL-01 three dollars per million tokens are 300 microcents per token", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, int64(300)*1_000_000, config.Routes[0].Price.Input)
	})
	t.Run("cache prices are the input price", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, Price{Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 20_000_000},
			config.Routes[0].Price)
	})
}

func TestSettingsReachThePluginWhole(t *testing.T) {
	t.Parallel()
	config, diags := testLoad(t, "testdata/good/secrets.hcl")
	require.NoError(t, diags.Err())
	require.JSONEq(t, `{
		"name": "plain",
		"token": "sk-from-env-hunter2",
		"prefixed": "Bearer sk-from-env-hunter2",
		"tokens": ["sk-from-env-hunter2", "sk-from-file-hunter2"],
		"headers": {"x-auth": "sk-from-env-hunter2", "x-key": "sk-from-file-hunter2"},
		"temperature": 0.3,
		"count": 12,
		"careful": true,
		"tags": ["a", "b"],
		"labels": {"team": "red", "cost centre": "42"},
		"endpoint": {"url": "http://user:sk-from-env-hunter2@host/", "token": "sk-from-file-hunter2"},
		"retry": [{"after": "1s"}, {"after": "2s"}]
	}`, string(config.Providers[0].Settings))
}

func TestSchemaIsAskedOncePerPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	text := `gateway { plugin_dir = "plugins" }` + "\n" + minimal
	digest := strings.Repeat("aB", 32)
	for i, pin := range []string{"", "", digest} {
		text += fmt.Sprintf("provider \"p%d\" {\n  plugin = \"echo\"\n", i)
		if pin != "" {
			text += fmt.Sprintf("  sha256 = %q\n", pin)
		}
		text += "}\n"
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	var asked []PluginRef
	_, diags := Load(t.Context(), path, Options{Schema: func(_ context.Context, ref PluginRef) (settings.Schema, error) {
		asked = append(asked, ref)
		return settings.Schema{}, nil
	}})
	require.NoError(t, diags.Err())
	plugins := filepath.Join(dir, "plugins")
	require.Equal(t, []PluginRef{
		{Plugin: "echo", Dir: plugins},
		{Plugin: "echo", Dir: plugins, SHA256: strings.ToLower(digest)},
	}, asked)
}

func TestAPluginThatIsAskedHasItsStartTimeout(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	for setting, want := range map[string]time.Duration{"": 0, `start_timeout = "90s"`: 90 * time.Second} {
		text := strings.Replace(minimal, `"echo"`, "\"echo\"\n  "+setting, 1)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		var got time.Duration
		_, diags := Load(t.Context(), path, Options{Schema: func(_ context.Context, ref PluginRef) (settings.Schema, error) {
			got = ref.StartTimeout
			return settings.Schema{}, nil
		}})
		require.NoError(t, diags.Err())
		require.Equal(t, want, got)
	}
}

// What of a confinement cannot be had is said plainly, and is no error.
func TestAConfinementThatCannotBeHadIsAWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	confine := "\"echo\"\n  confine {\n    user = \"plugins\"\n    max_files = 100\n    max_processes = 50\n  }"
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(minimal, `"echo"`, confine, 1)), 0o600))
	want := Confine{User: "plugins", MaxFiles: 100, MaxProcesses: 50}
	cfg, diags := Load(t.Context(), path, Options{Unconfined: func(c Confine) []string {
		require.Equal(t, want, c)
		return []string{"user: only root can do that"}
	}})
	require.False(t, diags.HasErrors())
	require.Equal(t, want, cfg.Providers[0].Confine)
	var text strings.Builder
	require.NoError(t, diags.Write(&text, false))
	require.Contains(t, text.String(), "Warning: Not confined as written")
	require.Contains(t, text.String(), "The provider runs nevertheless, without user: only root can do that.")
}

func TestWithoutSchemaNoPluginHasSettings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(minimal), 0o600))
	_, diags := Load(t.Context(), path, Options{})
	require.NoError(t, diags.Err())

	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(minimal, `"echo"`,
		"\"echo\"\n  config {\n    delay = \"1s\"\n  }", 1)), 0o600))
	_, diags = Load(t.Context(), path, Options{})
	require.ErrorContains(t, diags.Err(), `Unknown setting "delay"`)
}

func TestHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, key := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "key")
	text := strings.Replace(minimal, `"echo"`, "\"echo\"\n  config {\n    delay = file(\"key\")\n  }", 1)
	load := func() *Config {
		config, diags := testLoad(t, path)
		require.NoError(t, diags.Err())
		return config
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(key, []byte("1s\n"), 0o600))
	first := load()
	require.Equal(t, []File{{path, digest([]byte(text)), &text}, {Path: key, SHA256: digest([]byte("1s\n"))}}, first.Files,
		"what file() brings is nobody's to keep")
	require.Equal(t, first.Files, Named(path, nil))
	require.Equal(t, first.Hash, Digest(path), "who watches the files compares the two")
	require.JSONEq(t, `{"delay": "1s"}`, string(first.Providers[0].Settings))
	require.Equal(t, first.Hash, load().Hash)

	require.NoError(t, os.WriteFile(key, []byte("2s\n"), 0o600))
	second := load()
	require.NotEqual(t, first.Hash, second.Hash, "a file that is named has changed")

	require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	require.NotEqual(t, second.Hash, load().Hash, "the file itself has changed")
}

// The digest tells apart what file a content is of, and where it ends: contents can spell names.
// TestDigest has a file that cannot be loaded here: a variable is not set and the plugin unknown. A reload takes an
// edit (modules/manual/operating.md).
func TestDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, key := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "key")
	require.Empty(t, Digest(path), "no file")
	require.Equal(t, []File{{Path: path}}, Named(path, nil), "it is watched until it comes back")
	body := "env(\"FAREWAY_NEVER_SET\")\n  config {\n    delay = [\"${file(\"key\")}\"]\n  }"
	text := strings.Replace(minimal, `"echo"`, body, 1)
	seen := map[string]string{}
	fresh := func(what string) {
		t.Helper()
		digest := Digest(path)
		require.Equal(t, digest, Digest(path), what)
		require.Regexp(t, "^[0-9a-f]{64}$", digest)
		require.NotContains(t, seen, digest, what)
		seen[digest] = what
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	fresh("the file that is named is missing")
	require.Equal(t, []File{{path, digest([]byte(text)), &text}, {Path: key}}, Named(path, nil))
	require.NoError(t, os.WriteFile(key, []byte("1s\n"), 0o600))
	fresh("it is there")
	require.NoError(t, os.WriteFile(key, []byte("2s\n"), 0o600))
	fresh("it has changed")
	require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	fresh("the file itself has changed")
	require.NoError(t, os.WriteFile(path, []byte(text+"}\n"), 0o600))
	fresh("it does not parse")
	require.NoError(t, os.WriteFile(path, []byte(text+"}}\n"), 0o600))
	fresh("it does not parse, and has changed")
}

// TestOverlay: a candidate is loaded as if it were installed.
func TestOverlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("7"), 0o600))
	text := minimal + "plan \"p\" {\n  spend_cap_credits = file(\"key\")\n}\n"
	load := func(text string) (*Config, *Diagnostics) {
		return Load(context.Background(), path, Options{Overlay: Overlay{path: &text}})
	}
	cfg, diags := load(text)
	require.NoError(t, diags.Err())
	require.EqualValues(t, 7, cfg.Plans[0].SpendCapCredits, "what it names is beside the path")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.Equal(t, cfg.Hash, Digest(path), "installed, it is the same")
	changed, diags := load(text + "\n")
	require.NoError(t, diags.Err())
	require.NotEqual(t, cfg.Hash, changed.Hash, "and what is installed does not matter")

	_, diags = load(strings.Repeat("#", maxSource+1))
	require.ErrorContains(t, diags, "larger than 4 MiB")
	_, diags = load(strings.Repeat("#", maxSource))
	require.NotContains(t, diags.Error(), "larger than 4 MiB")
}

func TestHashOfNamesAndContents(t *testing.T) {
	t.Parallel()
	of := func(names, contents []string) string {
		var files []File
		for i, name := range names {
			files = append(files, File{Path: name, SHA256: digest([]byte(contents[i]))})
		}
		return hash(files)
	}
	names := []string{"/g", "/a", "/b"}
	hashes := map[string]bool{
		of(names, []string{"text", "1", "2"}):                      true,
		of(names, []string{"text", "2", "1"}):                      true,
		of(names, []string{"text", "", "12"}):                      true,
		of([]string{"/h", "/a", "/b"}, []string{"text", "1", "2"}): true,
		of([]string{"/g", "/a", "/c"}, []string{"text", "1", "2"}): true,
		of(names, []string{"text", "x/by", "z"}):                   true,
		of(names, []string{"text", "x", "y/bz"}):                   true,
	}
	require.Len(t, hashes, 7)
}

func TestPrintingHidesSecrets(t *testing.T) {
	t.Parallel()
	config, diags := testLoad(t, "testdata/good/secrets.hcl")
	require.NoError(t, diags.Err())
	byHand := Provider{Name: "p", Plugin: "echo", Settings: settings.Values(`{"api_key":"sk-hunter2"}`)}

	for name, v := range map[string]any{"loaded": config, "value": *config, "provider": config.Providers[0],
		"by hand": byHand, "store": Store{Kind: Postgres, DSN: "postgres://u:" + secretLiteral + "@db/fareway"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asJSON, err := json.Marshal(v)
			require.NoError(t, err)
			var logged strings.Builder
			slog.New(slog.NewTextHandler(&logged, nil)).Info("loaded", "text", v)
			slog.New(slog.NewJSONHandler(&logged, nil)).Info("loaded", "json", v)
			for _, form := range []string{
				string(asJSON), logged.String(), fmt.Sprint(v), fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v),
				fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%q", v), fmt.Sprintf("%x", v),
			} {
				require.NotContains(t, form, secretLiteral)
				require.NotContains(t, form, fmt.Sprintf("%x", secretLiteral))
			}
			require.Contains(t, string(asJSON), hidden)
		})
	}
}

func TestReadmeExampleLoads(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```hcl\n")
	require.True(t, found)
	example, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)

	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	config, diags := Load(t.Context(), path, Options{
		Schema: testSchema,
		Env:    func(name string) (string, bool) { return "key", name == "OPENAI_API_KEY" },
	})
	require.Empty(t, diags.All())
	require.Len(t, config.Routes, 2)

	t.Run("every name of the grammar is described", func(t *testing.T) {
		t.Parallel()
		blocks, attributes := ownNames()
		for name := range attributes {
			require.Contains(t, string(readme), "`"+name+"`")
		}
		for name := range blocks {
			require.Regexp(t, "(?m)^#+ "+name+"|^\\| `"+name+"`", string(readme))
		}
	})
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	with := func(name, kind string) settings.Schema {
		return settings.Schema{Attributes: []settings.Attribute{{Name: name, Type: settings.Type(kind)}}}
	}
	a := with("a", "string")
	require.NoError(t, checkSchema(&settings.Schema{
		Attributes: a.Attributes, Blocks: []settings.Block{{Name: "b", Schema: a}, {Name: "c", Schema: a}},
	}), "each block has names of its own")
	for want, schema := range map[string]settings.Schema{
		`"a" is declared twice`: {Attributes: a.Attributes, Blocks: []settings.Block{{Name: "a"}}},
		`"b" is declared twice`: {Blocks: []settings.Block{{Name: "b"}, {Name: "b"}}},
		`"b c" cannot be`:       {Blocks: []settings.Block{{Name: "b c"}}},
		`"d e" cannot be`:       {Blocks: []settings.Block{{Name: "b"}, {Name: "c", Schema: with("d e", "string")}}},
		`"d f" cannot be`:       {Blocks: []settings.Block{{Name: "b", Schema: with("d f", "string")}, {Name: "c"}}},
		`of type "date"`:        {Blocks: []settings.Block{{Name: "b", Schema: with("a", "date")}}},
	} {
		require.ErrorContains(t, checkSchema(&schema), want)
	}
}
