package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// status is the state of a response, and of an item in it.
type status string

const (
	inProgress status = "in_progress"
	completed  status = "completed"
	incomplete status = "incomplete"
	failed     status = "failed"
)

// state is what changes in a response object while a reply is made.
type state struct {
	status status
	reason string          // why it is incomplete
	err    *families.Error // why it failed
	output []item
	end    *families.End // nil until the usage is known
}

// ending is the state of a response that has ended by itself. A policy ending outranks a match (STOP-25), and
// a match outranks that the allowance was reached (GAP-73). A reply that ends in calls is complete (GAP-82).
func ending(end *families.End) state {
	switch {
	case end.Finish == llm.FinishPolicy:
		return state{status: incomplete, reason: "content_filter", end: end}
	case end.Finish == llm.FinishLength && end.StopSequence == nil:
		return state{status: incomplete, reason: "max_output_tokens", end: end} // GAP-23
	}
	return state{status: completed, end: end}
}

// item is one output item: a message with one text part, or a function call.
type item struct {
	call    bool
	index   int    // canonical index of the call
	callID  string // and its name
	name    string
	content []byte // the text, or the call's arguments
	status  status
}

// arguments returns a call's arguments; none are {} (GAP-84).
func (it *item) arguments() string {
	if s := string(it.content); strings.TrimSpace(s) != "" {
		return s
	}
	return "{}"
}

// callStatus is the status of a call that has ended: one whose arguments are no JSON was cut short, which happens
// where the output allowance ends a reply (GAP-84).
func (it *item) callStatus() status {
	if json.Valid([]byte(it.arguments())) {
		return completed
	}
	return incomplete
}

// appendResponse appends a response object (GAP-12).
func (e *encoder) appendResponse(b []byte, s state) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, "resp_"+e.head.ID)
	b = append(b, `,"object":"response","created_at":`...)
	b = strconv.AppendInt(b, e.head.Created, 10)
	b = append(b, `,"status":"`...)
	b = append(b, s.status...)
	b = append(b, `","completed_at":`...)
	if s.status == completed && s.end != nil {
		b = strconv.AppendInt(b, s.end.At, 10)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"background":false,"error":`...)
	if s.err == nil {
		b = append(b, `null`...)
	} else {
		b = append(b, `{"code":`...)
		b = jsonview.AppendString(b, string(s.err.FrameCode()))
		b = append(b, `,"message":`...)
		b = jsonview.AppendString(b, s.err.Message)
		b = append(b, '}')
	}
	b = append(b, `,"incomplete_details":`...)
	if s.reason == "" {
		b = append(b, `null`...)
	} else {
		b = append(b, `{"reason":"`...)
		b = append(b, s.reason...)
		b = append(b, `"}`...)
	}
	b = appendEcho(b, `,"instructions":`, e.echo.instructions, `null`)
	b = appendEcho(b, `,"max_output_tokens":`, e.echo.maxTokens, `null`)
	b = append(b, `,"output":[`...)
	for i := range s.output {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendItem(b, i, &s.output[i])
	}
	b = append(b, unread...)
	b = appendEcho(b, `,"temperature":`, e.echo.temperature, `1`)
	b = appendEcho(b, `,"text":{"format":`, e.echo.format, `{"type":"text"}`)
	b = append(b, '}')
	b = appendEcho(b, `,"tool_choice":`, e.echo.toolChoice, `"auto"`)
	b = appendEcho(b, `,"tools":[`, e.echo.tools, ``)
	b = append(b, `],"metadata":{},"model":`...)
	b = jsonview.AppendString(b, e.head.Model)
	b = append(b, `,"usage":`...)
	switch {
	case s.end != nil:
		b = appendUsage(b, s.end)
	case s.err != nil:
		b = appendUnsettled(b)
	default:
		b = append(b, `null`...) // GAP-66
	}
	return append(b, '}')
}

// unread are the members of a response of which the request's are not read: each has its documented default or null,
// whatever was sent (GAP-116).
const unread = `],"max_tool_calls":null,"parallel_tool_calls":true,"previous_response_id":null,` +
	`"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,` +
	`"service_tier":"default",` +
	`"store":false,"truncation":"disabled","top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0`

func appendEcho(b []byte, member string, sent []byte, absent string) []byte {
	b = append(b, member...)
	if sent == nil {
		return append(b, absent...)
	}
	return append(b, sent...)
}

// appendItemID appends the id of the output item at that place, without quotes: unique in the service, for the
// reply's id is.
func (e *encoder) appendItemID(b []byte, i int, it *item) []byte {
	prefix := "msg_"
	if it.call {
		prefix = "fc_"
	}
	b = append(b, prefix...)
	b = jsonview.AppendEscaped(b, e.head.ID)
	if i > 0 {
		b = append(b, '_')
		b = strconv.AppendInt(b, int64(i), 10)
	}
	return b
}

// appendItem appends an output item. One that is in progress is shown empty, as it begins.
func (e *encoder) appendItem(b []byte, i int, it *item) []byte {
	b = append(b, `{"id":"`...)
	b = e.appendItemID(b, i, it)
	if it.call {
		b = append(b, `","type":"function_call","status":"`...)
		b = append(b, it.status...)
		b = append(b, `","call_id":`...)
		b = jsonview.AppendString(b, it.callID)
		b = append(b, `,"name":`...)
		b = jsonview.AppendString(b, it.name)
		b = append(b, `,"arguments":`...)
		if it.status == inProgress {
			return append(b, `""}`...)
		}
		b = jsonview.AppendString(b, it.arguments())
		return append(b, '}')
	}
	b = append(b, `","type":"message","role":"assistant","status":"`...)
	b = append(b, it.status...)
	b = append(b, `","content":[`...)
	if it.status != inProgress {
		b = appendTextPart(b, it.content)
	}
	return append(b, `]}`...)
}

func appendTextPart(b, text []byte) []byte {
	b = append(b, `{"type":"output_text","text":`...)
	b = jsonview.AppendString(b, string(text))
	return append(b, `,"annotations":[],"logprobs":[]}`...)
}

// appendUsage appends the usage object (GAP-13).
func appendUsage(b []byte, end *families.End) []byte {
	return families.AppendBill(appendTokens(b, end.Used()), end)
}

// appendUnsettled appends the usage that error frames carry: no amount (GAP-58), and no tokens, which typed clients
// want as numbers all the same (GAP-129).
func appendUnsettled(b []byte) []byte {
	return families.AppendUnsettled(appendTokens(b, llm.Usage{}))
}

// appendTokens appends a usage object up to its tokens: input_tokens is the whole prompt, of which cached_tokens were
// read from a cache (GAP-109).
func appendTokens(b []byte, u llm.Usage) []byte {
	number := func(member string, n int64) {
		b = append(b, member...)
		b = strconv.AppendInt(b, n, 10)
	}
	output := llm.Tokens(u.Output)
	number(`{"input_tokens":`, u.Prompt())
	number(`,"output_tokens":`, output)
	number(`,"total_tokens":`, u.Prompt()+output)
	number(`,"input_tokens_details":{"cached_tokens":`, llm.Tokens(u.CacheRead))
	number(`,"cache_write_tokens":`, llm.Tokens(u.CacheWrite))
	number(`},"output_tokens_details":{"reasoning_tokens":`, llm.Tokens(u.Reasoning))
	return append(b, '}')
}

// AppendReply appends a whole response object.
func (e *encoder) AppendReply(b []byte, reply *llm.Reply, end families.End) []byte {
	s := ending(&end)
	for i := range reply.Items {
		from := &reply.Items[i]
		if c := from.Call; c != nil {
			s.output = append(s.output, item{call: true, callID: c.ID, name: c.Name, content: c.Arguments.AppendTo(nil)})
		} else if from.Text != "" {
			s.output = append(s.output, item{content: []byte(from.Text)})
		}
	}
	if len(s.output) == 0 {
		s.output = []item{{}} // a match at the very beginning (GAP-72)
	}
	for i := range s.output {
		switch it := &s.output[i]; {
		case it.call:
			it.status = it.callStatus()
		case i == len(s.output)-1:
			it.status = s.status
		default:
			it.status = completed
		}
	}
	return e.appendResponse(b, s)
}
