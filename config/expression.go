package config

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxMagnitude bounds a number literal. HCL knows numbers whose decimal text would not fit into memory.
const maxMagnitude = 1e30

// evaluate gives the value of an expression with its marks. What is wrong is reported, never with a value.
func (l *loader) evaluate(expr hclsyntax.Expression) (cty.Value, bool) {
	if !l.plain(expr) {
		return cty.NilVal, false
	}
	v, diags := expr.Value(l.context(expr.Range()))
	for _, d := range diags {
		summary, detail, at := d.Summary, d.Detail, d.Subject
		var refused *refusal
		if extra, ok := d.Extra.(hclsyntax.FunctionCallDiagExtra); ok && errors.As(extra.FunctionCallError(), &refused) {
			summary, detail, at = refused.summary, refused.detail, d.Context // the call with its argument
		}
		if at == nil {
			at = expr.Range().Ptr()
		}
		l.fail(*at, summary, detail)
	}
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	if !v.IsWhollyKnown() {
		l.fail(expr.Range(), "Unknown value", "Write the value itself.")
		return cty.NilVal, false
	}
	return v, true
}

// plain checks that an expression is made only of what a configuration needs: texts, numbers, true, false, lists,
// maps, arithmetic, env and file. Loops could run for ever; everything else has nothing to refer to.
func (l *loader) plain(expr hclsyntax.Expression) bool {
	ok := true
	refuse := func(at hcl.Range, summary, detail string) {
		if ok {
			l.fail(at, summary, detail)
		}
		ok = false
	}
	const advice = "Write the value itself: a number, true, false, a text in quotes, a list, env(\"NAME\") or " +
		"file(\"path\")."
	// VisitAll never fails: the callback returns no diagnostics.
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.LiteralValueExpr:
			if n.Val.Type() == cty.Number && n.Val.IsKnown() && !n.Val.IsNull() && tooExtreme(n.Val.AsBigFloat()) {
				refuse(n.Range(), "Number out of range", "It is larger or smaller than anything here could mean.")
			}
		case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ParenthesesExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr,
			hclsyntax.ChildScope:
		case *hclsyntax.UnaryOpExpr:
			if n.Op != hclsyntax.OpNegate {
				refuse(n.Range(), "Unsupported expression", advice)
			}
		case *hclsyntax.BinaryOpExpr:
			switch n.Op {
			case hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply, hclsyntax.OpDivide:
			default:
				refuse(n.Range(), "Unsupported expression", advice)
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name != "env" && n.Name != "file" {
				refuse(n.NameRange, "Unknown function", "The functions are env(\"NAME\") and file(\"path\").")
			} else if len(n.Args) != 1 || n.ExpandFinal {
				refuse(n.Range(), "Wrong number of arguments", "Write env(\"NAME\") or file(\"path\").")
			}
		case *hclsyntax.ScopeTraversalExpr:
			refuse(n.Range(), "Text without quotes", "There are no variables here. If a text is meant, put it in quotes; for "+
				"a secret write env(\"NAME\").")
		default:
			refuse(node.Range(), "Unsupported expression", advice)
		}
		return nil
	})
	return ok
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
