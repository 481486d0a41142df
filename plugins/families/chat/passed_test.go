package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/chat"
)

// TestTextsArePassedOn reads a request and writes it for an upstream of the same dialect.
func TestTextsArePassedOn(t *testing.T) {
	t.Parallel()
	sent := func(body string) string {
		b, err := chat.EncodeRequest(nil, accepted(t, body).LLM)
		require.NoError(t, err)
		return string(b)
	}
	said := func(content string) string {
		b := sent(`{"model":"auto","messages":[{"role":"user","content":` + content + `}]}`)
		_, b, _ = strings.Cut(b, `"content":`)
		b, _, _ = strings.Cut(b, `}]`)
		return b
	}
	for _, text := range []string{`""`, `"hi"`, `"a\n\"b\\"`, `"\u0041é\u00e9"`, `"\ud83d\uDE00"`, `"<&>\/"`} {
		require.Equal(t, text, said(text), "as it was written")
	}
	require.Equal(t, `[{"type":"text","text":"a\n"},{"type":"text","text":"😀"`,
		said(`[{"type":"text","text":"a\n"},{"type":"text","text":"😀"}]`), "parts stay apart")
	for text, want := range map[string]string{`"\ud83d"`: "\"\uFFFD\"", `"a\n\ude00\ud83d"`: `"a\n` + "\uFFFD\uFFFD\""} {
		require.Equal(t, want, said(text), "GAP-74: half a pair is no text that every upstream reads")
	}
	require.Equal(
		t,
		`[{"type":"text","text":"`+"\uFFFD"+`"},{"type":"text","text":"`+"\uFFFD"+`"`,
		said(`[{"type":"text","text":"\ud83d"},{"type":"text","text":"\ude00"}]`),
		"two texts make no pair",
	)

	call := `{"id":"c","type":"function","function":{"name":"f","arguments":"{\"q\":\"\\u00e9\"}"}}`
	require.Contains(
		t,
		sent(
			`{"model":"auto","messages":[{"role":"user","content":"x"},`+
				`{"role":"assistant","content":null,"tool_calls":[`+call+`]}]}`,
		),
		call,
	)

	first := `{"model":"auto","messages":[{"role":"user","content":"a\u0041\n"}`
	head, _, _ := strings.Cut(sent(first+`]}`), `]`)
	longer := sent(first + `,{"role":"assistant","content":"\t"},{"role":"user","content":"b"}]}`)
	require.True(t, strings.HasPrefix(longer, head), "a longer conversation begins with the same bytes")
}
