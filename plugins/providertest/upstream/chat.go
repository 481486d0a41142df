package upstream

import (
	"encoding/json"
	"strings"
)

// chatHead is what every chunk and the whole reply of a chat completion begin with.
type chatHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

func renderChat(req *Request, reply Reply, h head) renderer {
	out := chatHead{ID: h.ID, Object: "chat.completion", Created: h.Created, Model: h.Model}
	if !req.Stream {
		return &chatJSON{head: out, mode: reply.Usage}
	}
	out.Object = "chat.completion.chunk"
	return &chatStream{head: out, mode: reply.Usage, asked: req.IncludeUsage}
}

// chatFailure is the error body of this family, which the responses family shares.
func chatFailure(e *Error) []byte {
	if e.Body != "" {
		return []byte(e.Body)
	}
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return mustMarshal(map[string]object{"error": {e.Message, e.Type, optional(e.Param), optional(e.Code)}})
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatCall struct {
	Index    *int         `json:"index,omitempty"` // in streams only
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index    int       `json:"index"`
	Delta    chatDelta `json:"delta"`
	Logprobs *string   `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

type chatDetails struct {
	Cached    *int64 `json:"cached_tokens,omitempty"`
	Written   *int64 `json:"cache_write_tokens,omitempty"`
	Reasoning *int64 `json:"reasoning_tokens,omitempty"`
}

type chatUsage struct {
	Prompt            int64        `json:"prompt_tokens"`
	Completion        int64        `json:"completion_tokens"`
	Total             int64        `json:"total_tokens"`
	PromptDetails     *chatDetails `json:"prompt_tokens_details,omitempty"`
	CompletionDetails *chatDetails `json:"completion_tokens_details,omitempty"`
}

func chatUsageOf(u Usage) any {
	if u.Raw != "" {
		return json.RawMessage(u.Raw)
	}
	return chatCounts(u)
}

func chatCounts(u Usage) *chatUsage {
	out := &chatUsage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Prompt + u.Completion}
	if u.Cached != nil || u.Written != nil {
		out.PromptDetails = &chatDetails{Cached: u.Cached, Written: u.Written}
	}
	if u.Reasoning != nil {
		out.CompletionDetails = &chatDetails{Reasoning: u.Reasoning}
	}
	return out
}

// chatStream renders a reply as chat.completion.chunk events.
type chatStream struct {
	head   chatHead
	mode   UsageMode
	asked  bool // the request has stream_options.include_usage
	timed  bool // and timings_per_token
	opened bool
	done   *timings // so far
	told   *Usage
}

// chatChunk writes `usage` only where it is wanted: a chunk of a stream without usage has no such field.
type chatChunk struct {
	chatHead
	Choices []chatChoice `json:"choices"`
	Usage   any          `json:"usage,omitempty"`
	Timings *timings     `json:"timings,omitempty"`
}

func (c *chatStream) contentType() string { return "text/event-stream; charset=utf-8" }

func (c *chatStream) append(b []byte, s Step, used Usage) []byte {
	switch s.Do {
	case StepText:
		return c.delta(b, s.Do, chatDelta{Content: &s.Text}, used)
	case StepReasoning:
		return c.delta(b, s.Do, chatDelta{Reasoning: &s.Text}, used)
	case StepToolCall:
		return c.delta(b, s.Do, chatDelta{ToolCalls: []chatCall{{Index: &s.Index, ID: s.ID, Type: "function",
			Function: chatFunction{Name: s.Name}}}}, used)
	case StepArguments:
		return c.delta(b, s.Do, chatDelta{ToolCalls: []chatCall{{Index: &s.Index,
			Function: chatFunction{Arguments: s.Text}}}}, used)
	case StepFinish:
		b = c.open(b, used)
		return c.chunk(b, []chatChoice{{Finish: &s.Text}}, c.usageIn(s.Do, used))
	case StepUsage:
		if c.mode == UsageAlways || c.mode == UsageEveryChunk || c.mode == UsageAsAsked && c.asked {
			return c.chunk(b, []chatChoice{}, c.tell(used))
		}
		return b
	case StepComment:
		return append(append(append(b, ": "...), strings.ReplaceAll(s.Text, "\n", " ")...), "\n\n"...)
	case StepDone:
		return append(b, "data: [DONE]\n\n"...)
	}
	return b
}

// open appends the chunk that says who speaks, once.
func (c *chatStream) open(b []byte, used Usage) []byte {
	if c.opened {
		return b
	}
	c.opened = true
	empty := ""
	c.done = nil // nothing has been predicted yet
	return c.chunk(b, []chatChoice{{Delta: chatDelta{Role: "assistant", Content: &empty}}},
		c.usageIn(StepHeaders, Usage{Prompt: used.Prompt}))
}

func (c *chatStream) delta(b []byte, kind StepKind, d chatDelta, used Usage) []byte {
	b = c.open(b, used)
	if c.timed {
		c.done = timingsOf(used)
	}
	return c.chunk(b, []chatChoice{{Delta: d}}, c.usageIn(kind, used))
}

// usageIn is the field `usage` of a chunk that has a choice; nil leaves it out.
func (c *chatStream) usageIn(kind StepKind, used Usage) any {
	switch {
	case c.mode == UsageEveryChunk, c.mode == UsageWithFinish && kind == StepFinish:
		return c.tell(used)
	case c.mode == UsageAlways, c.mode == UsageAsAsked && c.asked:
		return json.RawMessage("null") // as the official service does when usage comes in a chunk of its own
	}
	return nil
}

func (c *chatStream) tell(used Usage) any {
	c.told = &used
	return chatUsageOf(used)
}

func (c *chatStream) reported() *Usage { return c.told }

func (c *chatStream) chunk(b []byte, choices []chatChoice, usage any) []byte {
	return c.event(b, mustMarshal(chatChunk{chatHead: c.head, Choices: choices, Usage: usage, Timings: c.done}))
}

func (c *chatStream) event(b []byte, data []byte) []byte {
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

func (c *chatStream) fail(b []byte, e *Error) []byte { return c.event(b, chatFailure(e)) }

// chatJSON adds a reply up and renders it as one chat.completion.
type chatJSON struct {
	head   chatHead
	mode   UsageMode
	text   *string
	reason *string
	calls  []chatCall
	finish *string
	used   *Usage
	told   *Usage
}

func (c *chatJSON) contentType() string { return "application/json" }

func (c *chatJSON) append(b []byte, s Step, used Usage) []byte {
	switch s.Do {
	case StepText:
		c.text = extend(c.text, s.Text)
	case StepReasoning:
		c.reason = extend(c.reason, s.Text)
	case StepToolCall:
		c.calls = append(c.calls, chatCall{Index: &s.Index, ID: s.ID, Type: "function", Function: chatFunction{Name: s.Name}})
	case StepArguments:
		for i := range c.calls {
			if *c.calls[i].Index == s.Index {
				c.calls[i].Function.Arguments += s.Text
			}
		}
	case StepFinish:
		c.finish = &s.Text
	case StepUsage:
		if c.mode != UsageNever {
			c.used = &used
		}
	case StepDone:
		return append(b, c.body()...)
	}
	return b
}

func extend(s *string, more string) *string {
	if s != nil {
		more = *s + more
	}
	return &more
}

func (c *chatJSON) body() []byte {
	type message struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		Reasoning *string    `json:"reasoning_content,omitempty"`
		Refusal   *string    `json:"refusal"`
		ToolCalls []chatCall `json:"tool_calls,omitempty"`
	}
	type choice struct {
		Index    int     `json:"index"`
		Message  message `json:"message"`
		Logprobs *string `json:"logprobs"`
		Finish   *string `json:"finish_reason"`
	}
	for i := range c.calls {
		c.calls[i].Index = nil
	}
	if len(c.calls) == 0 {
		c.text = extend(c.text, "") // null only beside tool calls
	}
	var usage any
	if c.used != nil {
		usage, c.told = chatUsageOf(*c.used), c.used
	}
	return mustMarshal(struct {
		chatHead
		Choices []choice `json:"choices"`
		Usage   any      `json:"usage,omitempty"`
	}{c.head, []choice{{Message: message{Role: "assistant", Content: c.text, Reasoning: c.reason,
		ToolCalls: c.calls}, Finish: c.finish}}, usage})
}

func (c *chatJSON) reported() *Usage { return c.told }

func (c *chatJSON) fail(b []byte, e *Error) []byte { return append(b, chatFailure(e)...) }
