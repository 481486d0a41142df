package chat

import (
	"fmt"
	"strconv"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// EncodeRequest appends the body that asks an upstream for a reply: for a stream with usage at its end, or for one
// piece where req.Whole allows it. It sends what the canonical request says, which package conform has made such as
// the upstream takes it, and nothing else. Of what req.Unsupported names, "stop" and "temperature" are left out,
// "stream_options" too (such an upstream may then report no usage), for "max_tokens" the newer name
// max_completion_tokens is sent, for "null_content" an empty text where a reply was calls only, and with
// "forced_tool_choice_thinking" the model does not think before a call that is demanded. An error means that req is
// not a legal request.
func EncodeRequest(b []byte, req *llm.Request) ([]byte, error) { return EncodeFor(b, req, Service{}) }

// Service is how an upstream differs from the others of the family.
type Service struct {
	// ReturnReasoning: it wants its reasoning back where there are calls, as `reasoning_content`. Each reply has it: one
	// that is forgotten, and that of a reply without calls, is empty.
	ReturnReasoning bool
	// Timings: it is a llama.cpp server, which says with each chunk of a stream what it has done so far.
	Timings bool
	// LostCall are the members, of an object of JSON, that the first call of a past reply has where those that it came
	// with are not there any more; "" for none.
	LostCall string
}

// Refuses is what upstreams of the family refuse, see llm.Restrictions. OpenAI's reference, "Create chat completion",
// November 2026: names of functions have up to 64 letters, digits, _ and -, and a tool's message has no mark of
// failure. Ids of calls have up to 40 characters (vllm #22966, dify #28987), a schema says that it is of an object,
// and has properties (pi #8279, openai/openai-agents-python #449).
func Refuses() []string {
	return []string{"call_ids_over_40", "tool_names_over_64", "tool_name_symbols", "schema_without_type",
		"schema_without_properties", "result_errors"}
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
		if b, err = appendMessage(b, &req.Messages[i], req, &service); err != nil {
			return nil, fmt.Errorf("encoding message %d: %w", i, err)
		}
	}
	b = append(b, ']')
	if !req.Whole {
		b = append(b, `,"stream":true`...)
		if !encode.Refused(req, "stream_options") {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
		if service.Timings {
			b = append(b, `,"timings_per_token":true`...)
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
	b, err := encode.AppendSampling(b, req)
	if err != nil {
		return nil, err
	}
	b, err = appendTools(b, req)
	if err != nil {
		return nil, err
	}
	if req.Format != nil {
		b = appendFormat(b, req.Format)
	}
	return append(b, '}'), nil
}

func appendMessage(b []byte, m *llm.Message, req *llm.Request, service *Service) ([]byte, error) {
	switch m.Role {
	case llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
	default:
		return nil, encode.UnknownRole(m.Role)
	}
	calls, texts := 0, 0
	for i := range m.Parts {
		if m.Parts[i].Call != nil {
			calls++
		} else if m.Parts[i].Text.Size() > 0 {
			texts++
		}
	}
	b = append(b, `{"role":"`...)
	b = append(b, m.Role...)
	b = append(b, `","content":`...)
	switch {
	case texts == 0 && calls > 0 && !encode.Refused(req, "null_content"):
		b = append(b, "null"...)
	case texts > 1:
		b = appendTexts(b, m)
	default:
		b = encode.AppendTexts(b, m)
	}
	if m.Role == llm.RoleTool {
		b = append(b, `,"tool_call_id":`...)
		b = jsonview.AppendString(b, m.CallID)
	}
	var came jsonview.View // what the message had beside its calls
	if calls > 0 {
		b, came = appendCalls(b, m, req.States, service.LostCall)
	}
	b = append(b, '}')
	if service.ReturnReasoning && m.Role == llm.RoleAssistant && !came.Get(reasoningContent).Set() {
		b = append(b[:len(b)-1], `,"reasoning_content":""}`...)
	}
	return appendMembers(b, came), nil
}

// appendCalls appends the calls of a message with what they came with, and returns what the message came with.
func appendCalls(b []byte, m *llm.Message, states map[string][]byte, lost string) (_ []byte, message jsonview.View) {
	b = append(b, `,"tool_calls":[`...)
	first := true
	for _, part := range m.Parts {
		if part.Call == nil {
			continue
		}
		b = appendToolCall(b, part.Call)
		state := stateOf(states[part.Call.ID])
		if !message.Set() {
			message = state.Get(ofMessage)
		}
		gave := state.Get(ofCall)
		if first && !gave.Set() && lost != "" {
			gave = jsonview.Of([]byte(lost))
		}
		b = append(appendMembers(b, gave), ',')
		first = false
	}
	b[len(b)-1] = ']'
	return b, message
}

// appendTexts appends the texts of a message as parts.
func appendTexts(b []byte, m *llm.Message) []byte {
	b = append(b, '[')
	for i := range m.Parts {
		if text := m.Parts[i].Text; text.Size() > 0 {
			b = append(b, `{"type":"text","text":`...)
			b = append(encode.AppendText(b, text), "},"...)
		}
	}
	b[len(b)-1] = ']'
	return b
}

// appendToolCall appends a whole call as it stands in a message; no arguments are {} (GAP-84).
func appendToolCall(b []byte, call *llm.ToolCall) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, call.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = jsonview.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	b = encode.AppendQuotedArguments(b, call)
	return append(b, "}}"...)
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for _, tool := range req.Tools {
		b = encode.AppendFunction(append(b, `{"type":"function","function":{`...), &tool, "parameters")
		if tool.Strict {
			b = append(b, `,"strict":true`...)
		}
		b = append(b, "}},"...)
	}
	b[len(b)-1] = ']'
	if m := req.ToolChoice.Mode; (m == llm.ToolRequired || m == llm.ToolNamed) &&
		encode.Refused(req, "forced_tool_choice_thinking") {
		b = append(b, `,"thinking":{"type":"disabled"}`...)
	}
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
