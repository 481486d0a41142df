package upstream

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strings"
)

// bedrockCredential is the key that a request shows: the id of the access key that it is signed with, or a bearer
// token. The signature itself is not checked.
func bedrockCredential(h http.Header) string {
	const scheme = "AWS4-HMAC-SHA256 Credential="
	if rest, ok := strings.CutPrefix(h.Get("Authorization"), scheme); ok {
		id, _, _ := strings.Cut(rest, "/")
		return id
	}
	return bearer(h)
}

// bedrockExceptions are the exceptions of the Converse API by what other services call the same.
var bedrockExceptions = map[string]string{"context_length_exceeded": "ValidationException",
	"content_filter": "ValidationException", "invalid_api_key": "UnrecognizedClientException",
	"model_not_allowed": "AccessDeniedException", "model_not_found": "ResourceNotFoundException",
	"rate_limit_exceeded": "ThrottlingException", "insufficient_quota": "ServiceQuotaExceededException",
	"overloaded": "ServiceUnavailableException"}

// bedrockException is the name of an exception: Error.Type where that is one.
func bedrockException(e *Error) string {
	if strings.HasSuffix(e.Type, "Exception") {
		return e.Type
	}
	if name := bedrockExceptions[e.Code]; name != "" {
		return name
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "ThrottlingException"
	case e.Status >= http.StatusInternalServerError:
		return "InternalServerException"
	}
	return "ValidationException"
}

// bedrockFailure is the error of a reply that is no stream.
func bedrockFailure(e *Error) []byte {
	if e.Body != "" {
		return []byte(e.Body)
	}
	return mustMarshal(map[string]string{"__type": "com.amazon.coral#" + bedrockException(e),
		"message": bedrockMessage(e)})
}

func bedrockMessage(e *Error) string {
	switch e.Code {
	case "context_length_exceeded":
		return "The model returned the following errors: prompt is too long: 9 tokens > 8 maximum"
	case "content_filter":
		return "Output blocked by content filtering policy"
	}
	return e.Message
}

// eventMessage is a message of AWS's event streams: lengths, a sum of them, headers, payload, a sum of everything.
func eventMessage(headers [][2]string, payload []byte) []byte {
	const (
		around     = 16 // the two lengths and the two sums
		textHeader = 7
	)
	var head []byte
	for _, h := range headers {
		head = append(append(head, byte(len(h[0]))), h[0]...)
		head = append(binary.BigEndian.AppendUint16(append(head, textHeader), uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(around+len(head)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, head...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// EventStreamMessage is an event of the Converse API as bytes, for Raw.
func EventStreamMessage(name, payload string) string {
	return string(eventMessage([][2]string{{":event-type", name}, {":content-type", "application/json"},
		{":message-type", "event"}}, []byte(payload)))
}

func bedrockEvent(b []byte, name string, v any) []byte {
	return append(b, EventStreamMessage(name, string(mustMarshal(v)))...)
}

func renderBedrock(_ *Request, reply Reply, _ head) renderer {
	return &bedrockStream{parts: parts{mode: reply.Usage}}
}

// bedrockStream renders a reply as the events of a message. Blocks follow each other, one open at a time.
type bedrockStream struct {
	parts
	begun   bool
	current int  // the block that is open, or the next one
	ended   bool // messageStop is out
	counted bool // and metadata
}

func (m *bedrockStream) contentType() string { return "application/vnd.amazon.eventstream" }

func (m *bedrockStream) append(b []byte, s Step, used Usage) []byte {
	if s.Do == StepComment {
		return b
	}
	m.take(s, used)
	if !m.begun {
		m.begun = true
		b = bedrockEvent(b, "messageStart", map[string]string{"role": "assistant"})
	}
	b = m.advance(b)
	if m.finish != nil && !m.ended {
		m.ended = true
		b = bedrockEvent(b, "messageStop", map[string]string{"stopReason": m.reason()})
	}
	if m.ended && m.used != nil && !m.counted {
		m.counted, m.told = true, m.used
		b = bedrockEvent(b, "metadata", map[string]any{"usage": bedrockUsage(*m.used),
			"metrics": map[string]int{"latencyMs": 1}})
	}
	return b
}

func (m *bedrockStream) reason() string {
	switch text := m.finish.Text; {
	case m.finish.Stop != "":
		return "stop_sequence"
	case text == "stop":
		return "end_turn"
	case text == "length":
		return "max_tokens"
	case text == "tool_calls":
		return "tool_use"
	case text == "content_filter":
		return "content_filtered"
	default:
		return text
	}
}

// bedrockUsage writes the classes of input apart.
func bedrockUsage(u Usage) any {
	if u.Raw != "" {
		return json.RawMessage(u.Raw)
	}
	out := map[string]int64{"inputTokens": u.Prompt, "outputTokens": u.Completion, "totalTokens": u.Prompt + u.Completion}
	for name, part := range map[string]*int64{"cacheReadInputTokens": u.Cached, "cacheWriteInputTokens": u.Written} {
		if part != nil {
			out[name] = *part
			out["inputTokens"] -= *part
		}
	}
	return out
}

// advance tells of the blocks as much as can be told by now. Only those of tools have a start of their own.
func (m *bedrockStream) advance(b []byte) []byte {
	for ; m.current < len(m.blocks); m.current++ {
		block := m.blocks[m.current]
		if !block.opened && block.kind == StepToolCall {
			b = bedrockEvent(b, "contentBlockStart", map[string]any{"contentBlockIndex": m.current,
				"start": map[string]any{"toolUse": map[string]string{"toolUseId": block.id, "name": block.name}}})
		}
		block.opened = true
		if piece := block.text[block.sent:]; piece != "" {
			block.sent = len(block.text)
			b = m.delta(b, block.kind, piece)
		}
		if !block.ended {
			return b
		}
		if block.kind == StepReasoning {
			b = bedrockEvent(b, "contentBlockDelta", map[string]any{"contentBlockIndex": m.current,
				"delta": map[string]any{"reasoningContent": map[string]string{"signature": signed(block.text)}}})
		}
		b = bedrockEvent(b, "contentBlockStop", map[string]int{"contentBlockIndex": m.current})
	}
	return b
}

func (m *bedrockStream) delta(b []byte, kind StepKind, piece string) []byte {
	delta := map[string]any{"text": piece}
	switch kind {
	case StepReasoning:
		delta = map[string]any{"reasoningContent": map[string]string{"text": piece}}
	case StepToolCall:
		delta = map[string]any{"toolUse": map[string]string{"input": piece}}
	}
	return bedrockEvent(b, "contentBlockDelta", map[string]any{"contentBlockIndex": m.current, "delta": delta})
}

func (m *bedrockStream) fail(b []byte, e *Error) []byte {
	name := bedrockException(e)
	return append(b, eventMessage([][2]string{{":exception-type", strings.ToLower(name[:1]) + name[1:]},
		{":content-type", "application/json"}, {":message-type", "exception"}},
		mustMarshal(map[string]string{"message": bedrockMessage(e)}))...)
}
