package chat

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// AppendReply appends the JSON body of a whole reply (GAP-12). All text is one `content`, null where there
// are only tool calls.
func (e *encoder) AppendReply(b []byte, reply *llm.Reply, end families.End) []byte {
	b = append(b, `{"id":`...)
	b = jsonview.AppendString(b, "chatcmpl-"+e.head.ID)
	b = append(b, `,"object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, e.head.Created, 10)
	b = append(b, `,"model":`...)
	b = jsonview.AppendString(b, e.head.Model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	b, calls := appendContent(b, reply.Items)
	b = append(b, `},"finish_reason":`...)
	b = jsonview.AppendString(b, finishReason(end, calls > 0))
	b = append(b, `,"logprobs":null}],"usage":`...)
	b = appendUsage(b, end)
	return append(b, '}')
}

// appendContent appends the content, and the tool calls as a member of their own; it returns how many.
func appendContent(b []byte, items []llm.Item) (out []byte, calls int) {
	text := false
	for _, item := range items {
		if item.Call != nil {
			calls++
		} else if item.Text != "" {
			text = true
		}
	}
	if calls > 0 && !text {
		b = append(b, "null"...)
	} else {
		b = append(b, '"')
		for _, item := range items {
			b = jsonview.AppendEscaped(b, item.Text)
		}
		b = append(b, '"')
	}
	b = append(b, `,"refusal":null`...)
	if calls == 0 {
		return b, 0
	}
	b = append(b, `,"tool_calls":[`...)
	for _, item := range items {
		if item.Call != nil {
			b = append(appendToolCall(b, item.Call), ',')
		}
	}
	b[len(b)-1] = ']'
	return b, calls
}

// finishReason says how the reply ended. A policy ending counts before all else, then a stop sequence that
// the service matched, which the upstream's own ending does not change (GAP-70, GAP-73).
func finishReason(end families.End, calls bool) string {
	switch {
	case end.Finish == llm.FinishPolicy:
		return "content_filter"
	case end.StopSequence != nil:
		return "stop"
	case end.Finish == llm.FinishLength:
		return "length"
	case calls:
		return "tool_calls"
	}
	return "stop"
}

// appendUsage appends the usage object (GAP-13).
func appendUsage(b []byte, end families.End) []byte {
	return families.AppendBill(appendTokens(b, end.Used()), &end)
}

// appendUnsettled appends the usage that error frames carry: no amount (GAP-58), and no tokens, which typed clients
// want as numbers all the same (GAP-129).
func appendUnsettled(b []byte) []byte {
	return families.AppendUnsettled(appendTokens(b, llm.Usage{}))
}

// appendTokens appends a usage object up to its tokens: all input classes are prompt_tokens, and what was read from
// a cache is shown beside them too (GAP-109).
func appendTokens(b []byte, u llm.Usage) []byte {
	prompt, completion := u.Prompt(), llm.Tokens(u.Output)
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, prompt, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, completion, 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, prompt+completion, 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, llm.Tokens(u.CacheRead), 10)
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, llm.Tokens(u.Reasoning), 10)
	return append(b, '}')
}
