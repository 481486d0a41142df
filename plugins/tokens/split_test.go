package tokens

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

// The pieces are those that o200k's pattern cuts a text into, which its own documentation of the pattern tells.
func TestPieces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"HTTPServer":         {"HTTPServer"},
		"camelCase":          {"camel", "Case"},
		"漢字ABC":              {"漢字", "ABC"},
		"漢字ABC!":             {"漢字", "ABC", "!"},
		"漢字ABCd":             {"漢字ABCd"},
		"مرحبا بالعالم":      {"مرحبا", " بالعالم"},
		"नमस्ते दुनिया":      {"नमस्ते", " दुनिया"},
		"สวัสดีชาวโลก":       {"สวัสดีชาวโลก"},
		"don't WE'LL I'm 'x": {"don't", " WE'LL", " I'm", " '", "x"},
		"it's":               {"it's"},
		"we'll":              {"we'll"},
		"it'":                {"it", "'"},
		"12345 ١٢٣٤":         {"123", "45", " ", "١٢٣", "٤"},
		"a  b":               {"a", " ", " b"},
		"a \n\n  b":          {"a", " \n\n", " ", " b"},
		"x++;\n//y":          {"x", "++;\n//", "y"},
		"(word (x":           {"(word", " (", "x"},
		"e\u0301te\u0301":    {"e\u0301te\u0301"},
		"\u0301a":            {"\u0301a"},
		"ǅa":                 {"ǅa"},
		"end ":               {"end", " "},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var got []string
			for rest := text; rest != ""; {
				n := piece(rest)
				got, rest = append(got, rest[:n]), rest[n:]
			}
			require.Equal(t, want, got)
		})
	}
}

func TestJoined(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want bool // before its last byte but those in brackets
	}{
		{"a[b", true}, {"A[B", true}, {"a[B", false}, {"A[b", true}, {" [a", true}, {" [A", true}, {"z[a", true},
		{"Z[a", true},
		{"1[a", false}, {"a[1", false}, {"1[2", false}, {"'s[t", false}, {"'ll[x", false}, {"'S[t", false}, {"xyz[a", true},
		{".[a", false}, {"a.[b", true}, {"1.[b", true}, {" .[b", false}, {"a'[b", false}, {" [.", true}, {".[.", true},
		{"/[/", true}, {".[/", true}, {"/[.", false}, {" [ ]", false}, {" [  ", true}, {" [ ", false}, {"\t[\t\t", true},
		{"\t[ \t", false},
		{" [ a", false}, {"\n[\n\n", false}, {"\t[a", false}, {"é[a", false},
	} {
		at := 0
		var bytes []byte
		for i := range len(tt.text) {
			switch tt.text[i] {
			case '[':
				at = len(bytes)
			case ']':
			default:
				bytes = append(bytes, tt.text[i])
			}
		}
		require.Equal(t, tt.want, joined(string(bytes), at), tt.text)
	}
}

// TestBoundTextIsTheMost compares the bound with the most tokens that any cut of a short text has, found by trying
// them all.
func TestBoundTextIsTheMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Of the second alphabet, nearly all pairs and triples are tokens.
		alphabet := rapid.SampledFrom([]string{"abetTh. /1'\n", "aeinrst"}).Draw(t, "alphabet")
		s := string(rapid.SliceOfN(rapid.SampledFrom([]byte(alphabet)), 1, 9).Draw(t, "text"))
		require.EqualValues(t, mostTokens(s, 0, 0), boundText(s), "%q", s)
	})
}

// mostTokens is the most tokens that s has from i on, after a token of so many bytes; 0 at its beginning, and 3 stands
// for any more than two.
func mostTokens(s string, i, before int) int64 {
	if i == len(s) {
		return 0
	}
	most := int64(-1 << 30)
	try := func(length, kind int) { most = max(most, 1+mostTokens(s, i+length, kind)) }
	merges := func(at int) bool { return at > 1 && tripleMerges(s[at-2], s[at-1], s[at]) }
	if !(before == 1 && joined(s, i) && pairMerges(s[i-1], s[i])) && !(before == 2 && joined(s, i) && merges(i)) {
		try(1, 1)
	}
	if i+2 <= len(s) && !(before == 1 && joined(s, i) && merges(i+1)) {
		try(2, 2)
	}
	for length := 3; i+length <= len(s); length++ {
		try(length, 3)
	}
	return most
}

// Each part of a request costs what it is, and its frame.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	with := func(parts ...llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: parts}}}
	}
	one, two, three := with(llm.Text("a")), with(llm.Text("a"), llm.Text("b")),
		with(llm.Text("a"), llm.Text("b"), llm.Text("c"))
	require.Equal(t, Bound(one)+boundJoint+boundText("b"), Bound(two))
	require.Equal(t, Bound(two)+boundJoint+boundText("c"), Bound(three))

	result := with(llm.Text("a"))
	result.Messages[0].Role = llm.RoleTool
	nameless, bound := Estimate(result), Bound(result)
	require.Equal(t, Estimate(one)+resultFrame, nameless)
	result.Messages[0].CallID = "call_1"
	require.Equal(t, nameless+Text("call_1"), Estimate(result))
	require.Equal(t, bound-boundText("")+boundText("call_1"), Bound(result))

	one.Format = &llm.Format{Kind: llm.FormatJSONSchema, Schema: []byte("{}")}
	bare, bareBound := Estimate(one), Bound(one)
	one.Format.Name, one.Format.Description = "a name", "and a description"
	require.Equal(t, bare+Text("a name")+Text("and a description"), Estimate(one))
	require.Equal(t, bareBound-boundText("")+boundText("a name")+boundText("and a description"), Bound(one))
}

// Runs of one byte have tokens of their own, of which the long ones come in eights.
func TestTextOfRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []string{" ", "\n", "-", "=", "*", "_", "a", "0"} {
		for _, n := range []int{1, 3, 7, 8, 9, 15, 16, 24, 31, 32, 40, 64, 80, 96, 128} {
			text := strings.Repeat(c, n) + "x"
			o, _ := real(t, text)
			require.InDelta(t, o, Text(text), 2, "%d times %q", n, c)
		}
	}
	for _, c := range []string{"q", "k", "~", "}", "^", "é", "ß"} { // without tokens of eights
		for _, n := range []int{2, 3, 4, 5, 6, 7, 11, 13, 47, 100} {
			text := strings.Repeat(c, n) + "x"
			o, _ := real(t, text)
			require.InDelta(t, o, Text(text), 1, "%d times %q", n, c)
		}
	}
}

// The framing is a part of every hold and of what clients read: who changes it does so on purpose.
func TestFraming(t *testing.T) {
	t.Parallel()
	message := func(role llm.Role, parts ...llm.Part) llm.Request {
		return llm.Request{Messages: []llm.Message{{Role: role, Parts: parts}}}
	}
	call := llm.Part{Call: &llm.ToolCall{}}
	for what, test := range map[string]struct {
		request         llm.Request
		estimate, bound int64
	}{
		"nothing":   {llm.Request{}, 3, 64},
		"a message": {message("user"), 7, 64 + 16 + 4},
		"a result":  {message(llm.RoleTool), 11, 64 + 16 + 4 + 32},
		"a call":    {message("user", call), 15, 64 + 16 + 4 + 48},
		"parts":     {message("user", call, call, call), 31, 64 + 16 + 4 + 3*48 + 2*3},
		"a tool":    {llm.Request{Tools: []llm.Tool{{}}}, 22, 64 + 640 + 48},
		"tools":     {llm.Request{Tools: []llm.Tool{{}, {}}}, 29, 64 + 640 + 2*48},
		"a format":  {llm.Request{Format: &llm.Format{}}, 11, 64 + 96},
		"lines":     {llm.Request{Tools: []llm.Tool{{Description: "1\n2\n3"}}}, 27, 64 + 640 + 48 + 5 + 2*2},
	} {
		require.Equal(t, test.estimate, Estimate(&test.request), what)
		require.Equal(t, test.bound, Bound(&test.request), what)
	}
}

// A bracket costs two, and three where a number meets the line that a printer makes there, at either end of the text.
func TestBoundJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"": 0, "{}": 4, "[]": 4, ":": 2, "1": 1, "1]": 4, "[1": 4, "1}": 4, "{1": 4, "1,": 3, ",1": 4, ":1": 3, "1:": 3,
		"[1]": 7, "[1,2]": 11, "x]": 4, "X]": 4, "[x": 3, "]1": 3, "1[": 3, ".]": 3, "[.": 3,
	} {
		require.Equal(t, want, boundJSON(text), text)
	}
}

// TestAdded is what a bound has for what upstreams want to be added to a request (GAP-127), each beside the same
// request in which that is there.
func TestAdded(t *testing.T) {
	t.Parallel()
	said := func(role llm.Role) llm.Message { return llm.Message{Role: role} }
	called := func(names ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAssistant}
		for i, name := range names {
			m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: string(rune('a' + i)), Name: name}})
		}
		return m
	}
	answer := func(id string) llm.Message { return llm.Message{Role: llm.RoleTool, CallID: id} }
	each := func(answer func(string) llm.Message, n int) (list []llm.Message) {
		for i := range n {
			list = append(list, answer(string(rune('a'+i))))
		}
		return list
	}
	user := said(llm.RoleUser)
	for what, test := range map[string]struct {
		want     int64
		messages []llm.Message
	}{
		"an ordinary loop": {0, []llm.Message{said(llm.RoleSystem), user, called("f", "g"), answer("b"), answer("a"),
			said(llm.RoleAssistant)}},
		"the assistant first": {28, []llm.Message{said(llm.RoleSystem), said(llm.RoleAssistant),
			said(llm.RoleAssistant)}},
		"the user behind a result": {28, []llm.Message{user, called("f"), answer("a"), user, user}},
		"a call without a result":  {16 + 32 + 12 + 24 + 1, []llm.Message{user, called("f")}},
		"the second without one":   {16 + 32 + 12 + 24 + 1, []llm.Message{user, called("f", "g"), answer("a")}},
		"one with two": {16 + 32 + 12 + 24 + 1, []llm.Message{user, called("f", "g"), answer("a"),
			answer("a")}},
		"one of an earlier call": {2 * (16 + 32 + 12 + 24 + 1), []llm.Message{user, called("f", "g"), answer("c"),
			answer("d")}},
		"results behind another turn": {16 + 32 + 12 + 24 + 1, []llm.Message{user, called("f"), user, answer("a")}},
		"a tool that failed": {12, []llm.Message{user, called("f"),
			{Role: llm.RoleTool, CallID: "a", IsError: true}}},
		"names": {3 * 18, []llm.Message{user, called("a.b", "3d", strings.Repeat("a", 65), strings.Repeat("a-_9Z", 12)),
			answer("a"), answer("b"), answer("c"), answer("d")}},
		// Comparing all with all would let a client take seconds of everybody's time.
		"more calls than are compared": {2 * (16 + 32 + 12 + 24 + 2), append([]llm.Message{user,
			called(strings.Split(strings.Repeat("f", 66), "")...)}, each(answer, 66)...)},
	} {
		const behind = 28 // a user who says nothing, where the assistant may have been last
		require.Equal(t, test.want+behind, addedTo(&llm.Request{Messages: test.messages}), what)
	}
	require.Zero(t, addedTo(&llm.Request{Messages: []llm.Message{said(llm.RoleSystem), user, user}}))
	require.EqualValues(t, 18, addedTo(&llm.Request{Tools: []llm.Tool{{Name: "f"}, {Name: "a b"}}}))
	for schema, want := range map[string]int64{"": 0, `{}`: 32,
		`{"type":1,"properties":{}}`: 0, `{"type":"array"}`: 16 + 10,
		`{"type":1,"properties":{"a":true,"b":true}}`: 80, `{"type":1,"properties":{"$ref":1}}`: 2*7 + 40,
		`{"type":"object","properties":{"a":{},"b":{"type" : ["x"]},"type":{"type":"x"}}}`: 2 * 40} {
		require.Equal(t, want, addedToSchema(schema, 7), schema)
	}
}
