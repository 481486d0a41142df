package responses

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// fields are the members of a request that are read. All others are ignored (HTTP-04), `reasoning` (RESP-22)
// and, while structured output is off, `text` (STRUCT-04) among them.
type fields struct {
	input, instructions, maxTokens, temperature, stop, stream, tools, toolChoice, effort jsonview.View
	store, background, previous, format, text, prompt                                    jsonview.View
}

func readFields(root jsonview.View) (f fields) {
	for name, v := range root.Members() {
		switch name {
		case "input":
			f.input = v
		case "instructions":
			f.instructions = v
		case "max_output_tokens":
			f.maxTokens = v
		case "temperature":
			f.temperature = v
		case "stop":
			f.stop = v
		case "stream":
			f.stream = v
		case "tools":
			f.tools = v
		case "tool_choice":
			f.toolChoice = v
		case "reasoning_effort":
			f.effort = v
		case "store":
			f.store = v
		case "background":
			f.background = v
		case "previous_response_id":
			f.previous = v
		case "response_format":
			f.format = v
		case "text":
			f.text = v
		case "prompt": // looked at for media only (GAP-120)
			f.prompt = v
		}
	}
	return f
}

// echo is what a response object repeats of its request, as JSON text on one line; empty where it was absent. What is
// not read is not repeated: the family has a default for it (GAP-116).
type echo struct {
	instructions, maxTokens, temperature, format, tools, toolChoice []byte
}

func (f *fields) echo(req *llm.Request) echo {
	var e echo
	if f.instructions.Set() {
		e.instructions = jsonview.AppendCompact(nil, f.instructions.Raw())
	}
	if req.MaxTokens > 0 {
		e.maxTokens = strconv.AppendInt(nil, req.MaxTokens, 10)
	}
	if f.temperature.Set() {
		e.temperature = jsonview.AppendCompact(nil, f.temperature.Raw())
	}
	for _, tool := range f.tools.Elems() {
		if e.tools != nil {
			e.tools = append(e.tools, ',')
		}
		e.tools = appendEchoedTool(e.tools, tool)
	}
	switch f.toolChoice.Kind() {
	case jsonview.String:
		e.toolChoice = jsonview.AppendCompact(nil, f.toolChoice.Raw())
	case jsonview.Object:
		e.toolChoice = append([]byte(`{"type":"function","name":`), jsonview.AppendString(nil, req.ToolChoice.Name)...)
		e.toolChoice = append(e.toolChoice, '}')
	}
	return e
}

// appendEchoedTool appends a function as the family declares one, with all members, whichever form it was sent in.
func appendEchoedTool(b []byte, tool jsonview.View) []byte {
	if nested := tool.Get("function"); nested.Kind() == jsonview.Object {
		tool = nested
	}
	b = append(b, `{"type":"function"`...)
	for _, name := range []string{"name", "description", "parameters", "strict"} {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		member := tool.Get(name)
		if !member.Set() || name == "strict" && member.Kind() != jsonview.Bool { // strict is not read
			b = append(b, "null"...)
			continue
		}
		b = jsonview.AppendCompact(b, member.Raw())
	}
	return append(b, '}')
}

// echoFormat is the family's own form of a format, with all members, those that were not sent among them.
func echoFormat(f *llm.Format) []byte {
	if f == nil {
		return nil
	}
	if f.Kind != llm.FormatJSONSchema {
		return append(append([]byte(`{"type":"`), f.Kind...), `"}`...)
	}
	b := append([]byte(`{"type":"json_schema","name":`), jsonview.AppendString(nil, f.Name)...)
	b = append(b, `,"description":`...)
	if f.Description == "" {
		b = append(b, "null"...)
	} else {
		b = jsonview.AppendString(b, f.Description)
	}
	b = append(append(b, `,"schema":`...), f.Schema...)
	b = append(b, `,"strict":`...)
	b = strconv.AppendBool(b, f.Strict != nil && *f.Strict)
	return append(b, '}')
}

// Decode reads a request of the family.
func (Server) Decode(doc *families.Document, rules families.Rules) (*families.Request, *families.Error) {
	f := readFields(doc.Root)
	if decode.HasMedia(f.input, f.instructions) || decode.VariablesHaveMedia(f.prompt) {
		return nil, families.Media()
	}
	var check decode.Check
	notOffered(&check, &f)
	format := readFormat(&check, &f, rules)

	c := conversation{calls: decode.Calls{}}
	c.instructions(check.Field("instructions", f.instructions))
	c.tools(check.Field("tools", f.tools))
	c.input(check.Field("input", f.input))
	choice := c.declared.Choice(check.Field("tool_choice", f.toolChoice))

	req := &families.Request{
		LLM: &llm.Request{
			Messages:    c.messages,
			Tools:       c.declared.List,
			ToolChoice:  choice,
			MaxTokens:   check.Field("max_output_tokens", f.maxTokens).Allowance(),
			Temperature: check.Field("temperature", f.temperature).Temperature(),
			Stop:        check.Field("stop", f.stop).Stop(),
			Format:      format,
		},
		Stream: check.Field("stream", f.stream).Flag(),
		Effort: check.Field("reasoning_effort", f.effort).Effort(),
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	repeated := f.echo(req.LLM)
	repeated.format = echoFormat(format)
	req.Echo = repeated
	return req, nil
}

// notOffered reports what would need stored responses.
func notOffered(check *decode.Check, f *fields) {
	store := check.Field("store", f.store)
	if store.Flag() {
		store.Unsupported("must be false or absent: responses are not stored, so send the whole conversation each time")
	}
	background := check.Field("background", f.background)
	if background.Flag() {
		background.Unsupported("must be false or absent: there are no background responses")
	}
	previous := check.Field("previous_response_id", f.previous)
	if previous.Set() {
		previous.Unsupported("is not supported: responses are not stored, so send the whole conversation as input")
	}
}

// readFormat reads text.format or a chat-style response_format, not both (STRUCT-11 to STRUCT-13). While
// structured output is off the one is not read and the other not offered (STRUCT-03, STRUCT-04).
func readFormat(check *decode.Check, f *fields, rules families.Rules) *llm.Format {
	nested := check.Field("response_format", f.format)
	if !rules.StructuredOutput {
		nested.NotOffered()
		return nil
	}
	text := check.Field("text", f.text)
	if !text.Set() || !text.Is(jsonview.Object) {
		return nested.NestedFormat()
	}
	flat := text.Get("format")
	if flat.Set() && nested.Set() {
		nested.Invalid("cannot be given together with text.format: leave one of them out")
		return nil
	}
	if nested.Set() {
		return nested.NestedFormat()
	}
	return flat.FlatFormat()
}

// tools reads function tools, in the family's flat form or nested as the chat family has them. Any other kind
// is refused, never left out (RESP-12 to RESP-18).
func (c *conversation) tools(v decode.Value) {
	if !v.Set() || !v.Is(jsonview.Array) {
		return
	}
	for i, e := range v.Elems() {
		tool := v.Elem(i, e)
		if !tool.Is(jsonview.Object) {
			continue
		}
		kind := tool.Get("type")
		if name, ok := kind.Str(); ok && name != "function" {
			tool.Unsupported(`is not of type "function": hosted and other tools are not supported, so leave it out`)
			continue
		}
		kind.Required()
		if nested := tool.Get("function"); nested.Set() && nested.Is(jsonview.Object) {
			c.declared.Add(nested.Get("name"), nested.Get("description"), nested.Get("parameters"),
				nested.Get("strict"))
			continue
		}
		c.declared.Add(tool.Get("name"), tool.Get("description"), tool.Get("parameters"), tool.Get("strict"))
	}
}
