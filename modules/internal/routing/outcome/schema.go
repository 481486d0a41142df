package outcome

import (
	"encoding/json"
	"slices"

	"github.com/fareway/fareway/plugins/llm"
)

// maxSchema is how long a schema and arguments may be, in bytes, to be looked at: what is learned is not worth more.
const maxSchema = 16 << 10

// Fits reports whether a call is as the one of the tools asks for that it names. Of any other nothing is known.
func Fits(tools []llm.Tool, call *llm.ToolCall) bool {
	at := slices.IndexFunc(tools, func(t llm.Tool) bool { return t.Name == call.Name })
	return at < 0 || fits(&tools[at], call.Arguments.String())
}

// fits reports whether a call is as far as can be told at a glance what its tool asks for: an object with the required
// members, and members of the types that are declared. Of a schema, that is what models get wrong.
func fits(tool *llm.Tool, arguments string) bool {
	if len(tool.Schema)+len(arguments) > maxSchema {
		return true
	}
	var schema struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(tool.Schema, &schema) != nil {
		return true // nothing is known of it
	}
	if arguments == "" {
		arguments = "{}"
	}
	var given map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &given) != nil || given == nil {
		return false
	}
	for _, name := range schema.Required {
		if _, ok := given[name]; !ok {
			return false
		}
	}
	for name, value := range given {
		var declared struct {
			Type json.RawMessage `json:"type"`
		}
		if json.Unmarshal(schema.Properties[name], &declared) == nil && !ofType(value, declared.Type) {
			return false
		}
	}
	return true
}

// ofType reports whether a value is of a declared type, one or a list; of what is declared otherwise it is.
func ofType(value, declared json.RawMessage) bool {
	var types []string
	if json.Unmarshal(declared, &types) != nil {
		var one string
		if json.Unmarshal(declared, &one) != nil {
			return true
		}
		types = []string{one}
	}
	var is []string
	switch value[0] {
	case '{':
		is = []string{"object"}
	case '[':
		is = []string{"array"}
	case '"':
		is = []string{"string"}
	case 't', 'f':
		is = []string{"boolean"}
	case 'n':
		is = []string{"null"}
	default:
		is = []string{"number"}
		if integer(value) {
			is = append(is, "integer")
		}
	}
	return slices.ContainsFunc(types, func(t string) bool { return slices.Contains(is, t) })
}

// integer reports whether a number is one: 1.0 is (JSON Schema, 6.1.1).
func integer(value json.RawMessage) bool {
	var n float64
	return json.Unmarshal(value, &n) == nil && n == float64(int64(n))
}
