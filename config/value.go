package config

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// value is an evaluated attribute, without marks.
type value struct {
	cty.Value
	name    string
	expr    hclsyntax.Expression
	at      hcl.Range
	outside bool // came from env or file, at least in part: never repeat it, and read numbers from its text
}

// read evaluates an attribute. It is false when the attribute is absent, or wrong and reported.
func (s *section) read(name string) (value, bool) {
	attr := s.attributes[name]
	if attr == nil {
		return value{}, false
	}
	if s.public {
		s.show(attr.Expr.Range())
	}
	raw, ok := s.evaluate(attr.Expr)
	if !ok {
		return value{}, false
	}
	v := value{name: name, expr: attr.Expr, at: attr.Expr.Range(), outside: raw.HasMarkDeep(fromOutside{})}
	v.Value, _ = raw.UnmarkDeep()
	if v.IsNull() {
		s.fail(v.at, fmt.Sprintf("%s is null", name), "Give it a value, or leave the line out.")
		return value{}, false
	}
	return v, true
}

// refuse reports that the value of an attribute is not what it must be; problem begins with a verb.
func (s *section) refuse(v value, problem string) {
	detail := fmt.Sprintf("%s %s.", v.name, problem)
	if v.outside {
		detail += " The value came from env or file and is not shown."
	}
	s.fail(v.at, "Invalid "+v.name, detail)
}

// refuseType is refuse for a value of a wrong type; want says which is right, with an example.
func (s *section) refuseType(v value, want string) {
	s.refuse(v, v.mistyped(want))
}

// mistyped says what is wrong with a value of a wrong type.
func (v value) mistyped(want string) string {
	return fmt.Sprintf("must be %s, and this is %s", want, describe(v.Type()))
}

// describe names a type for people.
func describe(t cty.Type) string {
	switch {
	case t == cty.String:
		return "text"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case isList(t):
		return "a list"
	case isMap(t):
		return "a map"
	}
	return "something else"
}

// isList and isMap know what is written out, and what functions make.
func isList(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }
func isMap(t cty.Type) bool  { return t.IsObjectType() || t.IsMapType() }

// elements are the values of a list, each at its own place if the list is written out.
func (v value) elements() []value {
	list, _ := v.expr.(*hclsyntax.TupleConsExpr)
	out := make([]value, 0, v.LengthInt())
	for i, element := range v.AsValueSlice() {
		at := v.at
		if list != nil {
			at = list.Exprs[i].Range()
		}
		out = append(out, value{Value: element, name: v.name, expr: v.expr, at: at, outside: v.outside})
	}
	return out
}

// number gives the value as a number. Text counts as one only if it came from outside, where everything is text.
func (v value) number() (*big.Float, bool) {
	switch {
	case v.Type() == cty.Number:
		return decimal(v.AsBigFloat()), true
	case v.Type() == cty.String && v.outside && len(v.AsString()) <= maxDigits:
		n, err := cty.ParseNumberVal(strings.TrimSpace(v.AsString()))
		if err != nil {
			return nil, false
		}
		return decimal(n.AsBigFloat()), true
	}
	return nil, false
}

// boolean gives the value as true or false; text counts as for number.
func (v value) boolean() (result, ok bool) {
	switch {
	case v.Type() == cty.Bool:
		return v.True(), true
	case v.Type() == cty.String && v.outside:
		text := strings.TrimSpace(v.AsString())
		return text == "true", text == "true" || text == "false"
	}
	return false, false
}

// text reads a text of one byte up to what the grammar allows, without control characters.
func (s *section) text(name string, target *string) (value, bool) {
	v, ok := s.read(name)
	return v, ok && s.asText(v, s.grammar.rule(name).kind.bytes, target)
}

// asText is text for a value that was read already.
func (s *section) asText(v value, limit int, target *string) bool {
	switch {
	case v.Type() != cty.String:
		s.refuseType(v, "text in quotes")
	case v.AsString() == "":
		s.refuse(v, "must not be empty")
	case len(v.AsString()) > limit:
		s.refuse(v, fmt.Sprintf("must be at most %d bytes long", limit))
	case strings.ContainsFunc(v.AsString(), unicode.IsControl):
		s.refuse(v, "must not contain control characters, such as line breaks")
	default:
		*target = v.AsString()
		return true
	}
	return false
}

// oneOf reads a text out of a few.
func (s *section) oneOf(name string, target *string) {
	var given string
	if v, ok := s.text(name, &given); ok && s.choose(v, given, s.grammar.rule(name).kind.choices) {
		*target = given
	}
}

// choose checks a text against the few that are known.
func (s *section) choose(v value, given string, choices []string) bool {
	if slices.Contains(choices, given) {
		return true
	}
	problem := "must be one of " + enumerate(choices)
	if len(choices) == 1 {
		problem = "must be " + choices[0]
	}
	if near := Nearest(given, choices); near != "" && !v.outside {
		problem += fmt.Sprintf(". Did you mean %q?", near)
		s.fail(v.at, "Invalid "+v.name, v.name+" "+problem)
		return false
	}
	s.refuse(v, problem)
	return false
}

// duration reads a duration in Go's notation.
func (s *section) duration(name string, target *time.Duration) {
	v, ok := s.read(name)
	if ok && v.Type() != cty.String {
		s.refuseType(v, "a duration in quotes, as in \"10m\"")
	} else if ok {
		if d, problem := duration(v.AsString(), s.grammar.rule(name).kind.longest); problem != "" {
			s.refuse(v, problem)
		} else {
			*target = d
		}
	}
}

// size reads a number of bytes.
func (s *section) size(name string, target *int64) {
	v, ok := s.read(name)
	if !ok {
		return
	}
	var text string
	switch v.Type() {
	case cty.String:
		text = v.AsString()
	case cty.Number:
		n := decimal(v.AsBigFloat())
		if tooExtreme(n) {
			s.refuse(v, "must be at most \"1024GiB\"")
			return
		}
		text = n.Text('f', -1)
	default:
		s.refuseType(v, "a size, as in \"32MiB\"")
		return
	}
	bytes, problem := size(text)
	if problem != "" {
		s.refuse(v, problem)
		return
	}
	*target = bytes
}

// number reads any number; want says which is right.
func (s *section) number(name, want string) (value, *big.Float, bool) {
	v, ok := s.read(name)
	if !ok {
		return v, nil, false
	}
	n, ok := v.number()
	if !ok {
		s.refuseType(v, want)
	}
	return v, n, ok
}

// integer reads a whole number within the bounds that the grammar has.
func (s *section) integer(name string, target *int64) (value, bool) {
	least, most := s.grammar.rule(name).kind.least, s.grammar.rule(name).kind.most
	v, n, ok := s.number(name, "a whole number without quotes")
	switch {
	case !ok:
	case n.Cmp(new(big.Float).SetInt64(least)) < 0:
		s.refuse(v, fmt.Sprintf("must be at least %d", least))
	case n.Cmp(new(big.Float).SetInt64(most)) > 0:
		s.refuse(v, fmt.Sprintf("must be at most %d", most))
	case !n.IsInt():
		s.refuse(v, "must be a whole number")
	default:
		*target, _ = n.Int64()
		return v, true
	}
	return v, false
}

// flag reads true or false.
func (s *section) flag(name string, target *bool) {
	if v, ok := s.read(name); ok {
		if given, ok := v.boolean(); ok {
			*target = given
		} else {
			s.refuseType(v, "true or false, without quotes")
		}
	}
}

// fraction reads a number from 0 to 1.
func (s *section) fraction(name string, target *float64) {
	if v, ok := s.read(name); ok {
		s.fractionOf(v, target)
	}
}

// fractionOf is fraction for a value that was read already.
func (s *section) fractionOf(v value, target *float64) {
	n, ok := v.number()
	switch {
	case !ok:
		s.refuseType(v, "a number from 0 to 1, without quotes")
	case n.Sign() < 0 || n.Cmp(big.NewFloat(1)) > 0:
		s.refuse(v, "must be from 0 to 1")
	default:
		*target, _ = n.Float64()
	}
}

// price reads US dollars per million tokens into microcents per million tokens.
func (s *section) price(name string, target *int64) (value, bool) {
	v, n, ok := s.number(name, "a number of US dollars per million tokens, without quotes")
	if !ok {
		return v, false
	}
	amount, problem := microcents(n)
	if ok = problem == ""; ok {
		*target = amount
	} else {
		s.refuse(v, problem)
	}
	return v, ok
}

// list reads a list of values, each of which is not null, and hands them to each.
func (s *section) list(name string, each func(element value)) {
	v, ok := s.read(name)
	if ok && !isList(v.Type()) {
		s.refuseType(v, "a list, as in "+s.grammar.rule(name).example)
		return
	} else if !ok {
		return
	}
	for _, element := range v.elements() {
		if element.IsNull() {
			s.refuse(element, "must not hold null")
			continue
		}
		each(element)
	}
}

// choices reads a list of names out of a few, each once, and hands them to each.
func (s *section) choices(name string, each func(choice string)) {
	seen, known := make(map[string]bool), s.grammar.rule(name).kind.choices
	s.list(name, func(element value) {
		if element.Type() != cty.String {
			s.refuse(element, "must be a list of texts: "+enumerate(known))
			return
		}
		choice := element.AsString()
		if s.choose(element, choice, known) && !seen[choice] {
			seen[choice] = true
			each(choice)
		}
	})
}
