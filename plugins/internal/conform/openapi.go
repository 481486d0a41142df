package conform

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Google reads schemas as a part of OpenAPI 3.0 (ai.google.dev/api/caching, Schema): a keyword that it does not have
// is an error ("Cannot find field", zed #44875, 5ire #42), as is a list of types ("Proto field is not repeating", zed
// #53919, kilocode #5333), an enum of something else than texts (opencode #2687), and what is required and no
// property.

// openWords are the keywords that a schema of a type can have there; what is not among them only narrows what may be.
var openWords = map[string][]string{
	"string":  {"enum", "format", "pattern", "minLength", "maxLength"},
	"number":  {"minimum", "maximum"},
	"integer": {"minimum", "maximum"},
	"boolean": nil,
	"array":   {"items", "minItems", "maxItems"},
	"object":  {"properties", "required", "minProperties", "maxProperties"},
}

// openAny takes whatever there is, as far as that can be said.
const openAny = `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},` +
	`{"type":"array","items":{"type":"string"}}],"nullable":true}`

// aboutOpen are the keywords that every schema can have there beside its type.
var aboutOpen = []string{"nullable", "title", "description"}

// openOf is the type of a schema there, "" where it has none of its own.
func openOf(schema jsonview.View) string {
	said := bytes.Trim(schema.Get("type").Raw(), `"`)
	for kind := range openWords { // without memory for the text
		if string(said) == kind {
			return kind
		}
	}
	return ""
}

// fitsOpen reports whether a schema and all in it are of OpenAPI.
func (w *walk) fitsOpen(schema jsonview.View, depth int) bool {
	if depth > maxSchemas {
		return true
	}
	if schema.Kind() != jsonview.Object {
		return false
	}
	kind := openOf(schema)
	union, hasItems := false, false
	for name, member := range schema.Members() {
		switch {
		case name == "type" && kind != "", slices.Contains(aboutOpen, name) && isOpen(name, schema, member):
		case name == "anyOf" && kind == "" && member.Kind() == jsonview.Array:
			union = true
			for _, branch := range member.Elems() {
				if !w.fitsOpen(branch, depth+1) {
					return false
				}
			}
		case !slices.Contains(openWords[kind], name) || !isOpen(name, schema, member) || !w.possible(name, member):
			return false
		case name == "items":
			hasItems = true
			if !w.fitsOpen(member, depth+1) {
				return false
			}
		case name == "properties":
			for _, property := range member.Members() {
				if !w.fitsOpen(property, depth+1) {
					return false
				}
			}
		}
	}
	return (kind != "" || union) && (kind != "array" || hasItems)
}

// isOpen reports whether a keyword has a value that it can have there.
func isOpen(name string, schema, value jsonview.View) bool {
	switch name {
	case "enum":
		for _, one := range value.Elems() {
			if one.Kind() != jsonview.String || string(one.Raw()) == `""` {
				return false
			}
		}
		return value.Kind() == jsonview.Array
	case "required":
		return value.Kind() == jsonview.Array && allIn(schema.Get("properties"), value)
	case "format":
		return string(value.Raw()) == `"date-time"`
	case "pattern", "title", "description":
		return value.Kind() == jsonview.String
	case "nullable":
		return value.Kind() == jsonview.Bool
	case "items", "properties":
		return value.Kind() == jsonview.Object
	}
	return value.Kind() == jsonview.Number // what is left are bounds
}

// allIn reports whether a list has nothing but names of schemas in an object. What is small is compared with each; a
// client's schema of ten thousand properties would take seconds so.
func allIn(object, list jsonview.View) bool {
	const small = 2 << 10
	var names map[string]bool
	if len(list.Raw()) > small {
		names = namesOf(object)
	}
	for _, one := range list.Elems() {
		name, ok := one.Str()
		if !ok || names != nil && !names[name] || names == nil && !isSchema(object.Get(name)) {
			return false
		}
	}
	return true
}

// namesOf tells which members of an object are schemas.
func namesOf(object jsonview.View) map[string]bool {
	names := make(map[string]bool)
	for name, member := range object.Members() {
		names[name] = isSchema(member)
	}
	return names
}

// isSchema reports whether a value can be a schema; one that cannot says nothing.
func isSchema(v jsonview.View) bool { return v.Kind() == jsonview.Object || v.Kind() == jsonview.Bool }

// has reports whether an object has a member.
func has(object jsonview.View, name string) bool {
	for n := range object.Members() {
		if n == name {
			return true
		}
	}
	return false
}

// appendOpen appends a schema, without a reference, as one of OpenAPI that takes what the schema takes, or more.
func (w *walk) appendOpen(b []byte, schema jsonview.View, depth int) []byte {
	kinds, nullable := typesOf(schema)
	all := schema.Get("allOf").Set()
	if len(kinds) == 0 && all ||
		len(kinds) == 1 && kinds[0] == "object" && (all || schema.Get("anyOf").Set() || schema.Get("oneOf").Set()) {
		return w.appendMerged(b, schema, len(kinds) == 0, depth)
	}
	if len(kinds) == 1 {
		return appendAbout(w.appendTyped(b, schema, kinds[0], depth), jsonview.View{}, schema, nullable)
	}
	var branches [][]byte
	for _, kind := range kinds {
		branches = append(branches, append(w.appendTyped(nil, schema, kind, depth+1), '}'))
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		for _, branch := range schema.Get(union).Elems() {
			if len(kinds) > 0 {
				break // which say it all
			}
			if !isSchema(branch) {
				continue
			}
			if types, null := typesOf(branch); null && len(types) == 0 && branch.Get("type").Set() {
				nullable = true
				continue
			}
			branches = append(branches, w.append(nil, branch, depth+1))
		}
	}
	switch len(branches) {
	case 0:
		branches, nullable = append(branches, []byte(openAny)), false
		fallthrough
	case 1:
		return appendAbout(append(b, '{'), jsonview.Of(branches[0]), schema, nullable)
	}
	b = append(b, `{"anyOf":[`...)
	for _, branch := range branches {
		b = append(append(b, branch...), ',')
	}
	b[len(b)-1] = ']'
	return appendAbout(b, jsonview.View{}, schema, nullable)
}

// appendMerged appends a schema that has others in it which are of the whole of it as well. Where nothing says that it
// is of an object, the first that says something says most.
func (w *walk) appendMerged(b []byte, schema jsonview.View, doubtful bool, depth int) []byte {
	flat := flattenedIn(w.root, schema)
	merged, err := jsonview.Parse(flat, maxDepth)
	_, nullable := typesOf(schema)
	if err != nil || !w.enter(len(flat)) {
		return appendAbout(w.appendTyped(b, jsonview.View{}, "object", depth), jsonview.View{}, schema, nullable)
	}
	defer w.leave()
	if doubtful && len(merged.Get("properties").Raw()) == len(`{}`) {
		for _, part := range schema.Get("allOf").Elems() {
			if kinds, _ := typesOf(part); len(kinds) > 0 || part.Get("$ref").Set() {
				return w.append(b, part, depth+1)
			}
		}
		return append(b, openAny...)
	}
	return appendAbout(w.appendTyped(b, merged, "object", depth), jsonview.View{}, schema, nullable)
}

// typesOf are the types that a schema says it has, or that its keywords are of.
func typesOf(schema jsonview.View) (kinds []string, nullable bool) {
	nullable, _ = schema.Get("nullable").Bool()
	said := schema.Get("type")
	add := func(v jsonview.View) {
		kind, _ := v.Str()
		if _, known := openWords[kind]; known && !slices.Contains(kinds, kind) {
			kinds = append(kinds, strings.Clone(kind))
		}
		nullable = nullable || kind == "null"
	}
	add(said)
	for _, one := range said.Elems() {
		add(one)
	}
	constant := schema.Get("const").Kind() == jsonview.String
	switch {
	case len(kinds) > 0 || nullable && said.Set():
	case schema.Get("properties").Set():
		kinds = []string{"object"}
	case schema.Get("items").Set(), schema.Get("prefixItems").Set():
		kinds = []string{"array"}
	case constant, schema.Get("enum").Set() && isOpen("enum", schema, schema.Get("enum")):
		kinds = []string{"string"}
	}
	return kinds, nullable
}

// appendAbout ends an object that has begun with the members of one, if any, and what a schema is about.
func appendAbout(b []byte, members, schema jsonview.View, nullable bool) []byte {
	for name, member := range members.Members() {
		if name != "nullable" || !nullable {
			b = appendMember(b, name, member.Raw())
		}
	}
	if nullable {
		b = appendMember(b, "nullable", []byte("true"))
	}
	for _, name := range []string{"title", "description"} {
		if about := schema.Get(name); about.Kind() == jsonview.String && !has(members, name) {
			b = appendMember(b, name, about.Raw())
		}
	}
	return append(b, '}')
}

// appendTyped begins an object with what a schema says of values of one type.
func (w *walk) appendTyped(b []byte, schema jsonview.View, kind string, depth int) []byte {
	b = append(append(append(b, `{"type":"`...), kind...), '"')
	hasItems := false
	for name, member := range schema.Members() {
		if !slices.Contains(openWords[kind], name) || !isOpen(name, schema, member) || !w.possible(name, member) {
			continue
		}
		switch name {
		case "items":
			hasItems = true
			b = w.append(appendMember(b, name, nil), member, depth+1)
		case "properties":
			b = append(appendMember(b, name, nil), '{')
			for property, inside := range member.Members() {
				if isSchema(inside) {
					b = w.append(appendMember(b, property, nil), inside, depth+1)
				}
			}
			b = append(b, '}')
		default:
			b = appendMember(b, name, member.Raw())
		}
	}
	if kind == "array" && !hasItems {
		b = appendMember(b, "items", []byte(openAny))
	}
	if constant := schema.Get("const"); kind == "string" && !schema.Get("enum").Set() &&
		constant.Kind() == jsonview.String && string(constant.Raw()) != `""` {
		b = append(append(appendMember(b, "enum", []byte{'['}), constant.Raw()...), ']')
	}
	if required := schema.Get("required"); kind == "object" && required.Set() && !isOpen("required", schema, required) {
		b = appendRequired(b, schema.Get("properties"), namesIn(required))
	}
	return b
}

// appendRequired appends those of the names that are properties.
func appendRequired(b []byte, properties jsonview.View, names []string) []byte {
	known := namesOf(properties)
	names = slices.DeleteFunc(names, func(name string) bool { return !known[name] })
	if len(names) == 0 {
		return b
	}
	b = append(appendMember(b, "required", nil), '[')
	for _, name := range names {
		b = append(jsonview.AppendString(b, name), ',')
	}
	b[len(b)-1] = ']'
	return b
}
