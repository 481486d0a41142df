package tokens_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

func user(text string) *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	t.Run("a greeting costs its word and the framing", func(t *testing.T) {
		t.Parallel()
		require.EqualValues(t, 8, tokens.Estimate(user("hi")))
	})
	t.Run("CNT-02 every part of a request counts", func(t *testing.T) {
		t.Parallel()
		req := user("hi")
		last := tokens.Estimate(req)
		grows := func(what string) {
			t.Helper()
			now := tokens.Estimate(req)
			require.Greater(t, now, last, what)
			last = now
		}
		req.Messages = append(
			[]llm.Message{{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("Be brief.")}}},
			req.Messages...)
		grows("system prompt")
		call := &llm.ToolCall{ID: "call_1", Name: "lookup"}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: call}}})
		grows("tool call")
		call.Arguments = llm.Plain(`{"city":"Graz"}`)
		grows("arguments")
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, CallID: "call_1"})
		grows("tool result")
		req.Messages[len(req.Messages)-1].Parts = []llm.Part{llm.Text("twelve degrees")}
		grows("text of the tool result")
		req.Tools = []llm.Tool{{Name: "lookup", Schema: []byte(`{}`)}}
		grows("tool")
		req.Tools[0].Description = "Look up the weather."
		grows("tool description")
		req.Tools[0].Schema = []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)
		grows("tool schema")
		req.Format = &llm.Format{Kind: llm.FormatJSONSchema, Schema: []byte(`{"type":"object"}`)}
		grows("schema of the answer")
	})
}

func TestTextOfHostileInputIsLinear(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]string{
		"one endless word": "a", "capitals": "A", "marks": "!@", "one mark": "-", "blanks": " ", "lines": "\n",
		"accents": "é", "ideographs": "漢", "emoji": "😀", "apostrophes": "'s", "bad bytes": "\xff",
		"half a letter": "\xc3", "half a long letter": "\xe1\xb8", "blanks and marks": " .",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 100_000
			once, twice := tokens.Text(strings.Repeat(piece, n)), tokens.Text(strings.Repeat(piece, 2*n))
			require.Positive(t, once)
			require.InEpsilon(t, 2*once, twice, 0.01, "twice the text, twice the tokens")
			require.LessOrEqual(t, once, int64(n*len(piece)))
		})
	}
}

// pieces of text that exercise every class.
var piece = rapid.OneOf(
	rapid.StringMatching(`[A-Z]{0,3}[a-z]{0,12}`),
	rapid.StringMatching(`[ \t\n\r]{1,5}`),
	rapid.StringMatching(`[0-9]{1,7}`),
	rapid.StringMatching(`[!-/:-@\[-`+"`"+`{-~]{1,6}`),
	rapid.SampledFrom(
		[]string{
			"é",
			"ß",
			"ế",
			"привет",
			"αβγ",
			"שלום",
			"नमस्ते",
			"漢字",
			"かな",
			"한국",
			"。",
			"—",
			"😀",
			"\x00",
			"'s",
			"\xff",
		},
	),
	rapid.String(),
)

var text = rapid.Map(rapid.SliceOfN(piece, 0, 20), func(p []string) string { return strings.Join(p, "") })

func request(t *rapid.T) *llm.Request {
	req := &llm.Request{}
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		m := llm.Message{
			Role: rapid.SampledFrom([]llm.Role{llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool}).
				Draw(t, "role"),
		}
		if m.Role == llm.RoleTool {
			m.CallID = text.Draw(t, "call id")
		}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			p := llm.Text(text.Draw(t, "text"))
			if m.Role == llm.RoleAssistant && rapid.Bool().Draw(t, "call") {
				p = llm.Part{
					Call: &llm.ToolCall{
						ID:        text.Draw(t, "id"),
						Name:      text.Draw(t, "name"),
						Arguments: llm.Plain(text.Draw(t, "arguments")),
					},
				}
			}
			m.Parts = append(m.Parts, p)
		}
		req.Messages = append(req.Messages, m)
	}
	for range rapid.IntRange(0, 2).Draw(t, "tools") {
		req.Tools = append(
			req.Tools,
			llm.Tool{
				Name:        text.Draw(t, "tool"),
				Description: text.Draw(t, "description"),
				Schema:      []byte(text.Draw(t, "schema")),
			},
		)
	}
	if rapid.Bool().Draw(t, "format") {
		req.Format = &llm.Format{Name: text.Draw(t, "format name"), Schema: []byte(text.Draw(t, "format schema"))}
	}
	return req
}

func TestProperties(t *testing.T) {
	t.Parallel()
	t.Run("the bound is never below the estimate", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			req := request(t)
			require.GreaterOrEqual(t, tokens.Bound(req), tokens.Estimate(req))
		})
	})
	t.Run("GAP-49 the bound by lengths alone is never below the bound", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			req := request(t)
			require.GreaterOrEqual(t, tokens.Most(req), tokens.Bound(req))
		})
		tools := &llm.Request{Tools: []llm.Tool{{Schema: []byte(`{"a":[1,2,3],"b":{"c":true}}`)}}}
		bare := &llm.Request{Tools: []llm.Tool{{}}}
		require.EqualValues(t, 28+2*12+2*16+2*40, tokens.Most(tools)-tokens.Most(bare),
			"its bytes, two for each separator, and what may be added of type, properties, in place of true and of no type")
	})
	t.Run("a text in its JSON form counts as what it is", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			req := request(t)
			each := func(change func(llm.String) llm.String) {
				for i := range req.Messages {
					for j := range req.Messages[i].Parts {
						part := &req.Messages[i].Parts[j]
						part.Text = change(part.Text)
						if part.Call != nil {
							part.Call.Arguments = change(part.Call.Arguments)
						}
					}
				}
			}
			each(func(s llm.String) llm.String { return llm.Plain(strings.ToValidUTF8(s.String(), "\uFFFD")) })
			estimate, bound, most := tokens.Estimate(req), tokens.Bound(req), tokens.Most(req)
			each(inJSON)
			require.Equal(t, estimate, tokens.Estimate(req))
			require.Equal(t, bound, tokens.Bound(req))
			require.GreaterOrEqual(t, tokens.Most(req), most, "GAP-49")
		})
	})
	t.Run("a text never costs more than its bytes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s := text.Draw(t, "text")
			require.LessOrEqual(t, tokens.Text(s), int64(len(s)))
		})
	})
	t.Run("CNT-02 a longer request never counts less", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			req := request(t)
			before, bound := tokens.Estimate(req), tokens.Bound(req)
			req.Messages = append(
				req.Messages,
				llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text.Draw(t, "more"))}},
			)
			require.Greater(t, tokens.Estimate(req), before)
			require.Greater(t, tokens.Bound(req), bound)
		})
	})
	t.Run("counting is a function of the request", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			req := request(t)
			require.Equal(t, tokens.Estimate(req), tokens.Estimate(req))
		})
	})
}

func TestBound(t *testing.T) {
	t.Parallel()
	t.Run("each byte of what is no English may be a token", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"漢字", "\x00\x01", "123456", "\n\n"} {
			require.EqualValues(t, len(text), tokens.Bound(user(text))-tokens.Bound(user("")), "%q", text)
		}
	})
	t.Run("a template may print JSON with white space at every bracket and separator", func(t *testing.T) {
		t.Parallel()
		req := &llm.Request{Tools: []llm.Tool{{Name: "f"}}}
		without := tokens.Bound(req)
		req.Tools[0].Schema = []byte(`{1:[2,3]}`)
		const typed = 2 * 16 // what may be added of type and properties
		require.EqualValues(t, 3+2*6+4+typed, tokens.Bound(req)-without, "four times on a line of a number's")
	})
	t.Run("GAP-127 as much is added to the schema of a format as to a tool's", func(t *testing.T) {
		t.Parallel()
		schema := []byte(`{"properties":{"a":{"type":["string","null"]},"b":true}}`)
		tool := &llm.Request{Tools: []llm.Tool{{}}}
		format := &llm.Request{Format: &llm.Format{}}
		ofTool, ofFormat := tokens.Bound(tool), tokens.Bound(format)
		tool.Tools[0].Schema, format.Format.Schema = schema, schema
		require.Equal(t, tokens.Bound(tool)-ofTool, tokens.Bound(format)-ofFormat)
	})
	t.Run("a template may print each line of a description as a comment", func(t *testing.T) {
		t.Parallel()
		describe := func(s string) int64 {
			return tokens.Bound(&llm.Request{Tools: []llm.Tool{{Name: "f", Description: s}}})
		}
		require.EqualValues(t, 3, describe("1\n1")-describe("11"))
	})
}

// inJSON is the text with every second ASCII character escaped.
func inJSON(s llm.String) llm.String {
	var b strings.Builder
	for i, r := range s.String() {
		if r < ' ' || r == '"' || r == '\\' || r < 0x80 && i%2 == 0 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return llm.Quoted(b.String())
}

func FuzzText(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := tokens.Text(s)
		require.LessOrEqual(t, n, int64(len(s)))
		require.GreaterOrEqual(t, n, int64(len(s)/128))
	})
}
