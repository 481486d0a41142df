package chat

import (
	"slices"

	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// conversation reads the messages of a request. The Values that others refer to as their place are here, once: as
// variables of the methods they would be allocated for each message anew.
type conversation struct {
	messages []llm.Message
	calls    decode.Calls
	parts    decode.Parts
	media    bool // there is some

	message, content, part, toolCalls, call, function decode.Value
}

// readMessages reads `messages`, which must not be missing or empty (CHAT-02, GAP-26). It notes where there is media
// in them.
func readMessages(list decode.Value, media *bool) []llm.Message {
	if !list.Is(jsonview.Array) {
		*media = *media || decode.HasMedia(list.View)
		return nil
	}
	c := conversation{calls: make(decode.Calls)}
	objects := 0
	for _, e := range list.Elems() {
		if e.Kind() == jsonview.Object {
			objects++
		}
	}
	c.messages = slices.Grow(c.messages, objects)
	for i, e := range list.Elems() {
		if c.message = list.Elem(i, e); c.message.Is(jsonview.Object) {
			c.messages = append(c.messages, c.read())
		}
	}
	if len(c.messages) == 0 {
		list.Invalid("must hold at least one message")
	}
	*media = *media || c.media
	return c.messages
}

// read reads c.message.
func (c *conversation) read() llm.Message {
	var role, content, callID, refusal, toolCalls jsonview.View
	var inner decode.Content
	for name, member := range c.message.Members() {
		inner.Member(name, member)
		switch name {
		case "role":
			role = member
		case "content":
			content = member
		case "refusal":
			refusal = member
		case "tool_calls":
			toolCalls = member
		case "tool_call_id":
			callID = member
		}
	}
	c.media = c.media || inner.HasMedia(c.message.View)
	c.content = c.message.Field("content", content)
	speaker := c.message.Field("role", role)
	switch name := speaker.Required(); name {
	case "system", "developer":
		return llm.Message{Role: llm.RoleSystem, Parts: c.readContent()}
	case "user":
		return llm.Message{Role: llm.RoleUser, Parts: c.readContent()}
	case "assistant":
		c.toolCalls = c.message.Field("tool_calls", toolCalls)
		return c.readAssistant(c.message.Field("refusal", refusal))
	case "tool":
		id := c.calls.Result(c.message.Field("tool_call_id", callID), "")
		return llm.Message{Role: llm.RoleTool, CallID: id, Parts: c.readContent()}
	default:
		if speaker.Kind() == jsonview.String {
			speaker.Invalid(`must be "system", "developer", "user", "assistant" or "tool"`)
		}
	}
	return llm.Message{}
}

// readAssistant reads an earlier reply. Its content may be missing (GAP-128), and a refusal is read as text (GAP-27).
func (c *conversation) readAssistant(refusal decode.Value) llm.Message {
	message := llm.Message{Role: llm.RoleAssistant}
	if c.content.Set() {
		message.Parts = c.readContent()
	}
	if refusal.Set() {
		message.Parts = append(message.Parts, refusal.Text())
	}
	if !c.toolCalls.Set() || !c.toolCalls.Is(jsonview.Array) {
		return message
	}
	for i, e := range c.toolCalls.Elems() {
		if c.call = c.toolCalls.Elem(i, e); !c.call.Is(jsonview.Object) {
			continue
		}
		if call := c.readCall(); call != nil {
			message.Parts = append(message.Parts, llm.Part{Call: call})
		}
	}
	return message
}

// readCall reads c.call.
func (c *conversation) readCall() *llm.ToolCall {
	var kind, id, function, name, arguments jsonview.View
	for member, v := range c.call.Members() {
		switch member {
		case "type":
			kind = v
		case "id":
			id = v
		case "function":
			function = v
		}
	}
	if kind := c.call.Field("type", kind); kind.Set() && kind.Required() != "function" {
		if kind.Kind() == jsonview.String {
			c.call.Unsupported("is a call of a type that is not supported: send function calls only")
		}
		return nil
	}
	call := &llm.ToolCall{ID: c.calls.Call(c.call.Field("id", id))}
	if c.function = c.call.Field("function", function); !c.function.Is(jsonview.Object) {
		return nil
	}
	for member, v := range c.function.Members() {
		switch member {
		case "name":
			name = v
		case "arguments":
			arguments = v
		}
	}
	call.Name = c.function.Field("name", name).Filled()
	call.Arguments = decode.Arguments(c.function.Field("arguments", arguments))
	return call
}

// readContent reads c.content: a string, or an array of text parts.
func (c *conversation) readContent() []llm.Part {
	if c.content.Kind() != jsonview.Array {
		if c.content.Set() && c.content.Kind() != jsonview.String {
			c.content.Invalid("must be a string or an array of parts")
			return nil
		}
		return c.parts.Of(c.content.Text())
	}
	var parts []llm.Part
	for i, e := range c.content.Elems() {
		if c.part = c.content.Elem(i, e); !c.part.Is(jsonview.Object) {
			continue
		}
		kind := c.part.Get("type")
		switch name := kind.Required(); {
		case name == "text", name == "refusal":
			parts = append(parts, c.part.Get(name).Text())
		case kind.Kind() == jsonview.String:
			c.part.NotText(name)
		}
	}
	return parts
}
