package upstream

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// geminiFields are the fields of a generateContent request that the fake knows. The service refuses others.
var geminiFields = []string{"contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
	"safetySettings", "cachedContent"}

// geminiName is what names of functions are.
var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

// geminiCredential is a request's key, or the token of a service account.
func geminiCredential(h http.Header) string {
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

// geminiAddress reads the model and the method, and checks what depends on them.
func geminiAddress(r *http.Request, req *Request) error {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	switch {
	case method == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		req.Stream = true
	case method != "generateContent":
		return invalid("", "there is no method %q here that the fake has", method)
	}
	req.Model = model
	if req.unsigned && strings.HasPrefix(model, "gemini-3") {
		return invalid("", "Function call is missing a thought_signature in functionCall parts.")
	}
	return nil
}

// decodeGemini reads a generateContent request as strictly as the official service does. The error is an *Error with
// status 400.
func decodeGemini(body []byte) (*Request, error) {
	root, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if err := root.only(geminiFields...); err != nil {
		return nil, err
	}
	req := &Request{IncludeUsage: true}
	for _, read := range []reader{geminiSystem, geminiContents, geminiTools, geminiConfig} {
		if err := read(root, req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func geminiSystem(root object, req *Request) error {
	if !root.has("systemInstruction") {
		return nil
	}
	content, err := root.object("systemInstruction")
	if err != nil {
		return err
	}
	m := Message{Role: "system"}
	err = content.each("parts", func(part object) error {
		text, err := geminiText(part)
		m.Text += text
		return err
	})
	req.Messages = append(req.Messages, m)
	return err
}

func geminiText(part object) (string, error) {
	if err := part.only("text", "thought", "thoughtSignature"); err != nil {
		return "", err
	}
	text, err := part.text("text")
	if err == nil && text == "" {
		err = invalid(part.at("text"), "must not be empty")
	}
	return text, err
}

// geminiContents reads the conversation. The turn after calls has as many results as these were, and of them.
func geminiContents(root object, req *Request) error {
	if !root.has("contents") {
		return invalid("contents", "is required")
	}
	var open []PastCall // calls without a result yet
	err := root.each("contents", func(content object) error {
		if err := content.only("role", "parts"); err != nil {
			return err
		}
		role, err := content.text("role")
		if err != nil {
			return err
		}
		if role != "user" && role != "model" {
			return invalid(content.at("role"), "please use a valid role: user, model")
		}
		if !content.has("parts") {
			return invalid(content.at("parts"), "must not be empty")
		}
		m := Message{Role: map[string]string{"user": "user", "model": "assistant"}[role]}
		results, unsigned := 0, false
		err = content.each("parts", func(part object) error {
			switch {
			case part.has("functionCall") && role == "model":
				call, err := geminiPastCall(part)
				if len(m.Calls) == 0 && !slices.Contains(goodSignatures, part.fields["thoughtSignature"]) {
					unsigned = true
				}
				m.Calls = append(m.Calls, call)
				return err
			case part.has("functionResponse") && role == "user":
				result, err := geminiResult(part, open)
				req.Messages = append(req.Messages, result)
				results++
				return err
			}
			text, err := geminiText(part)
			m.Text += text
			return err
		})
		if err != nil {
			return err
		}
		if results != len(open) {
			return invalid(content.path, "please ensure that the number of function response parts is equal to the number of "+
				"function call parts of the function call turn")
		}
		req.unsigned = (req.unsigned || unsigned) && (role == "model" || m.Text == "") // a text begins another turn
		if open = m.Calls; m.Text != "" || len(m.Calls) > 0 {
			req.Messages = append(req.Messages, m)
		}
		return nil
	})
	if err == nil && len(open) > 0 {
		err = invalid("contents", "the function calls at the end have no response")
	}
	return err
}

func geminiPastCall(part object) (call PastCall, err error) {
	if err := part.only("functionCall", "thoughtSignature"); err != nil {
		return call, err
	}
	function, err := part.object("functionCall")
	if err != nil {
		return call, err
	}
	if err := function.only("id", "name", "args"); err != nil {
		return call, err
	}
	if call.ID, err = function.optionalText("id"); err != nil {
		return call, err
	}
	if call.Name, err = geminiNameOf(function); err != nil {
		return call, err
	}
	args, err := function.object("args")
	call.Arguments = string(mustMarshal(args.fields))
	return call, err
}

// geminiResult reads a result: of the call with its id, or of any with its name where it has none.
func geminiResult(part object, open []PastCall) (m Message, err error) {
	m.Role = "tool"
	if err := part.only("functionResponse"); err != nil {
		return m, err
	}
	response, err := part.object("functionResponse")
	if err != nil {
		return m, err
	}
	if err := response.only("id", "name", "response"); err != nil {
		return m, err
	}
	if m.ToolCallID, err = response.optionalText("id"); err != nil {
		return m, err
	}
	name, err := geminiNameOf(response)
	if err != nil {
		return m, err
	}
	if !slices.ContainsFunc(open, func(call PastCall) bool { return call.ID == m.ToolCallID && call.Name == name }) {
		return m, invalid(response.path, "answers no call of the turn before it")
	}
	said, err := response.object("response")
	for _, key := range []string{"output", "error"} {
		if text, ok := said.fields[key].(string); ok {
			m.Text += text
		}
	}
	return m, err
}

func geminiNameOf(o object) (string, error) {
	name, err := o.text("name")
	if err == nil && !geminiName.MatchString(name) {
		err = invalid(o.at("name"), "must start with a letter or an underscore, and have up to 128 letters, digits, "+
			"underscores, dots, colons or dashes")
	}
	return name, err
}

func geminiTools(root object, req *Request) error {
	err := root.each("tools", func(tool object) error {
		if err := tool.only("functionDeclarations"); err != nil {
			return err
		}
		return tool.each("functionDeclarations", func(function object) error {
			if err := function.only("name", "description", "parameters", "parametersJsonSchema"); err != nil {
				return err
			}
			name, err := geminiNameOf(function)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
				return invalid(function.at("name"), "duplicate function declaration found: %s", name)
			}
			description, err := function.optionalText("description")
			if err != nil {
				return err
			}
			if function.has("parametersJsonSchema") {
				if _, err := function.object("parametersJsonSchema"); err != nil {
					return err
				}
				if function.has("parameters") {
					return invalid(function.at("parameters"), "cannot be given together with parametersJsonSchema")
				}
			}
			req.Tools = append(req.Tools, Tool{Name: name, Description: description})
			return nil
		})
	})
	if err != nil || !root.has("toolConfig") {
		return err
	}
	config, err := root.object("toolConfig")
	if err != nil {
		return err
	}
	calling, err := config.object("functionCallingConfig")
	if err != nil {
		return err
	}
	mode, err := calling.text("mode")
	if err != nil {
		return err
	}
	names, err := calling.list("allowedFunctionNames")
	switch {
	case err != nil:
		return err
	case len(req.Tools) == 0:
		return invalid("toolConfig", "function calling config is set without function_declarations")
	case !slices.Contains([]string{"AUTO", "ANY", "NONE", "VALIDATED"}, mode):
		return invalid(calling.at("mode"), "is not a mode")
	case len(names) > 0 && mode != "ANY" && mode != "VALIDATED":
		return invalid(calling.at("allowedFunctionNames"), "is allowed only when the mode is ANY or VALIDATED")
	}
	for _, name := range names {
		if !slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
			return invalid(calling.at("allowedFunctionNames"), "names a function that is not among the declarations")
		}
	}
	return nil
}

func geminiConfig(root object, req *Request) error {
	if !root.has("generationConfig") {
		return nil
	}
	config, err := root.object("generationConfig")
	if err != nil {
		return err
	}
	if err := config.only("stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "candidateCount",
		"maxOutputTokens", "temperature", "topP", "topK", "seed", "thinkingConfig"); err != nil {
		return err
	}
	if req.MaxTokens, err = config.positive("maxOutputTokens"); err != nil {
		return err
	}
	if err := config.number("temperature", 0, 2); err != nil {
		return err
	}
	if err := geminiStops(config, req); err != nil {
		return err
	}
	mime, err := config.optionalText("responseMimeType")
	switch {
	case err != nil:
		return err
	case !slices.Contains([]string{"", "text/plain", "application/json"}, mime):
		return invalid(config.at("responseMimeType"), "is none that the service writes")
	case config.has("responseJsonSchema") && mime != "application/json":
		return invalid(config.at("responseJsonSchema"), "needs the responseMimeType application/json")
	}
	return geminiThinking(config, req)
}

func geminiStops(config object, req *Request) error {
	stops, err := config.list("stopSequences")
	if err != nil {
		return err
	}
	if len(stops) > 5 {
		return invalid(config.at("stopSequences"), "must have at most 5 sequences")
	}
	for i, v := range stops {
		s, ok := v.(string)
		if !ok || s == "" {
			return invalid(fmt.Sprintf("%s[%d]", config.at("stopSequences"), i), "must be a string that is not empty")
		}
		req.Stop = append(req.Stop, s)
	}
	return nil
}

func geminiThinking(config object, req *Request) error {
	if !config.has("thinkingConfig") {
		return nil
	}
	thinking, err := config.object("thinkingConfig")
	if err != nil {
		return err
	}
	if err := thinking.only("includeThoughts", "thinkingBudget", "thinkingLevel"); err != nil {
		return err
	}
	if req.Thoughts, err = thinking.optionalBool("includeThoughts"); err != nil {
		return err
	}
	if thinking.has("thinkingBudget") && thinking.has("thinkingLevel") {
		return invalid(thinking.path, "you can only set only one of thinking budget and thinking level")
	}
	if err := thinking.number("thinkingBudget", -1, 1<<16); err != nil {
		return err
	}
	level, err := thinking.optionalText("thinkingLevel")
	if err == nil && !slices.Contains([]string{"", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, level) {
		err = invalid(thinking.at("thinkingLevel"), "is not a level")
	}
	return err
}
