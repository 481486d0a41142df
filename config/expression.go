package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// evaluator evaluates expressions.
type evaluator struct {
	*reading
	scope    map[string]map[string]cty.Value // what `var` and `local` have, by name
	base     *hcl.EvalContext
	contexts map[string]*hcl.EvalContext // by path of the source: a relative path is relative to the file that has it
	spent    int                         // bytes, about, of the values of all expressions
	facts    bool                        // what is read is a condition
}

// maxMagnitude bounds a number literal. HCL knows numbers whose decimal text would not fit into memory.
const maxMagnitude = 1e30

// evaluate gives the value of an expression with its marks. What is wrong is reported, never with a value.
func (e *evaluator) evaluate(expr hclsyntax.Expression) (cty.Value, bool) {
	if !e.plain(expr) {
		return cty.NilVal, false
	}
	v, diags := expr.Value(e.context(expr.Range()))
	for _, d := range diags {
		summary, detail, at := d.Summary, d.Detail, d.Subject
		var refused *refusal
		if extra, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok {
			if errors.As(extra.FunctionCallError(), &refused) {
				summary, detail, at = refused.summary, refused.detail, d.Context // the call with its argument
			} else { // the library's own words may repeat what it was given
				name := extra.CalledFunctionName()
				detail = fmt.Sprintf("It is written %s: %s.", usage(name), builtins[name].doc)
			}
		}
		if at == nil {
			at = expr.Range().Ptr()
		}
		e.fail(*at, summary, detail)
	}
	switch {
	case diags.HasErrors():
		return cty.NilVal, false
	case !v.IsWhollyKnown():
		if !e.diags.HasErrors() { // else its cause is reported
			e.fail(expr.Range(), "Unknown value", "A variable or local that it is made of is wrong; `gateway check` says why.")
		}
		return cty.NilVal, false
	}
	// What is wrong with a number is for its reader to say.
	if weight := weigh(v); weight > maxValue && v.Type() != cty.Number {
		e.fail(expr.Range(), "Value too large", "It is far larger than anything here could mean.")
		return cty.NilVal, false
	} else if e.spent += weight; e.spent > maxSpent {
		e.fail(expr.Range(), "Too much in all", "The values of all expressions together are too large.")
		return cty.NilVal, false
	}
	if text, marks := v.Unmark(); len(marks) > 0 && text.RawEquals(cty.StringVal("")) {
		e.warn(expr.Range(), "Empty value from outside", "The variable or file is there, and nothing is in it. If that is "+
			"not meant, write its value where the gateway is started.")
	}
	return v, true
}

const (
	numberOutOfRange = "Number out of range"
	outOfRangeDetail = "It is larger or smaller than anything here could mean."
)

// maxSpent is how many bytes the values of all expressions may have.
const maxSpent = 64 << 20

// plainOfFacts is plain, for a condition.
func (e *evaluator) plainOfFacts(expr hclsyntax.Expression) bool {
	e.facts = true
	defer func() { e.facts = false }()
	return e.plain(expr)
}

// plain checks that an expression is made only of what a configuration needs. Loops could run for ever.
func (e *evaluator) plain(expr hclsyntax.Expression) bool {
	ok := true
	refuse := func(at hcl.Range, summary, detail string) {
		if ok {
			e.fail(at, summary, detail)
		}
		ok = false
	}
	// VisitAll never fails: the callback returns no diagnostics.
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.LiteralValueExpr:
			if n.Val.Type() == cty.Number && n.Val.IsKnown() && !n.Val.IsNull() && tooExtreme(n.Val.AsBigFloat()) {
				refuse(n.Range(), numberOutOfRange, outOfRangeDetail)
			}
		case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ParenthesesExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr,
			*hclsyntax.UnaryOpExpr, *hclsyntax.BinaryOpExpr, *hclsyntax.ConditionalExpr,
			*hclsyntax.IndexExpr, *hclsyntax.RelativeTraversalExpr, hclsyntax.ChildScope:
		case *hclsyntax.FunctionCallExpr:
			if summary, detail := e.callProblem(n); summary != "" {
				at := n.NameRange
				if usage(n.Name) != "" {
					at = n.Range()
				}
				refuse(at, summary, detail)
			}
		case *hclsyntax.ScopeTraversalExpr:
			if summary, detail := e.referenceProblem(n.Traversal); summary != "" {
				refuse(n.Range(), summary, detail)
			}
		default:
			refuse(node.Range(), "Unsupported expression", "There are no loops here. Write the value itself, or make it of "+
				"others with operators and functions.")
		}
		return nil
	})
	return ok
}

// callProblem says what is wrong with a function's name, or with the number of arguments of env and file.
func (e *evaluator) callProblem(call *hclsyntax.FunctionCallExpr) (summary, detail string) {
	known := append(slices.Sorted(maps.Keys(builtins)), "env", "file")
	switch {
	case e.facts && (call.Name == "env" || call.Name == "file"):
		return "Not in a condition", "A condition is asked for each request. Give the value a name in locals, and write " +
			"local.NAME here."
	case usage(call.Name) == "":
		return "Unknown function", suggestion(call.Name, known, "function")
	case (call.Name == "env" || call.Name == "file") && (len(call.Args) != 1 || call.ExpandFinal):
		return "Wrong number of arguments", "Write env(\"NAME\") or file(\"path\")."
	}
	return "", ""
}

// referenceProblem says what is wrong with a name that stands without quotes.
func (e *evaluator) referenceProblem(t hcl.Traversal) (summary, detail string) {
	if e.facts {
		if summary, detail, handled := factProblem(t); handled {
			return summary, detail
		}
	}
	root, name := reference(t)
	noun := map[string]string{"var": "variable", "local": "local"}[root]
	if noun == "" {
		return "Text without quotes", "If a text is meant, put it in quotes; for a secret write env(\"NAME\"). Without " +
			"quotes stand var.NAME and local.NAME."
	}
	known, ok := e.scope[root]
	if !ok {
		return "Not known here", "A default is made of values and functions only. What refers to variables belongs into " +
			"locals."
	}
	if _, ok := known[name]; ok {
		return "", ""
	}
	summary = fmt.Sprintf("No %s %q", noun, clip(name))
	if len(known) > 0 {
		return summary, suggestion(name, slices.Sorted(maps.Keys(known)), noun)
	}
	return summary, fmt.Sprintf("There is no %s. Write one at the top of the file:\n%s", noun,
		map[string]string{"var": variableExample, "local": localsExample}[root])
}

// showSafe permits of an expression what is surely not a secret: numbers, operators, references and functions. Texts
// stay hidden, for who says that none of them is a key?
func (e *evaluator) showSafe(expr hclsyntax.Expression) {
	e.showReferences(expr)
	src := e.sources.named[expr.Range().Filename]
	if src == nil {
		return
	}
	end := expr.Range().End.Byte
	for i := src.firstToken(expr.Range().Start.Byte); i < len(src.tokens) && src.tokens[i].Range.Start.Byte < end; i++ {
		switch t := &src.tokens[i]; t.Type {
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenIdent, hclsyntax.TokenInvalid,
			hclsyntax.TokenBadUTF8, hclsyntax.TokenComment:
		default:
			src.show(t.Range)
		}
	}
}

// showReferences permits the names of functions, of variables and of locals, and what env and file are asked for.
func (e *evaluator) showReferences(expr hclsyntax.Expression) {
	// VisitAll never fails: the callback returns no diagnostics.
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.FunctionCallExpr:
			if usage(n.Name) != "" {
				e.show(n.NameRange)
			}
			if isOutsideCall(n) {
				e.show(n.Range())
			}
		case *hclsyntax.ScopeTraversalExpr:
			if root, _ := reference(n.Traversal); root == "var" || root == "local" {
				e.show(n.Range())
			}
		}
		return nil
	})
}

// isOutsideCall reports whether an expression is just env("NAME") or file("path") with nothing in it to hide.
func isOutsideCall(expr hclsyntax.Expression) bool {
	call, ok := expr.(*hclsyntax.FunctionCallExpr)
	if !ok || (call.Name != "env" && call.Name != "file") || len(call.Args) != 1 {
		return false
	}
	template, ok := call.Args[0].(*hclsyntax.TemplateExpr)
	if !ok || !template.IsStringLiteral() {
		return false
	}
	name, diags := template.Value(nil)
	return !diags.HasErrors() && (call.Name == "file" || variablePattern.MatchString(name.AsString()))
}
