package chat

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// fields are the members of a request that are read or refused. All others are ignored (HTTP-04), among
// them top_p, user and parallel_tool_calls, whatever they hold (GAP-25).
type fields struct {
	messages, tools, toolChoice             jsonview.View
	maxTokens, maxCompletionTokens          jsonview.View
	temperature, stop, stream, streamOption jsonview.View
	reasoningEffort, n, responseFormat      jsonview.View
	seed, logprobs, prediction              jsonview.View
	frequencyPenalty, presencePenalty       jsonview.View
}

func readFields(root jsonview.View) fields {
	var f fields
	for name, member := range root.Members() {
		switch name {
		case "messages":
			f.messages = member
		case "tools":
			f.tools = member
		case "tool_choice":
			f.toolChoice = member
		case "max_tokens":
			f.maxTokens = member
		case "max_completion_tokens":
			f.maxCompletionTokens = member
		case "temperature":
			f.temperature = member
		case "stop":
			f.stop = member
		case "stream":
			f.stream = member
		case "stream_options":
			f.streamOption = member
		case "reasoning_effort":
			f.reasoningEffort = member
		case "n":
			f.n = member
		case "response_format":
			f.responseFormat = member
		case "seed":
			f.seed = member
		case "logprobs":
			f.logprobs = member
		case "frequency_penalty":
			f.frequencyPenalty = member
		case "presence_penalty":
			f.presencePenalty = member
		case "prediction": // looked at for media only (GAP-120)
			f.prediction = member
		}
	}
	return f
}

// Decode reads a chat completions request (CONTRACT.md, "Chat completions").
func (Server) Decode(doc *families.Document, rules families.Rules) (*families.Request, *families.Error) {
	f := readFields(doc.Root)
	var check decode.Check
	media := decode.HasMedia(f.prediction)
	refuse(&check, f)
	format := readFormat(check.Field("response_format", f.responseFormat), rules)
	req := &families.Request{
		Stream:  check.Field("stream", f.stream).Flag(),
		Effort:  check.Field("reasoning_effort", f.reasoningEffort).Effort(),
		OneText: true,
		LLM: &llm.Request{
			Messages:    readMessages(check.Field("messages", f.messages), &media),
			Temperature: check.Field("temperature", f.temperature).Temperature(),
			Stop:        check.Field("stop", f.stop).Stop(),
			MaxTokens: smaller(
				check.Field("max_tokens", f.maxTokens).Allowance(),
				check.Field("max_completion_tokens", f.maxCompletionTokens).Allowance()),
			Format: format,
		},
	}
	if media { // before all else that is wrong
		return nil, families.Media()
	}
	if options := check.Field("stream_options", f.streamOption); options.Set() && options.Is(jsonview.Object) {
		req.IncludeUsage = options.Get("include_usage").Flag()
	}
	tools := readTools(check.Field("tools", f.tools))
	req.LLM.Tools = tools.List
	req.LLM.ToolChoice = tools.Choice(check.Field("tool_choice", f.toolChoice))
	if err := check.Err(); err != nil {
		return nil, err
	}
	return req, nil
}

// readFormat reads response_format, which is not offered at all while structured output is off (STRUCT-01).
func readFormat(v decode.Value, rules families.Rules) *llm.Format {
	if !rules.StructuredOutput {
		v.NotOffered()
		return nil
	}
	return v.NestedFormat()
}

// refuse reports the fields that are not offered (CHAT-23 to CHAT-28).
func refuse(check *decode.Check, f fields) {
	check.Field("seed", f.seed).NotOffered()
	check.Field("logprobs", f.logprobs).NotOffered()
	check.Field("frequency_penalty", f.frequencyPenalty).NotOffered()
	check.Field("presence_penalty", f.presencePenalty).NotOffered()
	n := check.Field("n", f.n)
	if !n.Set() {
		return
	}
	switch count, ok := n.Int(); {
	case !ok || count < 1:
		n.Invalid("must be 1")
	case count > 1:
		n.Unsupported("above 1 is not supported: ask for one choice")
	}
}

// smaller is the output allowance where two fields may give it: the smaller one that was given (GAP-21).
func smaller(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// readTools reads `tools`: objects of type function with a `function` object (CHAT-11, CHAT-12).
func readTools(list decode.Value) *decode.Tools {
	var tools decode.Tools
	if !list.Set() || !list.Is(jsonview.Array) {
		return &tools
	}
	for i, e := range list.Elems() {
		tool := list.Elem(i, e)
		if !tool.Is(jsonview.Object) {
			continue
		}
		var of, declared jsonview.View
		for name, member := range tool.Members() {
			switch name {
			case "type":
				of = member
			case "function":
				declared = member
			}
		}
		if kind := tool.Field("type", of); kind.Required() != "function" {
			if kind.Kind() == jsonview.String {
				tool.Unsupported("is a tool of a type that is not supported: declare function tools only")
			}
			continue
		}
		if function := tool.Field("function", declared); function.Is(jsonview.Object) {
			addFunction(&tools, function)
		}
	}
	return &tools
}

func addFunction(tools *decode.Tools, function decode.Value) {
	var name, description, parameters, strict jsonview.View
	for field, member := range function.Members() {
		switch field {
		case "name":
			name = member
		case "description":
			description = member
		case "parameters":
			parameters = member
		case "strict":
			strict = member
		}
	}
	tools.Add(function.Field("name", name), function.Field("description", description),
		function.Field("parameters", parameters), function.Field("strict", strict))
}
