package upstream

import "slices"

// leastThinking is the least budget for thinking.
const leastThinking = 1024

// messagesThinks reads whether the model may think, and refuses what does not go with it, as the service does.
func messagesThinks(root object, req *Request) error {
	if !root.has("thinking") {
		return nil
	}
	thinking, err := root.object("thinking")
	if err != nil {
		return err
	}
	kind, err := thinking.text("type")
	if err != nil {
		return err
	}
	switch kind {
	case "disabled":
		return thinking.only("type")
	case "adaptive":
		err = thinking.only("type", "display")
	case "enabled":
		err = messagesBudget(thinking, req)
	default:
		err = invalid(thinking.at("type"), "must be enabled, disabled or adaptive")
	}
	if err != nil {
		return err
	}
	choice, _ := root.fields["tool_choice"].(map[string]any)
	switch last := req.Messages[len(req.Messages)-1]; {
	case choice["type"] == "any" || choice["type"] == "tool":
		return invalid("", "Thinking may not be enabled when tool_choice forces tool use.")
	case root.number("temperature", 1, 1) != nil:
		return invalid("temperature", "may only be set to 1 when thinking is enabled")
	case last.Role == "assistant":
		return invalid("messages", "you cannot go on with a reply when thinking is enabled")
	}
	return nil
}

// messagesBudget reads how much may be thought. With a budget, the reply whose calls are answered begins with what was
// thought.
func messagesBudget(thinking object, req *Request) error {
	budget, err := thinking.positive("budget_tokens")
	switch {
	case err != nil:
		return err
	case budget < leastThinking:
		return invalid(thinking.at("budget_tokens"), "Input should be greater than or equal to 1024")
	case budget >= req.MaxTokens:
		return invalid("max_tokens", "must be greater than thinking.budget_tokens")
	}
	answered := slices.ContainsFunc(req.Messages[lastSpoken(req.Messages)+1:], func(m Message) bool {
		return m.Role == "tool"
	})
	if at := lastSpoken(req.Messages); answered && (at < 0 || !req.Messages[at].thought) {
		return invalid("messages", "Expected `thinking` or `redacted_thinking`, but found something else. When "+
			"`thinking` is enabled, a final `assistant` message must start with a thinking block")
	}
	return thinking.only("type", "budget_tokens", "display")
}

// lastSpoken is the index of the last message of the assistant, -1 for none.
func lastSpoken(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "assistant" {
			return i
		}
	}
	return -1
}
