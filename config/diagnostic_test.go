package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDiagnosticsAsJSON(t *testing.T) {
	t.Parallel()
	path := "testdata/bad/null.hcl"
	_, diags := testLoad(t, path)
	text, err := json.Marshal(diags)
	require.NoError(t, err)
	require.JSONEq(t, `[{"severity": "error", "summary": "keepalive is null", "detail": "Give it a value, or leave the `+
		`line out.",
		"file": "testdata/bad/null.hcl", "line": 2, "column": 15}]`, string(text))

	text, err = json.Marshal(new(Diagnostics))
	require.NoError(t, err)
	require.JSONEq(t, "[]", string(text))
}

func TestDiagnosticsAsError(t *testing.T) {
	t.Parallel()
	_, diags := testLoad(t, "testdata/bad/null.hcl")
	require.EqualError(t, diags.Err(), "loading configuration: testdata/bad/null.hcl:2:15: keepalive is null: Give it "+
		"a value, or leave the line out.")
	_, diags = testLoad(t, "testdata/bad/unknown_attribute.hcl")
	require.ErrorContains(t, diags, "(and 1 more error)")
	_, diags = testLoad(t, "testdata/bad/missing_attributes.hcl")
	require.ErrorContains(t, diags, "(and 7 more errors)")

	_, diags = testLoad(t, "testdata/good/warnings.hcl")
	require.NotEmpty(t, diags.All())
	require.False(t, diags.HasErrors())
	require.NoError(t, diags.Err())
}

func TestWriteInColor(t *testing.T) {
	t.Parallel()
	_, diags := testLoad(t, "testdata/bad/null.hcl")
	var b strings.Builder
	require.NoError(t, diags.Write(&b, true))
	colored := b.String()
	require.Contains(t, colored, ansiRed+"Error:"+ansiReset)
	for _, code := range []string{ansiRed, ansiBold, ansiDim, ansiReset} {
		colored = strings.ReplaceAll(colored, code, "")
	}
	require.Equal(t, printed(t, diags), colored)

	full := errors.New("disk full")
	require.ErrorIs(t, diags.Write(failingWriter{full}, false), full)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestManyFindingsAreCut(t *testing.T) {
	t.Parallel()
	_, diags := loadText(t, "gateway {\n"+numbered("  a%d = 1\n", 500)+"}\n"+minimal)
	require.Len(t, diags.All(), maxDiagnostics)
	require.Contains(t, printed(t, diags), "There are 400 more findings")
	require.ErrorContains(t, diags, "(and 499 more errors)")
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.hcl")
	require.NoError(t, os.WriteFile(large, make([]byte, maxSource+1), 0o600))
	for path, detail := range map[string]string{
		filepath.Join(dir, "none.hcl"): "There is no such file",
		dir:                            "Name a regular file",
		os.DevNull:                     "Name a regular file",
		large:                          "larger than 4 MiB",
	} {
		config, diags := testLoad(t, path)
		require.Nil(t, config)
		require.Len(t, diags.All(), 1)
		require.Contains(t, diags.All()[0].Detail, detail)
		require.Zero(t, diags.All()[0].Line)
		require.Contains(t, printed(t, diags), path)
	}
}

// The system's own words for a file that cannot be read repeat its path, which may be a secret by mistake.
func TestUnreadableFileArgumentIsNotRepeated(t *testing.T) {
	t.Parallel()
	path := `"${env("SECRET_TOKEN")}` + strings.Repeat("x", 300) + `"`
	_, diags := loadText(t, "gateway { namespace = file("+path+") }\n"+minimal)
	requireNoSecret(t, nil, diags)
	require.Contains(t, printed(t, diags), "Reading it failed: file name too long.")
}

func TestLargeFileArgument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fits"), []byte(strings.Repeat("x", maxFile)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), []byte(strings.Repeat("x", maxFile+1)), 0o600))
	load := func(value string) *Diagnostics {
		path := filepath.Join(t.TempDir(), "gateway.hcl")
		value = strings.ReplaceAll(value, "DIR", dir)
		text := strings.Replace(minimal, `"echo"`, "\"echo\"\n  config {\n    delay = "+value+"\n  }", 1)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, diags := testLoad(t, path)
		return diags
	}
	require.NoError(t, load(`file("DIR/fits")`).Err())
	require.ErrorContains(t, load(`file("DIR/large")`).Err(), "larger than 64 KiB")
	require.ErrorContains(t, load(`"`+strings.Repeat(`${file("DIR/fits")}`, 65)+`"`).Err(), "Too much from env and file")
}

// Whatever slip of the pen breaks a file, a key that stands in it is not printed.
func TestSlipsNeverShowTheSecret(t *testing.T) {
	t.Parallel()
	const key = "sk-hunter2"
	texts := []string{
		"provider \"p\" {\n  plugin = \"openai\"\n  config {\n    base_url = \"http://127.0.0.1/v1\"\n    api_key  = \"" +
			key + "\"\n  }\n}\n" + minimal,
		"provider \"p\" {\n  plugin = \"openai\"\n  config {\n    api_key  = <<EOT\n" + key +
			"\nEOT\n    base_url = \"x\"\n  }\n}\n" + minimal,
		"provider \"p\" {\n  plugin = \"anthropic\"\n  # api_key = \"" + key + "\"\n  config { api_key = " + key + " } # " +
			key + "\n}\n" + minimal,
	}
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(r, "text")
		head, tail, _ := strings.Cut(text, key)
		mutate := func(part, name string) string {
			for range rapid.IntRange(0, 2).Draw(r, name+" slips") {
				at := rapid.IntRange(0, len(part)).Draw(r, "at")
				if rapid.Bool().Draw(r, "delete") && at < len(part) {
					part = part[:at] + part[at+1:]
				} else {
					part = part[:at] + rapid.SampledFrom([]string{"\"", "{", "}", "=", "\n", "#", "$", "${", "%{", "[", "(", "\\",
						"<<E\n", "x", " "}).Draw(r, "insert") + part[at:]
				}
			}
			return part
		}
		text = mutate(head, "head") + key + mutate(tail, "tail")
		require.NoError(r, os.WriteFile(path, []byte(text), 0o600))
		_, diags := testLoad(t, path)
		require.NotContains(r, printed(t, diags), key)
		require.NotContains(r, fmt.Sprintf("%+v", diags.All()), key)
	})
}
