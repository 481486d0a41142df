package host

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
		"an abcd and abcd.":        "an [redacted] and [redacted].",
		"the longer abcdefgh":      "the longer [redacted]",
		"xyz is too short to hide": "xyz is too short to hide",
		"public":                   "public",
		"first one, second one":    "[redacted], [redacted]",
		"line MIIdef of a file":    "line [redacted] of a file",
		"abc":                      "abc",
	} {
		require.Equal(t, want, s.clean(text))
	}
	for end, want := range map[string]string{"firs": hidden, "first on": hidden, "fir": "fir"} {
		cut := strings.Repeat("x", maxLine-len(end))
		require.Equal(t, want, strings.TrimPrefix(s.hide(cut+end), cut), "a line that was cut within a secret")
	}
	for more, want := range map[int]string{0: "firs", 1: hidden} { // a line is cut between characters
		cut := strings.Repeat("x", maxLine-utf8.UTFMax-len("firs")+more)
		require.Equal(t, want, strings.TrimPrefix(s.hide(cut+"firs"), cut))
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

	require.Equal(t, `\x1b]0;[redacted] in two`+"\n\tlines", s.clean("\x1b]0;aaaaa in two\r\n\tlines"),
		"a terminal obeys none of it")
	require.Equal(t, strings.Repeat("x", maxShown-3)+"...", s.clean(strings.Repeat("x", 5<<20)))

	s.learn(new(settings.Schema), settings.Values(`nonsense`))
	require.Equal(t, "abcd", s.clean("abcd"))
}

func TestWhatIsFromOutsideIsRedacted(t *testing.T) {
	t.Parallel()
	var own, ofHost scrubber
	own.host = &ofHost
	require.Equal(t, "in eu-secret-1", own.clean("in eu-secret-1"))
	for _, value := range []string{"eu-secret-1", "two\nlines of it\n", "8080", "true", "false", "null", "abc",
		"12345678", ""} {
		ofHost.redact(value)
	}
	own.learn(&settings.Schema{Attributes: []settings.Attribute{{Name: "key", Secret: true}}},
		settings.Values(`{"key": "own-key"}`))
	for text, want := range map[string]string{
		"in eu-secret-1, own-key":      "in [redacted], [redacted]",
		"lines of it":                  "[redacted]",
		"eu%2Dsecret, ZXUtc2VjcmV0LTE": "eu%2Dsecret, [redacted]",
		"port 8080 is true, not abc":   "port 8080 is true, not abc",
		"12345678":                     "[redacted]",
	} {
		require.Equal(t, want, own.clean(text))
	}
	require.Equal(t, "own-key", ofHost.clean("own-key"), "a process's own is its own")
	secret := strings.Repeat("s", 100)
	ofHost.redact(secret)
	at := strings.Repeat("x", maxShown-50)
	require.Equal(t, at+hidden, own.clean(at+secret), "it is replaced before the rest is cut off")
	for i := range maxOutside + 10 {
		ofHost.outside["form-"+strconv.Itoa(i)] = true
	}
	ofHost.redact("the-newest")
	require.Less(t, len(ofHost.outside), 10, "they are bounded")
	require.Equal(t, hidden, own.clean("the-newest"))
}
