package upstream

import (
	"maps"
	"slices"
)

// chatMessages reads the conversation, and checks that every tool call is answered before the conversation
// goes on, and that nothing else is.
func chatMessages(root object, req *Request) error {
	if !root.has("messages") {
		return invalid("messages", "is required")
	}
	open := map[string]bool{} // tool calls without a result yet
	err := root.each("messages", func(o object) error {
		m, err := chatMessage(o)
		if err != nil {
			return err
		}
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return invalid(o.at("tool_call_id"), "answers no tool call of the assistant message before it")
			}
			delete(open, m.ToolCallID)
		} else if len(open) > 0 {
			return unanswered(o, open)
		}
		for _, call := range m.Calls {
			open[call.ID] = true
		}
		req.Messages = append(req.Messages, m)
		return nil
	})
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return unanswered(root, open)
	}
	return nil
}

func unanswered(o object, open map[string]bool) error {
	ids := slices.Sorted(maps.Keys(open))
	path := o.path
	if path == "" {
		path = "messages"
	}
	return invalid(path, "tool calls of the assistant message before have no result: %v", ids)
}

// chatMessage reads one message by the rules of its role.
func chatMessage(o object) (Message, error) {
	role, err := o.text("role")
	if err != nil {
		return Message{}, err
	}
	m := Message{Role: role}
	switch role {
	case "system", "developer":
		if err := o.only("role", "content", "name"); err != nil {
			return Message{}, err
		}
		m.Text, err = chatContent(o, "text")
	case "user":
		if err := o.only("role", "content", "name"); err != nil {
			return Message{}, err
		}
		m.Text, err = chatContent(o, "text", "image_url", "input_audio", "file")
	case "tool":
		if err := o.only("role", "content", "tool_call_id"); err != nil {
			return Message{}, err
		}
		if m.ToolCallID, err = o.text("tool_call_id"); err != nil {
			return Message{}, err
		}
		m.Text, err = chatContent(o, "text")
	case "assistant":
		if err := o.only("role", "content", "name", "refusal", "tool_calls", "audio", "reasoning_content"); err != nil {
			return Message{}, err
		}
		if m.Calls, err = chatCalls(o); err != nil {
			return Message{}, err
		}
		if m.Reasoning, err = optionalPointer(o, "reasoning_content"); err != nil {
			return Message{}, err
		}
		if len(m.Calls) == 0 || o.has("content") {
			m.Text, err = chatContent(o, "text", "refusal")
		}
	default:
		return Message{}, invalid(o.at("role"), "must be system, developer, user, assistant or tool")
	}
	return m, err
}

// chatContent reads content: a string, or an array of parts of these types.
func chatContent(o object, types ...string) (string, error) {
	if s, ok := o.fields["content"].(string); ok {
		return s, nil
	}
	if !o.has("content") {
		return "", invalid(o.at("content"), "is required")
	}
	var all string
	err := o.each("content", func(part object) error {
		kind, err := part.text("type")
		if err != nil {
			return err
		}
		if !slices.Contains(types, kind) {
			return invalid(part.at("type"), "must be one of %v", types)
		}
		if err := part.only("type", kind); err != nil {
			return err
		}
		if kind != "text" && kind != "refusal" {
			return nil
		}
		text, err := part.text(kind)
		all += text
		return err
	})
	return all, err
}

// chatCalls reads the tool calls of an assistant message.
func chatCalls(o object) ([]PastCall, error) {
	var calls []PastCall
	err := o.each("tool_calls", func(c object) error {
		call, err := chatPastCall(c)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(calls, func(other PastCall) bool { return other.ID == call.ID }) {
			return invalid(c.at("id"), "is the id of another call of this message")
		}
		calls = append(calls, call)
		return nil
	})
	return calls, err
}

func chatPastCall(c object) (PastCall, error) {
	var call PastCall
	err := c.only("id", "type", "function", "extra_content")
	if err != nil {
		return call, err
	}
	call.extra = c.fields["extra_content"]
	if call.ID, err = c.text("id"); err != nil {
		return call, err
	}
	function, err := chatFunctionOf(c)
	if err != nil {
		return call, err
	}
	if err := function.only("name", "arguments"); err != nil {
		return call, err
	}
	if call.Name, err = function.text("name"); err != nil {
		return call, err
	}
	call.Arguments, err = function.text("arguments")
	return call, err
}

// optionalPointer reads a text that may be left out.
func optionalPointer(o object, name string) (*string, error) {
	if !o.has(name) {
		return nil, nil
	}
	text, err := o.text(name)
	return &text, err
}
