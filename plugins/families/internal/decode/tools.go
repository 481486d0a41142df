package decode

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// EmptySchema is the schema of a function that was declared without one: an object of any form (GAP-29).
const EmptySchema = `{"type":"object"}`

const maxToolName = 128

// Tools gathers the functions that a request declares (GAP-29). The zero value is ready to use.
type Tools struct {
	List []llm.Tool

	names map[string]struct{}
}

// Add reads a function: name is required, description and schema may be absent. strict is not judged: what is no true
// is no wish.
func (t *Tools) Add(name, description, schema, strict Value) {
	tool := llm.Tool{Name: name.Required(), Description: description.Optional(), Schema: []byte(EmptySchema)}
	tool.Strict, _ = strict.Bool()
	if name.Kind() == jsonview.String && !isToolName(tool.Name) {
		name.Invalid("must be 1 to 128 letters, digits, underscores, dashes or dots")
	}
	if schema.Set() && schema.Is(jsonview.Object) {
		tool.Schema = jsonview.AppendCompact(nil, schema.Raw())
	}
	if !t.enter(tool) {
		name.Invalid("repeats the name of an earlier tool")
	}
}

// AddServed reads a tool that the family's own service would run, as a function of the client's: it is never rejected
// (GAP-136). One that nothing could call is left out: it has no name, one that is no function's, or one that is taken.
// What else is not as it should be counts as absent.
func (t *Tools) AddServed(name, description, schema, strict Value) {
	tool := llm.Tool{Schema: []byte(EmptySchema)}
	tool.Name, _ = name.Str()
	tool.Description, _ = description.Str()
	tool.Strict, _ = strict.Bool()
	if schema.Kind() == jsonview.Object {
		tool.Schema = jsonview.AppendCompact(nil, schema.Raw())
	}
	if isToolName(tool.Name) {
		t.enter(tool)
	}
}

// enter declares a function, and reports whether its name was free.
func (t *Tools) enter(tool llm.Tool) bool {
	if _, taken := t.names[tool.Name]; taken {
		return false
	}
	if t.names == nil {
		t.names = make(map[string]struct{})
	}
	t.names[tool.Name] = struct{}{}
	t.List = append(t.List, tool)
	return true
}

func isToolName(s string) bool {
	if s == "" || len(s) > maxToolName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// Choice reads a tool_choice of the chat and responses families: `auto`, `none`, `required`, or a function
// named in either family's form (GAP-29). Call it when all tools have been added.
func (t *Tools) Choice(v Value) llm.ToolChoice {
	switch v.Kind() {
	case jsonview.Absent, jsonview.Null:
		return llm.ToolChoice{}
	case jsonview.String:
		switch mode, _ := v.Str(); mode {
		case "auto":
			return llm.ToolChoice{}
		case "none":
			return t.None()
		case "required":
			return t.Required(v)
		}
	case jsonview.Object:
		kind := v.Get("type")
		if kind.Required() != "function" {
			if kind.Kind() == jsonview.String {
				v.Unsupported(`must be "auto", "none", "required" or a named function: other tool choices are not supported`)
			}
			return llm.ToolChoice{}
		}
		if nested := v.Get("function"); nested.Set() {
			if nested.Is(jsonview.Object) {
				return t.Named(nested.Get("name"))
			}
			return llm.ToolChoice{}
		}
		return t.Named(v.Get("name"))
	}
	v.Invalid(`must be "auto", "none", "required" or an object that names a function`)
	return llm.ToolChoice{}
}

// None is the choice of no tool; it means nothing when none is declared.
func (t *Tools) None() llm.ToolChoice {
	if len(t.List) == 0 {
		return llm.ToolChoice{}
	}
	return llm.ToolChoice{Mode: llm.ToolNone}
}

// Required is the choice of some tool, of which there has to be one; choice is where it was made.
func (t *Tools) Required(choice Value) llm.ToolChoice {
	if len(t.List) == 0 {
		choice.Invalid("requires a tool call, but tools declares none that can be called")
		return llm.ToolChoice{}
	}
	return llm.ToolChoice{Mode: llm.ToolRequired}
}

// Named is the choice of one tool, which has to be declared; name is where it is named.
func (t *Tools) Named(name Value) llm.ToolChoice {
	choice := llm.ToolChoice{Mode: llm.ToolNamed, Name: name.Required()}
	if _, declared := t.names[choice.Name]; !declared && name.Kind() == jsonview.String {
		name.Invalid("names a function that tools does not declare")
	}
	return choice
}

// Calls holds the ids of the tool calls seen so far in a conversation, for the results that answer them.
type Calls map[string]struct{}

// Call reads the id of a tool call, which has to be there and not empty.
func (c Calls) Call(id Value) string {
	s := id.Filled()
	c[s] = struct{}{}
	return s
}

// Result reads the id under which a tool result answers a call. The call has to come earlier in the same
// request (GAP-28), for nothing is kept between requests (GAP-103). way tells users of the family's clients how
// to send all of it; "" where every client does.
func (c Calls) Result(id Value, way string) string {
	s := id.Required()
	if _, known := c[s]; !known && id.Kind() == jsonview.String {
		id.Invalid("matches no tool call earlier in this request: send the whole conversation, with the call that the " +
			"result answers" + way)
	}
	return s
}

// Arguments reads a call's arguments, JSON text in a string; absent and blank mean {} (GAP-84), for which
// it returns "".
func Arguments(v Value) llm.String {
	if !v.Set() {
		return llm.String{}
	}
	arguments := v.Text().Text
	if arguments.Blank() {
		return llm.String{}
	}
	return arguments
}
