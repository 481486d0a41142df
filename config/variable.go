package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// VariablePrefix begins the name of the environment variable that sets a variable of the configuration.
const VariablePrefix = "FAREWAY_VAR_"

// maxLocals is far more than anybody keeps in mind.
const maxLocals = 10_000

var identifierPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// names reads the blocks variable and locals, so that expressions can use `var.x` and `local.x`. One that is wrong is
// reported, and unknown from there on: what uses it is not reported again.
func (e *evaluator) names(blocks map[string][]*hclsyntax.Block) {
	e.base.Variables = make(map[string]cty.Value)
	e.scope = make(map[string]map[string]cty.Value)

	variables := make(map[string]cty.Value)
	taken := make(map[string]hcl.Range)
	for _, block := range blocks["variable"] {
		if name, ok := e.variableName(block, taken); ok {
			variables[name] = e.variable(name, block)
		}
	}
	e.scope["var"] = variables
	e.base.Variables["var"] = cty.ObjectVal(variables)

	locals := e.locals(blocks["locals"])
	e.scope["local"] = locals
	e.base.Variables["local"] = cty.ObjectVal(locals)
}

func (e *evaluator) variableName(block *hclsyntax.Block, taken map[string]hcl.Range) (string, bool) {
	if !identifierPattern.MatchString(block.Labels[0]) {
		e.fail(block.LabelRanges[0], "Invalid name", "The name of a variable is made of letters, digits and \"_\", at most "+
			"64 of them, and does not begin with a digit: it becomes a part of an environment variable's name.")
		return "", false
	}
	return block.Labels[0], e.first(block, taken)
}

// variable is the value from the environment, or else the default.
func (e *evaluator) variable(name string, block *hclsyntax.Block) cty.Value {
	s := e.open(block, &variableGrammar)
	s.public = false // perhaps a key is written out here
	var description string
	s.text("description", &description)
	fallback := cty.NilVal
	if attr := s.attributes["default"]; attr != nil {
		e.showSafe(attr.Expr)
		var ok bool
		if fallback, ok = e.evaluateNamed(attr.Expr); !ok {
			return cty.DynamicVal
		}
		if fallback.IsNull() {
			e.fail(attr.Expr.Range(), "default is null", "Give it a value, or leave the line out.")
			return cty.DynamicVal
		}
	}
	text, set := e.opts.Env(VariablePrefix + name)
	switch {
	case set:
		e.outside.learn(text)
		return e.variableFrom(name, text, block, fallback)
	case fallback == cty.NilVal:
		e.fail(block.LabelRanges[0], fmt.Sprintf("Variable %q has no value", name), fmt.Sprintf("Set it where the gateway "+
			"is started, for example: export %s%s=...\nOr give it a default here. A gateway that runs has the variables of its "+
			"start.", VariablePrefix, name))
		return cty.DynamicVal
	}
	return fallback
}

// variableFrom reads the value of an environment variable as what the default is: a number, true or false, text, and
// JSON for lists and maps.
func (e *evaluator) variableFrom(name, text string, block *hclsyntax.Block, fallback cty.Value) cty.Value {
	refuse := func(want string) cty.Value {
		e.fail(block.LabelRanges[0], fmt.Sprintf("Invalid value of variable %q", name), fmt.Sprintf("The environment "+
			"variable %s%s must be %s. Its value is not shown.", VariablePrefix, name, want))
		return cty.DynamicVal
	}
	if !utf8.ValidString(text) {
		return refuse("valid UTF-8")
	}
	if _, err := e.outside.spend(text); err != nil {
		return refuse("shorter: all that comes from outside may have 4 MiB")
	}
	v, want := cty.StringVal(text), ""
	if fallback != cty.NilVal {
		var err error
		kind := fallback.Type()
		switch {
		case kind == cty.Number || kind == cty.Bool:
			want = describe(kind) + ", like the default"
			v, err = convert.Convert(cty.StringVal(strings.TrimSpace(text)), kind)
		case kind != cty.String:
			want = describe(kind) + " in JSON, like the default"
			v, err = stdlib.JSONDecode(v)
		}
		if err != nil || v.IsNull() || describe(v.Type()) != describe(kind) {
			return refuse(want)
		}
	}
	if weigh(v) > maxValue {
		return refuse("of a usual size")
	}
	return v.Mark(fromOutside{})
}

// evaluateNamed is evaluate for a value that others are made of: none of them could make anything of a number so
// large.
func (e *evaluator) evaluateNamed(expr hclsyntax.Expression) (cty.Value, bool) {
	v, ok := e.evaluate(expr)
	if ok && weigh(v) > maxValue {
		e.fail(expr.Range(), numberOutOfRange, outOfRangeDetail)
		return cty.NilVal, false
	}
	return v, ok
}

// local is one attribute of a locals block.
type local struct {
	*hclsyntax.Attribute
	needs []string // other locals
	open  int      // how many of them are not known yet
}

// locals evaluates all of them, each after those that it refers to.
func (e *evaluator) locals(blocks []*hclsyntax.Block) map[string]cty.Value {
	values := make(map[string]cty.Value)
	all, order := e.collectLocals(blocks)
	for _, name := range order {
		values[name] = cty.DynamicVal // known by name, so that a misspelt one is told
	}
	e.scope["local"] = values
	users := make(map[string][]string) // who refers to a local
	var ready []string
	for _, name := range order {
		lo := all[name]
		e.showSafe(lo.Expr)
		for _, traversal := range lo.Expr.Variables() {
			if root, other := reference(traversal); root == "local" && all[other] != nil && !slices.Contains(lo.needs, other) {
				lo.needs = append(lo.needs, other)
				users[other] = append(users[other], name)
			}
		}
		if lo.open = len(lo.needs); lo.open == 0 {
			ready = append(ready, name)
		}
	}
	for len(ready) > 0 {
		name := ready[0]
		ready = ready[1:]
		lo := all[name]
		known := make(map[string]cty.Value, len(lo.needs))
		for _, other := range lo.needs {
			known[other] = values[other]
		}
		e.base.Variables["local"] = cty.ObjectVal(known)
		if v, ok := e.evaluateNamed(lo.Expr); ok {
			values[name] = v
		}
		delete(all, name)
		for _, user := range users[name] {
			if all[user].open--; all[user].open == 0 {
				ready = append(ready, user)
			}
		}
	}
	e.cycles(all, order)
	return values
}

// collectLocals returns the attributes of all blocks by name, and their names in the order of the file.
func (e *evaluator) collectLocals(blocks []*hclsyntax.Block) (all map[string]*local, order []string) {
	all = make(map[string]*local)
	for _, block := range blocks {
		for _, inner := range block.Body.Blocks {
			e.show(inner.TypeRange)
			e.fail(inner.TypeRange, "No block belongs here", "Write a map with an equals sign: name = { ... }")
		}
		attributes := slices.SortedFunc(maps.Values(block.Body.Attributes), func(a, b *hclsyntax.Attribute) int {
			return cmp.Compare(a.NameRange.Start.Byte, b.NameRange.Start.Byte)
		})
		for _, attr := range attributes {
			e.show(attr.NameRange)
			if first := all[attr.Name]; first != nil {
				e.fail(attr.NameRange, fmt.Sprintf("Second local %q", clip(attr.Name)),
					fmt.Sprintf("The first is %s. Rename one of them, or remove it.", e.place(first.NameRange)))
				continue
			}
			if len(all) == maxLocals {
				e.fail(attr.NameRange, "Too many locals", fmt.Sprintf("There can be %d.", maxLocals))
				return all, order
			}
			all[attr.Name] = &local{Attribute: attr}
			order = append(order, attr.Name)
		}
	}
	return all, order
}

// cycles reports the locals that wait for each other, each circle once; others may hang on them.
func (e *evaluator) cycles(waiting map[string]*local, order []string) {
	for _, start := range order {
		var path []string
		at := make(map[string]int) // where in path
		next := start
		for waiting[next] != nil {
			if i, circle := at[next]; circle {
				e.cycle(waiting, path[i:])
				break
			}
			at[next] = len(path)
			path = append(path, next)
			i := slices.IndexFunc(waiting[next].needs, func(name string) bool { return waiting[name] != nil })
			if i < 0 {
				break // it hangs on a circle that is reported
			}
			next = waiting[next].needs[i]
		}
		for _, name := range path {
			delete(waiting, name)
		}
	}
}

func (e *evaluator) cycle(locals map[string]*local, circle []string) {
	places := make([]string, len(circle))
	for i, name := range circle {
		places[i] = fmt.Sprintf("%s (%s)", clip(name), e.place(locals[name].NameRange))
	}
	detail := "It refers to itself. Write what it is made of."
	if len(circle) > 1 {
		detail = fmt.Sprintf("They refer to each other: %s, and so on. Write one of them out.", strings.Join(places, ", "))
	}
	e.fail(locals[circle[0]].NameRange, "Cycle of locals", detail)
}

// reference is the two names of `var.x` or `local.x`, or nothing.
func reference(t hcl.Traversal) (root, name string) {
	if len(t) < 2 {
		return "", ""
	}
	attr, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		return "", ""
	}
	return t.RootName(), attr.Name
}
