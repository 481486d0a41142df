package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

const reachRoute = `
route "small" {
  provider       = "local"
  model          = local.name
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
`

const reachServing = `
include "parts/*.hcl"
variable "zone" {
  default = "eu"
}
locals {
  key  = env("UPSTREAM_KEY")
  name = "echo"
}
gateway {
  plugin_dir = "plugins"
}
provider "local" {
  plugin = "echo"
  config {
    reply = local.key
  }
}
` + reachRoute

// TestReach: what somebody writes elsewhere takes nothing of this machine that the files on it do not take, at the
// same place.
func TestReach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, part := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "parts", "a.hcl")
	require.NoError(t, os.MkdirAll(filepath.Dir(part), 0o700))
	partText := "plan \"a\" {}\nlocals {\n  other = file(\"x.key\")\n}\n"
	cfg := &config.Config{Path: path, Files: []config.File{{Path: path, Text: new(reachServing)},
		{Path: part, Text: &partText}, {Path: filepath.Join(dir, "parts", "x.key")}}}
	with := func(old, now string) string {
		require.Contains(t, reachServing, old)
		return strings.Replace(reachServing, old, now, 1)
	}
	for name, text := range map[string]string{
		"the same":            reachServing,
		"another price":       with("0.05", "0.07"),
		"another literal":     with(`"echo"`+"\n}", `"other"`+"\n}"),
		"less of everything":  reachRoute,
		"one more provider":   reachServing + "provider \"two\" {\n  plugin = \"echo\"\n}",
		"what does not parse": `include "/etc/*"` + "\nprovider {{{",
		"a local of its own":  with(`name = "echo"`, "name = upper(local.base)\n  base = \"echo\""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, cfg.CheckReach(path, text).Err())
		})
	}
	const name = `model          = local.name`
	for attack, text := range map[string]string{
		"include":                    reachServing + "\ninclude \"/etc/passwd\"\n",
		"include of another pattern": with(`"parts/*.hcl"`, `"parts/../*"`),
		"another variable":           reachServing + "variable \"path\" {}\n",
		"env":                        with(name, `model = env("HOME")`),
		"env in a template":          with(name, `model = "x-${env("HOME")}"`),
		"env in a function":          with(name, `model = upper(env("HOME"))`),
		"env in a for":               with(name, `model = join("", [for x in ["HOME"] : env(x)])`),
		"env of the serving, shown":  with(name, `model = env("UPSTREAM_KEY")`),
		"env of a local":             with(`env("UPSTREAM_KEY")`, `env(local.name)`),
		"file":                       with(name, `model = file("/etc/shadow")`),
		"file of the serving":        with(name, `model = file("parts/x.key")`),
		"file of another folder":     with(`"echo"`+"\n}", "\"echo\"\n  other = file(\"x.key\")\n}"),
		"local of a secret, shown":   with(name, `model = local.key`),
		"by another local":           with(`name = "echo"`, `name = local.key`),
		"by an index":                with(name, `model = local["key"]`),
		"by a computed index":        with(name, `model = local[lower("KEY")]`),
		"all locals":                 with(name, `model = join(",", values(local))`),
		"a local of an included":     with(name, `model = local.other`),
		"a variable, shown":          with(name, `model = var.zone`),
		"plugin_dir":                 with(`"plugins"`, `"/tmp"`),
		"a plugin_dir of a local":    with(`"plugins"`, `local.name`),
		"a program":                  with(`plugin = "echo"`, `plugin = "evil"`),
		"a program of a local":       with(`plugin = "echo"`, `plugin = local.name`),
		"one more program":           reachServing + "provider \"two\" {\n  plugin = \"evil\"\n}",
		"another file of a program":  with(`plugin = "echo"`, "plugin = \"echo\"\n  sha256 = \"00\""),
		"a model":                    reachServing + "predictor {\n  model = \"/etc/shadow\"\n}",
		"rules":                      reachServing + "screening {\n  rules = \"/etc/shadow\"\n}",
		"a secret of a provider":     reachServing + "provider \"two\" {\n  plugin = \"echo\"\n  config {\n    url = local.key\n  }\n}",
	} {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			d := cfg.CheckReach(path, text)
			require.True(t, d.HasErrors())
			require.NotZero(t, d.All()[0].Line)
			require.Contains(t, d.All()[0].Detail, "gateway plan")
		})
	}
	require.True(t, cfg.CheckReach(part, partText+"include \"/etc/passwd\"\n").HasErrors(), "an included file as well")
	require.NoError(t, cfg.CheckReach(part, partText).Err())
}
