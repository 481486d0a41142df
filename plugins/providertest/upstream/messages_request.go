package upstream

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// messagesFields are the fields of a messages request that the fake knows. The service refuses others.
var messagesFields = []string{
	"model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature", "top_p", "top_k",
	"tools", "tool_choice", "metadata", "thinking", "output_config", "service_tier", "cache_control",
}

var (
	messagesToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	messagesCallID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

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
	root, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if err := root.only(messagesFields...); err != nil {
		return nil, err
	}
	req := &Request{IncludeUsage: true}
	if req.Model, err = root.text("model"); err != nil {
		return nil, err
	}
	if req.Stream, err = root.optionalBool("stream"); err != nil {
		return nil, err
	}
	for _, read := range []func(object, *Request) error{messagesSystem, messagesTurns, messagesLimits, messagesTools, messagesFormat} {
		if err := read(root, req); err != nil {
			return nil, err
		}
	}
	return req, nil
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
	tools, err := root.list("tools")
	if err != nil {
		return err
	}
	for i, v := range tools {
		tool, err := root.item("tools", i, v)
		if err != nil {
			return err
		}
		if err := tool.only("type", "name", "description", "input_schema", "cache_control"); err != nil {
			return err
		}
		if kind, err := tool.optionalText("type"); err != nil || kind != "" && kind != "custom" {
			return invalid(tool.at("type"), "must be custom: the fake runs no tools")
		}
		name, err := tool.text("name")
		if err != nil {
			return err
		}
		if !messagesToolName.MatchString(name) {
			return invalid(tool.at("name"), "must have 1 to 128 letters, digits, underscores or dashes")
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
		name, err := choice.text("name")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
			return invalid("tool_choice", "names a tool that is not among the tools")
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
