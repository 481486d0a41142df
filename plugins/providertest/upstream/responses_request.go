package upstream

// responsesFields are the fields of a responses request that the fake knows. The service refuses others; that
// it stores nothing is the fake's own limit.
var responsesFields = []string{
	"model", "input", "instructions", "stream", "stream_options", "store", "background", "max_output_tokens",
	"temperature", "top_p", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "text", "reasoning",
	"include",
	"metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier", "truncation",
	"top_logprobs",
}

// leastOutput is the smallest allowance that the service takes.
const leastOutput = 16

// decodeResponses reads a responses request as strictly as the official service does. The error is an *Error with
// status 400.
func decodeResponses(body []byte) (*Request, error) {
	return decode(body, &Request{IncludeUsage: true}, responsesFields, responsesItems, responsesTools, responsesLimits,
		responsesFormat)
}

func responsesLimits(root object, req *Request) error {
	var err error
	if req.Stream, err = root.optionalBool("stream"); err != nil {
		return err
	}
	for _, name := range []string{"store", "parallel_tool_calls"} {
		if _, err := root.optionalBool(name); err != nil {
			return err
		}
	}
	if background, err := root.optionalBool("background"); err != nil || background {
		return invalid("background", "must be false: the fake keeps no responses")
	}
	if root.has("stream_options") {
		if !req.Stream {
			return invalid("stream_options", "is allowed only when stream is true")
		}
		options, err := root.object("stream_options")
		if err != nil {
			return err
		}
		if err := options.only("include_obfuscation"); err != nil {
			return err
		}
	}
	if err := root.number("temperature", 0, 2); err != nil {
		return err
	}
	if err := root.number("top_p", 0, 1); err != nil {
		return err
	}
	req.MaxTokens, err = root.positive("max_output_tokens")
	if err == nil && root.has("max_output_tokens") && req.MaxTokens < leastOutput {
		err = invalid("max_output_tokens", "must be at least %d", leastOutput)
	}
	return err
}

func responsesTools(root object, req *Request) error {
	err := root.each("tools", func(tool object) error { return responsesTool(tool, req) })
	if err != nil {
		return err
	}
	return responsesToolChoice(root, req)
}

func responsesTool(tool object, req *Request) error {
	kind, err := tool.text("type")
	if err != nil {
		return err
	}
	if kind != "function" {
		return invalid(tool.at("type"), "must be function: the fake runs no tools")
	}
	if err := tool.only("type", "name", "description", "parameters", "strict"); err != nil {
		return err
	}
	offered, err := functionOf(tool)
	if err != nil {
		return err
	}
	strict, err := tool.optionalBool("strict")
	if err != nil {
		return err
	}
	if _, there := tool.fields["parameters"]; !there {
		return invalid(tool.at("parameters"), "is required")
	}
	if tool.has("parameters") {
		schema, err := tool.object("parameters")
		if err != nil {
			return err
		}
		if schema.fields["type"] == "object" && !schema.has("properties") {
			return invalid(tool.at("parameters"), "object schema missing properties")
		}
		if strict && schema.fields["additionalProperties"] != false {
			return invalid(tool.at("parameters"), "additionalProperties must be false when strict is true")
		}
	}
	req.Tools = append(req.Tools, offered)
	return nil
}

func responsesToolChoice(root object, req *Request) error {
	if !root.has("tool_choice") {
		return nil
	}
	switch mode, err := toolMode(root); {
	case err != nil:
		return err
	case mode == "required" && len(req.Tools) == 0:
		return invalid("tool_choice", "must be given together with tools")
	case mode != "":
		return nil
	}
	choice, err := root.object("tool_choice")
	if err != nil {
		return err
	}
	if err := choice.only("type", "name"); err != nil {
		return err
	}
	if choice.fields["type"] != "function" {
		return invalid(choice.at("type"), "must be function")
	}
	return chosen(choice, req)
}

func responsesFormat(root object, _ *Request) error {
	if !root.has("text") {
		return nil
	}
	text, err := root.object("text")
	if err != nil {
		return err
	}
	if err := text.only("format", "verbosity"); err != nil || !text.has("format") {
		return err
	}
	format, err := text.object("format")
	if err != nil {
		return err
	}
	return formatOf(format, func() error { return schemaOf(format, "type") })
}
