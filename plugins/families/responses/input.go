package responses

import (
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// conversation gathers the canonical messages of a request, and its tools, some of which may be declared
// among the input items.
type conversation struct {
	messages []llm.Message
	calls    decode.Calls
	parts    decode.Parts
	declared decode.Tools
}

// instructions reads the system-level instructions, which come before all input (RESP-06, GAP-26).
func (c *conversation) instructions(v decode.Value) {
	if v.Set() {
		c.add(llm.RoleSystem, v.Text())
	}
}

// input reads the conversation: a string, or items.
func (c *conversation) input(v decode.Value) {
	switch v.Kind() {
	case jsonview.String:
		text := v.Text()
		if text.Text.Size() == 0 {
			v.Invalid("must not be empty")
		}
		c.add(llm.RoleUser, text)
	case jsonview.Array:
		items := 0
		for i, e := range v.Elems() {
			item := v.Elem(i, e)
			items++
			if item.Is(jsonview.Object) {
				c.item(&item)
			}
		}
		switch {
		case items == 0:
			v.Invalid("must not be empty")
		case len(c.messages) == 0: // reasoning and declarations only
			v.Invalid("must have a message, a function call or its output")
		}
	case jsonview.Absent, jsonview.Null:
		v.Invalid("is required")
	default:
		v.Invalid("must be a string or an array of items")
	}
}

func (c *conversation) add(role llm.Role, parts ...llm.Part) {
	c.messages = append(c.messages, llm.Message{Role: role, Parts: parts})
}

// assistant adds to the assistant's turn: what stands in items of its own here, text and calls, is one turn.
func (c *conversation) assistant(parts ...llm.Part) {
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == llm.RoleAssistant {
		last := &c.messages[n-1]
		last.Parts = append(last.Parts, parts...)
		return
	}
	c.add(llm.RoleAssistant, parts...)
}

func (c *conversation) item(v *decode.Value) {
	kind := v.Get("type")
	name := "message" // an item without a type is a message
	if kind.Set() {
		name = kind.Required()
	}
	switch name {
	case "message":
		c.message(v)
	case "function_call":
		id, function := v.Get("call_id"), v.Get("name")
		c.assistant(llm.Part{Call: &llm.ToolCall{
			ID:        c.calls.Call(id),
			Name:      function.Required(),
			Arguments: decode.Arguments(v.Get("arguments")),
		}})
	case "function_call_output":
		id := v.Get("call_id")
		c.messages = append(c.messages, llm.Message{
			Role:   llm.RoleTool,
			CallID: c.calls.Result(id, ""),
			Parts:  c.textOf(v.Get("output")),
		})
	case "additional_tools": // a declaration in the place of `tools` (GAP-102)
		tools := v.Get("tools")
		c.tools(tools)
	case "reasoning": // belongs to the model that thought it; left out (GAP-27)
	case "item_reference":
		v.Unsupported("refers to a stored item: nothing is stored, so send the item itself")
	default:
		kind.Invalid("is not an item type that is accepted: send messages, function calls and their outputs")
	}
}

func (c *conversation) message(v *decode.Value) {
	role, content := v.Get("role"), v.Get("content")
	var parts []llm.Part
	if said, _ := role.Str(); said != "assistant" || content.Set() { // it may have said nothing (GAP-128)
		parts = c.textOf(content)
	}
	switch role.Required() {
	case "user":
		c.add(llm.RoleUser, parts...)
	case "assistant":
		c.assistant(parts...)
	case "system", "developer":
		c.add(llm.RoleSystem, parts...)
	default:
		role.Invalid(`must be "user", "assistant", "system" or "developer"`)
	}
}

// textOf reads a string or an array of text parts.
func (c *conversation) textOf(v decode.Value) []llm.Part {
	if v.Kind() != jsonview.Array {
		return c.parts.Of(v.Text())
	}
	var parts []llm.Part
	for i, e := range v.Elems() {
		part := v.Elem(i, e)
		if !part.Is(jsonview.Object) {
			continue
		}
		kind := part.Get("type")
		switch kind.Required() {
		case "input_text", "output_text", "text":
			parts = append(parts, part.Get("text").Text())
		case "refusal":
			parts = append(parts, part.Get("refusal").Text())
		case "input_file", "file", "document", "input_video", "video_url":
			part.Unsupported("is a file, document or video, which are not supported: send its text")
		default:
			kind.Invalid("is not a content type that is accepted there: send text")
		}
	}
	return parts
}
