package upstream

import (
	"fmt"
)

// chatFields are the fields of a chat-completions request that the fake knows. The service refuses others.
var chatFields = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "stop",
	"temperature", "top_p", "n", "tools", "tool_choice", "parallel_tool_calls", "response_format", "seed",
	"frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "user", "store",
	"metadata", "reasoning_effort", "service_tier", "prompt_cache_key", "safety_identifier",
	"timings_per_token", "thinking", // see ownFields
}

func decodeChat(body []byte) (*Request, error) {
	return decode(body, &Request{}, chatFields, chatMessages, chatTools, chatLimits, chatStreaming, chatFormat)
}

func chatStreaming(root object, req *Request) error {
	var err error
	if req.Stream, err = root.optionalBool("stream"); err != nil {
		return err
	}
	if req.Timings, err = root.optionalBool("timings_per_token"); err != nil {
		return err
	}
	if !root.has("stream_options") {
		return nil
	}
	if !req.Stream {
		return invalid("stream_options", "is allowed only when stream is true")
	}
	options, err := root.object("stream_options")
	if err != nil {
		return err
	}
	if err := options.only("include_usage", "include_obfuscation"); err != nil {
		return err
	}
	req.IncludeUsage, err = options.optionalBool("include_usage")
	return err
}

func chatLimits(root object, req *Request) error {
	for _, bound := range []struct {
		name            string
		lowest, highest float64
	}{{"temperature", 0, 2}, {"top_p", 0, 1}, {"n", 1, 1}, {"frequency_penalty", -2, 2}, {"presence_penalty", -2, 2}} {
		if err := root.number(bound.name, bound.lowest, bound.highest); err != nil {
			return err
		}
	}
	if root.has("max_tokens") && root.has("max_completion_tokens") {
		return invalid("max_tokens", "cannot be given together with max_completion_tokens")
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		n, err := root.positive(name)
		if err != nil {
			return err
		}
		req.MaxTokens = max(req.MaxTokens, n)
	}
	if stop, ok := root.fields["stop"].(string); ok {
		req.Stop = []string{stop}
		return nil
	}
	stops, err := root.list("stop")
	if err != nil {
		return err
	}
	if len(stops) > 4 {
		return invalid("stop", "must have at most 4 sequences")
	}
	for i, v := range stops {
		s, ok := v.(string)
		if !ok || s == "" {
			return invalid(fmt.Sprintf("stop[%d]", i), "must be a string that is not empty")
		}
		req.Stop = append(req.Stop, s)
	}
	return nil
}

func chatTools(root object, req *Request) error {
	err := root.each("tools", func(tool object) error {
		function, err := chatFunctionOf(tool)
		if err != nil {
			return err
		}
		if err := function.only("name", "description", "parameters", "strict"); err != nil {
			return err
		}
		offered, err := functionOf(function)
		if err != nil {
			return err
		}
		if function.has("parameters") {
			if _, err := function.object("parameters"); err != nil {
				return err
			}
		}
		req.Tools = append(req.Tools, offered)
		return nil
	})
	if err != nil {
		return err
	}
	return chatToolChoice(root, req)
}

func chatToolChoice(root object, req *Request) error {
	if !root.has("tool_choice") {
		return nil
	}
	if len(req.Tools) == 0 {
		return invalid("tool_choice", "is allowed only when tools are given")
	}
	if mode, err := toolMode(root); err != nil || mode != "" {
		return err
	}
	choice, err := root.object("tool_choice")
	if err != nil {
		return err
	}
	function, err := chatFunctionOf(choice)
	if err != nil {
		return err
	}
	return chosen(function, req)
}

// chatFunctionOf reads {"type": "function", "function": {...}}.
func chatFunctionOf(o object) (object, error) {
	kind, err := o.text("type")
	if err != nil {
		return object{}, err
	}
	if kind != "function" {
		return object{}, invalid(o.at("type"), "must be function")
	}
	return o.object("function")
}

func chatFormat(root object, _ *Request) error {
	if !root.has("response_format") {
		return nil
	}
	format, err := root.object("response_format")
	if err != nil {
		return err
	}
	return formatOf(format, func() error {
		schema, err := format.object("json_schema")
		if err != nil {
			return err
		}
		return schemaOf(schema)
	})
}
