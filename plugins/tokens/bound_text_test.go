package tokens

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

// requireBounded fails where a bound is too low for one of the real tokenizers, or higher than the bytes.
func requireBounded(t require.TestingT, text string) {
	o, cl := real(t, text)
	bound := boundText(text)
	require.GreaterOrEqual(t, bound, o, "o200k: %q", text)
	require.GreaterOrEqual(t, bound, cl, "cl100k: %q", text)
	require.LessOrEqual(t, bound, int64(len(text)), "%q", text)
	require.GreaterOrEqual(t, 3*bound, int64(len(text)), "GAP-49: a third of the bytes: %q", text)
}

func TestBoundTextOfCorpora(t *testing.T) {
	t.Parallel()
	for _, tt := range corpora {
		t.Run(tt.class, func(t *testing.T) {
			t.Parallel()
			text := corpus(t, tt.file)
			requireBounded(t, text)
			require.GreaterOrEqual(t, 2*boundText(text), 3*Text(text), "GAP-49: half as much again as the estimate")
		})
	}
	t.Run("English costs less than two thirds of its bytes", func(t *testing.T) {
		t.Parallel()
		text := corpus(t, "prose.txt")
		require.Less(t, 3*boundText(text), 2*int64(len(text)))
	})
}

func TestBoundTextOfHostileInput(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"zq", "xjqzvkwyxqjzkvw", "QXZJVKQXZJ", "qXjZvKwYxQ", "'s'll're've'x'Sx'LLx", "don'tx we'llxy she'sxyz IT'SX",
		"a_b-c.d/e\\f(g)h", ";\n/*x*/;\r\n//y\n/z/", "}\n//\n/* */", "!@#$%^&*()_+", "\"'`~<>?|\\", "¿¡«»",
		"\t\t\tx \t x\t \t",
		"   \n   \n x", "  x   y    z", " \u00a0 x\u00a0 y", "a\u0301b\u0301 \u0301c", "'ſx 'Kx", "\x00\x01\x7f\x1b[0m",
		"0123456789", "1a2b3c4d5e6f",
		"😀😃👩‍👩‍👧‍👦🏳️‍🌈", "漢ABc字", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ＦＵＬＬ", "\u200b\u200b\u2028x", "<|endoftext|><|im_start|>", "ﷺﷻ", "a\ufffdb",
	} {
		for _, repeat := range []int{1, 2, 37} {
			requireBounded(t, strings.Repeat(text, repeat))
		}
	}
}

// hostilePiece makes strings of the kind that the vocabularies know badly, and of the places where they cut.
var hostilePiece = rapid.OneOf(
	rapid.StringMatching(`[a-z]{1,20}`),
	rapid.StringMatching(`[ jqxz']{1,12}`),
	rapid.StringMatching(`[A-Za-z]{1,12}`),
	rapid.StringMatching(`[ \t\n\r]{1,6}`),
	rapid.StringMatching(`[a-zA-Z0-9_'./\-"]{1,16}`),
	rapid.StringMatching(`[!-/:-@\[-`+"`"+`{-~\n/]{1,8}`),
	rapid.StringMatching(`'(s|t|re|ve|m|ll|d|S|LL)[a-z]{0,4}`),
	rapid.StringMatching(`[\p{L}\p{M}\p{N}\p{P}\p{Z}]{1,6}`),
	rapid.SampledFrom([]string{"\u0301", "\u00a0", "\u3000", "漢", "ſ", "é", "😀", "\x00"}),
	rapid.String(),
)

func TestBoundTextIsNeverUnderTheTokenizers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(hostilePiece, 0, 30).Draw(t, "pieces")
		requireBounded(t, strings.Join(pieces, ""))
	})
}

func TestBoundHoldsForPartsInOnePiece(t *testing.T) {
	t.Parallel()
	requireJoined := func(t require.TestingT, texts []string) {
		m := llm.Message{Role: llm.RoleUser}
		frame := Bound(&llm.Request{Messages: []llm.Message{m}})
		for _, text := range texts {
			m.Parts = append(m.Parts, llm.Text(text))
		}
		o, cl := real(t, m.Text())
		require.GreaterOrEqual(t, Bound(&llm.Request{Messages: []llm.Message{m}})-frame, max(o, cl), "GAP-49: %q", texts)
	}
	for _, texts := range [][]string{{"uko"}, {"dx", "gy"}, {" qt", "kk"}, {"don'", "tx"}, {"a", "b", "c"}} {
		requireJoined(t, slices.Repeat(texts, 300))
	}
	rapid.Check(t, func(t *rapid.T) {
		requireJoined(t, rapid.SliceOfN(hostilePiece, 0, 30).Draw(t, "texts"))
	})
}

// jsonValue makes values with many lines in print and little on each.
var jsonValue = rapid.OneOf(
	rapid.SampledFrom([]string{`0`, `-1`, `1.5`, `true`, `""`, `"a"`, `[]`, `{}`, `[1]`, `[[1]]`, `[true,0]`, `{"a":1}`,
		`{"a":{"b":null}}`}),
	rapid.Map(hostilePiece, func(s string) string {
		text, _ := json.Marshal(s) // a string is always JSON
		return string(text)
	}),
)

func TestBoundJSONHoldsForAnyPrinter(t *testing.T) {
	t.Parallel()
	const compact = `{"type":"object","properties":{"path":{"type":"string"},"tags":{"type":"array",` +
		`"items":{"enum":["a","b"]}}},"required":["path"]}`
	spaced := strings.NewReplacer(":", ": ", ",", ", ", "{", "{ ", "}", " }", "[", "[ ", "]", " ]").Replace(compact)
	indented := strings.NewReplacer(":", ": ", ",", ",\n        ", "{", "{\n        ", "[", "[\n        ", "}",
		"\n        }").Replace(compact)
	for _, printed := range []string{compact, spaced, indented} {
		o, cl := real(t, printed)
		require.GreaterOrEqual(t, boundJSON(compact), max(o, cl), "%s", printed)
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(jsonValue, 1, 4).Draw(t, "values")
		compact := []byte("[" + strings.Repeat(strings.Join(values, ",")+",", 20) + "0]")
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, compact, "",
			rapid.SampledFrom([]string{" ", "  ", "    "}).Draw(t, "indent")))
		o, cl := real(t, indented.String())
		require.GreaterOrEqual(t, boundJSON(string(compact)), max(o, cl))
	})
	require.EqualValues(t, boundText("x")+2, boundJSON("x:"))
	require.Zero(t, boundJSON(""))
}

func FuzzBoundText(f *testing.F) {
	for _, tt := range corpora {
		f.Add(corpus(f, tt.file)[:300])
	}
	f.Fuzz(func(t *testing.T, text string) {
		requireBounded(t, strings.ToValidUTF8(text, "\ufffd"))
	})
}
