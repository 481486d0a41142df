package config

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// snippet is one line of the source as it may be printed, with the place of its carets in characters.
type snippet struct {
	text   string
	indent int
	carets int
}

const (
	hidden = "***" // stands for what may not be printed, whatever its length

	snippetWidth = 120 // characters; a longer line is cut around its subject
)

// snippet cuts out the first line of a range. Comments are left out: people park old keys in them.
func (s *source) snippet(subject hcl.Range) snippet {
	lineStart, lineEnd := s.line(subject.Start.Byte)
	from, to := subject.Start.Byte, max(subject.End.Byte, subject.Start.Byte+1)

	var line []rune
	first, last := -1, -1
	written, afterHidden := lineStart, false
	for i := s.firstToken(lineStart); i < len(s.tokens) && written < lineEnd; i++ {
		token := &s.tokens[i]
		start, end := max(token.Range.Start.Byte, lineStart), min(token.Range.End.Byte, lineEnd)
		if start >= end || token.Type == hclsyntax.TokenNewline {
			continue
		}
		if token.Type == hclsyntax.TokenComment {
			written, afterHidden = end, false
			continue
		}
		shown := s.visible(token)
		if shown || !afterHidden {
			line = append(line, printable(s.text[written:start])...)
		}
		at := len(line)
		switch {
		case shown:
			line = append(line, printable(s.text[start:end])...)
		case !afterHidden:
			line = append(line, []rune(hidden)...)
		}
		if start < to && end > from {
			head, tail := at, len(line)
			if shown {
				head += len(printable(s.text[start:max(start, min(from, end))]))
				tail -= len(printable(s.text[max(start, min(to, end)):end]))
			} else {
				head = len(line) - len(hidden)
			}
			if first < 0 {
				first = head
			}
			last = tail
		}
		written, afterHidden = end, !shown
	}
	line = []rune(strings.TrimRight(string(line), " "))
	if first < 0 { // the subject is behind the last token: something is missing here
		first, last = len(line), len(line)+1
	}
	return fit(line, first, max(last-first, 1))
}

// fit cuts a long line so that its subject stays in view.
func fit(line []rune, indent, carets int) snippet {
	if len(line) > snippetWidth {
		begin := max(min(indent-snippetWidth/2, len(line)-snippetWidth), 0)
		line = line[begin:min(begin+snippetWidth, len(line))]
		indent -= begin
	}
	carets = max(min(carets, len(line)-indent), 1)
	return snippet{text: string(line), indent: indent, carets: carets}
}

// printable makes text harmless for a terminal: a tab becomes blanks, whatever has no glyph a replacement mark.
func printable(text []byte) []rune {
	out := make([]rune, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == '\t':
			out = append(out, ' ', ' ', ' ', ' ')
		case unicode.IsPrint(r):
			out = append(out, r)
		default:
			out = append(out, utf8.RuneError)
		}
	}
	return out
}
