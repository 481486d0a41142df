package gemini

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// maxStops is how many stop sequences the service takes.
const maxStops = 5

// Refuses is what the service refuses for a model, see llm.Restrictions: a name begins with a letter or an underscore,
// and has up to 64 of letters, digits, underscores and dashes (the reference, FunctionDeclaration, which has come to
// take some more); a schema is of an object (pi #8279, zed #28521) and an array of something; texts are not empty, and
// the user begins. Models before Gemini 3 take no format beside functions ("Structured outputs", with tools).
func Refuses(model string) []string {
	if before3(model) {
		return refusedBefore3
	}
	return refusedBefore3[1:]
}

var refusedBefore3 = []string{"json_with_tools", "tool_names_over_64", "tool_name_symbols", "tool_name_digits",
	"schema_without_type", "schema_without_items", "assistant_first", "system_alone", "blank_text"}

// EncodeRequest appends the body that asks for a reply. That it is streamed, and which model is asked, stands in the
// address. It sends what the canonical request says, which package conform has made such as the service takes it, and
// leaves out what the service would refuse:
//
//   - system messages, wherever they stand, go to `systemInstruction`, for there is no such role;
//   - messages of one role in a row are one turn, so that the results of calls made together come together;
//   - "stop" and "temperature" are left out where req.Unsupported names them.
//
// An error means that req is not a legal request.
func EncodeRequest(b []byte, req *llm.Request, o Options) ([]byte, error) {
	b = append(encode.Grow(b, req), '{')
	b, err := appendConversation(b, req)
	if err != nil {
		return nil, err
	}
	if b, err = appendTools(b, req); err != nil {
		return nil, err
	}
	b = append(b, `,"generationConfig":{`...)
	if req.MaxTokens > 0 {
		b = append(b, `"maxOutputTokens":`...)
		b = strconv.AppendInt(b, req.MaxTokens, 10)
		b = append(b, ',')
	}
	if t := req.Temperature; t != nil && !encode.Refused(req, "temperature") {
		comma := len(b)
		if b, err = encode.AppendTemperature(b, *t); err != nil {
			return nil, err
		}
		b = append(slices.Delete(b, comma, comma+1), ',')
	}
	if n := min(len(req.Stop), maxStops); n > 0 && !encode.Refused(req, "stop") {
		b = append(b, `"stopSequences":`...)
		b = append(encode.AppendStrings(b, req.Stop[:n]), ',')
	}
	if f := req.Format; f != nil {
		b = append(b, `"responseMimeType":"application/json",`...)
		if f.Kind == llm.FormatJSONSchema {
			b = append(b, `"responseJsonSchema":`...)
			b = append(append(b, f.Schema...), ',')
		}
	}
	b = appendThinking(b, o)
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, `}}`...), nil
}

func appendThinking(b []byte, o Options) []byte {
	switch {
	case o.ThinkingLevel != "":
		b = append(b, `"thinkingConfig":{"thinkingLevel":`...)
		b = jsonview.AppendString(b, strings.ToUpper(o.ThinkingLevel))
	case o.ThinkingBudget != nil:
		b = append(b, `"thinkingConfig":{"thinkingBudget":`...)
		b = strconv.AppendInt(b, *o.ThinkingBudget, 10)
	default:
		return b
	}
	return append(b, `},`...)
}

func appendTools(b []byte, req *llm.Request) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[{"functionDeclarations":[`...)
	for i := range req.Tools {
		tool := &req.Tools[i]
		b = append(b, `{"name":`...)
		b = jsonview.AppendString(b, tool.Name)
		b = append(b, `,"description":`...) // which the reference calls required
		b = jsonview.AppendString(b, tool.Description)
		// `parameters` takes a part of OpenAPI's schemas only.
		b = append(b, `,"parametersJsonSchema":`...)
		b = append(append(b, tool.Schema...), `},`...)
	}
	b = append(b[:len(b)-1], `]}]`...)
	mode := ""
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
		return b, nil
	case llm.ToolNone:
		mode = "NONE"
	case llm.ToolRequired, llm.ToolNamed:
		mode = "ANY"
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	b = append(b, `,"toolConfig":{"functionCallingConfig":{"mode":"`...)
	b = append(append(b, mode...), '"')
	if req.ToolChoice.Mode == llm.ToolNamed {
		b = append(b, `,"allowedFunctionNames":`...)
		b = encode.AppendStrings(b, []string{req.ToolChoice.Name})
	}
	return append(b, `}}`...), nil
}

// turn is a run of messages of one role.
type turn struct {
	model bool
	parts [][]byte
}

// appendConversation appends the members `systemInstruction`, if there is any, and `contents`.
func appendConversation(b []byte, req *llm.Request) ([]byte, error) {
	names := make(map[string]string) // of the calls, by their ids
	signed := Signs(req.Model)
	begin := func(assistant bool) *turn { return &turn{model: assistant} }
	turns, err := encode.Turns(req.Messages, begin, func(t *turn, m *llm.Message) error {
		switch m.Role {
		case llm.RoleAssistant:
			t.parts = append(t.parts, appendReply(m, names, req.States, signed)...)
		case llm.RoleTool:
			name, called := names[m.CallID]
			if !called {
				return errors.New("it answers a call that is not there")
			}
			t.parts = append(t.parts, appendResult(nil, m, name))
		default:
			t.parts = appendTexts(t.parts, m)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(turns[0].parts) == 0 {
		return nil, encode.ErrNothingSaid
	}
	var system [][]byte
	for _, text := range encode.System(req.Messages) {
		system = append(system, appendText(nil, text))
	}
	if len(system) > 0 {
		b = append(b, `"systemInstruction":`...)
		b = append(appendParts(append(b, '{'), system), ',')
	}
	b = append(b, `"contents":[`...)
	for _, t := range turns {
		role := "user"
		if t.model {
			role = "model"
		}
		b = append(b, `{"role":"`...)
		b = append(append(b, role...), `",`...)
		b = append(appendParts(b, t.parts), ',')
	}
	b[len(b)-1] = ']'
	return b, nil
}

// appendParts appends the member `parts` and the end of what it stands in.
func appendParts(b []byte, parts [][]byte) []byte {
	b = append(b, `"parts":[`...)
	for _, part := range parts {
		b = append(append(b, part...), ',')
	}
	b[len(b)-1] = ']'
	return append(b, '}')
}

// appendTexts adds a part for each text of a message.
func appendTexts(parts [][]byte, m *llm.Message) [][]byte {
	for _, part := range m.Parts {
		parts = append(parts, appendText(nil, part.Text))
	}
	return parts
}

func appendText(b []byte, text llm.String) []byte {
	b = append(b, `{"text":`...)
	return append(encode.AppendText(b, text), '}')
}

// Unsigned stands in the place of a signature that is not there any more, or that this service never made: the guide
// "Thought signatures" names it for that. A model of today refuses the first call of a reply that has none, see Signs.
const Unsigned = "skip_thought_signature_validator"

// Signs reports whether a model signs its calls, and refuses those of past replies without a signature.
func Signs(model string) bool { return !before3(model) }

// before3 reports whether a model is older than Gemini 3, which began to sign calls; so do names without a number.
func before3(model string) bool {
	for _, older := range []string{"gemini-1", "gemini-2", "gemma", "learnlm"} {
		if strings.Contains(model, older) {
			return true
		}
	}
	return false
}

// appendReply makes the parts of a past reply, and notes its calls.
func appendReply(m *llm.Message, names map[string]string, states map[string][]byte, signed bool) [][]byte {
	var parts [][]byte
	first := true
	for _, part := range m.Parts {
		call := part.Call
		if call == nil {
			parts = append(parts, appendText(nil, part.Text))
			continue
		}
		names[call.ID] = call.Name
		b := append([]byte(nil), `{"functionCall":{`...)
		b = appendID(b, call.ID)
		b = append(b, `"name":`...)
		b = jsonview.AppendString(b, call.Name)
		b = append(b, `,"args":`...)
		b = append(encode.AppendArguments(b, call), '}')
		signature := string(states[call.ID])
		if signature == "" && first && signed {
			signature = Unsigned
		}
		if signature != "" {
			b = append(b, `,"thoughtSignature":`...)
			b = jsonview.AppendString(b, signature)
		}
		first = false
		parts = append(parts, append(b, '}'))
	}
	return parts
}

// appendID appends the member `id`, if the service has given one.
func appendID(b []byte, id string) []byte {
	if strings.HasPrefix(id, made) {
		return b
	}
	b = append(b, `"id":`...)
	return append(jsonview.AppendString(b, id), ',')
}

// appendResult appends the result of a call, which is an object here: what came out, or what went wrong.
func appendResult(b []byte, m *llm.Message, name string) []byte {
	b = append(b, `{"functionResponse":{`...)
	b = appendID(b, m.CallID)
	b = append(b, `"name":`...)
	b = jsonview.AppendString(b, name)
	if m.IsError {
		b = append(b, `,"response":{"error":`...)
	} else {
		b = append(b, `,"response":{"output":`...)
	}
	return append(encode.AppendTexts(b, m), `}}}`...)
}
