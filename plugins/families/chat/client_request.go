package chat

import (
	"fmt"
	"strconv"

	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// EncodeRequest appends the body that asks an upstream for a reply: for a stream with usage at its end, or for
// one piece where req.Whole allows it. It sends what the canonical request says and nothing else. Of what
// req.Unsupported names, "stop" and "temperature" are left out, "stream_options" too (such an upstream may then
// report no usage), and for "max_tokens" the newer name max_completion_tokens is sent. An error means that req
// is not a legal request.
func EncodeRequest(b []byte, req *llm.Request) ([]byte, error) { return EncodeFor(b, req, Service{}) }

// Service is how an upstream differs from the others of the family.
type Service struct {
	// ReturnReasoning: it wants its reasoning back where there are calls, as `reasoning_content`. Each reply has it: one
	// that is forgotten, and that of a reply without calls, is empty.
	ReturnReasoning bool
	// StrictTools: it knows `strict` of functions.
	StrictTools bool
}

// EncodeFor is EncodeRequest for a service.
func EncodeFor(b []byte, req *llm.Request, service Service) ([]byte, error) {
	b = append(encode.Grow(b, req), `{"model":`...)
	b = jsonview.AppendString(b, req.Model)
	b = append(b, `,"messages":[`...)
	for i := range req.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendMessage(b, &req.Messages[i]); err != nil {
			return nil, fmt.Errorf("encoding message %d: %w", i, err)
		}
		if service.ReturnReasoning && req.Messages[i].Role == llm.RoleAssistant {
			b = appendReasoning(b, &req.Messages[i], req.States)
		}
	}
	b = append(b, ']')
	if !req.Whole {
		b = append(b, `,"stream":true`...)
		if !encode.Refused(req, "stream_options") {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	if req.MaxTokens > 0 {
		if encode.Refused(req, "max_tokens") {
			b = append(b, `,"max_completion_tokens":`...)
		} else {
			b = append(b, `,"max_tokens":`...)
		}
		b = strconv.AppendInt(b, req.MaxTokens, 10)
	}
	if t := req.Temperature; t != nil && !encode.Refused(req, "temperature") {
		var err error
		if b, err = encode.AppendTemperature(b, *t); err != nil {
			return nil, err
		}
	}
	if len(req.Stop) > 0 && !encode.Refused(req, "stop") {
		b = append(b, `,"stop":`...)
		b = encode.AppendStrings(b, req.Stop)
	}
	b, err := appendTools(b, req, service.StrictTools)
	if err != nil {
		return nil, err
	}
	if req.Format != nil {
		b = appendFormat(b, req.Format)
	}
	return append(b, '}'), nil
}

func appendMessage(b []byte, m *llm.Message) ([]byte, error) {
	switch m.Role {
	case llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
	default:
		return nil, encode.UnknownRole(m.Role)
	}
	calls, said := 0, 0
	for i := range m.Parts {
		if m.Parts[i].Call != nil {
			calls++
		}
		said += m.Parts[i].Text.Size()
	}
	b = append(b, `{"role":"`...)
	b = append(b, m.Role...)
	b = append(b, `","content":`...)
	if said == 0 && calls > 0 {
		b = append(b, "null"...)
	} else {
		b = encode.AppendTexts(b, m)
	}
	if m.Role == llm.RoleTool {
		b = append(b, `,"tool_call_id":`...)
		b = jsonview.AppendString(b, m.CallID)
	}
	if calls > 0 {
		b = append(b, `,"tool_calls":[`...)
		for _, part := range m.Parts {
			if part.Call != nil {
				b = append(appendToolCall(b, part.Call), ',')
			}
		}
		b[len(b)-1] = ']'
	}
	return append(b, '}'), nil
}

// appendReasoning adds to the reply at the end of b what was thought before its calls.
func appendReasoning(b []byte, m *llm.Message, states map[string][]byte) []byte {
	var thought []byte
	for _, part := range m.Parts {
		if part.Call != nil && thought == nil {
			thought = states[part.Call.ID]
		}
	}
	b = append(b[:len(b)-1], `,"reasoning_content":`...)
	return append(jsonview.AppendString(b, string(thought)), '}')
}

// appendToolCall appends a whole call as it stands in a message; no arguments are {} (GAP-84).
func appendToolCall(b []byte, call *llm.ToolCall) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, call.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = jsonview.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	b = encode.AppendText(b, encode.Arguments(call))
	return append(b, "}}"...)
}

func appendTools(b []byte, req *llm.Request, strict bool) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for _, tool := range req.Tools {
		b = append(b, `{"type":"function","function":{"name":`...)
		b = jsonview.AppendString(b, tool.Name)
		if tool.Description != "" {
			b = append(b, `,"description":`...)
			b = jsonview.AppendString(b, tool.Description)
		}
		// Some upstreams refuse an object schema without properties, and all take its absence for one.
		if string(tool.Schema) != decode.EmptySchema {
			b = append(b, `,"parameters":`...)
			b = append(b, tool.Schema...)
		}
		if strict && encode.Strict(&tool) {
			b = append(b, `,"strict":true`...)
		}
		b = append(b, "}},"...)
	}
	b[len(b)-1] = ']'
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
	case llm.ToolNone, llm.ToolRequired:
		b = append(b, `,"tool_choice":"`...)
		b = append(b, req.ToolChoice.Mode...)
		b = append(b, '"')
	case llm.ToolNamed:
		b = append(b, `,"tool_choice":{"type":"function","function":{"name":`...)
		b = jsonview.AppendString(b, req.ToolChoice.Name)
		b = append(b, "}}"...)
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	return b, nil
}

func appendFormat(b []byte, f *llm.Format) []byte {
	b = append(b, `,"response_format":{"type":`...)
	b = jsonview.AppendString(b, string(f.Kind))
	if f.Kind == llm.FormatJSONSchema {
		b = append(b, `,"json_schema":{`...)
		b = encode.AppendSchemaFormat(b, f)
		b = append(b, '}')
	}
	return append(b, '}')
}
