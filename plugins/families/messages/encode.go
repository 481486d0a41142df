package messages

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// encoder writes one reply. On the wire content blocks follow each other, one open at a time, while canonical
// tool calls may overlap: the first call that has not ended streams, and what the others bring is kept until
// it is their turn. Text ends all calls before it.
type encoder struct {
	head families.Head

	block    int  // index of the open block, else of the next one
	textOpen bool // the open block is text
	calls    int  // calls begun
	queue    []call
}

// call is a tool call that has not ended on the wire. The first of the queue is the open block.
type call struct {
	index     int
	id, name  string
	arguments []byte // kept until the call's block is open
	ended     bool
}

// AppendStart appends message_start, with the estimate of the input (GAP-66).
func (e *encoder) AppendStart(b []byte) []byte {
	b = append(b, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	b = e.appendHead(b)
	b = append(b, `"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`...)
	b = strconv.AppendInt(b, e.head.InputEstimate(), 10)
	return append(b, ",\"output_tokens\":0}}}\n\n"...)
}

// appendHead appends the opening of a message object.
func (e *encoder) appendHead(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, "msg_"+e.head.ID)
	b = append(b, `,"type":"message","role":"assistant","model":`...)
	b = jsonview.AppendString(b, e.head.Model)
	return append(b, ',')
}

// AppendEvent appends what an event brings to the stream.
func (e *encoder) AppendEvent(b []byte, ev llm.Event) []byte {
	switch ev.Kind {
	case llm.EventText:
		if ev.Text == "" {
			return b
		}
		b = e.closeCalls(b)
		if !e.textOpen {
			b = e.openText(b)
		}
		b = e.appendDelta(b, "text_delta", "text")
		b = jsonview.AppendEscaped(b, ev.Text)
		b = append(b, "\"}}\n\n"...)
	case llm.EventToolCall:
		b = e.closeText(b)
		e.calls++
		e.queue = append(e.queue, call{index: ev.Index, id: ev.ID, name: ev.Name})
		if len(e.queue) == 1 {
			b = e.openCall(b)
		}
	case llm.EventToolArguments:
		if ev.Text == "" {
			return b
		}
		for i := range e.queue {
			if c := &e.queue[i]; c.index == ev.Index {
				if i == 0 {
					return e.appendArguments(b, ev.Text)
				}
				c.arguments = append(c.arguments, ev.Text...)
				break
			}
		}
	case llm.EventToolEnd:
		for i := range e.queue {
			if e.queue[i].index == ev.Index {
				e.queue[i].ended = true
			}
		}
		for len(e.queue) > 0 && e.queue[0].ended {
			b = e.closeCall(b)
		}
	}
	return b
}

// AppendEnd closes what is open and appends message_delta and message_stop (SSE-18, SSE-19). A reply of
// nothing, which only a stop sequence at its very beginning gives, has one empty text block (GAP-72).
func (e *encoder) AppendEnd(b []byte, end families.End) []byte {
	b = e.closeCalls(b)
	if e.block == 0 && !e.textOpen {
		b = e.openText(b)
	}
	b = e.closeText(b)
	b = append(b, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	b = appendStop(b, end, e.calls > 0)
	b = append(b, `},"usage":`...)
	b = appendUsage(b, end)
	return append(b, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// AppendError appends the error frame; what is open stays open (SSE-34).
func (e *encoder) AppendError(b []byte, err *families.Error) []byte {
	b = append(b, "event: error\ndata: "...)
	b = appendError(b, err.FrameCode(), err.Message)
	b = append(b, `,"usage":`...)
	return append(appendUnsettled(b), "}\n\n"...)
}

// AppendKeepAlive appends a ping, which clients skip at any point (SSE-27, GAP-64).
func (e *encoder) AppendKeepAlive(b []byte) []byte {
	return append(b, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

func (e *encoder) openText(b []byte) []byte {
	e.textOpen = true
	b = e.appendBlockStart(b)
	return append(b, "{\"type\":\"text\",\"text\":\"\"}}\n\n"...)
}

func (e *encoder) closeText(b []byte) []byte {
	if !e.textOpen {
		return b
	}
	e.textOpen = false
	return e.appendBlockStop(b)
}

// openCall opens the block of the first call in the queue, with the arguments that it has by now.
func (e *encoder) openCall(b []byte) []byte {
	c := &e.queue[0]
	b = e.appendBlockStart(b)
	b = appendToolUse(b, c.id, c.name, nil)
	b = append(b, direct+"}}\n\n"...)
	if len(c.arguments) > 0 {
		b = e.appendArguments(b, string(c.arguments))
	}
	return b
}

// closeCall closes the block of the first call in the queue and opens the next one's.
func (e *encoder) closeCall(b []byte) []byte {
	b = e.appendBlockStop(b)
	e.queue = e.queue[1:]
	if len(e.queue) > 0 {
		b = e.openCall(b)
	}
	return b
}

func (e *encoder) closeCalls(b []byte) []byte {
	for len(e.queue) > 0 {
		b = e.closeCall(b)
	}
	return b
}

func (e *encoder) appendArguments(b []byte, piece string) []byte {
	b = e.appendDelta(b, "input_json_delta", "partial_json")
	b = jsonview.AppendEscaped(b, piece)
	return append(b, "\"}}\n\n"...)
}

// appendDelta appends a delta of the open block up to the opening quote of its string.
func (e *encoder) appendDelta(b []byte, kind, member string) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(e.block), 10)
	b = append(b, `,"delta":{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","`...)
	b = append(b, member...)
	return append(b, `":"`...)
}

// appendBlockStart appends content_block_start up to the block itself.
func (e *encoder) appendBlockStart(b []byte) []byte {
	b = append(b, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	b = strconv.AppendInt(b, int64(e.block), 10)
	return append(b, `,"content_block":`...)
}

func (e *encoder) appendBlockStop(b []byte) []byte {
	b = append(b, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	b = strconv.AppendInt(b, int64(e.block), 10)
	e.block++
	return append(b, "}\n\n"...)
}

var _ families.Encoder = (*encoder)(nil)
