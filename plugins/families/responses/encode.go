package responses

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// encoder writes one reply. It keeps the whole output, which the family repeats when an item ends and again
// when the response does. Overlapping calls are no trouble on this wire: every event names its item.
type encoder struct {
	head families.Head
	echo echo

	sequence int // number of the next event
	ending   int // number of the first event of the end, 0 before AppendEnd
	output   []item
	openText int // place of the open message item, -1 for none
}

// AppendStart appends response.created and response.in_progress (SSE-23).
func (e *encoder) AppendStart(b []byte) []byte {
	for _, name := range []string{"response.created", "response.in_progress"} {
		b = e.appendEvent(b, name)
		b = append(b, `,"response":`...)
		b = e.appendResponse(b, state{status: inProgress})
		b = append(b, "}\n\n"...)
	}
	return b
}

// AppendEvent appends what an event brings to the stream.
func (e *encoder) AppendEvent(b []byte, ev llm.Event) []byte {
	switch ev.Kind {
	case llm.EventText:
		if ev.Text == "" {
			return b
		}
		if e.openText < 0 {
			b = e.beginText(e.closeCalls(b))
		}
		b = e.appendDelta(b, "response.output_text.delta", e.openText, ev.Text)
	case llm.EventToolCall:
		b = e.closeText(b, completed)
		e.output = append(e.output, item{call: true, index: ev.Index, callID: ev.ID, name: ev.Name, status: inProgress})
		b = e.appendItemEvent(b, "response.output_item.added", len(e.output)-1)
	case llm.EventToolArguments:
		if i := e.openCall(ev.Index); i >= 0 && ev.Text != "" {
			b = e.appendDelta(b, "response.function_call_arguments.delta", i, ev.Text)
		}
	case llm.EventToolEnd:
		if i := e.openCall(ev.Index); i >= 0 {
			b = e.closeCall(b, i)
		}
	}
	return b
}

// AppendEnd closes what is open and appends the final event, which holds the whole response, and [DONE]
// (SSE-11 to SSE-15). A reply of nothing, which only a stop sequence at its very beginning gives, has one
// empty text part (GAP-72).
func (e *encoder) AppendEnd(b []byte, end families.End) []byte {
	e.ending = e.sequence
	s := ending(&end)
	if len(e.output) == 0 {
		b = e.beginText(b)
	}
	for i := range e.output {
		switch it := &e.output[i]; {
		case it.status != inProgress:
		case it.call:
			b = e.closeCall(b, i)
		default:
			b = e.closeText(b, s.status)
		}
	}
	s.output = e.output
	name := "response.completed"
	if s.status == incomplete {
		name = "response.incomplete"
	}
	b = e.appendEvent(b, name)
	b = append(b, `,"response":`...)
	b = e.appendResponse(b, s)
	return append(b, "}\n\ndata: [DONE]\n\n"...)
}

// AppendError appends the error event and response.failed (SSE-32, SSE-33). What is open stays open, and
// before the start nothing is made up for it (GAP-68).
func (e *encoder) AppendError(b []byte, err *families.Error) []byte {
	if e.ending > 0 {
		e.sequence = e.ending // nobody got the end
	}
	b = e.appendEvent(b, "error")
	b = append(b, `,"code":`...)
	b = jsonview.AppendString(b, string(err.FrameCode()))
	b = append(b, `,"message":`...)
	b = jsonview.AppendString(b, err.Message)
	b = append(b, `,"param":null,"usage":`...)
	b = append(appendUnsettled(b), "}\n\n"...)
	b = e.appendEvent(b, "response.failed")
	b = append(b, `,"response":`...)
	b = e.appendResponse(b, state{status: failed, err: err})
	return append(b, "}\n\n"...)
}

// AppendKeepAlive appends a comment (SSE-26).
func (e *encoder) AppendKeepAlive(b []byte) []byte { return append(b, ": keepalive\n\n"...) }

// closeCalls closes the calls that are open, for text has ended them.
func (e *encoder) closeCalls(b []byte) []byte {
	for i := range e.output {
		if it := &e.output[i]; it.call && it.status == inProgress {
			b = e.closeCall(b, i)
		}
	}
	return b
}

// openCall returns the place of the open call with that canonical index, -1 for none.
func (e *encoder) openCall(index int) int {
	for i := len(e.output) - 1; i >= 0; i-- {
		if it := &e.output[i]; it.call && it.index == index && it.status == inProgress {
			return i
		}
	}
	return -1
}

func (e *encoder) beginText(b []byte) []byte {
	e.openText = len(e.output)
	e.output = append(e.output, item{status: inProgress})
	b = e.appendItemEvent(b, "response.output_item.added", e.openText)
	b = e.appendContentEvent(b, "response.content_part.added", e.openText)
	b = append(b, `,"part":`...)
	b = appendTextPart(b, nil)
	return append(b, "}\n\n"...)
}

func (e *encoder) closeText(b []byte, as status) []byte {
	i := e.openText
	if i < 0 {
		return b
	}
	e.openText = -1
	it := &e.output[i]
	it.status = as
	b = e.appendContentEvent(b, "response.output_text.done", i)
	b = append(b, `,"text":`...)
	b = jsonview.AppendString(b, string(it.content))
	b = append(b, ",\"logprobs\":[]}\n\n"...)
	b = e.appendContentEvent(b, "response.content_part.done", i)
	b = append(b, `,"part":`...)
	b = appendTextPart(b, it.content)
	b = append(b, "}\n\n"...)
	return e.appendItemEvent(b, "response.output_item.done", i)
}

func (e *encoder) closeCall(b []byte, i int) []byte {
	it := &e.output[i]
	if len(it.content) == 0 {
		b = e.appendDelta(b, "response.function_call_arguments.delta", i, it.arguments())
	}
	it.status = it.callStatus()
	b = e.appendPlacedEvent(b, "response.function_call_arguments.done", i)
	b = append(b, `,"name":`...)
	b = jsonview.AppendString(b, it.name)
	b = append(b, `,"arguments":`...)
	b = jsonview.AppendString(b, it.arguments())
	b = append(b, "}\n\n"...)
	return e.appendItemEvent(b, "response.output_item.done", i)
}

// appendDelta appends a piece to the item at that place, and the event that tells it.
func (e *encoder) appendDelta(b []byte, name string, i int, piece string) []byte {
	it := &e.output[i]
	it.content = append(it.content, piece...)
	if it.call {
		b = e.appendPlacedEvent(b, name, i)
	} else {
		b = e.appendContentEvent(b, name, i)
	}
	b = append(b, `,"delta":`...)
	b = jsonview.AppendString(b, piece)
	if !it.call {
		b = append(b, `,"logprobs":[]`...)
	}
	return append(b, "}\n\n"...)
}

// appendItemEvent appends a whole event that shows the item at that place.
func (e *encoder) appendItemEvent(b []byte, name string, i int) []byte {
	b = e.appendEvent(b, name)
	b = append(b, `,"output_index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, `,"item":`...)
	b = e.appendItem(b, i, &e.output[i])
	return append(b, "}\n\n"...)
}

// appendContentEvent appends an event about the one text part of a message item, up to what it says of it.
func (e *encoder) appendContentEvent(b []byte, name string, i int) []byte {
	b = e.appendPlacedEvent(b, name, i)
	return append(b, `,"content_index":0`...)
}

// appendPlacedEvent appends an event about the item at that place, up to what it says of it.
func (e *encoder) appendPlacedEvent(b []byte, name string, i int) []byte {
	b = e.appendEvent(b, name)
	b = append(b, `,"item_id":"`...)
	b = e.appendItemID(b, i, &e.output[i])
	b = append(b, `","output_index":`...)
	return strconv.AppendInt(b, int64(i), 10)
}

// appendEvent appends the opening of an event, with its number.
func (e *encoder) appendEvent(b []byte, name string) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	b = append(b, "\ndata: {\"type\":\""...)
	b = append(b, name...)
	b = append(b, `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(e.sequence), 10)
	e.sequence++
	return b
}

var _ families.Encoder = (*encoder)(nil)
