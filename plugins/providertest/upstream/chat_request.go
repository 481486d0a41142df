package upstream

import (
	"fmt"
	"regexp"
	"slices"
)

// chatFields are the fields of a chat-completions request that the fake knows. The service refuses others.
var chatFields = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "stop",
	"temperature", "top_p", "n", "tools", "tool_choice", "parallel_tool_calls", "response_format", "seed",
	"frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "user", "store",
	"metadata", "reasoning_effort", "service_tier", "prompt_cache_key", "safety_identifier",
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// decodeChat reads a chat-completions request as strictly as the official service does. The error is an
// *Error with status 400.
func decodeChat(body []byte) (*Request, error) {
	root, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if err := root.only(chatFields...); err != nil {
		return nil, err
	}
	req := &Request{}
	if req.Model, err = root.text("model"); err != nil {
		return nil, err
	}
	for _, read := range []func(object, *Request) error{chatMessages, chatTools, chatLimits, chatStreaming, chatFormat} {
		if err := read(root, req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func chatStreaming(root object, req *Request) error {
	var err error
	if req.Stream, err = root.optionalBool("stream"); err != nil {
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
	tools, err := root.list("tools")
	if err != nil {
		return err
	}
	for i, v := range tools {
		tool, err := root.item("tools", i, v)
		if err != nil {
			return err
		}
		function, err := functionOf(tool)
		if err != nil {
			return err
		}
		if err := function.only("name", "description", "parameters", "strict"); err != nil {
			return err
		}
		name, err := function.text("name")
		if err != nil {
			return err
		}
		if !functionName.MatchString(name) {
			return invalid(function.at("name"), "must have 1 to 64 letters, digits, underscores or dashes")
		}
		description, err := function.optionalText("description")
		if err != nil {
			return err
		}
		if function.has("parameters") {
			if _, err := function.object("parameters"); err != nil {
				return err
			}
		}
		req.Tools = append(req.Tools, Tool{Name: name, Description: description})
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
	if mode, ok := root.fields["tool_choice"].(string); ok {
		if !slices.Contains([]string{"none", "auto", "required"}, mode) {
			return invalid("tool_choice", "must be none, auto, required or an object")
		}
		return nil
	}
	choice, err := root.object("tool_choice")
	if err != nil {
		return err
	}
	function, err := functionOf(choice)
	if err != nil {
		return err
	}
	name, err := function.text("name")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
		return invalid("tool_choice", "names a function that is not among the tools")
	}
	return nil
}

// functionOf reads {"type": "function", "function": {...}}.
func functionOf(o object) (object, error) {
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
	kind, err := format.text("type")
	if err != nil {
		return err
	}
	switch kind {
	case "text", "json_object":
		return format.only("type")
	case "json_schema":
		schema, err := format.object("json_schema")
		if err != nil {
			return err
		}
		if err := schema.only("name", "description", "schema", "strict"); err != nil {
			return err
		}
		if name, err := schema.text("name"); err != nil || !functionName.MatchString(name) {
			return invalid(schema.at("name"), "must have 1 to 64 letters, digits, underscores or dashes")
		}
		_, err = schema.object("schema")
		return err
	}
	return invalid(format.at("type"), "must be text, json_object or json_schema")
}
