package echo

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/llm"
)

// greeting answers a conversation in which nothing was said.
const greeting = "Hello. Say something, and I will repeat it."

// reply is a whole reply before it is cut into pieces.
type reply struct {
	reasoning string
	text      string
	calls     []llm.ToolCall
	finish    llm.FinishReason
	words     int64 // output tokens
}

// compose makes the reply to a request, within its output allowance.
func (e *Echo) compose(req *llm.Request) reply {
	var r reply
	r.finish = llm.FinishStop
	if e.settings.Reasoning {
		r.reasoning = fmt.Sprintf("The prompt has %d words. I will repeat the last message.", inputWords(req))
	}
	r.calls = callsFor(req)
	if len(r.calls) > 0 {
		r.finish = llm.FinishToolCalls
	} else {
		r.text = textFor(req)
	}
	if e.settings.HonourStop {
		r.text = untilStop(r.text, req.Stop)
	}
	r.fit(req.MaxTokens)
	return r
}

// fit shortens the reply to an allowance in words: reasoning comes first, then the text, then whole calls.
// An allowance of 0 is none.
func (r *reply) fit(allowance int64) {
	if allowance == 0 {
		allowance = 1<<63 - 1
	}
	whole := words(r.reasoning) + words(r.text)
	r.reasoning = firstWords(r.reasoning, allowance)
	r.text = firstWords(r.text, allowance-words(r.reasoning))
	r.words = words(r.reasoning) + words(r.text)
	if r.words < whole {
		r.calls, r.finish = nil, llm.FinishLength
		return
	}
	for i, c := range r.calls {
		cost := callWords(&c)
		if r.words+cost > allowance {
			r.calls, r.finish = r.calls[:i], llm.FinishLength
			return
		}
		r.words += cost
	}
}

// textFor is the reply in words.
func textFor(req *llm.Request) string {
	text := greeting
	if results := toolResults(req); results != "" {
		text = results
	} else if said := lastUserText(req); strings.TrimSpace(said) != "" {
		text = "You said: " + said
	}
	if req.Format == nil {
		return text
	}
	object, err := json.Marshal(map[string]string{"reply": text})
	if err != nil {
		panic(err) // a map of strings can be encoded
	}
	return string(object)
}

// toolResults answers the tool results that the conversation ends with, "" if it ends with anything else.
func toolResults(req *llm.Request) string {
	var lines []string
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role == llm.RoleTool; i-- {
		m := req.Messages[i]
		verb := "answered"
		if m.IsError {
			verb = "failed"
		}
		lines = append(lines, fmt.Sprintf("The tool %s %s: %s", toolName(req, m.CallID), verb, m.Text()))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// toolName is the name of the tool that was called under an id; the latest call counts.
func toolName(req *llm.Request, id string) string {
	for _, m := range slices.Backward(req.Messages) {
		for _, p := range m.Parts {
			if p.Call != nil && p.Call.ID == id {
				return p.Call.Name
			}
		}
	}
	return "(unknown)"
}

func lastUserText(req *llm.Request) string {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == llm.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// callsFor is the tool calls that the conversation asks for, if any.
func callsFor(req *llm.Request) []llm.ToolCall {
	n := len(req.Messages)
	answered := n > 0 && req.Messages[n-1].Role == llm.RoleTool
	if len(req.Tools) == 0 || req.ToolChoice.Mode == llm.ToolNone || answered {
		return nil
	}
	var calls []llm.ToolCall
	for line := range strings.Lines(lastUserText(req)) {
		if name, arguments, ok := parseCall(line); ok && allowed(req, name) {
			calls = append(calls, llm.ToolCall{Name: name, Arguments: llm.Plain(arguments)})
		}
	}
	if len(calls) == 0 {
		switch req.ToolChoice.Mode {
		case llm.ToolRequired:
			calls = []llm.ToolCall{{Name: req.Tools[0].Name, Arguments: llm.Plain("{}")}}
		case llm.ToolNamed:
			calls = []llm.ToolCall{{Name: req.ToolChoice.Name, Arguments: llm.Plain("{}")}}
		}
	}
	// The same attempt gets the same ids, and two turns of a conversation get different ones.
	h := fnv.New64a()
	h.Write([]byte(req.Attempt))
	for i := range calls {
		calls[i].ID = fmt.Sprintf("call_%016x_%d", h.Sum64(), i)
	}
	return calls
}

// allowed reports whether the request lets the model call the tool.
func allowed(req *llm.Request, name string) bool {
	if req.ToolChoice.Mode == llm.ToolNamed && name != req.ToolChoice.Name {
		return false
	}
	return slices.ContainsFunc(req.Tools, func(t llm.Tool) bool { return t.Name == name })
}

// parseCall reads a line `call NAME {json}`.
func parseCall(line string) (name, arguments string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "call ")
	if !ok {
		return "", "", false
	}
	name, arguments, _ = strings.Cut(strings.TrimSpace(rest), " ")
	if arguments = strings.TrimSpace(arguments); arguments == "" {
		arguments = "{}"
	}
	return name, arguments, strings.HasPrefix(arguments, "{") && json.Valid([]byte(arguments))
}

// untilStop is text up to the first place where a stop sequence begins.
func untilStop(text string, stops []string) string {
	for _, stop := range stops {
		if i := strings.Index(text, stop); i >= 0 && stop != "" {
			text = text[:i]
		}
	}
	return text
}

func words(s string) int64 { return int64(len(strings.Fields(s))) }

func callWords(c *llm.ToolCall) int64 { return words(c.Name) + words(c.Arguments.String()) }

func inputWords(req *llm.Request) int64 {
	var n int64
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += words(p.Text.String())
			if p.Call != nil {
				n += callWords(p.Call)
			}
		}
	}
	for _, t := range req.Tools {
		n += words(t.Name) + words(t.Description) + words(string(t.Schema))
	}
	return n
}

// firstWords is the beginning of s with at most n words, cut after a word; s itself if it has no more.
func firstWords(s string, n int64) string {
	inWord := false
	for i, c := range s {
		switch {
		case unicode.IsSpace(c):
			if inWord && n == 0 {
				return s[:i]
			}
			inWord = false
		case !inWord:
			if n == 0 {
				return s[:i]
			}
			inWord = true
			n--
		}
	}
	return s
}

// cut takes n characters from the front of s.
func cut(s string, n int) (piece, rest string) {
	end := 0
	for ; n > 0 && end < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end], s[end:]
}
