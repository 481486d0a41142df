package conform

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// closed reports whether a tool's arguments can be held to its schema, as its client may wish: OpenAI's services
// refuse the whole request for a schema with an object that takes other properties, or some of its own not always
// ("Structured outputs", Supported schemas, November 2026). Such a tool goes on without the wish.
func closed(schema []byte) bool {
	root, err := jsonview.Parse(schema, maxDepth)
	kind, _ := root.Get("type").Str()
	return err == nil && kind == "object" && allClosed(root)
}

// allClosed reports whether all objects of a schema take just their own properties, and all of those.
func allClosed(schema jsonview.View) bool {
	if schema.Kind() != jsonview.Object {
		return true
	}
	properties := schema.Get("properties")
	if kind, _ := schema.Get("type").Str(); kind == "object" || properties.Set() || nullableObject(schema.Get("type")) {
		if other, ok := schema.Get("additionalProperties").Bool(); !ok || other {
			return false
		}
		required := make(map[string]bool)
		for _, name := range schema.Get("required").Elems() {
			text, _ := name.Str()
			required[text] = true
		}
		for name := range properties.Members() {
			if !required[name] {
				return false
			}
		}
	}
	for _, name := range []string{"properties", "$defs", "definitions"} {
		for _, member := range schema.Get(name).Members() {
			if !allClosed(member) {
				return false
			}
		}
	}
	for _, member := range schema.Get("anyOf").Elems() {
		if !allClosed(member) {
			return false
		}
	}
	for _, name := range []string{"oneOf", "allOf", "not", "patternProperties", "if", "dependentSchemas"} {
		if schema.Get(name).Set() { // which they do not take
			return false
		}
	}
	return allClosed(schema.Get("items"))
}

// nullableObject is for a list of types.
func nullableObject(types jsonview.View) bool {
	for _, one := range types.Elems() {
		if kind, _ := one.Str(); kind == "object" {
			return true
		}
	}
	return false
}
