package schema

var (
	chatUsage = priced(Object{
		"prompt_tokens": Count, "completion_tokens": Count, "total_tokens": Count,
		"prompt_tokens_details":     Object{"cached_tokens": Count},
		"completion_tokens_details": Object{"reasoning_tokens": Count},
	})
	chatFinish = Words{"stop", "length", "tool_calls", "content_filter"}
	chatCall   = Object{"id": Text, "type": exactly("function"), "function": Object{"name": Text, "arguments": Text}}

	chatMessage = Object{
		"role": exactly("assistant"), "content": nullable(Text), "refusal": Null, "tool_calls?": List{chatCall},
	}
	chatChoice = Object{"index": exactly(0), "message": chatMessage, "finish_reason": chatFinish, "logprobs": Null}
	completion = Object{
		"id": Text, "object": exactly("chat.completion"), "created": Count, "model": Text,
		"choices": List{chatChoice}, "usage": chatUsage,
	}

	// A piece of a call says what it brings.
	chatCallDelta = Object{
		"index": Count, "id?": Text, "type?": exactly("function"), "function": Object{"name?": Text, "arguments": Text},
	}
	chatDelta   = Object{"role?": exactly("assistant"), "content?": Text, "tool_calls?": List{chatCallDelta}}
	chunkChoice = Object{"index": exactly(0), "delta": chatDelta, "finish_reason": nullable(chatFinish)}
	chunk       = Object{
		"id": Text, "object": exactly("chat.completion.chunk"), "created": Count, "model": Text,
		"choices": List{chunkChoice}, "usage?": nullable(chatUsage),
	}

	// chatFailed is an error frame, whose error never says which parameter is wrong.
	chatUnsettled   = unsettled(chatUsage)
	chatFailedError = Object{"message": Text, "type": Text, "code": Text}
	chatFailed      = Object{"error": chatFailedError, "usage": chatUnsettled}

	chat = &Family{
		body:    completion,
		failure: Object{"error": codedError},
		event: func(event map[string]any) Type {
			if event["error"] != nil {
				return chatFailed
			}
			return chunk
		},
	}
)
