package config

import (
	"errors"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// builtin is a function of the language.
type builtin struct {
	usage, doc string
	function   function.Function
	grows      bool // its result can be as large as the product of its arguments
}

// builtins are the functions beside env and file: those of cty's library that a configuration has use for. They have
// no effect, are the same at every call, and none makes much of little.
var builtins = map[string]builtin{
	"abs":        {usage: "abs(NUMBER)", doc: "without its sign", function: stdlib.AbsoluteFunc},
	"ceil":       {usage: "ceil(NUMBER)", doc: "rounded up", function: stdlib.CeilFunc},
	"coalesce":   {usage: "coalesce(A, B, ...)", doc: "the first that is not null", function: coalesce},
	"concat":     {usage: "concat(LIST, LIST, ...)", doc: "one list of all", function: concat},
	"contains":   {usage: "contains(LIST, VALUE)", doc: "true or false", function: stdlib.ContainsFunc},
	"floor":      {usage: "floor(NUMBER)", doc: "rounded down", function: stdlib.FloorFunc},
	"join":       {usage: "join(SEPARATOR, LIST)", doc: "one text", function: stdlib.JoinFunc, grows: true},
	"jsondecode": {usage: "jsondecode(TEXT)", doc: "what a text in JSON says", function: stdlib.JSONDecodeFunc},
	"keys":       {usage: "keys(MAP)", doc: "its keys, sorted", function: stdlib.KeysFunc},
	"length":     {usage: "length(LIST)", doc: "how many there are in a list or map", function: stdlib.LengthFunc},
	"lower":      {usage: "lower(TEXT)", doc: "in lower case", function: stdlib.LowerFunc},
	"max":        {usage: "max(A, B, ...)", doc: "the largest number", function: stdlib.MaxFunc},
	"merge":      {usage: "merge(MAP, MAP, ...)", doc: "one map of all; the last one wins", function: merge},
	"min":        {usage: "min(A, B, ...)", doc: "the smallest number", function: stdlib.MinFunc},
	"replace": {usage: "replace(TEXT, OLD, NEW)", doc: "with each OLD replaced", function: stdlib.ReplaceFunc,
		grows: true},
	"split": {usage: "split(SEPARATOR, TEXT)", doc: "a list", function: stdlib.SplitFunc},
	"substr": {usage: "substr(TEXT, OFFSET, LENGTH)", doc: "a piece of it; LENGTH -1: up to the end",
		function: stdlib.SubstrFunc},
	"tobool":     {usage: "tobool(VALUE)", doc: "as true or false", function: stdlib.MakeToFunc(cty.Bool)},
	"tonumber":   {usage: "tonumber(VALUE)", doc: "as a number", function: stdlib.MakeToFunc(cty.Number)},
	"tostring":   {usage: "tostring(VALUE)", doc: "as text", function: stdlib.MakeToFunc(cty.String)},
	"trimprefix": {usage: "trimprefix(TEXT, PREFIX)", doc: "without it", function: stdlib.TrimPrefixFunc},
	"trimspace":  {usage: "trimspace(TEXT)", doc: "without blanks around it", function: stdlib.TrimSpaceFunc},
	"trimsuffix": {usage: "trimsuffix(TEXT, SUFFIX)", doc: "without it", function: stdlib.TrimSuffixFunc},
	"upper":      {usage: "upper(TEXT)", doc: "in upper case", function: stdlib.UpperFunc},
}

// usages are how all functions are written.
func usage(name string) string {
	switch name {
	case "env":
		return `env("NAME")`
	case "file":
		return `file("path")`
	}
	return builtins[name].usage
}

// These three keep apart what each element came from, unlike the library's: so a secret written out stays one beside
// those that are not.
var (
	coalesce = marked(func(args []cty.Value) (cty.Value, error) {
		for _, arg := range args {
			if !arg.IsNull() {
				return arg, nil
			}
		}
		return cty.NilVal, errors.New("all are null")
	})
	concat = marked(func(args []cty.Value) (cty.Value, error) {
		var all []cty.Value
		for _, arg := range args {
			list, marks := arg.Unmark()
			if list.IsNull() || !isList(list.Type()) {
				return cty.NilVal, errors.New("not a list")
			}
			for _, element := range list.AsValueSlice() {
				all = append(all, element.WithMarks(marks))
			}
		}
		return cty.TupleVal(all), nil
	})
	merge = marked(func(args []cty.Value) (cty.Value, error) {
		all := make(map[string]cty.Value)
		for _, arg := range args {
			object, marks := arg.Unmark()
			if object.IsNull() || !isMap(object.Type()) {
				return cty.NilVal, errors.New("not a map")
			}
			for key, element := range object.AsValueMap() {
				all[key] = element.WithMarks(marks)
			}
		}
		return cty.ObjectVal(all), nil
	})
)

// marked makes a function of any values that sees where they came from.
func marked(call func(args []cty.Value) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "values", Type: cty.DynamicPseudoType,
			AllowMarked: true, AllowNull: true, AllowDynamicType: true},
		Type: function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return call(args) },
	})
}

const (
	maxGrowing = 4 << 10 // bytes of all arguments of a function that makes products of them
	maxValue   = 1 << 20 // bytes of one value, about
)

var errTooMuch = errors.New("more than a configuration has use for")

// functions are builtins as HCL calls them, each with a bound on what it takes and gives.
func functions() map[string]function.Function {
	bounded := make(map[string]function.Function, len(builtins)+1)
	for name, b := range builtins {
		bounded[name] = b.bounded()
	}
	return bounded
}

func (b builtin) bounded() function.Function {
	most := maxValue
	if b.grows {
		most = maxGrowing
	}
	return function.New(&function.Spec{
		Params: b.function.Params(), VarParam: b.function.VarParam(),
		Type: b.function.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			total := 0
			for _, arg := range args {
				if total += weigh(arg); total > most {
					return cty.NilVal, errTooMuch
				}
			}
			result, err := b.function.Call(args)
			if err == nil && weigh(result) > maxValue {
				err = errTooMuch
			}
			return result, err
		},
	})
}

// weigh is about how many bytes a value has, more than maxValue if it has a number that is too extreme. It stops
// counting there.
func weigh(v cty.Value) int {
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown() || v.IsNull():
		return 1
	case v.Type() == cty.String:
		return 1 + len(v.AsString())
	case v.Type() == cty.Number:
		if tooExtreme(v.AsBigFloat()) {
			return maxValue + 1
		}
	case v.CanIterateElements():
		total := 16
		for it := v.ElementIterator(); it.Next() && total <= maxValue; {
			key, element := it.Element()
			total += weigh(key) + weigh(element)
		}
		return total
	}
	return 16
}
