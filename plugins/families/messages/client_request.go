package messages

import (
	"errors"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// highestTemperature is the end of this family's range (GAP-25).
const highestTemperature = 1

// EncodeRequest appends the body that asks an upstream for a reply: for a stream, or for one piece where
// req.Whole allows it. It sends what the canonical request says, which package conform has made such as the upstream
// takes it, in the order that the family wants it, and leaves out what an upstream of the family would refuse:
//
//   - system messages, wherever they stand, go to `system`, for there is no such turn;
//   - the results of tools and what the user says after them are one turn, results first;
//   - stop sequences that are blank, and blanks at the end of a reply that the upstream is to go on with, are left out;
//     the gateway matches the stop sequences itself;
//   - a temperature over 1 is left out, which leaves the default of the API: 1, the nearest that there is; and any
//     temperature where thinking is asked for, which goes with that default only;
//   - so are "stop" and "temperature" where req.Unsupported names them;
//   - what was thought before a call goes back with it, where it is known (req.States), for the upstream demands it;
//   - a json_object format is left out: the family can enforce a schema only.
//
// An error means that req is not a legal request, or that it says nothing.
func EncodeRequest(b []byte, req *llm.Request) ([]byte, error) { return EncodeWith(b, req, Options{}) }

// Refuses is what upstreams of the family refuse, see llm.Restrictions. platform.claude.com, "Create a Message" and
// "Implement tool use", November 2026: names of tools match ^[a-zA-Z0-9_-]{1,64}$ and ids of calls ^[a-zA-Z0-9_-]+$; a
// schema is of an object (litellm #19103, claude-code #40075); a conversation begins with the user; no text is blank.
func Refuses() []string {
	return []string{"call_ids_over_64", "call_id_symbols", "tool_names_over_64", "tool_name_symbols",
		"schema_without_type", "schema_root_unions", "assistant_first", "system_alone", "blank_text"}
}

// Options are what the operator says, beside the request.
type Options struct {
	// Keep marks what the upstream is to keep for so long ("5m", "1h"; "" marks nothing): the ends of the tools, of
	// `system`, of what the user said last, and of what the user said before that, which is where the last request's
	// prompt ended. But for the marks, a conversation that goes on begins with the same bytes.
	Keep string
	// ThinkingBudget is how many tokens the model may think for: 0 for none, -1 for as many as it wants ("adaptive"),
	// else at least LeastThinking; nil leaves it to the model. Where a request cannot be thought about, thinking is left
	// out.
	ThinkingBudget *int64
	// Effort is how much the model does for a reply, one of Efforts; "" leaves it to the model.
	Effort string
}

// EncodeWith is EncodeRequest with options.
func EncodeWith(b []byte, req *llm.Request, o Options) ([]byte, error) {
	mark := marks[o.Keep]
	if req.MaxTokens < 1 {
		return nil, errors.New("encoding max_tokens: the messages family needs an output allowance of at least 1")
	}
	b = append(encode.Grow(b, req), `{"model":`...)
	b = jsonview.AppendString(b, req.Model)
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, req.MaxTokens, 10)
	b, turns, err := appendConversation(b, req, mark)
	if err != nil {
		return nil, err
	}
	b, thinks := appendThinking(b, req, o.ThinkingBudget, turns)
	if !req.Whole {
		b = append(b, `,"stream":true`...)
	}
	if t := req.Temperature; t != nil && !thinks && !(*t > highestTemperature) && !encode.Refused(req, "temperature") {
		if b, err = encode.AppendTemperature(b, *t); err != nil {
			return nil, err
		}
	}
	if stops := visible(req.Stop); len(stops) > 0 && !encode.Refused(req, "stop") {
		b = append(b, `,"stop_sequences":`...)
		b = encode.AppendStrings(b, stops)
	}
	if b, err = appendTools(b, req, mark); err != nil {
		return nil, err
	}
	return append(appendOutput(b, req.Format, o.Effort), '}'), nil
}

// appendOutput appends the member output_config, where there is something to say in it.
func appendOutput(b []byte, f *llm.Format, effort string) []byte {
	schema := f != nil && f.Kind == llm.FormatJSONSchema
	if !schema && effort == "" {
		return b
	}
	b = append(b, `,"output_config":{`...)
	if effort != "" {
		b = append(b, `"effort":`...)
		b = append(jsonview.AppendString(b, effort), ',')
	}
	if schema {
		b = append(b, `"format":{"type":"json_schema","schema":`...)
		b = append(b, f.Schema...)
		b = append(b, `},`...)
	}
	b[len(b)-1] = '}'
	return b
}

// visible returns the texts that are not blank.
func visible(texts []string) []string {
	var kept []string
	for _, s := range texts {
		if !isBlank(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// marks are the last member of a block at which something to be kept ends, with the end of the block.
var marks = map[string]string{
	"":   "}",
	"5m": `,"cache_control":{"type":"ephemeral"}}`,
	"1h": `,"cache_control":{"type":"ephemeral","ttl":"1h"}}`,
}

// appendMark marks the block at the end of b.
func appendMark(b []byte, mark string) []byte { return append(b[:len(b)-1], mark...) }

func appendTools(b []byte, req *llm.Request, mark string) ([]byte, error) {
	if len(req.Tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for i := range req.Tools {
		b = append(encode.AppendFunction(append(b, '{'), &req.Tools[i], "input_schema"), `},`...)
	}
	b = appendMark(b[:len(b)-1], mark)
	b = append(b, ']')
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
	case llm.ToolNone:
		b = append(b, `,"tool_choice":{"type":"none"}`...)
	case llm.ToolRequired:
		b = append(b, `,"tool_choice":{"type":"any"}`...)
	case llm.ToolNamed:
		b = append(b, `,"tool_choice":{"type":"tool","name":`...)
		b = jsonview.AppendString(b, req.ToolChoice.Name)
		b = append(b, '}')
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	return b, nil
}
