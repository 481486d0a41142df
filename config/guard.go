package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits on the shape of the text. The parser and the evaluator recurse along brackets and operators, and a
// number is parsed in time quadratic in its digits; none of them has a limit of its own.
const (
	maxNesting   = 64
	maxOperators = 500 // of one attribute
	maxDigits    = 100 // of one number
)

// guard refuses, before it is parsed, text that would cost the parser too much. It returns the place, a summary
// and a detail, or an empty summary.
func guard(tokens hclsyntax.Tokens) (at hcl.Range, summary, detail string) {
	nesting, brackets, operators := 0, 0, 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenOBrace:
			nesting++
		case hclsyntax.TokenCBrace:
			nesting = max(nesting-1, 0)
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			nesting++
			brackets++
			if token.Type == hclsyntax.TokenOBrack || token.Type == hclsyntax.TokenTemplateControl {
				operators++ // x[1][2]... and %{if}%{if}... are chains too
			}
		case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			nesting = max(nesting-1, 0)
			brackets = max(brackets-1, 0)
		case hclsyntax.TokenNewline:
			if brackets == 0 {
				operators = 0 // the attribute has ended
			}
		case hclsyntax.TokenNumberLit:
			if len(token.Bytes) > maxDigits {
				return token.Range, "Number too long", fmt.Sprintf("Write it with at most %d digits.", maxDigits)
			}
		case hclsyntax.TokenIdent, hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenQuotedLit,
			hclsyntax.TokenStringLit, hclsyntax.TokenComment, hclsyntax.TokenEOF:
		default:
			operators++
		}
		if nesting > maxNesting {
			return token.Range, "Nested too deeply", fmt.Sprintf("Brackets and blocks nest at most %d deep.", maxNesting)
		}
		if operators > maxOperators {
			return token.Range, "Expression too long", "Write the value itself: a number, a text in quotes, a list, or " +
				"env(\"NAME\")."
		}
	}
	return hcl.Range{}, "", ""
}
