package jsonview

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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
	inner := v.raw[1 : len(v.raw)-1]
	if high == 0 && bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), 0, true
	}
	s, pending = unescape(inner, high)
	return s, pending, true
}

// unescape decodes the inside of a valid string.
func unescape(b []byte, high rune) (s string, pending rune) {
	out := make([]byte, 0, len(b)+utf8.UTFMax)
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\\')
		if n != 0 {
			if n < 0 {
				n = len(b)
			}
			out = append(lone(out, high), b[:n]...)
			b, high = b[n:], 0
			continue
		}
		if b[1] != 'u' {
			out = append(lone(out, high), unescaped(b[1]))
			b, high = b[2:], 0
			continue
		}
		r := hex4(b[2:6])
		b = b[6:]
		if high != 0 {
			if joined := utf16.DecodeRune(high, r); joined != utf8.RuneError {
				out = utf8.AppendRune(out, joined)
				high = 0
				continue
			}
			out, high = lone(out, high), 0
		}
		if isHighSurrogate(r) {
			high = r
			continue
		}
		out = utf8.AppendRune(out, r) // a low surrogate becomes U+FFFD
	}
	return string(out), high
}

// lone appends U+FFFD for a high surrogate that found no partner.
func lone(b []byte, high rune) []byte {
	if high == 0 {
		return b
	}
	return utf8.AppendRune(b, utf8.RuneError)
}

func isHighSurrogate(r rune) bool { return 0xD800 <= r && r < 0xDC00 }

func hex4(b []byte) rune {
	var r rune
	for _, c := range b {
		d, _ := hexDigit(c)
		r = r<<4 | d
	}
	return r
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
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
