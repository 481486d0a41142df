package stop_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/stop"
)

// toolCall stands between pieces of text for a tool call.
const toolCall = "\x00call"

// run feeds pieces to a fresh matcher as the exchange does and returns what each step shows to the client,
// the last one being what the end of the reply releases.
func run(stops, pieces []string) (shown []string, matched string) {
	m := stop.New(stops).Matcher()
	for _, piece := range pieces {
		if piece == toolCall {
			shown = append(shown, m.Flush())
			continue
		}
		emit, _, _ := m.Feed(piece)
		shown = append(shown, emit)
	}
	return append(shown, m.Flush()), m.Matched()
}

// TestWhichMatchCounts is worked example E10, whole and byte by byte (all its texts are ASCII).
func TestWhichMatchCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		text    string
		stops   []string
		reply   string
		matched string
	}{
		{"STOP-07 stop sequence not returned", "foo END bar", []string{"END"}, "foo ", "END"},
		{"STOP-06 earliest completion, not earliest start", "abcd", []string{"abcd", "bc"}, "a", "bc"},
		{"STOP-06 inner sequence completes first", "abc", []string{"abc", "b"}, "a", "b"},
		{"STOP-08 longest at the same character", "xab", []string{"b", "ab"}, "x", "ab"},
		{"STOP-08 longest in any order", "xab", []string{"ab", "b"}, "x", "ab"},
		{"STOP-06 shorter prefix completes first", "abab", []string{"abab", "ab"}, "", "ab"},
		{"STOP-07 overlapping start", "aaab", []string{"aab"}, "a", "aab"},
		{"STOP-07 restart inside a false start", "ENENDx", []string{"END"}, "EN", "END"},
		{"STOP-07 case-sensitive", "I am done. DONE!", []string{"DONE"}, "I am done. ", "DONE"},
		{"STOP-07 line feeds", "one\n\ntwo", []string{"\n\n"}, "one", "\n\n"},
		{"STOP-14 empty strings ignored", "hello", []string{"", "zz", "zz"}, "hello", ""},
		{"STOP-14 only empty strings", "hello", []string{"", ""}, "hello", ""},
		{"STOP-15 repeated entries ignored", "aXb", []string{"X", "X"}, "a", "X"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, pieces := range [][]string{{tt.text}, strings.Split(tt.text, "")} {
				shown, matched := run(tt.stops, pieces)
				require.Equal(t, tt.reply, strings.Join(shown, ""))
				require.Equal(t, tt.matched, matched)
			}
		})
	}
}

// TestWithholding is worked example E11.
func TestWithholding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stops  []string
		pieces []string
		shown  []string // one a piece, and one at the end
	}{
		{"STOP-09 match across pieces", []string{"END"}, []string{"foo E", "N", "D bar"}, []string{"foo ", "", "", ""}},
		{"STOP-27 released when it cannot match", []string{"END"}, []string{"abcE", "NX", " tail"},
			[]string{"abc", "ENX", " tail", ""}},
		{"STOP-27 false start before a match", []string{"END"}, []string{"fooE", "NEN", "D"}, []string{"foo", "EN", "", ""}},
		{"STOP-28 released at the natural end", []string{"END"}, []string{"ab", "EN"}, []string{"ab", "", "EN"}},
		{"STOP-27 only what could still match", []string{"aab"}, []string{"aa", "a", "b"}, []string{"", "a", "", ""}},
		{"STOP-27 text that starts no sequence", []string{"END"}, []string{"a", "b", "N"}, []string{"a", "b", "N", ""}},
		{"STOP-09 characters of several bytes", []string{"→é"}, []string{"a→", "→", "éb"}, []string{"a", "→", "", ""}},
		{"STOP-09 neighbours that share bytes", []string{"é"}, []string{"è", "ê"}, []string{"è", "ê", ""}},
		{"STOP-13 nothing after a match", []string{"END"}, []string{"aEND", "b", "END"}, []string{"a", "", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			shown, _ := run(tt.stops, tt.pieces)
			require.Equal(t, tt.shown, shown)
		})
	}
}

// TestToolCalls is worked example E12, as far as it is text.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		pieces  []string
		shown   []string
		matched string
	}{
		{"STOP-11 texts matched separately", []string{"abEN", toolCall, "Dcd"}, []string{"ab", "EN", "Dcd", ""}, ""},
		{"STOP-12 fragment released before the call", []string{"abEN", toolCall, "D"}, []string{"ab", "EN", "D", ""}, ""},
		{"STOP-13 rest dropped", []string{"a END b", toolCall, "c"}, []string{"a ", "", "", ""}, "END"},
		{"STOP-34 match after a call", []string{"x", toolCall, "y END z", toolCall}, []string{"x", "", "y ", "", ""}, "END"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			shown, matched := run([]string{"END"}, tt.pieces)
			require.Equal(t, tt.shown, shown)
			require.Equal(t, tt.matched, matched)
		})
	}
}

func TestFeedReportsTheMatch(t *testing.T) {
	t.Parallel()
	m := stop.New([]string{"END"}).Matcher()
	_, _, ok := m.Feed("a E")
	require.False(t, ok)

	emit, matched, ok := m.Feed("ND b")
	require.True(t, ok)
	require.Equal(t, "END", matched)
	require.Empty(t, emit)

	emit, matched, ok = m.Feed("more")
	require.True(t, ok, "a match stays")
	require.Equal(t, "END", matched)
	require.Empty(t, emit)
}

func TestEmptySetPassesEverything(t *testing.T) {
	t.Parallel()
	require.Nil(t, stop.New(nil))
	var zero stop.Matcher
	for _, m := range []stop.Matcher{zero, stop.New(nil).Matcher()} {
		emit, _, ok := m.Feed("any END text")
		require.False(t, ok)
		require.Equal(t, "any END text", emit)
		require.Empty(t, m.Flush())
	}
}

func TestSetIsShared(t *testing.T) {
	t.Parallel()
	set := stop.New([]string{"END"})
	a, b := set.Matcher(), set.Matcher()
	a.Feed("xEN")
	emit, _, _ := b.Feed("D")
	require.Equal(t, "D", emit, "a matcher knows nothing of another's text")
	_, matched, ok := a.Feed("D")
	require.True(t, ok)
	require.Equal(t, "END", matched)
}
