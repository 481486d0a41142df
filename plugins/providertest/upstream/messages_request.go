package upstream

import (
	"fmt"
	"net/http"
	"slices"
)

// messagesFields are the fields of a messages request that the fake knows. The service refuses others.
var messagesFields = []string{
	"model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature", "top_p", "top_k",
	"tools", "tool_choice", "metadata", "thinking", "output_config", "service_tier", "cache_control",
}

// messagesLongestName is the limit of names.
const messagesLongestName = 128

// messagesCredential is a request's key: x-api-key, or a bearer token as subscriptions have it.
func messagesCredential(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

// messagesHeader refuses a request that does not say which version of the API it was written for.
func messagesHeader(h http.Header) error {
	if h.Get("Anthropic-Version") == "" {
		return invalid("", "the header anthropic-version is required")
	}
	return nil
}

// decodeMessages reads a messages request as strictly as the official service does. The error is an *Error with
// status 400.
func decodeMessages(body []byte) (*Request, error) {
	return decode(body, &Request{IncludeUsage: true}, messagesFields,
		messagesStreaming, messagesSystem, messagesTurns, messagesLimits, messagesTools, messagesFormat, messagesThinks)
}

func messagesStreaming(root object, req *Request) error {
	var err error
	req.Stream, err = root.optionalBool("stream")
	return err
}

func messagesSystem(root object, req *Request) error {
	if !root.has("system") {
		return nil
	}
	text, err := messagesText(root, "system")
	req.Messages = append(req.Messages, Message{Role: "system", Text: text})
	return err
}

func messagesLimits(root object, req *Request) error {
	if !root.has("max_tokens") {
		return invalid("max_tokens", "is required")
	}
	var err error
	if req.MaxTokens, err = root.positive("max_tokens"); err != nil {
		return err
	}
	for _, name := range []string{"temperature", "top_p"} {
		if err := root.number(name, 0, 1); err != nil {
			return err
		}
	}
	stops, err := root.list("stop_sequences")
	if err != nil {
		return err
	}
	for i, v := range stops {
		s, ok := v.(string)
		if !ok || isBlank(s) {
			return invalid(fmt.Sprintf("stop_sequences[%d]", i), "must be a string with something visible in it")
		}
		req.Stop = append(req.Stop, s)
	}
	return nil
}

func messagesTools(root object, req *Request) error {
	err := root.each("tools", func(tool object) error {
		if err := tool.only("type", "name", "description", "input_schema", "cache_control"); err != nil {
			return err
		}
		if kind, err := tool.optionalText("type"); err != nil || kind != "" && kind != "custom" {
			return invalid(tool.at("type"), "must be custom: the fake runs no tools")
		}
		name, err := nameOf(tool, messagesLongestName)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
			return invalid(tool.at("name"), "is the name of another tool")
		}
		description, err := tool.optionalText("description")
		if err != nil {
			return err
		}
		schema, err := tool.object("input_schema")
		if err != nil {
			return err
		}
		if schema.fields["type"] != "object" {
			return invalid(schema.at("type"), "must be object")
		}
		req.Tools = append(req.Tools, Tool{Name: name, Description: description})
		return nil
	})
	if err != nil {
		return err
	}
	return messagesToolChoice(root, req)
}

func messagesToolChoice(root object, req *Request) error {
	if !root.has("tool_choice") {
		return nil
	}
	if len(req.Tools) == 0 {
		return invalid("tool_choice", "is allowed only when tools are given")
	}
	choice, err := root.object("tool_choice")
	if err != nil {
		return err
	}
	kind, err := choice.text("type")
	if err != nil {
		return err
	}
	switch kind {
	case "none":
		return choice.only("type")
	case "auto", "any":
		return choice.only("type", "disable_parallel_tool_use")
	case "tool":
		if err := chosen(choice, req); err != nil {
			return err
		}
		return choice.only("type", "name", "disable_parallel_tool_use")
	}
	return invalid(choice.at("type"), "must be auto, any, tool or none")
}

func messagesFormat(root object, _ *Request) error {
	if !root.has("output_config") {
		return nil
	}
	config, err := root.object("output_config")
	if err != nil {
		return err
	}
	effort, err := config.optionalText("effort")
	if err == nil && effort != "" && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, effort) {
		err = invalid(config.at("effort"), "must be low, medium, high, xhigh or max")
	}
	if err != nil {
		return err
	}
	if err := config.only("effort", "format"); err != nil || !config.has("format") {
		return err
	}
	format, err := config.object("format")
	if err != nil {
		return err
	}
	if format.fields["type"] != "json_schema" {
		return invalid(format.at("type"), "must be json_schema")
	}
	if _, err := format.object("schema"); err != nil {
		return err
	}
	return format.only("type", "schema")
}
