package responses

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// LeastAllowance is the smallest `max_output_tokens` that the API takes (its reference, November 2026).
const LeastAllowance = 16

// EncodeRequest appends the body that asks an upstream for a reply: for a stream, or for one piece where
// req.Whole allows it. It sends what the canonical request says, with `store` false, for nothing of it is to be
// kept. Of that it leaves out:
//
//   - stop sequences, which the API does not have (what clients of the gateway send of them is its extension
//     of the family); the gateway matches them itself;
//   - a temperature, where req.Unsupported names it.
//
// Package conform has made the request such as the upstream takes it. Function schemas that no client wishes to be
// strict are sent as not strict: the API takes an absent `strict` for true, and then changes them. An allowance below
// LeastAllowance is sent as it is, and refused. An error means that req is not a legal request.
func EncodeRequest(b []byte, req *llm.Request) ([]byte, error) {
	b = append(encode.Grow(b, req), `{"model":`...)
	b = jsonview.AppendString(b, req.Model)
	b, err := appendConversation(b, req.Messages)
	if err != nil {
		return nil, err
	}
	b = append(b, `,"store":false`...)
	if !req.Whole {
		b = append(b, `,"stream":true`...)
	}
	if req.MaxTokens > 0 {
		b = append(b, `,"max_output_tokens":`...)
		b = strconv.AppendInt(b, req.MaxTokens, 10)
	}
	if t := req.Temperature; t != nil && !encode.Refused(req, "temperature") {
		if b, err = encode.AppendTemperature(b, *t); err != nil {
			return nil, err
		}
	}
	if b, err = appendTools(b, req); err != nil {
		return nil, err
	}
	if f := req.Format; f != nil {
		b = append(b, `,"text":{"format":{"type":`...)
		b = jsonview.AppendString(b, string(f.Kind))
		if f.Kind == llm.FormatJSONSchema {
			b = append(b, ',')
			b = encode.AppendSchemaFormat(b, f)
		}
		b = append(b, `}}`...)
	}
	return append(b, '}'), nil
}

// Refuses is what upstreams of the family refuse, see llm.Restrictions. OpenAI's reference, "Create a model response",
// November 2026: names of functions have up to 64 letters, digits, _ and -, call_id has up to 64 characters (AstrBot
// PR#7735), and an output has no mark of failure. Of a tool's schema the root says that it is of an object, has
// properties (pi #8279, openai/openai-agents-python #449) and no unions (litellm #19103, zed #28521), and arrays have
// items.
func Refuses() []string {
	return []string{"call_ids_over_64", "tool_names_over_64", "tool_name_symbols", "schema_without_type",
		"schema_without_properties", "schema_without_items", "schema_root_unions", "result_errors"}
}

// appendConversation appends the members `instructions`, where the conversation begins with a system message,
// and `input`.
func appendConversation(b []byte, messages []llm.Message) ([]byte, error) {
	if len(messages) > 1 && messages[0].Role == llm.RoleSystem {
		b = append(b, `,"instructions":`...)
		b = encode.AppendTexts(b, &messages[0])
		messages = messages[1:]
	}
	if len(messages) == 0 {
		return nil, errors.New("encoding messages: there are none")
	}
	b = append(b, `,"input":[`...)
	for i := range messages {
		switch m := &messages[i]; m.Role {
		case llm.RoleSystem, llm.RoleUser:
			b = appendTexts(appendRole(b, m.Role), m.Parts)
			b = append(b, `},`...)
		case llm.RoleAssistant:
			b = appendTurn(b, m)
		case llm.RoleTool:
			b = append(b, `{"type":"function_call_output","call_id":`...)
			b = jsonview.AppendString(b, m.CallID)
			b = append(b, `,"output":`...)
			if len(m.Parts) > 1 {
				b = appendTexts(b, m.Parts)
			} else {
				b = encode.AppendTexts(b, m)
			}
			b = append(b, `},`...)
		default:
			return nil, fmt.Errorf("encoding messages: %w", encode.UnknownRole(m.Role))
		}
	}
	b[len(b)-1] = ']'
	return b, nil
}

// appendTurn appends the items of an assistant's turn: its texts and calls, in order. A text is a message in the easy
// form, whose content is a string: parts of kind output_text belong to messages that have an id (OpenAI's OpenAPI
// document, EasyInputMessage and OutputMessage).
func appendTurn(b []byte, m *llm.Message) []byte {
	if len(m.Parts) == 0 {
		return append(appendRole(b, m.Role), `""},`...)
	}
	for i := range m.Parts {
		call := m.Parts[i].Call
		if call == nil {
			b = encode.AppendText(appendRole(b, m.Role), m.Parts[i].Text)
			b = append(b, `},`...)
			continue
		}
		b = append(b, `{"type":"function_call","call_id":`...)
		b = jsonview.AppendString(b, call.ID)
		b = append(b, `,"name":`...)
		b = jsonview.AppendString(b, call.Name)
		b = append(b, `,"arguments":`...)
		b = append(encode.AppendQuotedArguments(b, call), `},`...)
	}
	return b
}

// appendRole begins a message item, up to its content.
func appendRole(b []byte, role llm.Role) []byte {
	b = append(b, `{"type":"message","role":"`...)
	b = append(b, role...)
	return append(b, `","content":`...)
}

// appendTexts appends texts as parts of what is put in. Of none it is "".
func appendTexts(b []byte, texts []llm.Part) []byte {
	if len(texts) == 0 {
		texts = []llm.Part{{}}
	}
	b = append(b, '[')
	for _, part := range texts {
		b = append(b, `{"type":"input_text","text":`...)
		b = append(encode.AppendText(b, part.Text), `},`...)
	}
	b[len(b)-1] = ']'
	return b
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for _, tool := range req.Tools {
		b = encode.AppendFunction(append(b, `{"type":"function",`...), &tool, "parameters")
		b = append(b, `,"strict":`...)
		b = append(strconv.AppendBool(b, tool.Strict), "},"...)
	}
	b[len(b)-1] = ']'
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
	case llm.ToolNone, llm.ToolRequired:
		b = append(b, `,"tool_choice":"`...)
		b = append(b, req.ToolChoice.Mode...)
		b = append(b, '"')
	case llm.ToolNamed:
		b = append(b, `,"tool_choice":{"type":"function","name":`...)
		b = jsonview.AppendString(b, req.ToolChoice.Name)
		b = append(b, '}')
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	return b, nil
}
