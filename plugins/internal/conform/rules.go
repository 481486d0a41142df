package conform

import (
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// rule is what is done about a restriction.
type rule uint32

const (
	forcedChoice rule = 1 << iota
	namedChoice
	jsonWithTools
	noStrict
	rootType
	properties
	items
	rootUnions
	grammar
	laterSystem
	systemAlone
	assistantFirst
	assistantLast
	userAfterResult
	repeatedRoles
	emptyAssistant
	blankText
	textParts
	resultErrors
	rootKeywords
	openAPI
)

// byName are the rules of restrictions (llm.Restrictions); those of names and ids are in forms, and those of settings
// that are left out belong to who writes requests.
var byName = map[string]rule{
	llm.RefusesForcedChoice:     forcedChoice,
	"named_tool_choice":         namedChoice,
	llm.RefusesJSONWithTools:    jsonWithTools,
	"strict":                    noStrict,
	"schema_without_type":       rootType,
	"schema_without_properties": properties,
	"schema_without_items":      items,
	"schema_root_unions":        rootUnions | rootType,
	"schema_root_keywords":      rootKeywords | rootType,
	"schema_grammar_limits":     grammar,
	"schema_beyond_openapi":     openAPI | rootType,
	"later_system":              laterSystem,
	"system_alone":              systemAlone,
	"assistant_first":           assistantFirst,
	"assistant_last":            assistantLast,
	"user_after_result":         userAfterResult,
	"repeated_roles":            repeatedRoles,
	"empty_assistant":           emptyAssistant,
	"blank_text":                blankText,
	"text_parts":                textParts,
	"result_errors":             resultErrors,
}

// forms are what restrictions leave of names and ids.
var forms = map[string]struct{ ids, names form }{
	"call_ids_over_40":   {ids: form{most: 40}},
	"call_ids_over_64":   {ids: form{most: 64}},
	"call_id_symbols":    {ids: form{kind: wordsAndDashes}},
	"call_ids_unlike_9":  {ids: form{kind: alphanumeric, least: 9, most: 9}},
	"tool_names_over_64": {names: form{most: 64}},
	"tool_name_symbols":  {names: form{kind: wordsAndDashes}},
	"tool_name_digits":   {names: form{begun: true}},
}

// and is what fits both forms.
func (f form) and(g form) form {
	f.kind, f.least, f.begun = max(f.kind, g.kind), max(f.least, g.least), f.begun || g.begun
	if f.most == 0 || g.most > 0 && g.most < f.most {
		f.most = g.most
	}
	return f
}

// rules are what an upstream refuses.
type rules struct {
	set        rule
	ids, names form
}

func (r *rules) has(one rule) bool { return r.set&one != 0 }

// read reads lists of names of restrictions.
func read(lists ...[]string) (r rules) {
	for _, list := range lists {
		for _, name := range list {
			r.set |= byName[name]
			left := forms[name]
			r.ids, r.names = r.ids.and(left.ids), r.names.and(left.names)
		}
	}
	return r
}

// charset says which characters a name may have; the later ones are narrower.
type charset uint8

const (
	anything charset = iota
	wordsAndDashes
	alphanumeric
)

func (c charset) has(b byte) bool {
	switch {
	case c == anything, 'a' <= b|0x20 && b|0x20 <= 'z', '0' <= b && b <= '9':
		return true
	}
	return c == wordsAndDashes && (b == '_' || b == '-')
}

// form is what names of a kind may look like. The zero value is any that is not empty.
type form struct {
	kind        charset
	least, most int  // bytes; 0 for no limit
	begun       bool // with a letter or _
}

func (f form) fits(s string) bool {
	if s == "" || len(s) < f.least || f.most > 0 && len(s) > f.most || f.begun && !begins(s) {
		return false
	}
	if f.kind == anything {
		return true
	}
	for i := range len(s) {
		if !f.kind.has(s[i]) {
			return false
		}
	}
	return true
}

func begins(s string) bool { return s[0] == '_' || 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z' }

// sanitizeName is the name in the characters that are allowed; it may still not fit.
func (f form) sanitizeName(s string) string {
	if f.kind != anything {
		s = strings.Map(func(c rune) rune {
			switch {
			case c < 0x80 && f.kind.has(byte(c)):
				return c
			case f.kind == alphanumeric:
				return -1
			}
			return '_'
		}, s)
	}
	if f.begun && (s == "" || !begins(s)) {
		s = "_" + s
	}
	return s
}
