package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fareway/fareway/plugins/llm"
)

// IsFinishWord reports whether s can be a word with which an upstream ends a reply: 1 to 64 letters, digits, and
// signs between them.
func IsFinishWord(s string) bool {
	return s != "" && len(s) <= llm.MaxFinishReason && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:/", r)
	})
}

// finishReasons reads an upstream's own words for the end of a reply, and what each of them means (GAP-114).
func (s *section) finishReasons() map[string]llm.FinishReason {
	reasons := make(map[string]llm.FinishReason)
	v, ok := s.read("finish_reasons")
	if !ok {
		return reasons
	}
	if !isMap(v.Type()) {
		s.refuseType(v, `a map, as in { eod = "stop" }`)
		return reasons
	}
	var known []string
	for _, reason := range llm.FinishReasons() {
		known = append(known, string(reason))
	}
	places := v.keys(s)
	members := v.AsValueMap()
	for _, word := range slices.Sorted(maps.Keys(members)) {
		meaning := value{Value: members[word], name: v.name, expr: v.expr, at: v.at, outside: v.outside}
		if at, ok := places[word]; ok {
			meaning.at = at
		}
		key := strings.ToLower(word)
		switch {
		case !IsFinishWord(word):
			s.refuse(meaning, fmt.Sprintf("must have words of 1 to %d letters, digits and the signs _ - . : / as its keys",
				llm.MaxFinishReason))
		case slices.Contains(known, key):
			s.refuse(meaning, fmt.Sprintf("must not give %q another meaning: it means the same everywhere", key))
		case reasons[key] != "":
			s.refuse(meaning, "must have each word once; capitals make no difference")
		case meaning.Type() != cty.String || meaning.IsNull():
			s.refuse(meaning, "must be a map of texts, each one of "+enumerate(known))
		case s.choose(meaning, meaning.AsString(), known):
			reasons[key] = llm.FinishReason(meaning.AsString())
		}
	}
	return reasons
}

// keys are the places of the members of a map that is written out, by their keys. A key that stands twice is reported:
// the language itself takes the last one.
func (v value) keys(s *section) map[string]hcl.Range {
	places := make(map[string]hcl.Range)
	object, ok := v.expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return places
	}
	for _, item := range object.Items {
		key, ok := s.evaluate(item.KeyExpr)
		if !ok || key.IsNull() || key.Type() != cty.String {
			continue
		}
		key, _ = key.UnmarkDeep()
		at := item.ValueExpr.Range()
		if _, repeated := places[key.AsString()]; repeated {
			s.refuse(value{Value: key, name: v.name, at: item.KeyExpr.Range(), outside: v.outside}, "has this key twice")
		}
		places[key.AsString()] = at
	}
	return places
}
