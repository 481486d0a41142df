package jsonview

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainly is plainBlocks byte by byte: up to where it has to stop, and whether that is an end, a mistake or a code
// unit.
func plainly(b []byte) (n int, stopped bool) {
	for n < len(b) {
		switch c := b[n]; {
		case c == '"' || c < ' ':
			return n, true
		case c != '\\':
			n++
		case n+1 == len(b):
			return n, false
		case !isEscape[b[n+1]]:
			return n, true
		default:
			n += 2
		}
	}
	return n, false
}

// FuzzPlainBlocks compares what blocks pass by with a look at each byte, and what a text is with blocks and without.
func FuzzPlainBlocks(f *testing.F) {
	for _, inside := range []string{
		"", `\`, `\\`, `\"`, `"`, "\x1f", " ", `\u00e9`, `\x`, "é", `\n\t\r\b\f\/\\\"`, strings.Repeat(`\\`, 40),
		strings.Repeat(`\\`, 40) + `\"`, `a` + strings.Repeat(`\\`, 40) + `"`, strings.Repeat("x", 31) + `\"`,
		strings.Repeat("x", 31) + `\u0041`, strings.Repeat("x", 30) + `\\"`, strings.Repeat("x", 31) + "\\\x01",
		"\\\xa2", "\\\xee", "\x7f", "\\\x12", `\a\B\c\L`, `\v\0`,
	} {
		for _, before := range []int{0, 1, 31, 32, 33} {
			f.Add([]byte(strings.Repeat("x", before)+inside+strings.Repeat("y", 64)), before)
			f.Add([]byte(strings.Repeat("x", before)+inside), before)
		}
	}
	f.Fuzz(func(t *testing.T, inside []byte, skip int) {
		if wide {
			b := inside[min(max(skip, 0), len(inside)):] // at any place in memory
			n, beyond := plainBlocks(b)
			want, stopped := plainly(b)
			require.LessOrEqual(t, n, want)
			if whole := len(b) / 32 * 32; stopped && want < whole-1 {
				require.Equal(t, want, n, "%q", b)
			} else {
				require.GreaterOrEqual(t, n, min(want, whole-1), "%q", b)
			}
			require.True(t, beyond || !notASCII(b[:n]))
			again, _ := plainly(b[:n])
			require.Equal(t, n, again, "no escape is cut: %q", b)
		}
		for _, text := range [][]byte{inside, quoted(inside), quoted(bytes.Repeat(inside, 3))} {
			v, objects, err := validateBy(wide, text, 100)
			plain, plainObjects, plainErr := validateBy(false, text, 100)
			require.Equal(t, plainErr, err)
			require.Equal(t, plain, v)
			require.Equal(t, plainObjects, objects)
		}
	})
}

func notASCII(b []byte) bool {
	return bytes.ContainsFunc(b, func(r rune) bool { return r > 127 })
}

func quoted(inside []byte) []byte {
	return append(append([]byte{'"'}, inside...), '"')
}
