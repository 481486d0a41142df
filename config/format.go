package config

import (
	"bytes"
	"context"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Formatted is a file of a configuration as it is, and in the usual form: indented by two blanks a block, with the
// equals signs of neighbors under each other.
type Formatted struct {
	Path          string // as it was given, or beside that one
	Before, After []byte
}

// Format brings the file at path and all that it includes into the usual form, and writes nothing. Files that do not
// parse, or cannot be found, are in the diagnostics only.
func Format(path string) ([]Formatted, *Diagnostics) {
	src, err := readSource(path, nil)
	if err != nil {
		diags := new(Diagnostics)
		diags.add(SeverityError, hcl.Range{Filename: path}, "Unreadable configuration", mainAdvice(err))
		return nil, diags
	}
	return format(src, func(l *loader) { l.readRules(l.gather(&included{source: src}).Blocks) })
}

// FormatText is Format for a text alone, which diagnostics give that name.
func FormatText(name string, text []byte) ([]byte, *Diagnostics) {
	src := &source{path: name, abs: name, real: name, text: text}
	formatted, diags := format(src, func(l *loader) { l.parse(src) })
	if len(formatted) == 0 {
		return nil, diags
	}
	return formatted[0].After, diags
}

func format(src *source, read func(*loader)) (formatted []Formatted, diags *Diagnostics) {
	diags = new(Diagnostics)
	l := newLoader(context.Background(), Options{}.filled(), src, diags)
	read(l)
	for _, src := range l.sources.all {
		if !src.parsed {
			continue
		}
		after := bytes.TrimRight(hclwrite.Format(src.text), " \t\n")
		if len(after) > 0 {
			after = append(after, '\n')
		}
		if !sameTokens(src, after) {
			after = src.text // whatever it is, it is worth more than its form
		}
		formatted = append(formatted, Formatted{src.path, src.text, after})
	}
	diags.finish(&l.sources)
	return formatted, diags
}

// sameTokens reports whether a text says the same as a source.
func sameTokens(src *source, text []byte) bool {
	tokens, _ := hclsyntax.LexConfig(text, src.path, hcl.InitialPos)
	ends := func(t hclsyntax.Token) bool { return t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenEOF }
	trim := func(tokens hclsyntax.Tokens) hclsyntax.Tokens {
		for len(tokens) > 0 && ends(tokens[len(tokens)-1]) {
			tokens = tokens[:len(tokens)-1]
		}
		return tokens
	}
	return slices.EqualFunc(trim(src.tokens), trim(tokens), func(a, b hclsyntax.Token) bool {
		return a.Type == b.Type && bytes.Equal(bytes.TrimSpace(a.Bytes), bytes.TrimSpace(b.Bytes))
	})
}
