package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// bodies are all grammars by the name of their block, and of their label where that decides.
func bodies() map[string]*grammar {
	all := make(map[string]*grammar)
	var walk func(g *grammar)
	walk = func(g *grammar) {
		for _, rule := range g.blocks {
			if rule.body != nil {
				all[rule.name] = rule.body
				walk(rule.body)
			}
			for label, body := range rule.bodies {
				all[rule.name+" "+label] = body
			}
		}
	}
	walk(&fileGrammar)
	return all
}

var generatedTable = regexp.MustCompile(`(?s)(<!-- table of ([a-z_ ]+): go test ./config -update -->\n)` +
	`(.*?)(<!-- end -->\n)`)

// TestReadmeTables: the grammar and the README say the same, for the one is made of the other.
func TestReadmeTables(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	all := bodies()
	seen := map[string]bool{"limiter memory": true, "cost": true, "above": true} // nothing, as price, and as price
	fresh := generatedTable.ReplaceAllStringFunc(string(readme), func(old string) string {
		parts := generatedTable.FindStringSubmatch(old)
		seen[parts[2]] = true
		var b strings.Builder
		switch parts[2] {
		case "functions":
			writeFunctions(&b)
		case "alert events":
			writeAlertEvents(&b)
		default:
			require.Contains(t, all, parts[2])
			writeTable(&b, all[parts[2]])
		}
		return parts[1] + b.String() + parts[4]
	})
	golden(t, "README.md", []byte(fresh))
	for name := range all {
		require.Contains(t, seen, name, "the README has a table of each")
	}
}

// TestPlacesAreTheLanguage: what messages know of the language is all of it.
func TestPlacesAreTheLanguage(t *testing.T) {
	t.Parallel()
	known := []*grammar{&fileGrammar}
	for _, g := range bodies() {
		known = append(known, g)
	}
	require.Len(t, places, len(known))
	for _, p := range places {
		require.Contains(t, known, p.grammar, p.where)
	}
}

// TestEveryAttributeIsDescribed, and what is said of it holds: its example is accepted, and its default is what holds
// without it.
func TestEveryAttributeIsDescribed(t *testing.T) {
	t.Parallel()
	for name, g := range bodies() {
		for _, rule := range g.attributes {
			require.NotEmpty(t, rule.doc, name+" "+rule.name)
			require.NotEmpty(t, rule.kind.name, name+" "+rule.name)
			require.NotEmpty(t, rule.kind.hcl, name+" "+rule.name)
			require.NotEmpty(t, rule.example, name+" "+rule.name)
			require.False(t, strings.ContainsAny(rule.doc, "|\n"), "it stands in a table")
			if name != "variable" && rule.name != "sha256" { // what it stands for is not written out
				requireTrueOf(t, name, rule)
			}
		}
		for _, rule := range g.blocks {
			require.NotEmpty(t, rule.doc, rule.name)
		}
	}
	for _, rule := range fileGrammar.blocks {
		require.NotEmpty(t, rule.doc, rule.name)
	}
}

// requireTrueOf loads a configuration with the example of an attribute, and one with its default written out.
func requireTrueOf(t *testing.T, block string, rule attributeRule) {
	t.Helper()
	load := func(value string) *Config {
		line := "# nothing"
		if value != "" {
			line = rule.name + " = " + value
		}
		config, diags := loadText(t, around(block, line))
		if diags.HasErrors() { // it may need another one, which the example of the block has
			require.NotContains(t, diags.Error(), "Invalid "+rule.name, block)
			require.NotContains(t, diags.Error(), "Unknown", block)
			return nil
		}
		config.Path, config.Hash, config.Files = "", "", nil
		return config
	}
	load(rule.example)
	if rule.fallback != "" {
		require.NotNil(t, load(""), block+" "+rule.name)
		require.Equal(t, load("").String(), load(rule.fallback).String(), block+" "+rule.name)
	}
}

// around is a whole configuration with a line in a block.
func around(block, line string) string {
	set := regexp.MustCompile(`^(\w+) =`).FindStringSubmatch(line)
	drop := func(text string) string { // what the line sets is not set twice
		if set == nil {
			return text
		}
		return regexp.MustCompile(`(?m)^ *`+set[1]+` += .*\n`).ReplaceAllString(text, "")
	}
	provider, route, _ := strings.Cut(minimal, "route")
	route, price, _ := strings.Cut("route"+route, "  price {\n")
	price, _, _ = strings.Cut(price, "  }")
	top := ""
	switch name, label, _ := strings.Cut(block, " "); block {
	case "provider":
		provider = strings.Replace(drop(provider), "{\n", "{\n"+line+"\n", 1)
	case "key":
		provider = "provider \"local\" {\nplugin = \"anthropic\"\nkey \"k\" {\napi_key = env(\"SECRET_TOKEN\")\n" + line +
			"\n}\n}\n"
	case "confine":
		provider = strings.Replace(provider, "{\n", "{\nconfine {\n"+line+"\n}\n", 1)
	case "route":
		route = drop(route) + line + "\n"
	case "quality":
		route = regexp.MustCompile(`(?m)^ *quality += .*\n`).ReplaceAllString(route, "") + "quality {\n" +
			drop("default = 0.5\n") + line + "\n}\n"
	case "price", "cost":
		price = drop(price) + line + "\n"
	case "above":
		price += "above \"1000\" {\n" + drop(price) + line + "\n}\n"
	case "profile":
		top = "profile \"max\" {\n" + drop("cost = 1\nquality = 1\n") + line + "\n}\n"
	case "shadow":
		route = strings.Replace(route, `"small"`, `"deep"`, 1)
		top = "profile \"max\" {\ncost = 1\nquality = 1\nshadow {\n" + drop("route = \"deep\"\nshare = 1\n") + line +
			"\n}\n}\n"
	case "plan":
		top = "plan \"p\" {\n" + line + "\n}\n"
	case "requires":
		top = "plan \"p\" {\nrequires {\n" + line + "\n}\n}\n"
	case "requests_per_minute":
		top = "plan \"p\" {\nrequests_per_minute {\n" + line + "\n}\n}\n"
	case "suspend_after_declines":
		top = "plan \"p\" {\nsuspend_after_declines {\n" + line + "\n}\n}\n"
	case "predictor":
		top = "predictor {\n" + drop("provider = \"local\"\n") + line + "\n}\n"
	case "screening":
		top = "screening {\n" + drop("provider = \"local\"\n") + line + "\nrule \"r\" {\nterms = [\"nitroglycerin\"]\n}\n}\n"
	case "rule":
		top = "screening {\nrule \"r\" {\n" + drop("terms = [\"nitroglycerin\"]\n") + line + "\n}\n}\n"
	case "webhook":
		top = "alerts {\nwebhook \"ops\" {\n" + drop("url = \"https://hooks.example.test\"\n"+
			"secret = env(\"HOOK_SECRET\")\n") + line + "\n}\n}\n"
	case "mail":
		top = "alerts {\nmail \"ops\" {\n" + drop("server = \"smtp.example.test\"\nfrom = \"a@example.test\"\n"+
			"to = [\"b@example.test\"]\n") + line + "\n}\n}\n"
	case "oidc":
		top = "portal {\noidc \"company\" {\n" + drop("issuer = \"https://id.example.test\"\n"+
			"client_id = \"fareway\"\n") + line + "\n}\n}\n"
	case "stripe":
		top = "portal {\nstripe {\n" + drop("secret_key = env(\"STRIPE_SECRET_KEY\")\n"+
			"webhook_secret = env(\"STRIPE_WEBHOOK_SECRET\")\ncurrency = \"eur\"\nunit_amount = 95\n"+
			"unit_credits = 100\n") + line + "\n}\n}\n"
	case "cache memory":
		top = "cache \"memory\" {\n" + line + "\n}\n"
	case "limiter redis", "cache redis":
		top = name + " \"redis\" {\n" + drop("url = \"redis://localhost\"\n") + line + "\n}\n"
	case "store postgres":
		top = "store \"postgres\" {\n" + drop("dsn = \"postgres://u@localhost/d\"\n") + line + "\n}\n"
	case "special graphics", "special long_context":
		top = name + " \"" + label + "\" {\n" + line + "\n}\n"
	default:
		top = block + " {\n" + line + "\n}\n"
	}
	return top + provider + route + "price {\n" + price + "}\n}\n"
}

func testSchemas(t *testing.T) map[string]settings.Schema {
	t.Helper()
	schemas := make(map[string]settings.Schema)
	for _, name := range []string{"everything", "anthropic"} {
		schema, err := testSchema(t.Context(), PluginRef{Plugin: name})
		require.NoError(t, err)
		schemas[name] = schema
	}
	return schemas
}

// TestReferenceForms are those of `gateway schema`: for people, for programs and for editors.
func TestReferenceForms(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	require.NoError(t, WriteMarkdown(&text, testSchemas(t)))
	golden(t, filepath.Join("testdata", "reference.md"), text.Bytes())

	encode := func(v any) []byte {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		require.NoError(t, e.Encode(v))
		return b.Bytes()
	}
	golden(t, filepath.Join("testdata", "reference.json"), encode(NewReference(testSchemas(t))))
	golden(t, filepath.Join("testdata", "snippets.json"), encode(Snippets(testSchemas(t))))
	text.Reset()
	require.NoError(t, WriteMarkdown(&text, map[string]settings.Schema{"odd": {Attributes: []settings.Attribute{
		{Name: "a", Type: settings.String, Doc: "one | two\nthree"}}}, "none": {}}))
	require.Contains(t, text.String(), `one \| two three`)
	require.Contains(t, text.String(), "\"none\"\n\nIt has no settings.\n")
	require.ErrorContains(t, WriteMarkdown(failingWriter{os.ErrClosed}, nil), "closed")
}

// TestReferenceIsWhole: each name of the language is in each form.
func TestReferenceIsWhole(t *testing.T) {
	t.Parallel()
	blocks, attributes := ownNames()
	var text bytes.Buffer
	require.NoError(t, WriteMarkdown(&text, testSchemas(t)))
	inJSON, err := json.Marshal(NewReference(testSchemas(t)))
	require.NoError(t, err)
	snippets := make(map[string]bool)
	for _, snippet := range Snippets(testSchemas(t)) {
		snippets[snippet.Prefix] = true
	}
	names := append(slices.Collect(maps.Keys(attributes)), "retry", "after") // and of plugins
	for _, name := range slices.Concat(names, slices.Collect(maps.Keys(blocks))) {
		require.Contains(t, text.String(), name)
		require.Contains(t, string(inJSON), `"`+name+`":`)
		require.Contains(t, snippets, name)
	}
}
