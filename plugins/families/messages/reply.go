package messages

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// AppendReply appends a whole message (GAP-12).
func (e *encoder) AppendReply(b []byte, reply *llm.Reply, end families.End) []byte {
	b = e.appendHead(b)
	b = append(b, `"content":[`...)
	blocks, calls := 0, 0
	for _, item := range reply.Items {
		if item.Call == nil && item.Text == "" {
			continue
		}
		if blocks > 0 {
			b = append(b, ',')
		}
		blocks++
		if item.Call != nil {
			calls++
			b = appendToolUse(b, item.Call.ID, item.Call)
			continue
		}
		b = append(b, `{"type":"text","text":`...)
		b = jsonview.AppendString(b, item.Text)
		b = append(b, '}')
	}
	if blocks == 0 { // GAP-72
		b = append(b, `{"type":"text","text":""}`...)
	}
	b = append(b, `],`...)
	b = appendStop(b, end, calls > 0)
	b = append(b, `,"usage":`...)
	b = appendUsage(b, end)
	return append(b, '}')
}

// maxArgumentDepth bounds how deep a call's arguments may be nested to be shown as JSON.
const maxArgumentDepth = 1000

// appendToolUse appends a tool_use block, in which the call has this id.
func appendToolUse(b []byte, id string, c *llm.ToolCall) []byte {
	b = append(b, `{"type":"tool_use","id":`...)
	b = jsonview.AppendString(b, id)
	b = append(b, `,"name":`...)
	b = jsonview.AppendString(b, c.Name)
	b = append(b, `,"input":`...)
	b = appendInput(b, c.Arguments.AppendTo(nil))
	return append(b, '}')
}

// appendInput appends a call's arguments as the object that this family has for them. They can be no object
// only where the output allowance cut them short (GAP-84): a call that must not be run, as stop_reason says.
func appendInput(b, arguments []byte) []byte {
	v, err := jsonview.Parse(arguments, maxArgumentDepth)
	if err != nil || v.Kind() != jsonview.Object {
		return append(b, `{}`...)
	}
	return append(b, v.Raw()...)
}

// appendStop appends the members stop_reason and stop_sequence (MSG-18 to MSG-22). A policy ending outranks a
// match (STOP-25), and a match outranks everything else (GAP-70, GAP-73).
func appendStop(b []byte, end families.End, calls bool) []byte {
	reason, sequence := "end_turn", (*string)(nil)
	switch {
	case end.Finish == llm.FinishPolicy:
		reason = "refusal"
	case end.StopSequence != nil:
		reason, sequence = "stop_sequence", end.StopSequence
	case end.Finish == llm.FinishLength:
		reason = "max_tokens"
	case calls:
		reason = "tool_use"
	}
	b = append(b, `"stop_reason":"`...)
	b = append(b, reason...)
	b = append(b, `","stop_sequence":`...)
	if sequence == nil {
		return append(b, `null`...)
	}
	return jsonview.AppendString(b, *sequence)
}

// appendUsage appends the usage object (GAP-13). The classes of input are disjoint, and what the upstream did
// not report of its cache is left out (GAP-109).
func appendUsage(b []byte, end families.End) []byte {
	var u llm.Usage
	if end.Usage != nil {
		u = *end.Usage
	}
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, llm.Tokens(u.Input), 10)
	if u.CacheWrite != nil {
		b = append(b, `,"cache_creation_input_tokens":`...)
		b = strconv.AppendInt(b, *u.CacheWrite, 10)
	}
	if u.CacheRead != nil {
		b = append(b, `,"cache_read_input_tokens":`...)
		b = strconv.AppendInt(b, *u.CacheRead, 10)
	}
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, llm.Tokens(u.Output), 10)
	b = append(b, `,"billed_microcents":`...)
	b = strconv.AppendInt(b, end.Billed, 10)
	b = append(b, `,"billing_pending":`...)
	b = strconv.AppendBool(b, end.Pending)
	return append(b, '}')
}
