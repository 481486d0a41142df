package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// showStatements permits what is surely not secret in a file that could not be parsed, where nothing is known
// of any plugin's settings: lines that begin with a name of this package's own grammar, outside of `config`.
func (s *source) showStatements() {
	blocks, attributes := ownNames()
	var open []string // the blocks around the token
	inside := func() bool { return slices.Contains(open, "config") }
	pending := ""
	atStart := true
	for i := range s.tokens {
		token := &s.tokens[i]
		switch token.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			atStart, pending = true, ""
			continue
		case hclsyntax.TokenOBrace:
			open = append(open, pending)
			atStart, pending = true, ""
			continue
		case hclsyntax.TokenCBrace:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			atStart = true
			continue
		case hclsyntax.TokenIdent:
			if !atStart {
				break
			}
			name := string(token.Bytes)
			assigned := i+1 < len(s.tokens) && s.tokens[i+1].Type == hclsyntax.TokenEqual
			switch {
			case assigned && attributes[name] && !inside():
				s.showAttribute(i)
			case assigned:
				s.show(token.Range)
			case blocks[name] && !inside():
				s.showHeader(i)
				pending = name
			}
		}
		atStart = false
	}
}

// showAttribute permits the name of an attribute and its value, as far as that is one plain value or a list of
// them. Where anything else follows, a quote is missing, perhaps, and what should be outside of a text is inside.
func (s *source) showAttribute(at int) {
	s.show(s.tokens[at].Range)
	next := at + 2 // behind the equals sign
	if next < len(s.tokens) && s.tokens[next].Type != hclsyntax.TokenOBrack {
		s.showPlain(next)
		return
	}
	for {
		after, ok := s.showPlain(next + 1)
		if !ok || after >= len(s.tokens) || s.tokens[after].Type != hclsyntax.TokenComma {
			return
		}
		next = after
	}
}

// showPlain permits a number, a word or a closed text, and returns the index of the token behind it.
func (s *source) showPlain(at int) (after int, ok bool) {
	if at >= len(s.tokens) {
		return at, false
	}
	switch s.tokens[at].Type {
	case hclsyntax.TokenNumberLit, hclsyntax.TokenIdent:
		s.show(s.tokens[at].Range)
		return at + 1, true
	case hclsyntax.TokenOQuote:
		if at+2 < len(s.tokens) && s.tokens[at+1].Type == hclsyntax.TokenQuotedLit && s.tokens[at+2].Type == hclsyntax.TokenCQuote {
			s.show(s.tokens[at+1].Range)
			return at + 3, true
		}
	}
	return at, false
}

// showHeader permits the name of a block and its label in quotes, but of the rest of the line nothing.
func (s *source) showHeader(at int) {
	s.show(s.tokens[at].Range)
	if string(s.tokens[at].Bytes) != "config" && at+1 < len(s.tokens) && s.tokens[at+1].Type == hclsyntax.TokenOQuote {
		s.showPlain(at + 1)
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
