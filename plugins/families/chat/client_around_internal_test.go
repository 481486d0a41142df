package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// FuzzAround sends a Decoder chunks that differ in one place, and another one that reads each of them in full: what
// they say of them is the same, chunk by chunk.
func FuzzAround(f *testing.F) {
	const usual = `{"id":"i","model":"m","choices":[{"index":0,"delta":{"content":`
	texts := "\"a\"\n\" b\"\n\"\"\n\"\\ud83d\"\n\"\\ude00\"\n\"\\u0061\"\nnull\n7\n\"x\n" +
		"\"a\"b\"\n\"a\",\"content\":\"b\"\n[\"x\"]\n\"\xff\"\n\"\x01\"\n \"pad\" \n" +
		"\"a\"},\"index\":1e0,\"delta\":{\"content\":\"c\"\n\"last\""
	for _, seed := range [][3]string{
		{usual, `},"finish_reason":null}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`},
		{usual, `},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, "[DONE]"},
		{`{"usage":{"prompt_tokens":1,"completion_tokens":1e0},"choices":[{"delta":{"con` + `\u0074ent":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":"first","content":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":`, `,"content":"last"}}]}`, "[DONE]"},
		{`{"choices":[],"choices":[{"delta":{"content":`, `}}],"error":null}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":`, `}}],"choices":[]}`, "[DONE]"},
		{`{"choices":[{"index":1,"delta":{"content":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"index":1e0,"index":0.0,"delta":{"content":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":`, `}},{"delta":{"content":"other"}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":`, `},"finish_reason":"stop"}],"error":{"message":"no"}}`, ""},
		{`{"choices":[{"delta":{"reasoning":"r","content":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"refusal":null,"tool_calls":null,"content":`, `}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":`, `}}]}}]}`, "[DONE]"},
		{`{"choices":[{"delta":{"content":[{"type":"text","text":`, `}]}}]}`, "[DONE]"},
		{`{"x":` + strings.Repeat("[", 1090) + strings.Repeat("]", 1090) + `,"choices":[{"delta":{"content":`, `}}]}`,
			"[DONE]"},
		{"\ufeff" + usual, `}}]}`, "[DONE]"},
		{"\u0085 " + usual, "}}]}\u00a0", "[DONE]"},
		{usual, `}}]} x`, "[DONE]"},
		{usual, `}}]}{}`, "[DONE]"},
	} {
		f.Add(seed[0], seed[1], texts, seed[2])
	}
	f.Fuzz(func(t *testing.T, before, after, texts, last string) {
		var fast, full []llm.Event
		a := NewDecoder(func(ev llm.Event) error { fast = append(fast, ev); return nil })
		b := NewDecoder(func(ev llm.Event) error { full = append(full, ev); return nil })
		same := func(what string, x, y error) {
			t.Helper()
			require.Equal(t, y, x, what)
			require.Equal(t, full, fast, what)
			require.Equal(t, b.ID(), a.ID(), what)
			require.Equal(t, b.Done(), a.Done(), what)
		}
		chunks := strings.Split(texts, "\n")
		for i := range chunks {
			chunks[i] = before + chunks[i] + after
		}
		for _, chunk := range append(chunks, last) {
			b.around.forget()
			same(chunk, a.Data([]byte(chunk)), b.Data([]byte(chunk)))
		}
		same("the end", a.Close(), b.Close())
	})
}

// TestAroundIsUsed: what the fuzz test compares is not the same code twice.
func TestAroundIsUsed(t *testing.T) {
	t.Parallel()
	var got []string
	d := NewDecoder(func(ev llm.Event) error { got = append(got, ev.Text); return nil })
	const before, after = `{"choices":[{"delta":{"content":`, `}}]}`
	require.NoError(t, d.Data([]byte(before+`"a"`+after)))
	require.True(t, d.around.text([]byte(before+`"b\n"`+after)).Set())
	for _, chunk := range []string{before + `"b"` + after + " ", before + `"b","content":"c"` + after,
		before + `"b` + after, before + "1" + after, before + after, before + "\"\xff\"" + after,
		before + ` "b"` + after + "}"} {
		require.False(t, d.around.text([]byte(chunk)).Set(), chunk)
	}
	require.Equal(t, []string{"a"}, got)
}
