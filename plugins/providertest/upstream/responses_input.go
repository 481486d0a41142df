package upstream

import (
	"maps"
	"slices"
)

// responsesItems reads the conversation, and checks that every call has one output and every output a call before it.
func responsesItems(root object, req *Request) error {
	instructions, err := root.optionalText("instructions")
	if err != nil {
		return err
	}
	if instructions != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Text: instructions})
	}
	if s, ok := root.fields["input"].(string); ok {
		req.Messages = append(req.Messages, Message{Role: "user", Text: s})
		return nil
	}
	if !root.has("input") {
		return invalid("input", "is required")
	}
	calls := map[string]bool{} // true while they have no output
	if err := root.each("input", func(item object) error { return responsesItem(item, req, calls) }); err != nil {
		return err
	}
	maps.DeleteFunc(calls, func(_ string, open bool) bool { return !open })
	if len(calls) > 0 {
		return invalid("input", "No tool output found for function calls %v.", slices.Sorted(maps.Keys(calls)))
	}
	return nil
}

func responsesItem(item object, req *Request, calls map[string]bool) error {
	kind, err := item.optionalText("type")
	if err != nil {
		return err
	}
	switch kind {
	case "", "message":
		return responsesMessage(item, req)
	case "function_call":
		call, err := responsesCall(item)
		if err != nil {
			return err
		}
		if _, known := calls[call.ID]; known {
			return invalid(item.at("call_id"), "is the id of another call")
		}
		calls[call.ID] = true
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == "assistant" {
			req.Messages[n-1].Calls = append(req.Messages[n-1].Calls, call)
			return nil
		}
		req.Messages = append(req.Messages, Message{Role: "assistant", Calls: []PastCall{call}})
		return nil
	case "function_call_output":
		if err := item.only("type", "id", "call_id", "output", "status"); err != nil {
			return err
		}
		id, err := item.text("call_id")
		if err != nil {
			return err
		}
		if !calls[id] {
			return invalid(item.at("call_id"), "No tool call found for function call output with call_id %s.", id)
		}
		calls[id] = false
		text, err := responsesText(item, "output", "input_text")
		req.Messages = append(req.Messages, Message{Role: "tool", ToolCallID: id, Text: text})
		return err
	case "reasoning":
		if _, ok := item.fields["summary"].([]any); !ok {
			return invalid(item.at("summary"), "must be an array")
		}
		return item.only("type", "id", "summary", "content", "encrypted_content", "status")
	}
	return invalid(item.at("type"), "%s is no item that the fake knows, which keeps none and runs no tools", kind)
}

func responsesCall(item object) (PastCall, error) {
	var call PastCall
	err := item.only("type", "id", "call_id", "name", "arguments", "status")
	if err != nil {
		return call, err
	}
	if call.ID, err = item.text("call_id"); err != nil {
		return call, err
	}
	if len(call.ID) > 64 || call.ID == "" {
		return call, invalid(item.at("call_id"), "must have 1 to 64 characters")
	}
	if call.Name, err = nameOf(item, longestFunction); err != nil {
		return call, err
	}
	call.Arguments, err = item.text("arguments")
	return call, err
}

func responsesMessage(item object, req *Request) error {
	if err := item.only("type", "id", "role", "content", "status", "phase"); err != nil {
		return err
	}
	role, err := item.text("role")
	if err != nil {
		return err
	}
	kinds := []string{"input_text", "input_image", "input_file"}
	switch role {
	case "user", "system", "developer":
	case "assistant":
		kinds = []string{"output_text", "refusal"}
	default:
		return invalid(item.at("role"), "must be user, assistant, system or developer")
	}
	text, err := responsesText(item, "content", kinds...)
	req.Messages = append(req.Messages, Message{Role: role, Text: text})
	return err
}

// responsesText reads a text, or an array of parts of these types.
func responsesText(o object, name string, kinds ...string) (string, error) {
	if s, ok := o.fields[name].(string); ok {
		return s, nil
	}
	if !o.has(name) {
		return "", invalid(o.at(name), "is required")
	}
	var all string
	err := o.each(name, func(part object) error {
		kind, err := part.text("type")
		if err != nil {
			return err
		}
		if !slices.Contains(kinds, kind) {
			return invalid(part.at("type"), "must be one of %v", kinds)
		}
		member := "text"
		switch kind {
		case "input_image", "input_file":
			return nil
		case "refusal":
			member = "refusal"
		}
		if err := part.only("type", member, "annotations", "logprobs"); err != nil {
			return err
		}
		text, err := part.text(member)
		all += text
		return err
	})
	return all, err
}
