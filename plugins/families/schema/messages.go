package schema

var (
	// What the upstream does not report of its cache is left out (GAP-109).
	messageUsage = priced(Object{
		"input_tokens": Count, "output_tokens": Count,
		"cache_creation_input_tokens?": Count, "cache_read_input_tokens?": Count,
	})
	stopReason = Words{"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
	textBlock  = Object{"type": exactly("text"), "text": Text}
	direct     = Object{"type": exactly("direct")}
	toolUse    = Object{"type": exactly("tool_use"), "id": Text, "name": Text, "input": JSON, "caller": direct}
	anyBlock   = Either{textBlock, toolUse}

	message = Object{
		"id": Text, "type": exactly("message"), "role": exactly("assistant"), "model": Text, "content": List{anyBlock},
		"stop_reason": stopReason, "stop_sequence": nullable(Text), "usage": messageUsage,
	}
	// messageStart is a message that has not ended; its input is estimated (GAP-66).
	messageStart = Object{
		"id": Text, "type": exactly("message"), "role": exactly("assistant"), "model": Text, "content": nothing,
		"stop_reason": Null, "stop_sequence": Null, "usage": Object{"input_tokens": Count, "output_tokens": exactly(0)},
	}
	messageUnsettled = unsettled(messageUsage)
	messageError     = Object{"type": Text, "message": Text}

	messageFailure = Object{"type": exactly("error"), "error": messageError}

	messageEvents = eventTypes(nil, map[string]Object{
		"message_start":       {"message": messageStart},
		"content_block_start": {"index": Count, "content_block": anyBlock},
		"content_block_delta": {"index": Count, "delta": Either{
			Object{"type": exactly("text_delta"), "text": Text},
			Object{"type": exactly("input_json_delta"), "partial_json": Text},
		}},
		"content_block_stop": {"index": Count},
		"message_delta": {
			"delta": Object{"stop_reason": stopReason, "stop_sequence": nullable(Text)}, "usage": messageUsage,
		},
		"message_stop": {},
		"ping":         {},
		"error":        {"error": messageError, "usage": messageUnsettled},
	})

	messages = &Family{
		body:    message,
		failure: messageFailure,
		count:   Object{"input_tokens": Count},
		event:   typed(messageEvents),
	}
)
