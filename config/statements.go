package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
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
				s.showLine(i)
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

// showLine permits the tokens of an attribute from its name on until a brace opens or the line ends.
func (s *source) showLine(from int) {
	to := from
	for to+1 < len(s.tokens) {
		switch s.tokens[to+1].Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenQuotedNewline, hclsyntax.TokenOBrace, hclsyntax.TokenEOF, hclsyntax.TokenComment:
			s.show(hcl.RangeBetween(s.tokens[from].Range, s.tokens[to].Range))
			return
		}
		to++
	}
}

// showHeader permits the name of a block and its label in quotes, but of the rest of the line nothing.
func (s *source) showHeader(at int) {
	s.show(s.tokens[at].Range)
	if at+3 < len(s.tokens) && string(s.tokens[at].Bytes) != "config" &&
		s.tokens[at+1].Type == hclsyntax.TokenOQuote && s.tokens[at+2].Type == hclsyntax.TokenQuotedLit {
		s.show(s.tokens[at+2].Range)
	}
}

// ownNames are the names of blocks and of attributes outside of `config`.
func ownNames() (blocks, attributes map[string]bool) {
	blocks, attributes = make(map[string]bool), make(map[string]bool)
	for _, g := range []*grammar{&fileGrammar, &gatewayGrammar, &storeGrammar, &providerGrammar, &routeGrammar,
		&priceGrammar, &profileGrammar, &planGrammar} {
		for _, name := range g.blockNames() {
			blocks[name] = true
		}
		for _, name := range g.attributeNames() {
			attributes[name] = true
		}
	}
	return blocks, attributes
}
