package config

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxSource is the size, in bytes, over which a configuration file is refused unread.
const maxSource = 4 << 20

// sources are the files that a configuration is made of, in the order in which they were read: the main one first.
type sources struct {
	all      []*source
	named    map[string]*source   // by path, as diagnostics name them
	included map[string]hcl.Range // where, by real path
}

func (s *sources) main() *source { return s.all[0] }

func (s *sources) add(src *source, at hcl.Range) {
	src.order = len(s.all)
	s.all = append(s.all, src)
	s.named[src.path] = src
	s.included[src.real] = at
}

// source is the text of one file of the configuration, and the record of what in it may be shown to people.
//
// Showing is by permission: structure (brackets, quotes, equals signs) always, everything else only when
// the decoder has said that it is not secret. So a key at a misspelt name, in a block that nobody knows or
// behind a syntax error is hidden without anyone having thought of that case.
type source struct {
	path   string // as given to Load, or beside that one; diagnostics name it so
	abs    string
	real   string // without symbolic links
	order  int    // among all
	err    error  // why it could not be read
	text   []byte
	parsed bool
	tokens hclsyntax.Tokens
	shown  []span // sorted and merged by seal
	sealed bool
}

// span is a half-open range of bytes of the text.
type span struct{ start, end int }

func readSource(path string, overlay Overlay) (*source, error) {
	abs, err := filepath.Abs(path)
	if err != nil { // there is no working directory
		return &source{path: path, abs: path, real: path}, fmt.Errorf("finding the absolute path: %w", err)
	}
	src := &source{path: path, abs: abs, real: realPath(abs)}
	if text, ok := overlay[abs]; ok {
		switch {
		case text == nil:
			return src, fs.ErrNotExist
		case len(*text) > maxSource:
			return src, errTooLarge
		}
		src.text = []byte(*text)
		return src, nil
	}
	src.text, err = readBounded(path, maxSource)
	return src, err
}

// realPath is a path without symbolic links, or the path itself where that is not known.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// readBounded reads a regular file of at most limit bytes. Devices and pipes are refused, because reading
// them may never end.
func readBounded(path string, limit int64) ([]byte, error) {
	if _, err := statRegular(path, limit); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, errTooLarge
	}
	return text, nil
}

// ReadText reads a file of a configuration as it is saved.
func ReadText(path string) (string, error) {
	text, err := readBounded(path, maxSource)
	return string(text), err
}

// statRegular refuses what is no regular file of at most limit bytes.
func statRegular(path string, limit int64) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > limit:
		return nil, errTooLarge
	}
	return info, nil
}

// lex splits the text into tokens; complaints of the lexer are left to the parser, which repeats them.
func (s *source) lex() {
	s.tokens, _ = hclsyntax.LexConfig(s.text, s.path, hcl.InitialPos)
}

// show permits a range to be printed.
func (s *source) show(r hcl.Range) {
	s.shown, s.sealed = append(s.shown, span{r.Start.Byte, r.End.Byte}), false
}

// seal ends permitting: lookups need the spans sorted and without overlap.
func (s *source) seal() {
	slices.SortFunc(s.shown, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged := s.shown[:0]
	for _, next := range s.shown {
		if n := len(merged); n > 0 && next.start <= merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, next.end)
			continue
		}
		merged = append(merged, next)
	}
	s.shown, s.sealed = merged, true
}

// visible reports whether a token may be printed.
func (s *source) visible(t *hclsyntax.Token) bool {
	switch t.Type {
	case hclsyntax.TokenOBrace, hclsyntax.TokenCBrace, hclsyntax.TokenOBrack, hclsyntax.TokenCBrack,
		hclsyntax.TokenOParen, hclsyntax.TokenCParen, hclsyntax.TokenOQuote, hclsyntax.TokenCQuote,
		hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenNewline, hclsyntax.TokenQuotedNewline, hclsyntax.TokenEOF:
		return true
	}
	start, end := t.Range.Start.Byte, t.Range.End.Byte
	i, found := slices.BinarySearchFunc(s.shown, start, func(sp span, at int) int { return cmp.Compare(sp.start, at) })
	if !found {
		i--
	}
	return i >= 0 && end <= s.shown[i].end
}

// hides reports whether a range touches a token that may not be printed.
func (s *source) hides(r hcl.Range) bool {
	end := max(r.End.Byte, r.Start.Byte+1)
	for i := s.firstToken(r.Start.Byte); i < len(s.tokens) && s.tokens[i].Range.Start.Byte < end; i++ {
		if !s.visible(&s.tokens[i]) {
			return true
		}
	}
	return false
}

// firstToken is the index of the first token that ends after the offset.
func (s *source) firstToken(offset int) int {
	i, _ := slices.BinarySearchFunc(s.tokens, offset, func(t hclsyntax.Token, at int) int {
		if t.Range.End.Byte <= at {
			return -1
		}
		return 1
	})
	return i
}

// line returns the bounds of the line that holds an offset, without its line break.
func (s *source) line(offset int) (start, end int) {
	offset = min(max(offset, 0), len(s.text))
	start = bytes.LastIndexByte(s.text[:offset], '\n') + 1
	if length := bytes.IndexByte(s.text[offset:], '\n'); length >= 0 {
		end = offset + length
	} else {
		end = len(s.text)
	}
	if end > start && s.text[end-1] == '\r' {
		end--
	}
	return start, end
}
