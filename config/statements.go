package config

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// showStatements permits what is surely not secret in a file that could not be parsed: the names at the beginning of
// statements, and the labels of this package's own blocks. No value is shown, not even of an attribute of our own: one
// brace too many ends a `config` block for us early, in the midst of a name even (`api_}key = "..."`), so that nothing
// says any more in which block a line was meant to stand.
func (s *source) showStatements() {
	blocks, attributes := ownNames()
	atStart := true
	for i := range s.tokens {
		token := &s.tokens[i]
		switch token.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenOBrace, hclsyntax.TokenCBrace:
			atStart = true
			continue
		case hclsyntax.TokenIdent:
			if !atStart {
				break
			}
			switch {
			case attributes[string(token.Bytes)] && s.follows(i, hclsyntax.TokenEqual), s.assigns(i):
				s.show(token.Range)
			case blocks[string(token.Bytes)]:
				s.showHeader(i)
			}
		}
		atStart = false
	}
}

// assigns reports whether an equals sign and a value follow on the same line. Without the value it may be the end of a
// line of base64 in a text whose beginning is broken.
func (s *source) assigns(at int) bool {
	return s.follows(at, hclsyntax.TokenEqual) && !s.follows(at+1, hclsyntax.TokenNewline) &&
		!s.follows(at+1, hclsyntax.TokenEOF)
}

// follows reports whether the tokens behind one are of these types.
func (s *source) follows(at int, types ...hclsyntax.TokenType) bool {
	for i, want := range types {
		if next := at + 1 + i; next >= len(s.tokens) || s.tokens[next].Type != want {
			return false
		}
	}
	return true
}

// showHeader permits the name of a block, and its label if the block opens right behind it. Where anything else
// follows, a quote is missing, perhaps, and what should be outside of a text is inside.
func (s *source) showHeader(at int) {
	s.show(s.tokens[at].Range)
	if s.follows(at, hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote, hclsyntax.TokenOBrace) {
		s.show(s.tokens[at+2].Range)
	}
}

// ownNames are the names of blocks and of attributes outside of `config`.
func ownNames() (blocks, attributes map[string]bool) {
	blocks, attributes = make(map[string]bool), make(map[string]bool)
	for _, g := range places {
		for _, name := range g.blockNames() {
			blocks[name] = true
		}
		for _, name := range g.attributeNames() {
			attributes[name] = true
		}
	}
	return blocks, attributes
}
