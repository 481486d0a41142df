package host

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

func TestScrubber(t *testing.T) {
	t.Parallel()
	var s scrubber
	require.Equal(t, "said before it was told", s.clean("said before it was told"))
	s.learn(&settings.Schema{
		Attributes: []settings.Attribute{{Name: "key", Secret: true}, {Name: "short", Secret: true}, {Name: "open"},
			{Name: "list", Secret: true}, {Name: "absent", Secret: true}},
		Blocks: []settings.Block{
			{Name: "tls", Schema: settings.Schema{Attributes: []settings.Attribute{{Name: "pem", Secret: true}}}},
			{Name: "more", Many: true, Schema: settings.Schema{Attributes: []settings.Attribute{{Name: "token", Secret: true}}}},
		},
	}, settings.Values(`{"key": "abcd", "short": "xyz", "open": "public", "list": ["first one", {"a": "second one"}, 5],
		"tls": {"pem": "-----BEGIN KEY-----\nMIIabc\nMIIdef\n-----END KEY-----\n"}, "more": [{"token": "abcdefgh"}, {}, `+
		`"odd"]}`))
	for text, want := range map[string]string{
		"an abcd and abcd.":        "an *** and ***.",
		"the longer abcdefgh":      "the longer ***",
		"xyz is too short to hide": "xyz is too short to hide",
		"public":                   "public",
		"first one, second one":    "***, ***",
		"line MIIdef of a file":    "line *** of a file",
		"abc":                      "abc",
	} {
		require.Equal(t, want, s.clean(text))
	}
	cut := strings.Repeat("x", maxLine-6)
	for end, want := range map[string]string{"firs": hidden, "first on": hidden, "fir": "fir"} {
		require.Equal(t, want, strings.TrimPrefix(s.clean(cut+end), cut), "a line that was cut within a secret")
	}
	require.Equal(t, map[string]any{"a": []any{hidden, 1.5}, hidden: nil},
		s.cleanValue(map[string]any{"a": []any{"abcd", 1.5}, "abcd": nil}))

	var pairs, longer []string // of which one is the beginning of the other, and a byte shorter
	for c := 'a'; c <= 'm'; c++ {
		text := strings.Repeat(string(c), 5)
		pairs, longer = append(pairs, text[1:], text), append(longer, text)
	}
	values, err := json.Marshal(map[string]any{"key": pairs})
	require.NoError(t, err)
	for range 20 { // they are collected in no order
		s.learn(&settings.Schema{Attributes: []settings.Attribute{{Name: "key", Secret: true}}}, values)
		require.Equal(t, strings.Repeat(hidden+" ", len(longer)), s.clean(strings.Join(longer, " ")+" "),
			"nothing of the longer one is left")
	}

	require.Equal(t, `\x1b]0;*** in two`+"\n\tlines", s.clean("\x1b]0;aaaaa in two\r\n\tlines"),
		"a terminal obeys none of it")
	require.Len(t, s.clean(strings.Repeat("x", 5<<20)), maxLine)

	s.learn(new(settings.Schema), settings.Values(`nonsense`))
	require.Equal(t, "abcd", s.clean("abcd"))
}
