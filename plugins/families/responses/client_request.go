package responses

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fareway/fareway/plugins/families/internal/decode"
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
//   - a temperature, where req.Unsupported names it;
//   - the mark of a tool result that the tool failed, for which there is no field.
//
// Function schemas that no client wishes to be strict, or that the API would refuse as such, are sent as not strict: it
// takes an absent `strict` for true, and then changes them.
// An allowance below LeastAllowance is sent as it is, and refused. An error means that req is not a legal request.
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
			b = appendMessage(b, m.Role, "input_text", m.Parts)
		case llm.RoleAssistant:
			b = appendTurn(b, m)
		case llm.RoleTool:
			b = append(b, `{"type":"function_call_output","call_id":`...)
			b = jsonview.AppendString(b, m.CallID)
			b = append(b, `,"output":`...)
			b = encode.AppendTexts(b, m)
			b = append(b, `},`...)
		default:
			return nil, fmt.Errorf("encoding messages: %w", encode.UnknownRole(m.Role))
		}
	}
	b[len(b)-1] = ']'
	return b, nil
}

// appendTurn appends the items of an assistant's turn: its texts and calls, in order, each run of texts as one
// message.
func appendTurn(b []byte, m *llm.Message) []byte {
	if len(m.Parts) == 0 {
		return appendMessage(b, m.Role, "output_text", nil)
	}
	for start := 0; start < len(m.Parts); {
		if call := m.Parts[start].Call; call != nil {
			b = append(b, `{"type":"function_call","call_id":`...)
			b = jsonview.AppendString(b, call.ID)
			b = append(b, `,"name":`...)
			b = jsonview.AppendString(b, call.Name)
			b = append(b, `,"arguments":`...)
			b = encode.AppendText(b, encode.Arguments(call))
			b = append(b, `},`...)
			start++
			continue
		}
		end := start
		for end < len(m.Parts) && m.Parts[end].Call == nil {
			end++
		}
		b = appendMessage(b, m.Role, "output_text", m.Parts[start:end])
		start = end
	}
	return b
}

// appendMessage appends a message item with these texts, and a comma. One that says nothing says "".
func appendMessage(b []byte, role llm.Role, kind string, texts []llm.Part) []byte {
	if len(texts) == 0 {
		texts = []llm.Part{{}}
	}
	b = append(b, `{"type":"message","role":"`...)
	b = append(b, role...)
	b = append(b, `","content":[`...)
	for _, part := range texts {
		b = append(b, `{"type":"`...)
		b = append(b, kind...)
		b = append(b, `","text":`...)
		b = encode.AppendText(b, part.Text)
		b = append(b, `},`...)
	}
	b[len(b)-1] = ']'
	return append(b, `},`...)
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for _, tool := range req.Tools {
		b = append(b, `{"type":"function","name":`...)
		b = jsonview.AppendString(b, tool.Name)
		if tool.Description != "" {
			b = append(b, `,"description":`...)
			b = jsonview.AppendString(b, tool.Description)
		}
		b = append(b, `,"parameters":`...)
		if string(tool.Schema) == decode.EmptySchema {
			b = append(b, `{"type":"object","properties":{}}`...) // the API refuses an object schema without properties
		} else {
			b = append(b, tool.Schema...)
		}
		b = append(b, `,"strict":`...)
		b = append(strconv.AppendBool(b, encode.Strict(&tool)), "},"...)
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
