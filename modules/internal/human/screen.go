package human

import (
	"io"
	"unicode/utf8"
)

// Screen writes text that is for people, PrintableLines of it.
func Screen(w io.Writer) io.Writer { return &screen{w: w, show: PrintableLines} }

// ScreenJSON writes JSON so that a terminal can show it, PrintableJSON of it: the same values, whoever reads it.
func ScreenJSON(w io.Writer) io.Writer { return &screen{w: w, show: PrintableJSON} }

type screen struct {
	w    io.Writer
	show func(string) string
	rest []byte // the beginning of a sign whose end has not come
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	text := append(s.rest, b...)
	s.rest = nil
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if end := text[len(text)-cut:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				s.rest = append(s.rest, end...)
				text = text[:len(text)-cut]
			}
			break
		}
	}
	if _, err := io.WriteString(s.w, s.show(string(text))); err != nil {
		return 0, err
	}
	return len(b), nil
}
