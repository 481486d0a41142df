package chat

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// encoder writes one reply. What all chunks have in common is made once; the rest is appended.
type encoder struct {
	head   families.Head
	prefix []byte // a chunk up to and including `"choices":[`, nil before the first one
	suffix string // from after `]` to the end of the event
	usage  bool   // the stream ends with a usage chunk (CHAT-09)

	calls map[int]bool // the calls begun; true when arguments have been written
	open  []int        // the indexes of those that text has not ended, in the order in which they began
}

func newEncoder(usageChunk bool, head families.Head) *encoder {
	e := &encoder{head: head, suffix: "}\n\n", usage: usageChunk}
	if usageChunk {
		e.suffix = `,"usage":null` + e.suffix
	}
	return e
}

// appendPrefix begins a chunk.
func (e *encoder) appendPrefix(b []byte) []byte {
	if e.prefix == nil {
		p := append(make([]byte, 0, 192), `data: {"id":`...)
		p = jsonview.AppendString(p, "chatcmpl-"+e.head.ID)
		p = append(p, `,"object":"chat.completion.chunk","created":`...)
		p = strconv.AppendInt(p, e.head.Created, 10)
		p = append(p, `,"model":`...)
		p = jsonview.AppendString(p, e.head.Model)
		e.prefix = append(p, `,"choices":[`...)
	}
	return append(b, e.prefix...)
}

// begin and close write what stands around a delta of a chunk that does not finish the reply.
func (e *encoder) begin(b []byte) []byte {
	return append(e.appendPrefix(b), `{"index":0,"delta":{`...)
}

func (e *encoder) close(b []byte) []byte {
	b = append(b, `},"finish_reason":null}]`...)
	return append(b, e.suffix...)
}

// AppendStart appends the role chunk (SSE-04, SSE-21).
func (e *encoder) AppendStart(b []byte) []byte {
	b = append(e.begin(b), `"role":"assistant","content":""`...)
	return e.close(b)
}

// AppendEvent appends a chunk for a piece of text, the beginning of a tool call, or a piece of its
// arguments. Pieces of several calls may be interleaved: each chunk names its call by index.
func (e *encoder) AppendEvent(b []byte, ev llm.Event) []byte {
	switch ev.Kind {
	case llm.EventText:
		if ev.Text == "" {
			return b
		}
		b = append(e.begin(e.endCalls(b)), `"content":`...)
		b = jsonview.AppendString(b, ev.Text)
		return e.close(b)
	case llm.EventToolCall:
		return e.appendCall(b, ev)
	case llm.EventToolArguments:
		if ev.Text == "" {
			return b
		}
		return e.appendArguments(b, ev.Index, ev.Text)
	case llm.EventToolEnd:
		return e.appendEmptyArguments(b, ev.Index)
	}
	return b
}

func (e *encoder) appendCall(b []byte, ev llm.Event) []byte {
	if e.calls == nil {
		e.calls = make(map[int]bool)
	}
	if _, begun := e.calls[ev.Index]; !begun {
		e.calls[ev.Index] = false
		e.open = append(e.open, ev.Index)
	}
	b = append(e.begin(b), `"tool_calls":[{"index":`...)
	b = strconv.AppendInt(b, int64(ev.Index), 10)
	b = append(b, `,"id":`...)
	b = jsonview.AppendString(b, ev.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = jsonview.AppendString(b, ev.Name)
	b = append(b, `,"arguments":""}}]`...)
	return e.close(b)
}

func (e *encoder) appendArguments(b []byte, index int, piece string) []byte {
	if _, begun := e.calls[index]; begun {
		e.calls[index] = true
	}
	b = append(e.begin(b), `"tool_calls":[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"function":{"arguments":`...)
	b = jsonview.AppendString(b, piece)
	b = append(b, `}}]`...)
	return e.close(b)
}

// appendEmptyArguments completes a call that was made without arguments, which means {} (GAP-84).
func (e *encoder) appendEmptyArguments(b []byte, index int) []byte {
	if written, begun := e.calls[index]; !begun || written {
		return b
	}
	return e.appendArguments(b, index, "{}")
}

// endCalls completes the calls that are open: text ends them, and so does the reply.
func (e *encoder) endCalls(b []byte) []byte {
	for _, index := range e.open {
		b = e.appendEmptyArguments(b, index)
	}
	e.open = e.open[:0]
	return b
}

// AppendEnd appends the finish chunk, the usage chunk where it was asked for, and the end marker (SSE-05 to
// SSE-07).
func (e *encoder) AppendEnd(b []byte, end families.End) []byte {
	b = e.endCalls(b)
	b = e.appendPrefix(b)
	b = append(b, `{"index":0,"delta":{},"finish_reason":`...)
	b = jsonview.AppendString(b, finishReason(end, len(e.calls) > 0))
	b = append(b, "}]"...)
	b = append(b, e.suffix...)
	if e.usage {
		b = e.appendPrefix(b)
		b = append(b, `],"usage":`...)
		b = appendUsage(b, end)
		b = append(b, "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// AppendError appends the error frame, which ends the stream (SSE-31).
func (e *encoder) AppendError(b []byte, err *families.Error) []byte {
	code := string(err.FrameCode())
	kind := code
	if err.Frame == "" {
		kind = string(err.Type())
	}
	b = append(b, `data: {"error":{"message":`...)
	b = jsonview.AppendString(b, err.Message)
	b = append(b, `,"type":`...)
	b = jsonview.AppendString(b, kind)
	b = append(b, `,"code":`...)
	b = jsonview.AppendString(b, code)
	b = append(b, `},"usage":`...)
	return append(appendUnsettled(b), "}\n\n"...)
}

// AppendKeepAlive appends a comment line, which clients pass over (SSE-26).
func (e *encoder) AppendKeepAlive(b []byte) []byte { return append(b, ": keepalive\n\n"...) }

var _ families.Encoder = (*encoder)(nil)
