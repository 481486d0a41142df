package upstream

// messagesStream renders a reply as the events of a message. Blocks follow each other, one open at a time: what a
// script interleaves with the open block is told when that has ended. Why the reply ends and what it used are one
// event here, which stands where the later of the two does.
type messagesStream struct {
	messagesReply
	opened  bool
	current int  // the block that is open, or the next one
	ended   bool // message_delta is out
}

func (m *messagesStream) contentType() string { return "text/event-stream; charset=utf-8" }

func (m *messagesStream) append(b []byte, s Step, used Usage) []byte {
	if s.Do == StepComment {
		return messagesEvent(b, "ping", map[string]string{"type": "ping"})
	}
	m.take(s, used)
	b = m.open(b, used)
	b = m.advance(b)
	if m.finish != nil && !m.ended && (m.used != nil || m.mode == UsageNever || s.Do == StepDone) {
		b = m.end(b)
	}
	if s.Do == StepDone {
		b = messagesEvent(b, "message_stop", map[string]string{"type": "message_stop"})
	}
	return b
}

// open appends message_start, once. It tells the prompt's tokens where the mode tells more than the end.
func (m *messagesStream) open(b []byte, used Usage) []byte {
	if m.opened {
		return b
	}
	m.opened = true
	start := m.head
	switch m.mode {
	case UsageNever, UsageWithFinish:
	default:
		known := Usage{Prompt: used.Prompt, Cached: used.Cached, Written: used.Written}
		m.told, start.Usage = &known, messagesUsageOf(known)
	}
	return messagesEvent(b, "message_start", struct {
		Type    string       `json:"type"`
		Message messagesHead `json:"message"`
	}{"message_start", start})
}

// advance tells of the blocks as much as can be told by now.
func (m *messagesStream) advance(b []byte) []byte {
	for ; m.current < len(m.blocks); m.current++ {
		block := m.blocks[m.current]
		if !block.opened {
			block.opened = true
			b = m.block(b, "content_block_start", "content_block", block.start())
		}
		if piece := block.text[block.sent:]; piece != "" {
			block.sent = len(block.text)
			b = m.delta(b, block.kind, piece)
		}
		if !block.ended {
			return b
		}
		if block.kind == StepReasoning {
			b = m.block(b, "content_block_delta", "delta",
				map[string]string{"type": "signature_delta", "signature": signed(block.text)})
		}
		b = messagesEvent(b, "content_block_stop", map[string]any{"type": "content_block_stop", "index": m.current})
	}
	return b
}

func (m *messagesStream) delta(b []byte, kind StepKind, piece string) []byte {
	delta := map[string]string{"type": "text_delta", "text": piece}
	switch kind {
	case StepReasoning:
		delta = map[string]string{"type": "thinking_delta", "thinking": piece}
	case StepToolCall:
		delta = map[string]string{"type": "input_json_delta", "partial_json": piece}
	}
	return m.block(b, "content_block_delta", "delta", delta)
}

// block appends an event about the current block.
func (m *messagesStream) block(b []byte, name, member string, value any) []byte {
	return messagesEvent(b, name, map[string]any{"type": name, "index": m.current, member: value})
}

// end appends message_delta.
func (m *messagesStream) end(b []byte) []byte {
	m.ended = true
	reason, sequence := m.stop()
	return messagesEvent(b, "message_delta", struct {
		Type  string             `json:"type"`
		Delta map[string]*string `json:"delta"`
		Usage any                `json:"usage,omitempty"`
	}{"message_delta", map[string]*string{"stop_reason": reason, "stop_sequence": sequence}, m.usage()})
}

func (m *messagesStream) fail(b []byte, e *Error) []byte {
	return namedEvent(b, "error", messagesFailure(e))
}

func messagesEvent(b []byte, name string, v any) []byte { return namedEvent(b, name, mustMarshal(v)) }

// namedEvent appends an event with a name.
func namedEvent(b []byte, name string, data []byte) []byte {
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	return append(append(b, data...), "\n\n"...)
}
