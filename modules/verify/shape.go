package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// shape is one of the three families as a client sees it.
type shape struct {
	Name, Path string
	input      string   // the member that holds the conversation
	allowance  string   // the member that bounds the reply
	stop       string   // the member that holds stop sequences
	tokens     []string // the counts that its usage always has
}

var (
	chat = shape{Name: "chat", Path: "/v1/chat/completions", input: "messages", allowance: "max_tokens", stop: "stop",
		tokens: []string{"prompt_tokens", "completion_tokens", "total_tokens"}}
	responses = shape{Name: "responses", Path: "/v1/responses", input: "input", allowance: "max_output_tokens",
		stop: "stop", tokens: []string{"input_tokens", "output_tokens", "total_tokens"}}
	messages = shape{Name: "messages", Path: "/v1/messages", input: "messages", allowance: "max_tokens",
		stop: "stop_sequences", tokens: []string{"input_tokens", "output_tokens"}}
	// count is the token count: requests and errors as on messages.
	count = shape{Name: "messages", Path: "/v1/messages/count_tokens", input: "messages", allowance: "max_tokens",
		stop: "stop_sequences"}

	shapes = []shape{chat, responses, messages}
	posts  = []shape{chat, responses, messages, count}
	// lookups stands for the endpoints without a body: their errors are the chat family's.
	lookups = shape{Name: "chat"}
)

// prompt makes every ordinary model answer with a few words.
const prompt = "Say hello in one short sentence of at least four words."

// longPrompt makes every ordinary model run into a small allowance.
const longPrompt = "Count from one to five hundred in English words, separated by commas. one, two, three, four, " +
	"five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, " +
	"nineteen, twenty"

// said is the conversation that is one user's text, as the value of the shape's input.
func (s shape) said(text string) string {
	if s.Name == "responses" {
		return quote(text)
	}
	return `[{"role":"user","content":` + quote(text) + `}]`
}

// body is the shape's smallest request with members set as members, an object's inside, says. A later one
// replaces an earlier one.
func (t *T) body(s shape, members ...string) string {
	list := []string{
		`"model":"service/auto"`, quote(s.input) + ":" + s.said(prompt),
		fmt.Sprintf("%q:%d", s.allowance, t.limits.Allowance),
	}
	return object(append(list, members...)...)
}

// object makes one object of members; a later member replaces an earlier one, for duplicates are no part of
// what is tested.
func object(members ...string) string {
	all := make(map[string]json.RawMessage)
	for _, m := range members {
		if m == "" {
			continue
		}
		if err := json.Unmarshal([]byte("{"+m+"}"), &all); err != nil {
			panic(fmt.Sprintf("verify: the members %s are no JSON: %v", m, err))
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// without is body with one member of the smallest request left out.
func (t *T) without(s shape, name string, members ...string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(t.body(s)), &all); err != nil {
		panic(err) // body made it
	}
	delete(all, name)
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return object(append([]string{strings.TrimSuffix(strings.TrimPrefix(string(b), "{"), "}")}, members...)...)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// modes are a member of a request's body for each way to be answered.
var modes = []string{`"stream":false`, `"stream":true`}

// ask sends the shape's smallest request with more members.
func (t *T) ask(s shape, members ...string) *answer {
	return t.do(call{Path: s.Path, Body: t.body(s, members...)})
}

// ok fails the check when the answer refuses the request. Where the deployment could not serve it, for reasons
// of its own, the check is Pending.
func (t *T) ok(s shape, a *answer) map[string]any {
	if a.Status == 200 {
		if a.Cut != nil {
			t.Pendingf("%s: the reply broke off: %v", a.call, a.Cut)
		}
		return a.JSON(t)
	}
	t.unserved(s, a)
	return nil
}

// unserved ends the check by a status that is not 200.
func (t *T) unserved(s shape, a *answer) {
	code := s.code(a.JSON(t))
	switch a.Status {
	case 402, 403, 422, 429, 502, 504:
		t.Pendingf("the deployment could not serve it: %d %s", a.Status, code)
	case 503:
		if code == "feature_unavailable" && strings.Contains(a.call.Body, `"tools"`) {
			t.Pendingf("the deployment has no route with tools")
		}
		if code == "upstream_error" {
			t.Pendingf("the deployment could not serve it: %d %s", a.Status, code)
		}
	}
	t.Failf("%s got %d %s: %s", a.call, a.Status, code, brief(str(at(a.JSON(t), "error", "message"))))
}

// code reads the code of an error body.
func (s shape) code(v map[string]any) string {
	if s.Name == "messages" {
		return str(at(v, "error", "type"))
	}
	return str(at(v, "error", "code"))
}

// wire is how a code of the contract reads on the shape: on messages, two codes cannot be seen (GAP-46).
func (s shape) wire(code string) string {
	switch {
	case s.Name == "messages" && code == unsupportedContent:
		return invalid
	case s.Name == "messages" && code == modelNotFound:
		return "not_found_error"
	}
	return code
}

// Codes of the contract.
const (
	invalid            = "invalid_request_error"
	unsupported        = "unsupported_field"
	unsupportedContent = "unsupported_content"
	modelNotFound      = "model_not_found"
	authentication     = "authentication_error"
	featureUnavailable = "feature_unavailable"
)

// refused checks an error reply, whole: status, code, a body of exactly the shape's form, and the headers.
func (t *T) refused(s shape, a *answer, status int, code string) {
	if a.Status == 429 || a.Status == 402 {
		t.unserved(s, a)
	}
	if a.Status != status {
		t.Failf("%s got %d instead of %d: %s", a.call, a.Status, status, brief(string(a.Raw)))
	}
	t.errorForm(s, a, code)
	if t.True(a.Header.Get("X-Request-Id") != "", "%s: the error has no X-Request-Id", a.call); status != 401 {
		t.Equal("false", a.Header.Get("X-Should-Retry"), fmt.Sprintf("%s: x-should-retry", a.call))
	}
}

// errorForm checks an error body (ERR-01 to ERR-08).
func (t *T) errorForm(s shape, a *answer, code string) {
	t.True(strings.HasPrefix(a.Header.Get("Content-Type"), "application/json"), "%s: the error's Content-Type is %q",
		a.call, a.Header.Get("Content-Type"))
	v := a.JSON(t)
	t.Equal(s.wire(code), s.code(v), fmt.Sprintf("%s: the code", a.call))
	message := str(at(v, "error", "message"))
	t.True(message != "", "%s: the error has no message", a.call)
	t.True(!a.Leaked, "%s: the error holds the key", a.call)
	inner := map[string]any{"code": code, "message": message, "type": code}
	want := map[string]any{"error": inner}
	switch {
	case s.Name == "messages":
		delete(inner, "code")
		inner["type"], want["type"] = s.wire(code), "error"
	case code == unsupportedContent:
		inner["type"] = invalid
	case code == modelNotFound:
		inner["type"], inner["param"] = invalid, "model"
	}
	t.Equal(any(want), any(v), fmt.Sprintf("%s: the error body", a.call))
}

// text is the visible text of a reply.
func (s shape) text(v map[string]any) string {
	var b strings.Builder
	switch s.Name {
	case "chat":
		b.WriteString(str(at(v, "choices", 0, "message", "content")))
	case "responses":
		for _, item := range list(at(v, "output")) {
			for _, part := range list(at(item, "content")) {
				b.WriteString(str(at(part, "text")))
			}
		}
	default:
		for _, block := range list(at(v, "content")) {
			b.WriteString(str(at(block, "text")))
		}
	}
	return b.String()
}

// finish is why a reply ended; on responses the status, with the reason after a slash when it is incomplete.
func (s shape) finish(v map[string]any) string {
	switch s.Name {
	case "chat":
		return str(at(v, "choices", 0, "finish_reason"))
	case "responses":
		if reason := str(at(v, "incomplete_details", "reason")); reason != "" {
			return str(at(v, "status")) + "/" + reason
		}
		return str(at(v, "status"))
	}
	return str(at(v, "stop_reason"))
}

// Natural, stopped and cut are the finishes of a reply that ended by itself, at a stop sequence, and at the
// allowance. On messages, who found the stop sequence decides between two (STOP-24).
func (s shape) natural() string {
	return map[string]string{"chat": "stop", "responses": "completed", "messages": "end_turn"}[s.Name]
}

func (s shape) stopped() []string {
	if s.Name == "messages" {
		return []string{"stop_sequence", "end_turn"}
	}
	return []string{s.natural()}
}

func (s shape) cut() string {
	return map[string]string{"chat": "length", "responses": "incomplete/max_output_tokens",
		"messages": "max_tokens"}[s.Name]
}

// toolCall is a call of a tool as a reply brings it.
type toolCall struct{ ID, Name, Arguments string }

// calls are the tool calls of a reply, in native form (TOOL-01).
func (s shape) calls(v map[string]any) []toolCall {
	var all []toolCall
	switch s.Name {
	case "chat":
		for _, c := range list(at(v, "choices", 0, "message", "tool_calls")) {
			if at(c, "type") == "function" {
				all = append(all, toolCall{str(at(c, "id")), str(at(c, "function", "name")), str(at(c, "function", "arguments"))})
			}
		}
	case "responses":
		for _, item := range list(at(v, "output")) {
			if at(item, "type") == "function_call" {
				all = append(all, toolCall{str(at(item, "call_id")), str(at(item, "name")), str(at(item, "arguments"))})
			}
		}
	default:
		for _, block := range list(at(v, "content")) {
			if input, ok := at(block, "input").(map[string]any); ok && at(block, "type") == "tool_use" {
				arguments, err := json.Marshal(input)
				if err != nil {
					panic(err) // it was decoded from JSON
				}
				all = append(all, toolCall{str(at(block, "id")), str(at(block, "name")), string(arguments)})
			}
		}
	}
	return all
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// toolName is the one function that the suite declares. No argument is required, so that any call of it is good.
const toolName = "get_weather"

// tools is the member that declares it in the shape's native form.
func (s shape) tools() string {
	const schema = `{"type":"object","properties":{"city":{"type":"string"}}}`
	fields := `"name":"` + toolName + `","description":"Tells the weather in a city."`
	switch s.Name {
	case "chat":
		return `"tools":[{"type":"function","function":{` + fields + `,"parameters":` + schema + `}}]`
	case "responses":
		return `"tools":[{"type":"function",` + fields + `,"parameters":` + schema + `}]`
	}
	return `"tools":[{` + fields + `,"input_schema":` + schema + `}]`
}

// forced is the member that demands a call.
func (s shape) forced() string {
	if s.Name == "messages" {
		return `"tool_choice":{"type":"any"}`
	}
	return `"tool_choice":"required"`
}

// answered is the conversation after a call: the user's turn, the call as it came, and its result.
func (s shape) answered(c toolCall, result string) string {
	user := `{"role":"user","content":` + quote(prompt) + `}`
	switch s.Name {
	case "chat":
		return fmt.Sprintf(
			`"messages":[%s,{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,`+
				`"arguments":%s}}]},{"role":"tool","tool_call_id":%q,"content":%s}]`,
			user, c.ID, c.Name, quote(c.Arguments), c.ID, quote(result))
	case "responses":
		return fmt.Sprintf(
			`"input":[%s,{"type":"function_call","call_id":%q,"name":%q,"arguments":%s},{"type":"function_call_output",`+
				`"call_id":%q,"output":%s}]`,
			user, c.ID, c.Name, quote(c.Arguments), c.ID, quote(result))
	}
	return fmt.Sprintf(
		`"messages":[%s,{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},{"role":"user",`+
			`"content":[{"type":"tool_result","tool_use_id":%q,"content":%s}]}]`,
		user, c.ID, c.Name, c.Arguments, c.ID, quote(result))
}

// oneOf reports whether s is in list.
func oneOf(s string, list ...string) bool { return slices.Contains(list, s) }
