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
			b = appendToolUse(b, item.Call.ID, item.Call.Name, item.Call.Arguments.AppendTo(nil))
			b = append(b, direct+"}"...)
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

// direct is who has made a call in a reply: the model itself, and no code that the service runs (GAP-129). Upstreams
// are not told; what only resembles the family's own service may refuse a member that it does not know.
const direct = `,"caller":{"type":"direct"}`

// appendToolUse appends a tool_use block without its closing brace.
func appendToolUse(b []byte, id, name string, arguments []byte) []byte {
	b = append(b, `{"type":"tool_use","id":`...)
	b = jsonview.AppendString(b, id)
	b = append(b, `,"name":`...)
	b = jsonview.AppendString(b, name)
	b = append(b, `,"input":`...)
	return appendInput(b, arguments)
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

// appendUsage appends the usage object (GAP-13).
func appendUsage(b []byte, end families.End) []byte {
	return families.AppendBill(appendTokens(b, end.Used()), &end)
}

// appendUnsettled appends the usage that error frames carry: no amount (GAP-58), and no tokens, which typed clients
// want as numbers all the same, those of the cache too (GAP-129).
func appendUnsettled(b []byte) []byte {
	none := new(int64)
	return families.AppendUnsettled(appendTokens(b, llm.Usage{CacheWrite: none, CacheRead: none}))
}

// appendTokens appends a usage object up to its tokens. The classes of input are disjoint, and what the upstream did
// not report of its cache is left out (GAP-109).
func appendTokens(b []byte, u llm.Usage) []byte {
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
	return strconv.AppendInt(b, llm.Tokens(u.Output), 10)
}
