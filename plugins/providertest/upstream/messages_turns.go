package upstream

import (
	"maps"
	"slices"
	"strings"
)

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// messagesTurn is what one side says in a row: the service joins messages of one role.
type messagesTurn struct {
	role   string
	blocks []object
}

// messagesTurns reads the conversation, and checks that the turn after tool calls begins with their results, all of
// them, and that no other results come.
func messagesTurns(root object, req *Request) error {
	turns, err := joinTurns(root)
	if err != nil {
		return err
	}
	open := map[string]bool{} // tool calls without a result yet
	for i, t := range turns {
		if t.role == "assistant" {
			err = assistantTurn(req, t, open, i == len(turns)-1)
		} else {
			err = userTurn(req, t, open)
		}
		if err != nil {
			return err
		}
	}
	if len(open) > 0 {
		return noResults("messages", open)
	}
	return nil
}

func noResults(path string, open map[string]bool) error {
	return invalid(path, "tool_use ids were found without tool_result blocks immediately after: %v",
		slices.Sorted(maps.Keys(open)))
}

func joinTurns(root object) ([]messagesTurn, error) {
	if !root.has("messages") {
		return nil, invalid("messages", "is required")
	}
	var turns []messagesTurn
	err := root.each("messages", func(m object) error {
		if err := m.only("role", "content"); err != nil {
			return err
		}
		role, err := m.text("role")
		if err != nil {
			return err
		}
		if role != "user" && role != "assistant" {
			return invalid(m.at("role"), "must be user or assistant")
		}
		blocks, err := messagesContent(m, "content")
		if err != nil {
			return err
		}
		if n := len(turns); n > 0 && turns[n-1].role == role {
			turns[n-1].blocks = append(turns[n-1].blocks, blocks...)
		} else {
			turns = append(turns, messagesTurn{role, blocks})
		}
		return nil
	})
	return turns, err
}

// messagesContent reads content: a text, which stands for one block, or an array of blocks.
func messagesContent(o object, name string) ([]object, error) {
	if s, ok := o.fields[name].(string); ok {
		block := object{path: o.at(name), fields: map[string]any{"type": "text", "text": s}}
		if isBlank(s) {
			return nil, invalid(o.at(name), "must have something visible in it")
		}
		return []object{block}, nil
	}
	if !o.has(name) {
		return nil, invalid(o.at(name), "is required")
	}
	var blocks []object
	err := o.each(name, func(block object) error {
		_, err := block.text("type")
		blocks = append(blocks, block)
		return err
	})
	return blocks, err
}

// messagesText reads a text, or an array of text blocks.
func messagesText(o object, name string) (string, error) {
	blocks, err := messagesContent(o, name)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, block := range blocks {
		if block.fields["type"] != "text" {
			return "", invalid(block.at("type"), "must be text")
		}
		text, err := textBlock(block)
		if err != nil {
			return "", err
		}
		all.WriteString(text)
	}
	return all.String(), nil
}

func textBlock(block object) (string, error) {
	if err := block.only("type", "text", "cache_control", "citations"); err != nil {
		return "", err
	}
	text, err := block.text("text")
	if err == nil && isBlank(text) {
		err = invalid(block.at("text"), "must have something visible in it")
	}
	return text, err
}

// userTurn reads results, which come first, and what the user says.
func userTurn(req *Request, t messagesTurn, open map[string]bool) error {
	said := Message{Role: "user"}
	others := 0
	for _, block := range t.blocks {
		switch kind := block.fields["type"]; kind {
		case "tool_result":
			if others > 0 {
				return invalid(block.path, "tool_result blocks must come before all others of their turn")
			}
			result, err := resultBlock(block)
			if err != nil {
				return err
			}
			if !open[result.ToolCallID] {
				return invalid(block.at("tool_use_id"), "is the id of no tool_use of the turn before it")
			}
			delete(open, result.ToolCallID)
			req.Messages = append(req.Messages, result)
			continue
		case "text":
			text, err := textBlock(block)
			if err != nil {
				return err
			}
			said.Text += text
		case "image", "document":
		default:
			return invalid(block.at("type"), "%v is no block of a user", kind)
		}
		others++
	}
	if len(open) > 0 {
		return noResults(t.blocks[0].path, open)
	}
	if others > 0 {
		req.Messages = append(req.Messages, said)
	}
	return nil
}

func resultBlock(block object) (Message, error) {
	m := Message{Role: "tool"}
	err := block.only("type", "tool_use_id", "content", "is_error", "cache_control")
	if err != nil {
		return m, err
	}
	if m.ToolCallID, err = block.text("tool_use_id"); err != nil {
		return m, err
	}
	if _, err := block.optionalBool("is_error"); err != nil {
		return m, err
	}
	if s, ok := block.fields["content"].(string); ok { // which may be empty, unlike a block
		m.Text = s
		return m, nil
	}
	if block.has("content") {
		m.Text, err = messagesText(block, "content")
	}
	return m, err
}

// assistantTurn reads text and calls, and what was thought. A last turn is the beginning of the reply.
func assistantTurn(req *Request, t messagesTurn, open map[string]bool, last bool) error {
	m := Message{Role: "assistant"}
	first := t.blocks[0].fields["type"]
	m.thought = first == "thinking" || first == "redacted_thinking"
	for i, block := range t.blocks {
		var err error
		switch kind := block.fields["type"]; kind {
		case "text":
			var text string
			if text, err = textBlock(block); err == nil && last && i == len(t.blocks)-1 &&
				strings.TrimRight(text, " \t\r\n") != text {
				err = invalid(block.path, "the final assistant content cannot end with trailing whitespace")
			}
			m.Text += text
		case "tool_use":
			var call PastCall
			if call, err = callBlock(block); err == nil && open[call.ID] {
				err = invalid(block.at("id"), "is the id of another call")
			}
			open[call.ID] = true
			m.Calls = append(m.Calls, call)
		case "thinking":
			err = thinkingBlock(block, &m)
		case "redacted_thinking":
			_, err = block.text("data")
		default:
			err = invalid(block.at("type"), "%v is no block of an assistant", kind)
		}
		if err != nil {
			return err
		}
	}
	req.Messages = append(req.Messages, m)
	return nil
}

// thinkingBlock reads what was thought, which nobody can change, nor say in the service's place.
func thinkingBlock(block object, m *Message) error {
	proof, err := block.text("signature")
	if err != nil {
		return err
	}
	text, err := block.text("thinking")
	if err != nil {
		return err
	}
	if proof != signed(text) {
		return invalid(block.path, "`thinking` blocks in the latest assistant message cannot be modified")
	}
	if m.Reasoning == nil {
		m.Reasoning = new(string)
	}
	*m.Reasoning += text
	return nil
}

func callBlock(block object) (PastCall, error) {
	var call PastCall
	err := block.only("type", "id", "name", "input", "cache_control")
	if err != nil {
		return call, err
	}
	if call.ID, err = block.text("id"); err != nil {
		return call, err
	}
	if !identifier.MatchString(call.ID) {
		return call, invalid(block.at("id"), "must have letters, digits, underscores and dashes only")
	}
	if call.Name, err = nameOf(block, messagesLongestName); err != nil {
		return call, err
	}
	input, err := block.object("input")
	if err != nil {
		return call, err
	}
	call.Arguments = string(mustMarshal(input.fields))
	return call, nil
}
