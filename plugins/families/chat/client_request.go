package chat

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// EncodeRequest appends the body that asks an upstream for a reply: for a stream with usage at its end, or for
// one piece where req.Whole allows it. It sends what the canonical request says and nothing else. Of what req.Unsupported names, "stop" and "temperature"
// are left out, "stream_options" too (such an upstream may then report no usage), and for "max_tokens" the
// newer name max_completion_tokens is sent. An error means that req is not a legal request.
func EncodeRequest(b []byte, req *llm.Request) ([]byte, error) {
	refused := func(setting string) bool { return slices.Contains(req.Unsupported, setting) }
	b = append(b, `{"model":`...)
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
	}
	b = append(b, ']')
	if !req.Whole {
		b = append(b, `,"stream":true`...)
		if !refused("stream_options") {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	if req.MaxTokens > 0 {
		if refused("max_tokens") {
			b = append(b, `,"max_completion_tokens":`...)
		} else {
			b = append(b, `,"max_tokens":`...)
		}
		b = strconv.AppendInt(b, req.MaxTokens, 10)
	}
	if t := req.Temperature; t != nil && !refused("temperature") {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			return nil, fmt.Errorf("encoding temperature: %v is not a number in JSON", *t)
		}
		b = append(b, `,"temperature":`...)
		b = strconv.AppendFloat(b, *t, 'g', -1, 64)
	}
	if len(req.Stop) > 0 && !refused("stop") {
		b = append(b, `,"stop":[`...)
		for _, stop := range req.Stop {
			b = append(jsonview.AppendString(b, stop), ',')
		}
		b[len(b)-1] = ']'
	}
	b, err := appendTools(b, req)
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
		return nil, fmt.Errorf("unknown role %q", m.Role)
	}
	calls := 0
	for _, part := range m.Parts {
		if part.Call != nil {
			calls++
		}
	}
	b = append(b, `{"role":"`...)
	b = append(b, m.Role...)
	b = append(b, `","content":`...)
	if text := m.Text(); text == "" && calls > 0 {
		b = append(b, "null"...)
	} else {
		b = jsonview.AppendString(b, text)
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

// appendToolCall appends a whole call as it stands in a message; no arguments are {} (GAP-84).
func appendToolCall(b []byte, call *llm.ToolCall) []byte {
	arguments := call.Arguments
	if arguments == "" {
		arguments = "{}"
	}
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, call.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = jsonview.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	b = jsonview.AppendString(b, arguments)
	return append(b, "}}"...)
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
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
		return nil, fmt.Errorf("encoding tool choice: unknown mode %q", req.ToolChoice.Mode)
	}
	return b, nil
}

func appendFormat(b []byte, f *llm.Format) []byte {
	b = append(b, `,"response_format":{"type":`...)
	b = jsonview.AppendString(b, string(f.Kind))
	if f.Kind == llm.FormatJSONSchema {
		b = append(b, `,"json_schema":{"name":`...)
		b = jsonview.AppendString(b, f.Name)
		if f.Description != "" {
			b = append(b, `,"description":`...)
			b = jsonview.AppendString(b, f.Description)
		}
		b = append(b, `,"schema":`...)
		b = append(b, f.Schema...)
		if f.Strict != nil {
			b = append(b, `,"strict":`...)
			b = strconv.AppendBool(b, *f.Strict)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}
