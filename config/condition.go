package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Facts are what the condition of a strategy can ask of a request.
type Facts struct {
	InputTokens int64 // an estimate
	Allowance   int64 // the output allowance that the client gave; 0: none
	Turns       int64 // replies that the conversation has already
	Tools       bool  // it needs tools
	Format      string
	Difficulty  float64            // 0 to 1
	Kinds       map[string]float64 // how likely it is of each kind of work
	Profile     string
	Account     AccountFacts
	// Unread: nobody knows its difficulty and kinds; Nameless: nor the name of its account.
	Unread, Nameless bool
}

// ErrUnknownFact says that a condition asks what is not known of the request.
var ErrUnknownFact = errors.New("it is not known of the request")

// AccountFacts are what a condition can ask of who sent the request.
type AccountFacts struct{ ID, Name, Plan string }

// variables are the facts as expressions have them.
func (f *Facts) variables() map[string]cty.Value {
	kinds, difficulty, name := make(map[string]cty.Value), cty.NumberFloatVal(f.Difficulty), cty.StringVal(f.Account.Name)
	for _, k := range KindNames() {
		kinds[k] = cty.NumberFloatVal(f.Kinds[k])
		if f.Unread {
			kinds[k] = cty.UnknownVal(cty.Number)
		}
	}
	if f.Unread {
		difficulty = cty.UnknownVal(cty.Number)
	}
	if f.Nameless {
		name = cty.UnknownVal(cty.String)
	}
	return map[string]cty.Value{
		"request": cty.ObjectVal(map[string]cty.Value{
			"input_tokens": cty.NumberIntVal(f.InputTokens),
			"allowance":    cty.NumberIntVal(f.Allowance),
			"turns":        cty.NumberIntVal(f.Turns),
			"tools":        cty.BoolVal(f.Tools),
			"format":       cty.StringVal(f.Format),
			"difficulty":   difficulty,
			"kind":         cty.ObjectVal(kinds),
		}),
		"profile": cty.StringVal(f.Profile),
		"account": cty.ObjectVal(map[string]cty.Value{
			"id": cty.StringVal(f.Account.ID), "name": name, "plan": cty.StringVal(f.Account.Plan),
		}),
	}
}

// factRoots are the names that a condition can use beside variables and locals.
var factRoots = []string{"account", "profile", "request"}

// factsDoc says what a condition can ask.
const factsDoc = "`request.input_tokens`, `request.allowance` (0: the client gave none), `request.turns` (replies " +
	"that the conversation has already), `request.tools` (true or false), `request.format` (`\"\"`, " +
	"`\"json_object\"`, `\"json_schema\"`), `request.difficulty` (0 to 1), `request.kind.code` (`.math`, `.tools`, " +
	"`.writing`: how likely, 0 to 1), `profile`, `account.id`, `account.name`, `account.plan`"

// askable is factsDoc for a message.
var askable = "A condition can ask " + strings.ReplaceAll(factsDoc, "`", "") + "."

// Condition is an expression over Facts that is true or false. Many may ask it at once.
type Condition struct {
	text string
	expr hclsyntax.Expression
	base *hcl.EvalContext
}

// String is the expression as it was written.
func (c *Condition) String() string { return c.text }

// MarshalText is the expression as it was written.
func (c *Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// Holds evaluates the condition. It fails where the expression has no value, such as for a division by zero, and with
// ErrUnknownFact where it depends on what is not known.
func (c *Condition) Holds(f *Facts) (bool, error) {
	in := c.base.NewChild()
	in.Variables = f.variables()
	v, diags := c.expr.Value(in)
	if diags.HasErrors() {
		return false, fmt.Errorf("evaluating %s: %s", c.text, diags[0].Summary)
	}
	v, _ = v.Unmark()
	if !v.IsKnown() {
		return false, fmt.Errorf("%w: %s", ErrUnknownFact, strings.Join(c.unknown(f), ", "))
	}
	if v.IsNull() || v.Type() != cty.Bool {
		return false, errors.New("evaluating " + c.text + ": it is neither true nor false")
	}
	return v.True(), nil
}

// unknown are the facts that the condition asks and nobody knows.
func (c *Condition) unknown(f *Facts) (names []string) {
	for _, t := range c.expr.Variables() {
		name := factName(t)
		asked := f.Nameless && name == "account.name" ||
			f.Unread && (name == "request.difficulty" || strings.HasPrefix(name, "request.kind"))
		if asked && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Asks reports whether the condition asks account.name, or what is known of the text (request.difficulty,
// request.kind): the facts that are not always there.
func (c *Condition) Asks(fact string) bool {
	return slices.Contains(c.unknown(&Facts{Unread: true, Nameless: true}), fact)
}

// condition reads an expression over the facts of a request. It is evaluated for each request, and once here.
func (s *section) condition(name string) *Condition {
	attr := s.attributes[name]
	if attr == nil {
		return nil
	}
	at := attr.Expr.Range()
	s.show(at)
	if !s.plainOfFacts(attr.Expr) {
		return nil
	}
	c := &Condition{text: string(s.textOf(at)), expr: attr.Expr, base: s.context(at)}
	in := c.base.NewChild()
	in.Variables = (&Facts{}).variables()
	v, diags := attr.Expr.Value(in)
	for _, d := range diags {
		where := at
		if d.Subject != nil {
			where = *d.Subject
		}
		detail := d.Detail
		if d.Summary == "Unsupported attribute" {
			detail = askable
		}
		s.fail(where, d.Summary, detail)
	}
	if diags.HasErrors() {
		return nil
	}
	if v, _ = v.Unmark(); v.IsNull() || v.Type() != cty.Bool {
		s.fail(at, "Invalid "+name, name+" must be true or false for a request, and this is "+describe(v.Type())+
			". For example: "+s.grammar.rule(name).example)
		return nil
	}
	s.comparisons(attr.Expr, c.base)
	return c
}

// factWords are the facts of which all values are known: another one never holds, or always.
var factWords = map[string][]string{
	"profile":        ProfileNames(),
	"request.format": {"", "json_object", "json_schema"},
}

// comparisons reports where a condition compares a fact with what it cannot be, so that it never holds, or always.
func (s *section) comparisons(condition hclsyntax.Expression, base *hcl.EvalContext) {
	_ = hclsyntax.VisitAll(condition, func(node hclsyntax.Node) hcl.Diagnostics {
		switch e := node.(type) {
		case *hclsyntax.BinaryOpExpr:
			if e.Op == hclsyntax.OpEqual || e.Op == hclsyntax.OpNotEqual {
				s.comparison(e.LHS, e.RHS, base)
				s.comparison(e.RHS, e.LHS, base)
			}
			if e.Op.Type == cty.Bool { // it compares
				s.shares(e.LHS, e.RHS, base)
				s.shares(e.RHS, e.LHS, base)
			}
		case *hclsyntax.FunctionCallExpr:
			if e.Name != "contains" || len(e.Args) != 2 {
				break
			}
			if list, ok := e.Args[0].(*hclsyntax.TupleConsExpr); ok {
				for _, element := range list.Exprs {
					s.comparison(e.Args[1], element, base)
				}
			}
		}
		return nil
	})
}

// comparison reports where a fact is compared with a text that it cannot be.
func (s *section) comparison(fact, with hclsyntax.Expression, base *hcl.EvalContext) {
	name := factOf(fact)
	words, listed := factWords[name]
	v, diags := with.Value(base)
	if !listed || diags.HasErrors() {
		return // or it is of the request, too
	}
	v, marks := v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return
	}
	given, detail := "what this comes to", "It is one of "+strings.ReplaceAll(quoted(words), "`", "")+"."
	switch text := v.Type() == cty.String; {
	case text && slices.Contains(words, v.AsString()):
		return
	case len(marks) > 0: // it may be a secret
	case !text:
		given = describe(v.Type())
	default:
		given = strconv.Quote(v.AsString())
		if near := Nearest(v.AsString(), words); near != "" {
			detail = fmt.Sprintf("Did you mean %q?", near)
		}
	}
	s.fail(with.Range(), name+" is never "+given, detail)
}

// shares reports where a share is compared with a number that is none: perhaps percents are meant.
func (s *section) shares(fact, with hclsyntax.Expression, base *hcl.EvalContext) {
	name := factOf(fact)
	v, diags := with.Value(base)
	if diags.HasErrors() || name != "request.difficulty" && !strings.HasPrefix(name, "request.kind.") {
		return
	}
	v, marks := v.Unmark()
	if v.Type() != cty.Number || !v.IsKnown() || v.IsNull() {
		return
	}
	number, _ := v.AsBigFloat().Float64()
	if number >= 0 && number <= 1 {
		return
	}
	given := "what this comes to"
	if len(marks) == 0 {
		given = strconv.FormatFloat(number, 'g', -1, 64)
	}
	s.fail(with.Range(), name+" is never "+given, "It is between 0 and 1.")
}

// factOf is the fact that an expression is, parentheses aside; "" for anything else.
func factOf(e hclsyntax.Expression) string {
	for {
		inner, ok := e.(*hclsyntax.ParenthesesExpr)
		if !ok {
			break
		}
		e = inner.Expression
	}
	t, diags := hcl.AbsTraversalForExpr(e)
	if diags.HasErrors() || !slices.Contains(factRoots, t.RootName()) {
		return ""
	}
	return factName(t)
}

// factName is a fact as people write it.
func factName(t hcl.Traversal) string {
	name := t.RootName()
	for _, step := range t[1:] {
		if attr, ok := step.(hcl.TraverseAttr); ok {
			name += "." + attr.Name
		}
	}
	return name
}

// factProblem says what is wrong with a name in a condition; handled is false where it is not one of the facts.
func factProblem(t hcl.Traversal) (summary, detail string, handled bool) {
	root := t.RootName()
	if !slices.Contains(factRoots, root) {
		return "", "", false
	}
	if plain := root == "profile"; plain != (len(t) == 1) {
		return "Unknown fact", askable, true
	}
	return "", "", true
}
