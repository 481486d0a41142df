package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// printedValues are the values of a configuration as JSON, flat: "routes.0.price.input".
func printedValues(t *testing.T, c *Config) map[string]string {
	t.Helper()
	flat := make(map[string]string)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if object, ok := v.(map[string]any); ok {
			for name, inner := range object {
				walk(path+"."+name, inner)
			}
			return
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			if _, ok := list[0].(map[string]any); ok {
				for _, inner := range list {
					name := inner.(map[string]any)["name"]
					walk(path+"."+strings.Trim(string(encoded(t, name)), `"`), inner)
				}
				return
			}
		}
		flat[strings.TrimPrefix(path, ".")] = string(encoded(t, v))
	}
	var whole any
	require.NoError(t, json.Unmarshal(encoded(t, c), &whole))
	walk("", whole)
	return flat
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// printedAs are the attributes that the JSON has under other names than the language.
var printedAs = map[string]string{
	"quality default":            "quality", // alone
	"special graphics terms":     "graphics.terms",
	"special long_context above": "long_context.above",
}

// TestEveryAttributeDecides: each attribute of the grammar is read, into a field of its own, and printed under its
// own name: another value of it is another configuration, there and nowhere else.
func TestEveryAttributeDecides(t *testing.T) {
	t.Parallel()
	for block, g := range bodies() {
		if block == "variable" { // its values go where they are used
			continue
		}
		for _, rule := range g.attributes {
			if rule.secret && rule.name != "url" || rule.kind.name == aPEM.name || g == &postgresGrammar {
				continue // what must not be printed, and certificates: TestRedis
			}
			values := append([]string{rule.example}, rule.kind.samples()...)
			for _, choice := range rule.kind.choices {
				values = append(values, `"`+choice+`"`, `["`+choice+`"]`)
			}
			name := rule.name
			if other := printedAs[block+" "+name]; other != "" {
				name = other
			}
			seen := make(map[string]bool)
			for _, value := range values {
				text := around(block, rule.name+" = "+value)
				switch rule.name { // they need another one
				case "sha256":
					text = "gateway {\n  plugin_dir = \"plugins\"\n}\n" + text
				case "links":
					text += "portal {\n  url = \"https://ai.example.com\"\n}\n"
				case "plugin":
					const other = "plugin = \"anthropic\"\n  config {\n    api_key = env(\"SECRET_TOKEN\")\n  }"
					text = map[string]string{rule.example: minimal,
						`"x"`: strings.Replace(minimal, `plugin = "echo"`, other, 1)}[value]
				case "provider":
					text = strings.ReplaceAll(minimal, `"local"`, value)
				case "rules":
					path := filepath.Join(t.TempDir(), "policy.hcl")
					require.NoError(t, os.WriteFile(path, nil, 0o600))
					text = around(block, fmt.Sprintf("%s = %q", rule.name, path))
				case "model":
					if block == "predictor" {
						path := filepath.Join(t.TempDir(), "routes.model")
						require.NoError(t, os.WriteFile(path, nil, 0o600))
						text = around(block, fmt.Sprintf("%s = %q", rule.name, path))
					}
				case "train":
					text = around(block, rule.name+" = "+map[string]string{`"x"`: `"04:30"`, rule.example: rule.example}[value])
				case "text_keep":
					text = around(block, rule.name+" = "+value+"\ntext = true")
				case "steps":
					text = strategyOf("single", rule.name+" = "+value)
				case "seats":
					text = strategyOf("agree", "escalate = \"xx\"", rule.name+" = "+strings.Replace(value, "[", `["small", `, 1))
				case "escalate":
					text = strategyOf("agree", `seats = ["small", "xx"]`, rule.name+" = "+value)
				case "judge":
					text = strategyOf("panel", `seats = ["small", "xx"]`, rule.name+" = "+value)
				case "validator":
					text = strategyOf("cascade", `steps = ["small", "xx"]`, rule.name+" = "+value)
				case "when":
					text = strategyOf("single", `steps = ["small", "xx"]`, rule.name+" = "+value)
				case "kind":
					text = strategyOf(strings.Trim(value, `"`), `steps = ["small", "xx"]`)
				case "route":
					text = strategyOf("single", `steps = ["small", "xx"]`) +
						"profile \"max\" {\n cost = 1\n quality = 1\n shadow {\n" + rule.name + " = " + value + "\n share = 1\n }\n}\n"
				case "hedge_share":
					text = around(block, rule.name+" = "+value+"\nhedge = \"p95\"")
				case "from":
					if value == `"x"` {
						text = around(block, `from = "x@example.test"`)
					}
				case "to":
					if value == `["xx"]` {
						text = around(block, `to = ["x@example.test"]`)
					}
				case "username":
					text = around(block, rule.name+" = "+value+"\npassword = env(\"SECRET_TOKEN\")")
				case "issuer":
					if value == `"x"` {
						text = around(block, `issuer = "https://x.example.test"`)
					}
				case "maximum_credits":
					if value == `300` {
						text = around(block, `maximum_credits = 600`)
					}
				case "currency":
					if value == `"x"` {
						text = around(block, `currency = "usd"`)
					}
				case "operators":
					text = around(block, rule.name+" = "+strings.NewReplacer("stop", "support", "length", "admin").Replace(value))
				case "url":
					if block == "webhook" || block == "portal" {
						if value == `"x"` {
							text = around(block, `url = "https://x.example.test"`)
						}
						break
					}
					text = around(block, rule.name+" = "+map[string]string{`"x"`: `"rediss://x"`, `"y"`: `"redis://y"`}[value])
				case "master":
					text = around(block, rule.name+" = "+value+"\nmode = \"sentinel\"")
				case "max_processes":
					text = around(block, rule.name+" = "+value+"\nuser = \"plugins\"")
				}
				c, diags := loadText(t, text)
				if diags.HasErrors() { // another attribute says what it may be
					continue
				}
				c.Path, c.Files, c.Hash = "", nil, ""
				for path, printed := range printedValues(t, c) {
					if path == name || strings.HasSuffix(path, "."+name) || strings.Contains(path, "."+name+".") {
						seen[path+" "+printed] = true
					}
				}
			}
			paths := make(map[string]int)
			for s := range seen {
				path, _, _ := strings.Cut(s, " ")
				paths[path]++
			}
			require.GreaterOrEqual(t, slices.Max(append(slices.Collect(maps.Values(paths)), 0)), 2,
				"%s in %s: no two values of it (%s) are printed as two: %v", rule.name, block, values, seen)
		}
	}
}

// strategyOf is a configuration with the routes "small", "x", "y", "xx" and "yy", and a strategy of a kind.
func strategyOf(kind string, lines ...string) string {
	text := minimal
	at := strings.Index(text, "route \"small\"")
	for _, name := range []string{"x", "y", "xx", "yy"} {
		text += "\n" + strings.Replace(minimal[at:], "small", name, 1)
	}
	return text + "\nstrategy \"s\" {\n kind = \"" + kind + "\"\n" + strings.Join(lines, "\n") + "\n}\n"
}

// samples are values of a kind, as they are written.
func (k *kind) samples() []string {
	switch {
	case k.most > 0:
		return []string{"33", "44", "300", "400"}
	case k.longest > 0:
		return []string{`"21s"`, `"22s"`, `"22ms"`}
	}
	return []string{"true", "false", `"41MiB"`, `"42MiB"`, "0.25", "0.75", `["xx"]`, `["yy"]`, `{ a = "stop" }`,
		`{ a = "length" }`, `"x"`, `"y"`, `"` + strings.Repeat("a1", 32) + `"`, `"` + strings.Repeat("b2", 32) + `"`}
}

// TestEveryFieldIsPrinted: what a struct of the configuration holds stands in its JSON, which is what `plan` compares.
func TestEveryFieldIsPrinted(t *testing.T) {
	t.Parallel()
	for _, zero := range []any{Config{}, Gateway{}, Special{}, Store{}, Limiter{}, PreAuth{}, Strategy{},
		Provider{}, Confine{}, Key{},
		Route{},
		Price{}, Profile{}, Shadow{}, Plan{}, RequestsPerMinute{}, Breaker{}, RetryBudget{}} {
		kind := reflect.TypeOf(zero)
		before := string(encoded(t, zero))
		for _, field := range reflect.VisibleFields(kind) {
			if !field.IsExported() || kind.Name()+"."+field.Name == "Key.Identity" {
				continue // Identity is a digest of a secret
			}
			one := reflect.New(kind).Elem()
			fill(t, one.FieldByIndex(field.Index))
			if field.Type == reflect.TypeFor[settings.Values]() { // shown without secrets, by what the decoder says is none
				one = reflect.ValueOf(shown(one.Interface()))
			}
			require.NotEqual(t, before, string(encoded(t, one.Interface())), "%s.%s", kind.Name(), field.Name)
		}
	}
}

// shown has settings of which the decoder says that they may be printed.
func shown(v any) any {
	switch v := v.(type) {
	case Provider:
		v.printable = v.Settings
		return v
	case Key:
		v.printable = v.Settings
		return v
	}
	return v
}

// fill gives a field a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[Model]():
		v.Set(reflect.ValueOf(knownModel{}))
		return
	case reflect.TypeFor[Terms]():
		v.Set(reflect.ValueOf(NewTerms([]string{"x"})))
		return
	case reflect.TypeFor[ModelNames]():
		names, err := NewModelNames([]string{"x"})
		require.NoError(t, err)
		v.Set(reflect.ValueOf(names))
		return
	case reflect.TypeFor[*Condition]():
		v.Set(reflect.ValueOf(&Condition{text: "true"}))
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7 * int64(time.Second))
	case reflect.Float64:
		v.SetFloat(.5)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`"x"`))
			return
		}
		one := reflect.New(v.Type().Elem()).Elem()
		if one.Kind() == reflect.String {
			one.SetString("x")
		}
		v.Set(reflect.Append(v, one))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("fill knows no %v", v.Type())
	}
}

// TestJSONIsTheLanguage: what is printed of a configuration has the names of the grammar, and the few of here.
func TestJSONIsTheLanguage(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"path": true, "files": true, "hash": true, // where it is from
		"name": true, "kind": true, "graphics": true, "long_context": true, // the labels of blocks
		"settings":     true,                      // config, with what the plugin adds to it
		"tiers":        true,                      // above, as a list
		"from":         true,                      // the label of a price
		"later_prices": true, "later_costs": true, // price and cost with such a label
	}
	blocks, attributes := ownNames()
	for name := range attributes {
		known[name] = true
	}
	for name := range blocks {
		known[name], known[name+"s"], known[strings.TrimSuffix(name, "y")+"ies"] = true, true, true
	}
	files, err := filepath.Glob("testdata/*/*/want.json")
	require.NoError(t, err)
	more, err := filepath.Glob("testdata/good/*.json")
	require.NoError(t, err)
	seen := make(map[string]bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			for name, inner := range v {
				seen[name] = true
				if name == "rule" || name == "webhook" || name == "mail" || name == "oidc" { // by name
					for _, rule := range inner.(map[string]any) {
						walk(rule)
					}
					continue
				}
				if name != "settings" && name != "finish_reasons" && name != "operators" { // their names are others' to give
					walk(inner)
				}
			}
		}
	}
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(text, &v))
		walk(v)
	}
	require.Greater(t, len(seen), 60)
	for name := range seen {
		require.Contains(t, known, name)
	}
}
