package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"
)

// claude are settings as a client has them: variables in an object that may have others.
var claude = []Member{
	{Path: []string{"env", "URL"}, Value: "http://gw"},
	{Path: []string{"env", "MODEL"}, Value: "service/auto"},
	{Path: []string{"window"}, Value: int64(200000)},
}

// provider is an entry of our own among others.
var provider = []Member{
	{Path: []string{"used"}, Value: "fareway"},
	{Path: []string{"providers", "fareway"}, Whole: true,
		Value: map[string]any{"url": "http://gw", "limit": map[string]any{"context": int64(5)}}},
}

func TestJSONKeepsItsForm(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		members     []Member
		file, wrote string
	}{
		"none": {claude, "", "{\n  \"env\": {\n    \"URL\": \"http://gw\",\n    \"MODEL\": \"service/auto\"\n  },\n  " +
			"\"window\": 200000\n}\n"},
		"tabs, comments and a comma at the end": {claude,
			"// mine\n{\n\t\"a\": 1, // one\n\t\"env\": {\n\t\t\"EDITOR\": \"vi\", /* two */\n\t\t\"MODEL\": \"mine\", // " +
				"three\n\t},\n}\n// end\n",
			"// mine\n{\n\t\"a\": 1, // one\n\t\"env\": {\n\t\t\"EDITOR\": \"vi\", /* two */\n\t\t\"MODEL\": " +
				"\"service/auto\",\n\t\t\"URL\": \"http://gw\", // three\n\t},\n\t\"window\": 200000,\n}\n// end\n"},
		"one line": {claude, `{"env":{"EDITOR":"vi"},"b":[1, 2]}`,
			`{"env":{"EDITOR":"vi","URL":"http://gw","MODEL":"service/auto"},"b":[1, 2],"window":200000}`},
		"one line, and objects": {provider, `{"a": 1}`, `{"a": 1,"used": "fareway","providers": {"fareway":{"limit":` +
			`{"context":5},"url":"http://gw"}}}`},
		"one member, with tabs": {provider, "{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"used\": \"fareway\",\n\t" +
			"\"providers\": {\n\t\t\"fareway\": {\n\t\t\t\"limit\": {\n\t\t\t\t\"context\": 5\n\t\t\t},\n\t\t\t" +
			"\"url\": \"http://gw\"\n\t\t}\n\t}\n}\n"},
		"one member, an object without any": {claude[:2], "{\n    \"env\": {}\n}\n",
			"{\n    \"env\": {\n        \"URL\": \"http://gw\",\n        \"MODEL\": \"service/auto\"\n    }\n}\n"},
		"an empty one": {provider, "{\n}", "{\n  \"used\": \"fareway\",\n  \"providers\": {\n    \"fareway\": {\n      " +
			"\"limit\": {\n        \"context\": 5\n      },\n      \"url\": \"http://gw\"\n    }\n  }\n}"},
		"the entry is there": {provider, "{\n    \"providers\": {\n        \"fareway\": {\n            \"url\": " +
			"\"mine\",\n            \"name\": \"n\"\n        }\n    }\n}\n",
			"{\n    \"providers\": {\n        \"fareway\": {\n            \"url\": \"http://gw\",\n            \"name\": " +
				"\"n\",\n            \"limit\": {\n                \"context\": 5\n            }\n        }\n    },\n    " +
				"\"used\": \"fareway\"\n}\n"},
		"null in the way": {claude[:2], `{"env": null}`, `{"env": {"URL":"http://gw","MODEL":"service/auto"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changes, err := Apply(JSON, []byte(tt.file), tt.members)
			require.NoError(t, err)
			if name == "null in the way" {
				require.JSONEq(t, tt.wrote, string(got))
			} else {
				require.Equal(t, tt.wrote, string(got))
			}
			back, kept, err := Undo(JSON, got, reread(t, changes))
			require.NoError(t, err)
			require.Empty(t, kept)
			if strings.TrimSpace(tt.file) == "" || name == "an empty one" {
				require.True(t, Blank(JSON, back))
			} else {
				require.Equal(t, tt.file, string(back))
			}
		})
	}
}

func TestTOMLKeepsItsForm(t *testing.T) {
	t.Parallel()
	members := []Member{
		{Path: []string{"model"}, Value: "service/auto"},
		{Path: []string{"window"}, Value: int64(5)},
		{Path: []string{"agents", "enabled"}, Value: false},
		{Path: []string{"providers", "fareway"}, Whole: true, Value: map[string]any{"name": "Fareway", "url": "http://gw"}},
	}
	for name, tt := range map[string]struct{ file, wrote string }{
		"none": {"", "model = \"service/auto\"\nwindow = 5\n\n[agents]\nenabled = false\n\n[providers.fareway]\nname = " +
			"\"Fareway\"\nurl = \"http://gw\"\n"},
		"others": {"# mine\nmodel = 'old' # which\ntext = \"\"\"\nmodel = 1\n[agents]\n\"\"\"\n\n[agents] # all\nmax = [ " +
			"1, # one\n  2 ]\n\n[[x]]\nmodel = 2\n[providers.\"other one\"]\nurl = \"u\"",
			"# mine\nmodel = \"service/auto\" # which\ntext = \"\"\"\nmodel = 1\n[agents]\n\"\"\"\nwindow = 5\n\n[agents] # " +
				"all\nmax = [ 1, # one\n  2 ]\nenabled = false\n\n[[x]]\nmodel = 2\n[providers.\"other one\"]\nurl = " +
				"\"u\"\n\n[providers.fareway]\nname = \"Fareway\"\nurl = \"http://gw\"\n"},
		"tables only": {"[x]\nmodel = 1\n", "model = \"service/auto\"\nwindow = 5\n\n[x]\nmodel = 1\n\n[agents]\nenabled " +
			"= false\n\n[providers.fareway]\nname = \"Fareway\"\nurl = \"http://gw\"\n"},
		"dotted": {"agents.enabled = true\n", "agents.enabled = false\nmodel = \"service/auto\"\nwindow = " +
			"5\n\n[providers.fareway]\nname = \"Fareway\"\nurl = \"http://gw\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changes, err := Apply(TOML, []byte(tt.file), members)
			require.NoError(t, err)
			require.Equal(t, tt.wrote, string(got))
			back, kept, err := Undo(TOML, got, reread(t, changes))
			require.NoError(t, err)
			require.Empty(t, kept)
			require.Equal(t, strings.TrimSpace(tt.file), strings.TrimSpace(string(back)))
		})
	}
}

func TestJSONLeavesNoSpaces(t *testing.T) {
	t.Parallel()
	one := []Member{{Path: []string{"b"}, Value: "new"}}
	for now, want := range map[string]string{
		"{\n  \"b\": \"new\"\n}\n":               "{}\n",
		"{\n  \"a\": 1,\n  \"b\": \"new\"\n}\n":  "{\n  \"a\": 1\n}\n",
		"{\n  \"b\": \"new\",\n  \"a\": 1\n}\n":  "{\n  \"a\": 1\n}\n",
		"{\n  \"a\": 1,\n  \"b\": \"new\",\n}\n": "{\n  \"a\": 1,\n}\n",
		"{\n  \"b\": \"new\" // mine\n}\n":       "{ // mine\n}\n",
		"{\"b\": \"new\", /* mine */ \"a\": 1}":  "{ /* mine */ \"a\": 1}",
		// Comments stay, wherever they are.
		"{\n  // mine\n  \"b\": \"new\",\n  \"a\": 1\n}":  "{\n  // mine\n  \"a\": 1\n}",
		"{\"b\": \"new\" /* mine */, \"a\": 1}":           "{ /* mine */\n\"a\": 1}",
		"{\"a\": 1 /* mine */, \"b\": \"new\"}":           "{\"a\": 1 /* mine */\n}",
		"{\"a\": 1 /* mine */, /* too */ \"b\": \"new\"}": "{\"a\": 1 /* mine */\n /* too */\n}",
		"{\"a\": 1, \"b\": \"new\" /* mine */}":           "{\"a\": 1 /* mine */}",
		"{\"a\": 1, \"b\": \"new\" /* mine */,}":          "{\"a\": 1, /* mine */\n}",
	} {
		_, changes, err := Apply(JSON, nil, one)
		require.NoError(t, err)
		back, kept, err := Undo(JSON, []byte(now), changes)
		require.NoError(t, err)
		require.Empty(t, kept)
		require.Equal(t, want, string(back))
	}
}

func TestUndoAfterTheClientWrote(t *testing.T) {
	t.Parallel()
	t.Run("JSON in another form, with more in it", func(t *testing.T) {
		t.Parallel()
		_, changes, err := Apply(JSON, []byte(`{"env": {"MODEL": "mine"}, "a": 1}`), claude)
		require.NoError(t, err)
		now := "{\n    \"a\": 2,\n    \"window\": 2e5,\n    \"env\": { \"URL\": \"http:\\/\\/gw\", \"NEW\": \"x\", " +
			"\"MODEL\": \"service/auto\" },\n    \"b\": {}\n}\n"
		back, kept, err := Undo(JSON, []byte(now), reread(t, changes))
		require.NoError(t, err)
		require.Equal(t, [][]string{{"window"}}, kept, "it is another number as far as it is written")
		require.Equal(t, "{\n    \"a\": 2,\n    \"window\": 2e5,\n    \"env\": { \"NEW\": \"x\", \"MODEL\": \"mine\" },\n "+
			"   \"b\": {}\n}\n", string(back))
	})
	t.Run("an entry of our own goes with all that is in it", func(t *testing.T) {
		t.Parallel()
		_, changes, err := Apply(JSON, nil, provider)
		require.NoError(t, err)
		now := `{"used": "other", "providers": {"fareway": {"url": "http://gw", "seen": 5}, "other": {}}}`
		back, kept, err := Undo(JSON, []byte(now), reread(t, changes))
		require.NoError(t, err)
		require.Equal(t, [][]string{{"used"}}, kept)
		require.Equal(t, `{"used": "other", "providers": {"other": {}}}`, string(back))
	})
	t.Run("TOML", func(t *testing.T) {
		t.Parallel()
		_, changes, err := Apply(TOML, nil, []Member{
			{Path: []string{"model"}, Value: "service/auto"},
			{Path: []string{"p", "fareway"}, Whole: true, Value: map[string]any{"url": "http://gw"}},
		})
		require.NoError(t, err)
		now := "model = 'service/auto'\nnew = 1\n[p.fareway]\nurl = 'u'\n[p.fareway.more]\nx = 1\n[q]\ny = 1\n"
		back, kept, err := Undo(TOML, []byte(now), reread(t, changes))
		require.NoError(t, err)
		require.Empty(t, kept)
		require.Equal(t, "new = 1\n[q]\ny = 1\n", string(back))
	})
	t.Run("what was null and is gone, in an object that was there", func(t *testing.T) {
		t.Parallel()
		_, changes, err := Apply(JSON, []byte(`{"a": {"b": null}}`), []Member{{Path: []string{"a", "b", "c"}, Value: "x"}})
		require.NoError(t, err)
		back, kept, err := Undo(JSON, []byte(`{"a": {}}`), changes)
		require.NoError(t, err)
		require.Empty(t, kept)
		require.Equal(t, `{"a": {}}`, string(back))
	})
	t.Run("what is gone already", func(t *testing.T) {
		t.Parallel()
		_, changes, err := Apply(JSON, nil, claude)
		require.NoError(t, err)
		back, kept, err := Undo(JSON, []byte(`{"env": {"URL": "http://gw"}, "x": 1}`), changes)
		require.NoError(t, err)
		require.Empty(t, kept)
		require.Equal(t, `{"x": 1}`, string(back))
	})
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		format     Format
		file, says string
		members    []Member
	}{
		"no JSON":   {JSON, `{"key": "sk-secret`, "it is not JSON", claude},
		"no object": {JSON, `["sk-secret"]`, "it is not a JSON object", claude},
		"no TOML":   {TOML, `key = sk-secret`, "it is not TOML", claude},
		"inline table": {TOML, "env = {URL = 'sk-secret'}\n", "env.URL is written in a way that is not changed here",
			claude},
		"array of tables": {TOML, "[[env]]\nx = 'sk-secret'\n", "is written in a way that is not changed here", claude},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Apply(tt.format, []byte(tt.file), tt.members)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "sk-secret")
		})
	}
}

// TestWhatCannotBeWritten: a value that has no form in a file is refused, wherever it is, and so is a file that
// somebody has broken meanwhile.
func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{JSON, TOML} {
		for _, v := range []any{make(chan int), map[string]any{"c": make(chan int)}} {
			for _, path := range [][]string{{"a"}, {"b"}, {"c", "d", "e"}} {
				file := map[Format]string{JSON: `{"b": 1}`, TOML: "b = 1\n"}[format]
				_, _, err := Apply(format, []byte(file), []Member{{Path: path, Value: v}})
				require.Error(t, err, "%s %v", format, path)
				require.Equal(t, format == TOML, errors.Is(err, errShape), "the value's fault, or the form's: %v", err)
			}
		}
		_, changes, err := Apply(format, nil, []Member{{Path: []string{"a"}, Value: "x"}})
		require.NoError(t, err)
		_, _, err = Undo(format, []byte("{sk-secret"), changes)
		require.ErrorContains(t, err, "it is not "+strings.ToUpper(string(format)))
		require.NotContains(t, err.Error(), "sk-secret")
	}
}

// TestByteOrderMark: what some editors put before UTF-8 stays where it is, and counts for nothing.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark = "\uFEFF"
	for format, file := range map[Format]string{JSON: `{"a": 1}`, TOML: "a = 1\n"} {
		members := []Member{{Path: []string{"b"}, Value: "x"}}
		plain, _, err := Apply(format, []byte(file), members)
		require.NoError(t, err)
		got, changes, err := Apply(format, []byte(mark+file), members)
		require.NoError(t, err)
		require.Equal(t, mark+string(plain), string(got))
		require.Equal(t, "x", Lookup(format, got, "b"))
		back, _, err := Undo(format, got, changes)
		require.NoError(t, err)
		require.Equal(t, mark+file, string(back))
		require.True(t, Blank(format, []byte(mark)))
		_, _, err = Apply(format, []byte(mark+"{"), members)
		require.Error(t, err)
		_, _, err = Apply(format, []byte(file+"\xff"), members)
		require.ErrorContains(t, err, "it is not UTF-8")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{JSON, TOML} {
		const text = "https://gw/?a=1&b=<c>"
		got, _, err := Apply(format, nil, []Member{{Path: []string{"url"}, Value: text}})
		require.NoError(t, err)
		require.Contains(t, string(got), text, "as people write it")
	}
	require.Equal(t, "x", Lookup(JSON, []byte(`{"a": {"b": 1, "b": "x"}} // end`), "a", "b"))
	require.Equal(t, "x", Lookup(TOML, []byte("[a]\nb = 'x'"), "a", "b"))
	for _, file := range []string{"", "{}", `{"a": 5}`, `{"a": {"b": 5}}`, "{"} {
		require.Empty(t, Lookup(JSON, []byte(file), "a", "b"))
	}
	require.True(t, Blank(TOML, []byte("\n")))
	require.False(t, Blank(TOML, []byte("# mine")))
	require.False(t, Blank(JSON, []byte("{} // mine")))
	require.False(t, Blank(JSON, []byte("{ /* mine */ }")))
	require.False(t, Blank(JSON, []byte("{")))
}

// No change holds a value that was set: it may be a key.
func TestChangesHoldNoKey(t *testing.T) {
	t.Parallel()
	_, changes, err := Apply(JSON, nil, []Member{{Path: []string{"key"}, Value: "fwk_secret"}})
	require.NoError(t, err)
	b, err := json.Marshal(changes)
	require.NoError(t, err)
	require.NotContains(t, string(b), "fwk_secret")
}

// Whatever the file looks like, setting members sets them and nothing else, and undoing that gives the file back,
// byte by byte, also around what a client has put in and taken out meanwhile.
func TestUndoIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := drawJSON(t, 0)
		members := rapid.SliceOfNDistinct(rapid.Custom(drawMember), 1, 4, func(m Member) string { return m.Path[0] }).Draw(t,
			"members")
		wrote, changes, err := Apply(JSON, []byte(file), members)
		require.NoError(t, err)
		want := value(t, file)
		for _, m := range members {
			put(want, m.Path, m.Value)
		}
		require.Equal(t, text(t, want), text(t, value(t, string(wrote))), "%s", wrote)
		back, kept, err := Undo(JSON, wrote, changes)
		require.NoError(t, err)
		require.Empty(t, kept)
		require.Equal(t, text(t, value(t, file)), text(t, value(t, string(back))), "%s\n%s", wrote, back)
		require.Equal(t, comments(file), comments(string(back)))
		if strings.Trim(file, "{} \t\n") != "" && !strings.Contains(strings.Join(strings.Fields(file), ""), "{}") {
			require.Equal(t, file, string(back), "%s", wrote)
		}
	})
}

func drawMember(t *rapid.T) Member {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	m := Member{Path: rapid.SliceOfN(names, 1, 3).Draw(t, "path"),
		Value: rapid.SampledFrom([]any{"new", int64(7), true}).Draw(t, "value")}
	return m
}

// drawJSON writes an object with members a to d, some of them objects, in any style.
func drawJSON(t *rapid.T, depth int) string {
	extra := rapid.SampledFrom([]string{"", " ", "\n  ", "\n\t", " // note\n ", " /* note */ "})
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID[string]).Draw(t,
		"names")
	var b strings.Builder
	b.WriteString("{")
	for i, name := range names {
		if i > 0 {
			b.WriteString(extra.Draw(t, "before comma") + ",")
		}
		inner := rapid.SampledFrom([]string{"1", `"x"`, "null", "[1, {}]"}).Draw(t, "value")
		if depth < 2 && rapid.Bool().Draw(t, "object") {
			inner = drawJSON(t, depth+1)
		}
		fmt.Fprintf(&b, "%s%q%s:%s%s", extra.Draw(t, "name"), name, extra.Draw(t, "colon"), extra.Draw(t, "value"), inner)
	}
	if rapid.Bool().Draw(t, "comma") {
		b.WriteString(",")
	}
	return b.String() + extra.Draw(t, "end") + "}"
}

func value(t require.TestingT, file string) map[string]any {
	standard, err := hujson.Standardize([]byte(file))
	require.NoError(t, err)
	var v map[string]any
	require.NoError(t, json.Unmarshal(standard, &v), "%s", file)
	return v
}

// text is a value as JSON, in one form.
func text(t require.TestingT, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func put(object map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[path[len(path)-1]] = v
}

func comments(file string) int { return strings.Count(file, "note") }

// reread is changes as they are after they were written down.
func reread(t testing.TB, changes []Change) (again []Change) {
	b, err := json.Marshal(changes)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &again))
	return again
}
