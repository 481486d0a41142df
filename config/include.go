package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// gatherer finds the files of a configuration and parses them.
type gatherer struct {
	*reading
	broken bool // what was read is not all that there is
}

// Limits of what one configuration includes. All its files together may have maxSource bytes.
const (
	maxSources      = 1000
	maxIncludeDepth = 16
)

// included is a file that is being read, and the one that includes it.
type included struct {
	*source
	by *included
}

// gather parses a file, and the files that it includes, each at its place: what comes out is the statements of all as
// if they stood in one file.
func (g *gatherer) gather(file *included) *hclsyntax.Body {
	own := g.parse(file.source)
	if own == nil {
		g.broken = true
		return &hclsyntax.Body{}
	}
	whole := &hclsyntax.Body{Attributes: make(hclsyntax.Attributes)}
	for name, attr := range own.Attributes {
		whole.Attributes[file.path+"\x00"+name] = attr // of another file by the same name they are two
	}
	for _, block := range own.Blocks {
		if block.Type != "include" {
			whole.Blocks = append(whole.Blocks, block)
			continue
		}
		for _, next := range g.include(file, block) {
			more := g.gather(&included{next, file})
			for name, attr := range more.Attributes {
				whole.Attributes[name] = attr
			}
			whole.Blocks = append(whole.Blocks, more.Blocks...)
		}
	}
	return whole
}

// include reads the files that a block names, sorted by their paths. What is wrong with it is reported.
func (g *gatherer) include(file *included, block *hclsyntax.Block) (sources []*source) {
	g.show(block.TypeRange)
	for _, at := range block.LabelRanges {
		g.show(at)
	}
	fail := func(at hcl.Range, summary, detail string) {
		g.fail(at, summary, detail)
		g.broken = true
	}
	if len(block.Labels) != 1 || len(block.Body.Attributes)+len(block.Body.Blocks) > 0 {
		fail(block.TypeRange, "Invalid include", "It names files, and has nothing else:\n"+includeExample)
		return nil
	}
	at := block.LabelRanges[0]
	path := beside(filepath.Dir(file.path), block.Labels[0])
	names, err := g.match(filepath.Dir(file.path), block.Labels[0])
	switch {
	case err != nil:
		fail(at, "Invalid pattern", "Write a path in which * stands for any name, ? for any letter and [abc] for one of "+
			"these, relative to the folder of this file:\n"+includeExample)
	case len(names) == 0:
		fail(at, "Nothing to include", fmt.Sprintf("No file matches in the folder %s. Create one there, correct the pattern "+
			"or remove the line.", filepath.Dir(path)))
	}
	for _, name := range names {
		if summary, detail := g.mayInclude(file, name); summary != "" {
			fail(at, summary, detail)
			continue
		}
		src, err := readSource(name, g.opts.Overlay)
		src.err = err
		if g.sources.add(src, at); err != nil {
			fail(at, fmt.Sprintf("Unreadable file %q", clip(name)), includeAdvice(err))
			continue
		}
		sources = append(sources, src)
	}
	return sources
}

// mayInclude says why a file cannot be read once more, or again.
func (g *gatherer) mayInclude(file *included, name string) (summary, detail string) {
	if !isPrintable(name) {
		return "Unprintable name of a file", "It has signs in it that no message can show. Rename the file."
	}
	real, depth := realPath(name), 0
	chain := name
	for f := file; f != nil; f, depth = f.by, depth+1 {
		chain = f.path + " includes " + chain
		if f.real == real {
			return "Include cycle", fmt.Sprintf("%s. Remove one of these lines.", chain)
		}
		chain = f.path + ", which " + strings.TrimPrefix(chain, f.path+" ")
	}
	if first, ok := g.sources.included[real]; ok {
		return fmt.Sprintf("%q is included twice", clip(name)), fmt.Sprintf("The first include is %s. Remove one of them.",
			g.place(first))
	}
	total := 0
	for _, src := range g.sources.all {
		total += len(src.text)
	}
	switch {
	case depth > maxIncludeDepth:
		return "Includes nested too deeply", fmt.Sprintf("Files include files at most %d deep.", maxIncludeDepth)
	case len(g.sources.all) >= maxSources:
		return "Too many files", fmt.Sprintf("A configuration has at most %d files.", maxSources)
	case total > maxSource:
		return "Too much to include", "All files together may have 4 MiB, far more than they need. Is it the right folder?"
	}
	return "", ""
}

func includeAdvice(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "There is no such file, or it is a link to one that does not exist. Create it, correct the path or remove " +
			"the line."
	case errors.Is(err, errNotRegular):
		return "It is a folder, a device or a pipe. Name regular files, as in:\n" + includeExample
	}
	return sourceAdvice(err)
}

// match returns the files that a pattern names, sorted. Without a wildcard it names one, whether that exists or not.
// As in a shell, a wildcard does not stand for a period at the beginning of a name, nor do the folders match that it
// names: editors and Kubernetes keep things of their own there.
func (g *gatherer) match(dir, pattern string) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil || pattern == "" || !isPrintable(pattern) {
		return nil, filepath.ErrBadPattern
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{beside(dir, pattern)}, nil
	}
	whole := beside(wildcards.Replace(dir), pattern)
	names, err := filepath.Glob(whole)
	for name, text := range g.opts.Overlay {
		name = like(dir, name)
		at := slices.Index(names, name)
		switch {
		case text == nil && at >= 0:
			names = slices.Delete(names, at, at+1)
		case text != nil && at < 0:
			if matches, _ := filepath.Match(whole, name); matches {
				names = append(names, name)
			}
		}
	}
	wantHidden := strings.HasPrefix(filepath.Base(pattern), ".")
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return !wantHidden && strings.HasPrefix(filepath.Base(name), ".") || err == nil && info.IsDir()
	})
	slices.Sort(names)
	return names, err
}

// isPrintable: a path stands in messages and in logs.
func isPrintable(path string) bool {
	return utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) })
}

// wildcards makes a folder's name stand for itself in a pattern.
var wildcards = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// beside is a path that starts in a folder.
func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// like is an absolute path as one that starts in a folder, if that is relative.
func like(dir, path string) string {
	if filepath.IsAbs(dir) {
		return path
	}
	if here, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil {
			return rel
		}
	}
	return path
}

// takeIncludes finds the statements `include "PATTERN"` at the top of the text, and returns what is left of it, each
// byte at its place: HCL itself has no statement without a value or a body.
func (s *source) takeIncludes() (rest []byte, includes []*hclsyntax.Block) {
	rest = s.text
	depth, atStart := 0, true
	for i := range s.tokens {
		token := &s.tokens[i]
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen:
			depth--
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			atStart = true
			continue
		case hclsyntax.TokenIdent:
			if !atStart || depth != 0 || string(token.Bytes) != "include" {
				break
			}
			end, ok := s.includeEnd(i)
			if !ok {
				break
			}
			statement := slices.Concat(s.text[token.Range.Start.Byte:end], []byte(" {}"))
			file, diags := hclsyntax.ParseConfig(statement, s.path, token.Range.Start)
			if diags.HasErrors() {
				break // it is found again with the rest
			}
			includes = append(includes, file.Body.(*hclsyntax.Body).Blocks...)
			if len(includes) == 1 {
				rest = bytes.Clone(rest)
			}
			copy(rest[token.Range.Start.Byte:end], bytes.Repeat([]byte(" "), end-token.Range.Start.Byte))
		}
		atStart = false
	}
	return rest, includes
}

// includeEnd is where the label behind a word ends, if nothing follows it on its line.
func (s *source) includeEnd(at int) (int, bool) {
	if !s.follows(at, hclsyntax.TokenOQuote) {
		return 0, false
	}
	at++
	if s.follows(at, hclsyntax.TokenQuotedLit) {
		at++
	}
	if !s.follows(at, hclsyntax.TokenCQuote) {
		return 0, false
	}
	at++
	for _, end := range []hclsyntax.TokenType{hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenEOF} {
		if s.follows(at, end) {
			return s.tokens[at].Range.End.Byte, true
		}
	}
	return 0, false
}
