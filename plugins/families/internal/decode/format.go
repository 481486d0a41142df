package decode

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// defaultFormatName is the name of a schema that was sent without one (STRUCT-26).
	defaultFormatName = "response"
	maxFormatName     = 64
)

// NestedFormat reads an optional format as the chat family has it, with what describes the schema in an object
// `json_schema` of its own (STRUCT-08 to STRUCT-10). nil asks for an ordinary reply.
func (v Value) NestedFormat() *llm.Format {
	if v.formatKind("text", llm.FormatJSONObject, llm.FormatJSONSchema) != llm.FormatJSONSchema {
		return v.unstructured()
	}
	if nested := v.Get("json_schema"); nested.Is(jsonview.Object) {
		return nested.schemaFormat()
	}
	return nil
}

// FlatFormat reads an optional format as the responses family has it, with what describes the schema beside its
// type (STRUCT-11). nil asks for an ordinary reply.
func (v Value) FlatFormat() *llm.Format {
	if v.formatKind("text", llm.FormatJSONObject, llm.FormatJSONSchema) != llm.FormatJSONSchema {
		return v.unstructured()
	}
	return v.schemaFormat()
}

// SchemaFormat reads an optional format as the messages family has it: a schema and nothing else (STRUCT-14).
func (v Value) SchemaFormat() *llm.Format {
	if v.formatKind(llm.FormatJSONSchema) != llm.FormatJSONSchema {
		return nil
	}
	return v.schemaFormat()
}

// formatKind reads the type of a format, "" when there is no format or it is not one of the kinds (STRUCT-29,
// STRUCT-30, GAP-79).
func (v *Value) formatKind(kinds ...llm.FormatKind) llm.FormatKind {
	if !v.Set() || !v.Is(jsonview.Object) {
		return ""
	}
	kind := v.Get("type")
	given := llm.FormatKind(kind.Required())
	for _, k := range kinds {
		if k == given {
			return k
		}
	}
	if kind.Kind() == jsonview.String {
		kind.Unsupported("is a type of structured output that is not supported here: leave it out")
	}
	return ""
}

// unstructured is the format of a kind that needs no description.
func (v *Value) unstructured() *llm.Format {
	if kind, _ := v.View.Get("type").Str(); kind == string(llm.FormatJSONObject) {
		return &llm.Format{Kind: llm.FormatJSONObject}
	}
	return nil
}

// schemaFormat reads name, description, schema and strict (STRUCT-24 to STRUCT-28).
func (v *Value) schemaFormat() *llm.Format {
	f := &llm.Format{Kind: llm.FormatJSONSchema, Name: defaultFormatName}
	if name := v.Get("name"); name.Set() {
		f.Name = name.Required()
		if name.Kind() == jsonview.String && !isFormatName(f.Name) {
			name.Invalid("must be 1 to 64 letters, digits, underscores or dashes")
		}
	}
	description := v.Get("description")
	f.Description = description.Optional()
	if schema := v.Get("schema"); schema.Is(jsonview.Object) {
		f.Schema = jsonview.AppendCompact(nil, schema.Raw())
	}
	if strict := v.Get("strict"); strict.Set() && strict.Is(jsonview.Bool) {
		enforce, _ := strict.Bool()
		f.Strict = &enforce
	}
	return f
}

func isFormatName(s string) bool {
	if s == "" || len(s) > maxFormatName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
