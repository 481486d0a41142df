package chat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// The oracle reads chat requests as the contract has it, from a tree that encoding/json makes: slowly, and with
// nothing of the code that Decode has. It tells acceptance, values, and the first error (GAP-01, E28). What is media
// is not its business.

// node is a value: nil, bool, json.Number, string, []node or []member.
type node struct {
	there bool
	value any
}

type member struct {
	name string
	node
}

// readTree reads one JSON text; ok is false where there is none, or something else besides.
func readTree(text []byte, maxDepth int) (root node, ok bool) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return node{}, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read func(depth int) (node, error)
	read = func(depth int) (node, error) {
		token, err := d.Token()
		if err != nil {
			return node{}, err
		}
		delim, isDelim := token.(json.Delim)
		if !isDelim {
			return node{true, token}, nil
		}
		if depth == maxDepth {
			return node{}, fmt.Errorf("too deep")
		}
		if delim == '[' {
			list := []node{}
			for d.More() {
				e, err := read(depth + 1)
				if err != nil {
					return node{}, err
				}
				list = append(list, e)
			}
			_, err = d.Token()
			return node{true, list}, err
		}
		object := []member{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return node{}, err
			}
			v, err := read(depth + 1)
			if err != nil {
				return node{}, err
			}
			object = append(object, member{name.(string), v})
		}
		_, err = d.Token()
		return node{true, object}, err
	}
	root, err := read(0)
	if err != nil {
		return node{}, false
	}
	_, err = d.Token()
	return root, errors.Is(err, io.EOF)
}

// set is whether it is there and not null (GAP-22).
func (n node) set() bool { return n.there && n.value != nil }

// get is the last member of that name.
func (n node) get(name string) node {
	object, _ := n.value.([]member)
	for _, m := range slices.Backward(object) {
		if m.name == name {
			return m.node
		}
	}
	return node{}
}

// whole is the value of a number that is an integer of 64 bits, however it is written.
func (n node) whole() (int64, bool) {
	number, ok := n.value.(json.Number)
	if !ok {
		return 0, false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(number)), "e")
	if strings.Trim(mantissa, "-0.") == "" {
		return 0, true
	}
	if e, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-")); err != nil || e > len(mantissa)+400 {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(string(number))
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

// oracle gathers what is wrong: of what is not offered and of all else the first.
type oracle struct{ unsupported, invalid string }

func (o *oracle) bad(path, why string) {
	if o.invalid == "" {
		o.invalid = path + " " + why + "."
	}
}

func (o *oracle) not(path, why string) {
	if o.unsupported == "" {
		o.unsupported = path + " " + why + "."
	}
}

func (o *oracle) err() *families.Error {
	if o.unsupported != "" {
		return families.Unsupported(o.unsupported)
	}
	if o.invalid != "" {
		return families.Invalid(o.invalid)
	}
	return nil
}

// must reports a value that is not of type T.
func must[T any](o *oracle, path string, n node, what string) (v T, ok bool) {
	if v, ok = n.value.(T); ok {
		return v, true
	}
	if !n.set() {
		o.bad(path, "is required")
	} else {
		o.bad(path, "must be "+what)
	}
	return v, false
}

func (o *oracle) text(path string, n node) (string, bool) {
	return must[string](o, path, n, "a string")
}

func (o *oracle) array(path string, n node) []node {
	list, _ := must[[]node](o, path, n, "an array")
	return list
}

func (o *oracle) object(path string, n node) bool {
	_, ok := must[[]member](o, path, n, "an object")
	return ok
}

func (o *oracle) flag(path string, n node) bool {
	if !n.set() {
		return false
	}
	b, _ := must[bool](o, path, n, "a boolean")
	return b
}

// request reads a request whose body is the root. Rules are those without structured output.
func (o *oracle) request(root node) *families.Request {
	for _, name := range []string{"seed", "logprobs", "frequency_penalty", "presence_penalty"} {
		if root.get(name).set() {
			o.not(name, "is not supported: leave it out")
		}
	}
	if n := root.get("n"); n.set() {
		if count, ok := n.whole(); !ok || count < 1 {
			o.bad("n", "must be 1")
		} else if count > 1 {
			o.not("n", "above 1 is not supported: ask for one choice")
		}
	}
	if root.get("response_format").set() {
		o.not("response_format", "is not supported: leave it out")
	}
	req := &families.Request{OneText: true, LLM: &llm.Request{}}
	req.Stream = o.flag("stream", root.get("stream"))
	if effort := root.get("reasoning_effort"); effort.set() {
		word, _ := effort.value.(string)
		if req.Effort = word; !slices.Contains([]string{"low", "medium", "high"}, word) {
			req.Effort = ""
			o.bad("reasoning_effort", `must be "low", "medium" or "high"`)
		}
	}
	req.LLM.Messages = o.messages(root.get("messages"))
	if n := root.get("temperature"); n.set() {
		number, ok := n.value.(json.Number)
		t, err := strconv.ParseFloat(string(number), 64)
		if !ok || err != nil || t < 0 || t > 2 {
			o.bad("temperature", "must be a number from 0 to 2")
		} else {
			req.LLM.Temperature = &t
		}
	}
	req.LLM.Stop = o.stops(root.get("stop"))
	a, b := o.allowance("max_tokens", root), o.allowance("max_completion_tokens", root)
	if req.LLM.MaxTokens = min(a, b); a == 0 || b == 0 {
		req.LLM.MaxTokens = max(a, b)
	}
	if options := root.get("stream_options"); options.set() && o.object("stream_options", options) {
		req.IncludeUsage = o.flag("stream_options.include_usage", options.get("include_usage"))
	}
	req.LLM.Tools = o.tools(root.get("tools"))
	req.LLM.ToolChoice = o.choice(root.get("tool_choice"), req.LLM.Tools)
	return req
}

func (o *oracle) allowance(name string, root node) int64 {
	n := root.get(name)
	if !n.set() {
		return 0
	}
	number, _ := n.value.(json.Number)
	if f, err := strconv.ParseFloat(string(number), 64); err == nil && f >= 1<<53 {
		return 1 << 53
	}
	count, ok := n.whole()
	if !ok || count < 1 {
		o.bad(name, "must be an integer of at least 1")
		return 0
	}
	return count
}

func (o *oracle) stops(n node) (stops []string) {
	add := func(path string, n node) {
		s, _ := o.text(path, n)
		units := 0
		for _, r := range s {
			if units++; r > 0xFFFF {
				units++
			}
		}
		switch {
		case units > 256:
			o.bad(path, "must be at most 256 characters long (UTF-16 code units)")
		case s != "" && !slices.Contains(stops, s):
			stops = append(stops, s)
		}
	}
	switch list := n.value.(type) {
	case nil:
	case string:
		add("stop", n)
	case []node:
		for i, e := range list {
			if i == 16 {
				o.bad("stop", "must have at most 16 entries, empty and repeated ones included")
				return nil
			}
			add(fmt.Sprintf("stop[%d]", i), e)
		}
	default:
		o.bad("stop", "must be a string or an array of strings")
	}
	return stops
}

func (o *oracle) messages(n node) (all []llm.Message) {
	list, isArray := must[[]node](o, "messages", n, "an array")
	var calls []string
	for i, e := range list {
		path := fmt.Sprintf("messages[%d]", i)
		if !o.object(path, e) {
			continue
		}
		role, isText := o.text(path+".role", e.get("role"))
		var m llm.Message
		switch role {
		case "system", "developer":
			m = llm.Message{Role: llm.RoleSystem, Parts: o.content(path, e.get("content"))}
		case "user":
			m = llm.Message{Role: llm.RoleUser, Parts: o.content(path, e.get("content"))}
		case "tool":
			id, ok := o.text(path+".tool_call_id", e.get("tool_call_id"))
			if ok && !slices.Contains(calls, id) {
				o.bad(path+".tool_call_id", "matches no tool call earlier in this request: send the whole conversation, with "+
					"the call that the result answers")
			}
			m = llm.Message{Role: llm.RoleTool, CallID: id, Parts: o.content(path, e.get("content"))}
		case "assistant":
			m.Role = llm.RoleAssistant
			content, refusal, made := e.get("content"), e.get("refusal"), e.get("tool_calls")
			if content.set() { // GAP-128
				m.Parts = o.content(path, content)
			}
			if refusal.set() {
				s, _ := o.text(path+".refusal", refusal)
				m.Parts = append(m.Parts, llm.Text(s))
			}
			if made.set() {
				for k, call := range o.array(path+".tool_calls", made) {
					if c := o.call(fmt.Sprintf("%s.tool_calls[%d]", path, k), call, &calls); c != nil {
						m.Parts = append(m.Parts, llm.Part{Call: c})
					}
				}
			}
		default:
			if isText {
				o.bad(path+".role", `must be "system", "developer", "user", "assistant" or "tool"`)
			}
		}
		all = append(all, m)
	}
	if isArray && len(all) == 0 {
		o.bad("messages", "must hold at least one message")
	}
	return all
}

func (o *oracle) content(path string, n node) []llm.Part {
	path += ".content"
	list, isArray := n.value.([]node)
	if !isArray {
		s, isText := n.value.(string)
		if n.set() && !isText {
			o.bad(path, "must be a string or an array of parts")
			return nil
		}
		if !isText {
			o.bad(path, "is required")
		}
		return []llm.Part{llm.Text(s)}
	}
	var parts []llm.Part
	for i, e := range list {
		part := fmt.Sprintf("%s[%d]", path, i)
		if !o.object(part, e) {
			continue
		}
		kind, ok := o.text(part+".type", e.get("type"))
		switch kind {
		case "text", "refusal":
			s, _ := o.text(part+"."+kind, e.get(kind))
			parts = append(parts, llm.Text(s))
		case "file", "input_file", "document", "video_url", "input_video":
			o.not(part, "is a file, document or video, which is not supported: send text only")
		case "reasoning", "thinking", "redacted_thinking":
		default:
			if ok {
				o.bad(part, "is content of an unknown type: send text")
			}
		}
	}
	return parts
}

func (o *oracle) filled(path string, n node) string {
	s, ok := o.text(path, n)
	if ok && s == "" {
		o.bad(path, "must not be empty")
	}
	return s
}

func (o *oracle) call(path string, n node, calls *[]string) *llm.ToolCall {
	if !o.object(path, n) {
		return nil
	}
	if kind := n.get("type"); kind.set() {
		if word, ok := o.text(path+".type", kind); word != "function" {
			if ok {
				o.not(path, "is a call of a type that is not supported: send function calls only")
			}
			return nil
		}
	}
	id := o.filled(path+".id", n.get("id"))
	*calls = append(*calls, id)
	function := n.get("function")
	if path += ".function"; !o.object(path, function) {
		return nil
	}
	c := &llm.ToolCall{ID: id, Name: o.filled(path+".name", function.get("name"))}
	if arguments := function.get("arguments"); arguments.set() {
		s, _ := o.text(path+".arguments", arguments)
		if strings.TrimSpace(s) != "" {
			c.Arguments = llm.Plain(s)
		}
	}
	return c
}

func isName(s string) bool {
	return s != "" && len(s) <= 128 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

func (o *oracle) tools(n node) (tools []llm.Tool) {
	if !n.set() {
		return nil
	}
	for i, e := range o.array("tools", n) {
		path := fmt.Sprintf("tools[%d]", i)
		if !o.object(path, e) {
			continue
		}
		if kind, ok := o.text(path+".type", e.get("type")); kind != "function" {
			if ok {
				o.not(path, "is a tool of a type that is not supported: declare function tools only")
			}
			continue
		}
		function := e.get("function")
		if path += ".function"; !o.object(path, function) {
			continue
		}
		tool := llm.Tool{Schema: []byte(`{"type":"object",}`)}
		var ok bool
		tool.Name, ok = o.text(path+".name", function.get("name"))
		if description := function.get("description"); description.set() {
			tool.Description, _ = o.text(path+".description", description)
		}
		if ok && !isName(tool.Name) {
			o.bad(path+".name", "must be 1 to 128 letters, digits, underscores, dashes or dots")
		}
		if schema := function.get("parameters"); schema.set() && o.object(path+".parameters", schema) {
			tool.Schema = appendNode(nil, schema)
		}
		if slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == tool.Name }) {
			o.bad(path+".name", "repeats the name of an earlier tool")
			continue
		}
		tools = append(tools, tool)
	}
	return tools
}

func (o *oracle) choice(n node, tools []llm.Tool) (c llm.ToolChoice) {
	const rule = `must be "auto", "none", "required" or `
	named := func(path string, n node) llm.ToolChoice {
		name, ok := o.text(path, n)
		if ok && !slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == name }) {
			o.bad(path, "names a function that tools does not declare")
		}
		return llm.ToolChoice{Mode: llm.ToolNamed, Name: name}
	}
	switch v := n.value.(type) {
	case nil:
		return c
	case string:
		switch {
		case v == "auto", v == "none" && len(tools) == 0:
			return c
		case v == "none":
			return llm.ToolChoice{Mode: llm.ToolNone}
		case v == "required" && len(tools) == 0:
			o.bad("tool_choice", "requires a tool call, but tools declares none that can be called")
			return c
		case v == "required":
			return llm.ToolChoice{Mode: llm.ToolRequired}
		}
	case []member:
		if kind, ok := o.text("tool_choice.type", n.get("type")); kind != "function" {
			if ok {
				o.not("tool_choice", rule+"a named function: other tool choices are not supported")
			}
			return c
		}
		function := n.get("function")
		if !function.set() {
			return named("tool_choice.name", n.get("name"))
		}
		if o.object("tool_choice.function", function) {
			return named("tool_choice.function.name", function.get("name"))
		}
		return c
	}
	o.bad("tool_choice", rule+"an object that names a function")
	return c
}

// appendNode writes a tree without blanks, names and numbers as they were, in a form in which schemas are compared.
func appendNode(b []byte, n node) []byte {
	switch v := n.value.(type) {
	case []node:
		b = append(b, '[')
		for _, e := range v {
			b = append(appendNode(b, e), ',')
		}
		return append(b, ']')
	case []member:
		b = append(b, '{')
		for _, m := range v {
			b = append(appendNode(append(strconv.AppendQuote(b, m.name), ':'), m.node), ',')
		}
		return append(b, '}')
	case string:
		return strconv.AppendQuote(b, v)
	}
	return fmt.Append(b, n.value)
}
