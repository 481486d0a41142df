package change

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm/settings"
)

const before = `
provider "up" {
  plugin = "echo"
  config {
    token = env("TOKEN")
    url   = "http://one"
  }
}
route "small" {
  provider       = "up"
  model          = "m"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 15
  }
}
plan "starter" {
  monthly_credits = 500
}
`

var day = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func load(t *testing.T, text, token string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cfg, diags := config.Load(t.Context(), path, config.Options{
		Env: func(string) (string, bool) { return token, true },
		Schema: func(context.Context, config.PluginRef) (settings.Schema, error) {
			return settings.Schema{Attributes: []settings.Attribute{
				{Name: "token", Type: settings.String, Secret: true}, {Name: "url", Type: settings.String}}}, nil
		}})
	require.NoError(t, diags.Err())
	return cfg
}

// TestBetween: what changes from one configuration to another: routes, prices, plans and processes.
func TestBetween(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	none := json.RawMessage(nil)
	for name, c := range map[string]struct {
		replace []string
		token   string
		want    []Block
	}{
		"nothing":          {want: []Block{}},
		"words and blanks": {replace: []string{"\nroute", "\n# a route\n\nroute"}, want: []Block{}},
		"a price": {replace: []string{"input  = 3", "input  = 4.5"}, want: []Block{{Kind: Altered, Type: "route",
			Name: "small", Fields: []Field{
				{"cost.cache_read", raw("300000000"), raw("450000000")}, {"cost.cache_write", raw("300000000"), raw("450000000")},
				{"cost.input", raw("300000000"), raw("450000000")},
				{"price.cache_read", raw("300000000"), raw("450000000")}, {"price.cache_write", raw("300000000"), raw("450000000")},
				{"price.input", raw("300000000"), raw("450000000")}},
			Typical: &Typical{new(int64(1_950_000)), new(int64(2_550_000))}}}},
		"a price of the typical request's length": {
			replace: []string{"output = 15", "output = 15\n    above \"4000\" {\n      input = 6\n      output = 15\n    }"},
			want: []Block{{Kind: Altered, Type: "route", Name: "small", Fields: []Field{
				{"cost.tiers", none, raw(`[{"above":4000,"input":600000000,"cache_read":600000000,"cache_write":600000000,` +
					`"output":1500000000}]`)},
				{"price.tiers", none, raw(`[{"above":4000,"input":600000000,"cache_read":600000000,"cache_write":600000000,` +
					`"output":1500000000}]`)}},
				Typical: &Typical{new(int64(1_950_000)), new(int64(3_150_000))}}}},
		"a fraction of a microcent is a whole one": {replace: []string{"output = 15", "output = 15.000001"},
			want: []Block{{Kind: Altered, Type: "route", Name: "small", Fields: []Field{
				{"cost.output", raw("1500000000"), raw("1500000100")}, {"price.output", raw("1500000000"), raw("1500000100")}},
				Typical: &Typical{new(int64(1_950_000)), new(int64(1_950_001))}}}},
		"no price": {replace: []string{"quality        = 0.45", "quality        = 0.5"}, want: []Block{{Kind: Altered,
			Type: "route", Name: "small", Fields: []Field{{"quality", raw("0.45"), raw("0.5")}}}}},
		"another route": {replace: []string{`"small"`, `"other"`}, want: []Block{
			{Kind: Added, Type: "route", Name: "other", Typical: &Typical{nil, new(int64(1_950_000))}},
			{Kind: Removed, Type: "route", Name: "small", Typical: &Typical{new(int64(1_950_000)), nil}}}},
		"another plan": {replace: []string{`"starter"`, `"gold"`}, want: []Block{
			{Kind: Added, Type: "plan", Name: "gold"}, {Kind: Removed, Type: "plan", Name: "starter"}}},
		"a limit": {replace: []string{"monthly_credits = 500",
			"monthly_credits = 500\n  requests_per_minute {\n    key = 7\n  }"},
			want: []Block{{Kind: Altered, Type: "plan", Name: "starter", Fields: []Field{
				{"requests_per_minute.key", raw("600"), raw("7")}}}}},
		"a setting of a provider": {replace: []string{"http://one", "http://two"}, want: []Block{{Kind: Altered,
			Type: "provider", Name: "up", Process: Restarts,
			Fields: []Field{{"settings.url", raw(`"http://one"`), raw(`"http://two"`)}}}}},
		"a secret": {token: "another", want: []Block{{Kind: Altered, Type: "provider", Name: "up",
			Fields: []Field{{"settings", raw(`"***"`), raw(`"*** (changed)"`)}}, Process: Restarts}}},
		"who carries": {replace: []string{`plugin = "echo"`, "plugin = \"echo\"\n  carry = \"process\""},
			want: []Block{{Kind: Altered, Type: "provider", Name: "up", Fields: []Field{
				{"carry", raw(`"host"`), raw(`"process"`)}}}}},
		"how it is run": {replace: []string{`plugin = "echo"`,
			"plugin = \"echo\"\n  max_memory = \"1GiB\"\n  confine {\n    max_files = 64\n  }"},
			want: []Block{{Kind: Altered, Type: "provider", Name: "up", Process: Restarts, Fields: []Field{
				{"confine.max_files", none, raw("64")}, {"max_memory", none, raw("1073741824")}}}}},
		"its memory": {replace: []string{`plugin = "echo"`, "plugin = \"echo\"\n  max_memory = \"1GiB\""},
			want: []Block{{Kind: Altered, Type: "provider", Name: "up", Process: Restarts, Fields: []Field{
				{"max_memory", none, raw("1073741824")}}}}},
		"another provider": {replace: []string{`"up"`, `"down"`}, want: []Block{
			{Kind: Added, Type: "provider", Name: "down", Process: Starts},
			{Kind: Altered, Type: "route", Name: "small", Fields: []Field{{"provider", raw(`"up"`), raw(`"down"`)}}},
			{Kind: Removed, Type: "provider", Name: "up", Process: Stops}}},
		"the whole": {replace: []string{"\nplan",
			"\ngateway {\n  keepalive = \"20s\"\n}\npre_auth {\n  failures_per_minute = 1\n}\nplan"},
			want: []Block{{Kind: Altered, Type: "gateway", Fields: []Field{{"keepalive", raw(`"15s"`), raw(`"20s"`)}}},
				{Kind: Altered, Type: "pre_auth", Fields: []Field{{"failures_per_minute", raw("120"), raw("1")}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before
			if len(c.replace) > 0 {
				after = strings.ReplaceAll(before, c.replace[0], c.replace[1])
				require.NotEqual(t, before, after)
			}
			token := "hunter2"
			if c.token != "" {
				token = c.token
			}
			got := Between(load(t, before, "hunter2"), load(t, after, token), day)
			require.Equal(t, c.want, got)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.NotContains(t, string(text), "hunter2")
			require.NotContains(t, string(text), "another\"")
		})
	}
}

// TestKeys: each key of a provider has a process of its own, which another secret or another name of it restarts.
func TestKeys(t *testing.T) {
	t.Parallel()
	keyed := strings.Replace(strings.Replace(before, "    token = env(\"TOKEN\")\n", "", 1), "  plugin = \"echo\"\n",
		"  plugin = \"echo\"\n  key \"a\" {\n    token = env(\"TOKEN\")\n  }\n", 1)
	old := load(t, keyed, "one")
	require.Empty(t, Between(old, load(t, keyed, "one"), day))
	secret := Between(old, load(t, keyed, "two"), day)
	require.Equal(t, []Block{{Kind: Altered, Type: "provider", Name: "up", Process: Restarts, Fields: []Field{
		{"settings", json.RawMessage(`"***"`), json.RawMessage(`"*** (changed)"`)}}}}, secret)
	named := Between(old, load(t, strings.Replace(keyed, `"a"`, `"b"`, 1), "one"), day)
	require.Len(t, named, 1)
	require.Equal(t, Restarts, named[0].Process)
	require.Equal(t, "keys", named[0].Fields[0].Name)
	require.Len(t, named[0].Fields, 1)
}

// TestReplaced: another executable of a provider restarts it, whatever else is different.
func TestReplaced(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	executable := Field{"executable", raw(`"a"`), raw(`"b"`)}
	carry := Field{"carry", raw(`"host"`), raw(`"process"`)}
	none := Replaced([]Block{{Kind: Altered, Type: "route", Name: "up"}}, "up", "a", "b")
	require.Equal(t, []Block{{Kind: Altered, Type: "route", Name: "up"},
		{Kind: Altered, Type: "provider", Name: "up", Process: Restarts, Fields: []Field{executable}}}, none)
	require.Equal(t, []Block{{Kind: Altered, Type: "provider", Name: "other"},
		{Kind: Altered, Type: "provider", Name: "up", Process: Restarts, Fields: []Field{carry, executable}}},
		Replaced([]Block{{Kind: Altered, Type: "provider", Name: "other"},
			{Kind: Altered, Type: "provider", Name: "up", Fields: []Field{carry}}}, "up", "a", "b"))
	require.Equal(t, Starts, Replaced([]Block{{Kind: Added, Type: "provider", Name: "up", Process: Starts}}, "up", "a",
		"b")[0].Process)
}

// TestTypicalNow: a price that begins on a day is charged from that day on.
func TestTypicalNow(t *testing.T) {
	t.Parallel()
	old := load(t, before, "")
	dated := load(t, strings.Replace(before, "  price {",
		"  price \"2027-01-01\" {\n    input = 6\n    output = 15\n  }\n  price {", 1), "")
	got := Between(old, dated, day)
	require.Len(t, got, 1)
	require.Nil(t, got[0].Typical)
	got = Between(old, dated, day.AddDate(1, 0, 0))
	require.Equal(t, &Typical{new(int64(1_950_000)), new(int64(3_150_000))}, got[0].Typical)
}
