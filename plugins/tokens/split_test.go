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
		{"a[b", true}, {"A[B", true}, {"a[B", false}, {"A[b", true}, {" [a", true}, {" [A", true}, {"z[a", true}, {"Z[a", true},
		{"1[a", false}, {"a[1", false}, {"1[2", false}, {"'s[t", false}, {"'ll[x", false}, {"'S[t", false}, {"xyz[a", true},
		{".[a", false}, {"a.[b", true}, {"1.[b", true}, {" .[b", false}, {"a'[b", false}, {" [.", true}, {".[.", true},
		{"/[/", true}, {".[/", true}, {"/[.", false}, {" [ ]", false}, {" [  ", true}, {" [ ", false}, {"\t[\t\t", true}, {"\t[ \t", false},
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
	one, two, three := with(llm.Text("a")), with(llm.Text("a"), llm.Text("b")), with(llm.Text("a"), llm.Text("b"), llm.Text("c"))
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
}
