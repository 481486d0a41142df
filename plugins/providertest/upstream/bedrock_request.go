package upstream

import (
	"encoding/json"
	"strings"
)

// bedrockFields are the fields of a Converse request that the fake knows. The service refuses others.
var bedrockFields = []string{"messages", "system", "inferenceConfig", "toolConfig", "outputConfig",
	"additionalModelRequestFields", "requestMetadata"}

// decodeBedrock reads a Converse request, whose model is in its address.
func decodeBedrock(body []byte) (*Request, error) {
	root, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	req := &Request{Stream: true, IncludeUsage: true}
	if err := root.only(bedrockFields...); err != nil {
		return nil, err
	}
	for _, read := range []reader{bedrockSystem, bedrockTools, bedrockMessages, bedrockLimits} {
		if err := read(root, req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// bedrockMark checks a mark; ok says that the block is one.
func bedrockMark(block object) (ok bool, err error) {
	if !block.has("cachePoint") {
		return false, nil
	}
	mark, err := block.object("cachePoint")
	if err != nil {
		return true, err
	}
	if mark.fields["type"] != "default" {
		return true, invalid(mark.at("type"), "must be default")
	}
	return true, mark.only("type", "ttl")
}

func bedrockText(block object) (string, error) {
	text, err := block.text("text")
	if err == nil && isBlank(text) {
		err = invalid(block.at("text"), "is blank")
	}
	return text, err
}

func bedrockSystem(root object, req *Request) error {
	said := Message{Role: "system"}
	err := root.each("system", func(block object) error {
		if mark, err := bedrockMark(block); mark {
			return err
		}
		text, err := bedrockText(block)
		said.Text += text
		return err
	})
	if said.Text != "" {
		req.Messages = append(req.Messages, said)
	}
	return err
}

func bedrockTools(root object, req *Request) error {
	if !root.has("toolConfig") {
		return nil
	}
	config, err := root.object("toolConfig")
	if err != nil {
		return err
	}
	if err := config.only("tools", "toolChoice"); err != nil {
		return err
	}
	err = config.each("tools", func(tool object) error {
		if mark, err := bedrockMark(tool); mark {
			return err
		}
		spec, err := tool.object("toolSpec")
		if err != nil {
			return err
		}
		name, err := nameOf(spec, longestFunction)
		if err != nil {
			return err
		}
		description, err := spec.optionalText("description")
		if err != nil {
			return err
		}
		schema, err := spec.object("inputSchema")
		if err != nil {
			return err
		}
		if _, err := schema.object("json"); err != nil {
			return err
		}
		req.Tools = append(req.Tools, Tool{Name: name, Description: description})
		return nil
	})
	if err != nil || !config.has("toolChoice") {
		return err
	}
	choice, err := config.object("toolChoice")
	if err == nil {
		err = choice.only("auto", "any", "tool")
	}
	if err == nil && choice.has("tool") {
		var tool object
		if tool, err = choice.object("tool"); err == nil {
			err = chosen(tool, req)
		}
	}
	return err
}

// bedrockMessages reads the conversation: turns take turns, beginning with the user's, and results follow their calls.
func bedrockMessages(root object, req *Request) error {
	open := map[string]bool{} // tool calls without a result yet
	next := "user"
	err := root.each("messages", func(m object) error {
		if err := m.only("role", "content"); err != nil {
			return err
		}
		if m.fields["role"] != next {
			return invalid(m.at("role"), "must be %s: roles take turns, the user first", next)
		}
		if !m.has("content") {
			return invalid(m.at("content"), "is required")
		}
		said := Message{Role: next}
		err := m.each("content", func(block object) error { return bedrockBlock(block, req, &said, open) })
		if err != nil {
			return err
		}
		if next == "user" && len(open) > 0 {
			return noResults(m.path, open)
		}
		if said.Text != "" || len(said.Calls) > 0 {
			req.Messages = append(req.Messages, said)
		}
		next = map[string]string{"user": "assistant", "assistant": "user"}[next]
		return nil
	})
	if err == nil && len(open) > 0 {
		err = noResults("messages", open)
	}
	if err == nil && next == "user" && len(req.Messages) > 0 {
		if said := req.Messages[len(req.Messages)-1].Text; strings.TrimRight(said, " \t\r\n") != said {
			err = invalid("messages", "the final assistant content cannot end with trailing whitespace")
		}
	}
	return err
}

func bedrockBlock(block object, req *Request, said *Message, open map[string]bool) error {
	if mark, err := bedrockMark(block); mark {
		return err
	}
	switch {
	case block.has("text"):
		text, err := bedrockText(block)
		said.Text += text
		return err
	case block.has("reasoningContent") && said.Role == "assistant":
		return bedrockThought(block, said)
	case block.has("toolUse") && said.Role == "assistant":
		use, err := block.object("toolUse")
		if err != nil {
			return err
		}
		call, err := bedrockCall(use)
		open[call.ID] = true
		said.Calls = append(said.Calls, call)
		if err == nil && len(req.Tools) == 0 {
			err = invalid("toolConfig", "must be defined when using toolUse and toolResult content blocks")
		}
		return err
	case block.has("toolResult") && said.Role == "user":
		result, err := block.object("toolResult")
		if err != nil {
			return err
		}
		id, err := result.text("toolUseId")
		if err != nil {
			return err
		}
		if !open[id] {
			return invalid(result.at("toolUseId"), "is the id of no toolUse of the turn before it")
		}
		delete(open, id)
		m := Message{Role: "tool", ToolCallID: id}
		if status, _ := result.optionalText("status"); status != "" && status != "error" && status != "success" {
			return invalid(result.at("status"), "must be success or error")
		}
		if pieces, ok := result.fields["content"].([]any); !ok || len(pieces) > 0 {
			err = result.each("content", func(piece object) error {
				text, err := piece.text("text")
				m.Text += text
				return err
			})
		}
		req.Messages = append(req.Messages, m)
		return err
	}
	return invalid(block.path, "is no block of the %s", said.Role)
}

// bedrockThought reads what was thought, which nobody can change, nor say in the model's place.
func bedrockThought(block object, m *Message) error {
	thought, err := block.object("reasoningContent")
	if err != nil {
		return err
	}
	if err := thought.only("reasoningText", "redactedContent"); err != nil {
		return err
	}
	if thought.has("redactedContent") {
		_, err := thought.text("redactedContent")
		return err
	}
	said, err := thought.object("reasoningText")
	if err != nil {
		return err
	}
	text, err := said.text("text")
	if err != nil {
		return err
	}
	if proof, err := said.text("signature"); err != nil || proof != signed(text) {
		return invalid(said.at("signature"), "Invalid signature in thinking block")
	}
	if m.Reasoning == nil {
		m.Reasoning = new(string)
	}
	*m.Reasoning += text
	return nil
}

func bedrockCall(use object) (PastCall, error) {
	var call PastCall
	err := use.only("toolUseId", "name", "input")
	if err != nil {
		return call, err
	}
	if call.ID, err = use.text("toolUseId"); err != nil {
		return call, err
	}
	if !identifier.MatchString(call.ID) || len(call.ID) > longestFunction {
		return call, invalid(use.at("toolUseId"), "must have 1 to 64 letters, digits, underscores and dashes")
	}
	if call.Name, err = nameOf(use, longestFunction); err != nil {
		return call, err
	}
	input, err := use.object("input")
	call.Arguments = string(mustMarshal(input.fields))
	return call, err
}

func bedrockLimits(root object, req *Request) error {
	if !root.has("inferenceConfig") {
		return nil
	}
	config, err := root.object("inferenceConfig")
	if err != nil {
		return err
	}
	if err := config.only("maxTokens", "temperature", "topP", "stopSequences"); err != nil {
		return err
	}
	if err := config.number("temperature", 0, 1); err != nil {
		return err
	}
	if req.MaxTokens, err = config.positive("maxTokens"); err != nil {
		return err
	}
	stops, err := config.list("stopSequences")
	for _, v := range stops {
		s, ok := v.(string)
		if !ok || s == "" {
			return invalid(config.at("stopSequences"), "must be strings that are not empty")
		}
		req.Stop = append(req.Stop, s)
	}
	return err
}

// bedrockUnits takes a prompt apart: marks are blocks of their own, behind what they mark.
func bedrockUnits(raw json.RawMessage) []unit {
	var body struct {
		Config struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"toolConfig"`
		System   []json.RawMessage `json:"system"`
		Messages []struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return nil
	}
	var units []unit
	add := func(role string, blocks []json.RawMessage) {
		for _, block := range blocks {
			if n := len(units); n > 0 && strings.HasPrefix(string(block), `{"cachePoint":`) {
				units[n-1].marked = true
				continue
			}
			units = append(units, unit{text: role + string(block)})
		}
	}
	add("", body.Config.Tools)
	add("", body.System)
	for _, m := range body.Messages {
		add(m.Role, m.Content)
	}
	return units
}
