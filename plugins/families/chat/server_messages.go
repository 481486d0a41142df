package chat

import (
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// readMessages reads `messages`, which must not be missing or empty (CHAT-02, GAP-26).
func readMessages(list decode.Value) []llm.Message {
	if !list.Is(jsonview.Array) {
		return nil
	}
	var messages []llm.Message
	calls := make(decode.Calls)
	for i, e := range list.Elems() {
		if message := list.Elem(i, e); message.Is(jsonview.Object) {
			messages = append(messages, readMessage(message, calls))
		}
	}
	if len(messages) == 0 {
		list.Invalid("must hold at least one message")
	}
	return messages
}

func readMessage(v decode.Value, calls decode.Calls) llm.Message {
	var absent jsonview.View
	role, content, callID := v.Field("role", absent), v.Field("content", absent), v.Field("tool_call_id", absent)
	refusal, toolCalls := v.Field("refusal", absent), v.Field("tool_calls", absent)
	for name, member := range v.Members() {
		switch name {
		case "role":
			role.View = member
		case "content":
			content.View = member
		case "refusal":
			refusal.View = member
		case "tool_calls":
			toolCalls.View = member
		case "tool_call_id":
			callID.View = member
		}
	}
	switch name := role.Required(); name {
	case "system", "developer":
		return llm.Message{Role: llm.RoleSystem, Parts: readContent(content)}
	case "user":
		return llm.Message{Role: llm.RoleUser, Parts: readContent(content)}
	case "assistant":
		return readAssistant(content, refusal, toolCalls, calls)
	case "tool":
		return llm.Message{Role: llm.RoleTool, CallID: calls.Result(callID), Parts: readContent(content)}
	default:
		if role.Kind() == jsonview.String {
			role.Invalid(`must be "system", "developer", "user", "assistant" or "tool"`)
		}
	}
	return llm.Message{}
}

// readAssistant reads an earlier reply. Its content may be missing beside tool calls, or where the reply was
// a refusal, which is read as text (GAP-27).
func readAssistant(content, refusal, toolCalls decode.Value, calls decode.Calls) llm.Message {
	message := llm.Message{Role: llm.RoleAssistant}
	if content.Set() || !refusal.Set() && !toolCalls.Set() {
		message.Parts = readContent(content)
	}
	if refusal.Set() {
		message.Parts = append(message.Parts, refusal.Text())
	}
	if !toolCalls.Set() || !toolCalls.Is(jsonview.Array) {
		return message
	}
	for i, e := range toolCalls.Elems() {
		call := toolCalls.Elem(i, e)
		if !call.Is(jsonview.Object) {
			continue
		}
		if kind := call.Get("type"); kind.Set() && kind.Required() != "function" {
			if kind.Kind() == jsonview.String {
				call.Unsupported("is a call of a type that is not supported: send function calls only")
			}
			continue
		}
		id := calls.Call(call.Get("id"))
		function := call.Get("function")
		if !function.Is(jsonview.Object) {
			continue
		}
		message.Parts = append(message.Parts, llm.Part{Call: &llm.ToolCall{
			ID: id, Name: function.Get("name").Filled(), Arguments: decode.Arguments(function.Get("arguments")),
		}})
	}
	return message
}

// readContent reads a string, or an array of text parts.
func readContent(content decode.Value) []llm.Part {
	if content.Kind() != jsonview.Array {
		if content.Set() && content.Kind() != jsonview.String {
			content.Invalid("must be a string or an array of parts")
			return nil
		}
		return []llm.Part{content.Text()}
	}
	var parts []llm.Part
	for i, e := range content.Elems() {
		part := content.Elem(i, e)
		if !part.Is(jsonview.Object) {
			continue
		}
		kind := part.Get("type")
		switch name := kind.Required(); {
		case name == "text", name == "refusal":
			parts = append(parts, part.Get(name).Text())
		case kind.Kind() == jsonview.String:
			part.NotText(name)
		}
	}
	return parts
}
