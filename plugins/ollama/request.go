package ollama

import (
	"fmt"
	"strconv"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// thinking is the setting of that name as JSON.
var thinking = map[string]string{
	"": "true", "on": "true", "off": "false", "low": `"low"`, "medium": `"medium"`, "high": `"high"`,
}

// refuses is what Ollama refuses or does not read, see llm.Restrictions (api/types.go, ChatRequest and Message): a
// text is one string, results have no mark for tools that failed, and there is no tool choice, so that no call can be
// demanded. Names of tools it takes as they are; the parsers of models know those of OpenAI's form.
var refuses = []string{"forced_tool_choice", "tool_names_over_64", "tool_name_symbols", "text_parts", "result_errors",
	"schema_without_type", "schema_without_properties"}

// encode makes the body of a chat. It sends what the canonical request says, which package conform has made such as
// Ollama takes it. Where no tool may be called none are offered.
//
// What was thought before calls goes back with them, where it is known (req.States).
//
// Options come after the conversation, so that one that goes on begins with the same bytes.
func (o *Ollama) encode(req *llm.Request, m model, room int64) ([]byte, error) {
	b := append(encode.Grow(nil, req), `{"model":`...)
	b = jsonview.AppendString(b, req.Model)
	b, err := appendTools(b, req)
	if err != nil {
		return nil, err
	}
	b = append(b, `,"messages":[`...)
	names := map[string]string{} // of the tools that were called, by the call's id
	for i := range req.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendMessage(b, &req.Messages[i], names, req.States); err != nil {
			return nil, fmt.Errorf("encoding message %d: %w", i, err)
		}
	}
	b = append(b, `],"truncate":false,"shift":false,"stream":`...)
	b = strconv.AppendBool(b, !o.wholly(req))
	if m.thinks || !m.told && o.settings.Think != "" {
		b = append(b, `,"think":`...)
		b = append(b, thinking[o.settings.Think]...)
	}
	if o.keepAlive != "" {
		b = append(b, `,"keep_alive":`...)
		b = append(b, o.keepAlive...)
	}
	if f := req.Format; f != nil {
		b = append(b, `,"format":`...)
		if f.Kind == llm.FormatJSONSchema {
			b = append(b, f.Schema...)
		} else {
			b = append(b, `"json"`...)
		}
	}
	return o.appendOptions(b, req, room)
}

// wholly reports whether the reply is asked for in one piece.
func (o *Ollama) wholly(req *llm.Request) bool { return req.Whole && !o.settings.AlwaysStream }

func (o *Ollama) appendOptions(b []byte, req *llm.Request, room int64) ([]byte, error) {
	b = append(b, `,"options":{"num_predict":`...)
	b = strconv.AppendInt(b, req.MaxTokens, 10)
	if room > 0 {
		b = append(b, `,"num_ctx":`...)
		b = strconv.AppendInt(b, room, 10)
	}
	b, err := encode.AppendSampling(b, req)
	return append(b, `}}`...), err
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
	case llm.ToolNone:
		return b, nil
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for _, tool := range req.Tools {
		b = append(b, `{"type":"function","function":{"name":`...)
		b = jsonview.AppendString(b, tool.Name)
		b = append(b, `,"description":`...)
		b = jsonview.AppendString(b, tool.Description)
		b = append(b, `,"parameters":`...)
		b = append(b, tool.Schema...)
		b = append(b, "}},"...)
	}
	b[len(b)-1] = ']'
	return b, nil
}

func appendMessage(b []byte, m *llm.Message, names map[string]string, states map[string][]byte) ([]byte, error) {
	switch m.Role {
	case llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
	default:
		return nil, encode.UnknownRole(m.Role)
	}
	b = append(b, `{"role":"`...)
	b = append(b, m.Role...)
	b = append(b, `","content":`...)
	b = encode.AppendTexts(b, m)
	calls := 0
	for _, part := range m.Parts {
		if part.Call == nil {
			continue
		}
		if calls++; calls == 1 {
			if thought := states[part.Call.ID]; len(thought) > 0 {
				b = append(b, `,"thinking":`...)
				b = jsonview.AppendString(b, string(thought))
			}
			b = append(b, `,"tool_calls":[`...)
		}
		names[part.Call.ID] = part.Call.Name
		b = append(appendCall(b, part.Call), ',')
	}
	if calls > 0 {
		b[len(b)-1] = ']'
	}
	if m.Role == llm.RoleTool {
		if name := names[m.CallID]; name != "" {
			b = append(b, `,"tool_name":`...)
			b = jsonview.AppendString(b, name)
		}
		b = append(b, `,"tool_call_id":`...)
		b = jsonview.AppendString(b, m.CallID)
	}
	return append(b, '}'), nil
}

func appendCall(b []byte, call *llm.ToolCall) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, call.ID)
	b = append(b, `,"function":{"name":`...)
	b = jsonview.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	return append(encode.AppendArguments(b, call), "}}"...)
}
