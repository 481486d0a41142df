package config

import (
	"bytes"
	"regexp"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// ShownFile is a file of a configuration as it may be shown to anybody: what the decoder has not said to be harmless is
// hidden, and comments are left out, for people park old keys in them. Lines keep their numbers.
type ShownFile struct {
	Path   string // absolute
	Text   string
	Hidden int // how many values are
}

// Shown are the files that were read, the main one first; none where that could not be.
func (d *Diagnostics) Shown() []ShownFile {
	if d.sources == nil {
		return nil
	}
	list := make([]ShownFile, 0, len(d.sources.all))
	for _, s := range d.sources.all {
		list = append(list, s.shownFile())
	}
	return list
}

// blankEnds are what stood before a comment.
var blankEnds = regexp.MustCompile(`(?m)[ \t]+$`)

func (s *source) shownFile() ShownFile {
	f := ShownFile{Path: s.abs}
	var out bytes.Buffer
	written, afterHidden := 0, false
	for i := range s.tokens {
		token := &s.tokens[i]
		start, end := token.Range.Start.Byte, token.Range.End.Byte
		if start < written || end > len(s.text) {
			continue
		}
		out.Write(s.text[written:start]) // blanks
		text := s.text[start:end]
		switch {
		case token.Type == hclsyntax.TokenComment:
			out.Write(bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n"))))
			afterHidden = false
		case s.visible(token):
			out.Write(text)
			afterHidden = false
		default:
			if !afterHidden {
				out.WriteString(hidden)
				f.Hidden++
			}
			out.Write(bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n"))))
			afterHidden = true
		}
		written = end
	}
	f.Text = blankEnds.ReplaceAllString(out.String(), "")
	return f
}
