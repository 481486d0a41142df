package messages

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// fields are the members of a request that are read. All others are ignored (HTTP-04): `thinking`, `stop`,
// `reasoning_effort`, `thread` (GAP-103), and while structured output is off `output_format` and
// `output_config` (STRUCT-05, STRUCT-06).
type fields struct {
	system, messages, maxTokens, temperature, stop, stream, tools, toolChoice jsonview.View
	outputFormat, outputConfig                                                jsonview.View
}

func readFields(root jsonview.View) (f fields) {
	for name, v := range root.Members() {
		switch name {
		case "system":
			f.system = v
		case "messages":
			f.messages = v
		case "max_tokens":
			f.maxTokens = v
		case "temperature":
			f.temperature = v
		case "stop_sequences":
			f.stop = v
		case "stream":
			f.stream = v
		case "tools":
			f.tools = v
		case "tool_choice":
			f.toolChoice = v
		case "output_format":
			f.outputFormat = v
		case "output_config":
			f.outputConfig = v
		}
	}
	return f
}

// Decode reads a request of the family, for a reply or for a token count (GAP-11).
func (Server) Decode(doc *families.Document, rules families.Rules) (*families.Request, *families.Error) {
	f := readFields(doc.Root)
	if decode.HasMedia(f.system, f.messages) {
		return nil, families.Media()
	}
	var check decode.Check
	c := conversation{calls: decode.Calls{}}
	c.system(check.Field("system", f.system))
	c.read(check.Field("messages", f.messages))

	var tools decode.Tools
	readTools(&tools, check.Field("tools", f.tools))
	choice := readChoice(&tools, check.Field("tool_choice", f.toolChoice))

	var format *llm.Format
	if rules.StructuredOutput {
		format = readFormat(&check, &f)
	}
	req := &families.Request{
		LLM: &llm.Request{
			Messages:    c.messages,
			Tools:       tools.List,
			ToolChoice:  choice,
			MaxTokens:   check.Field("max_tokens", f.maxTokens).Allowance(),
			Temperature: check.Field("temperature", f.temperature).UnitTemperature(),
			Stop:        check.Field("stop_sequences", f.stop).StopList("must be an array of strings"),
			Format:      format,
		},
		Stream: check.Field("stream", f.stream).Flag(),
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	return req, nil
}

// readFormat reads output_format or output_config.format, not both (STRUCT-14 to STRUCT-16).
func readFormat(check *decode.Check, f *fields) *llm.Format {
	format := check.Field("output_format", f.outputFormat)
	config := check.Field("output_config", f.outputConfig)
	if !config.Set() || !config.Is(jsonview.Object) {
		return format.SchemaFormat()
	}
	inner := config.Get("format")
	if inner.Set() && format.Set() {
		format.Invalid("cannot be given together with output_config.format: leave one of them out")
		return nil
	}
	if format.Set() {
		return format.SchemaFormat()
	}
	return inner.SchemaFormat()
}

// readTools reads the declared tools. One that the upstream family would run itself, such as a web search, is
// a tool of the client's here (MSG-12 to MSG-14); it often has no schema (GAP-81), and may have no name (GAP-136).
func readTools(tools *decode.Tools, v decode.Value) {
	if !v.Set() || !v.Is(jsonview.Array) {
		return
	}
	for i, e := range v.Elems() {
		tool := v.Elem(i, e)
		if !tool.Is(jsonview.Object) {
			continue
		}
		add := tools.Add
		if isServed(tool.Get("type")) {
			add = tools.AddServed
		}
		add(tool.Get("name"), tool.Get("description"), tool.Get("input_schema"), tool.Get("strict"))
	}
}

// isServed reports whether a tool's type says that it is not the client's own. "function" is what the other families
// call those: a client that sends it here is told what is missing.
func isServed(kind decode.Value) bool {
	switch name, _ := kind.Str(); name {
	case "", "custom", "function":
		return false
	}
	return true
}

// readChoice reads the family's tool_choice (MSG-15). Parallel calls cannot be turned off (GAP-83).
func readChoice(tools *decode.Tools, v decode.Value) llm.ToolChoice {
	if !v.Set() || !v.Is(jsonview.Object) {
		return llm.ToolChoice{}
	}
	kind := v.Get("type")
	switch mode := kind.Required(); mode {
	case "auto":
	case "none":
		return tools.None()
	case "any":
		return tools.Required(v)
	case "tool":
		return tools.Named(v.Get("name"))
	default:
		kind.Invalid(`must be "auto", "any", "tool" or "none"`)
	}
	return llm.ToolChoice{}
}
