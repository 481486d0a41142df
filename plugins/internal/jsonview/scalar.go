package jsonview

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/fareway/fareway/plugins/llm"
)

// Str returns a decoded copy of a string; ok is false for any other kind. It is valid UTF-8: an escape that
// is half of a surrogate pair reads as U+FFFD (GAP-74).
func (v View) Str() (string, bool) {
	s, high, ok := v.StrAfter(0)
	if high != 0 {
		s += string(utf8.RuneError)
	}
	return s, ok
}

// StrAfter is Str for a text that arrives in several strings, where a surrogate pair may be cut in two. high
// is the high surrogate that ended the string before this one, 0 if none did; pending is the one that ends
// this string, which s then leaves out. The caller owes U+FFFD for a pending one that nothing follows.
func (v View) StrAfter(high rune) (s string, pending rune, ok bool) {
	if v.Kind() != String {
		return "", 0, false
	}
	inner := inside(v.raw)
	if high == 0 && strings.IndexByte(inner, '\\') < 0 {
		return strings.Clone(inner), 0, true
	}
	var out []byte
	if high != 0 && inner != "" {
		joined := rune(utf8.RuneError)
		if strings.HasPrefix(inner, `\u`) {
			joined = utf16.DecodeRune(high, hex4(inner[2:6]))
		}
		if joined != utf8.RuneError {
			inner = inner[6:]
		}
		out, high = utf8.AppendRune(out, joined), 0
	}
	if n := len(inner) - 6; n >= 0 && endsInEscape(inner, n) && isHighSurrogate(hex4(inner[n+2:])) {
		high, inner = hex4(inner[n+2:]), inner[:n]
	}
	return string(llm.AppendUnquoted(out, inner)), high, true
}

// Text returns a string in the form in which it is there, aliasing the input; ok is false for any other kind. It reads
// as Str does: one with half of a surrogate pair, which no upstream need understand, is decoded.
func (v View) Text() (llm.String, bool) {
	if v.Kind() != String {
		return llm.String{}, false
	}
	inner := inside(v.raw)
	text := llm.Quoted(inner)
	if _, plain := text.Plain(); plain {
		return text, true
	}
	known := v.indexed(0)
	if (known == nil && strings.Contains(inner, `\u`) || known != nil && known.surrogate) && hasHalfPair(inner) {
		s, _ := v.Str()
		return llm.Plain(s), true
	}
	return text, true
}

// inside is what stands between the quotes of a string, aliasing it.
func inside(quoted []byte) string {
	return unsafe.String(unsafe.SliceData(quoted[1:]), len(quoted)-2)
}

// hasHalfPair reports whether an escape in the inside of a string is half of a surrogate pair without its other half.
func hasHalfPair(s string) bool {
	for {
		n := strings.IndexByte(s, '\\')
		if n < 0 {
			return false
		}
		if s[n+1] != 'u' {
			s = s[n+2:]
			continue
		}
		r := hex4(s[n+2 : n+6])
		s = s[n+6:]
		if utf16.IsSurrogate(r) {
			if !strings.HasPrefix(s, `\u`) || utf16.DecodeRune(r, hex4(s[2:6])) == utf8.RuneError {
				return true
			}
			s = s[6:]
		}
	}
}

// endsInEscape reports whether the last six bytes of the inside of a string, from n, are one escape.
func endsInEscape(s string, n int) bool {
	if s[n] != '\\' || s[n+1] != 'u' {
		return false
	}
	before := strings.TrimRight(s[:n], `\`)
	return (n-len(before))%2 == 0
}

func isHighSurrogate(r rune) bool { return 0xD800 <= r && r < 0xDC00 }

func hex4(s string) rune {
	var r rune
	for i := range 4 {
		d, _ := hexDigit(s[i])
		r = r<<4 | d
	}
	return r
}

// Int returns a number that is an integer in the range of int64, however it is written: 10, 10.0 and 1e1
// are the same. ok is false for any other number and any other kind.
func (v View) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return n, true
	}
	mantissa, exponent := v.raw, 0
	if e := bytes.IndexAny(v.raw, "eE"); e >= 0 {
		n, err := strconv.Atoi(string(v.raw[e+1:]))
		if err != nil {
			n = math.MaxInt32 // or its opposite; either way only a zero is still an integer in range
		}
		mantissa, exponent = v.raw[:e], n
	}
	negative := mantissa[0] == '-'
	if negative {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := bytes.TrimLeft(append(bytes.Clone(whole), fraction...), "0")
	exponent -= len(fraction)
	significant := bytes.TrimRight(digits, "0")
	if len(significant) == 0 {
		return 0, true
	}
	exponent += len(digits) - len(significant)
	if exponent < 0 || exponent > 18 || len(significant)+exponent > 19 {
		return 0, false
	}
	text := append(significant, bytes.Repeat([]byte("0"), exponent)...)
	if negative {
		text = append([]byte("-"), text...)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// Float returns a number; ok is false for one beyond float64's range and for any other kind.
func (v View) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	return f, err == nil
}
