package schema

import "maps"

var (
	responseUsage = priced(Object{
		"input_tokens": Count, "output_tokens": Count, "total_tokens": Count,
		"input_tokens_details":  Object{"cached_tokens": Count, "cache_write_tokens": Count},
		"output_tokens_details": Object{"reasoning_tokens": Count},
	})
	itemStatus = Words{"in_progress", "completed", "incomplete"}
	outputText = Object{"type": exactly("output_text"), "text": Text, "annotations": List{JSON}, "logprobs": List{JSON}}

	outputMessage = Object{
		"id": Text, "type": exactly("message"), "role": exactly("assistant"), "status": itemStatus,
		"content": List{outputText},
	}
	functionCall = Object{
		"id": Text, "type": exactly("function_call"), "status": itemStatus, "call_id": Text, "name": Text, "arguments": Text,
	}
	outputItem = Either{outputMessage, functionCall}

	functionTool = Object{
		"type": exactly("function"), "name": Text, "description": nullable(Text), "parameters": nullable(JSON),
		"strict": nullable(Flag),
	}
	responseFormat = Either{
		Object{"type": Words{"text", "json_object"}},
		Object{"type": exactly("json_schema"), "name": Text, "description": nullable(Text), "schema": JSON, "strict": Flag},
	}
	responseError = Object{"code": Text, "message": Text}

	response = Object{
		"id": Text, "object": exactly("response"), "created_at": Count, "completed_at": nullable(Count),
		"status":             Words{"in_progress", "completed", "incomplete"},
		"error":              Null,
		"incomplete_details": nullable(Object{"reason": Words{"max_output_tokens", "content_filter"}}),
		"instructions":       nullable(Text), "max_output_tokens": nullable(Count), "model": Text, "output": List{outputItem},
		"temperature": Number, "text": Object{"format": responseFormat}, "tools": List{functionTool},
		"tool_choice": Either{Words{"auto", "none", "required"}, Object{"type": exactly("function"), "name": Text}},
		"usage":       Either{Null, responseUsage},

		// What is not read has its default (GAP-116).
		"background": exactly(false), "frequency_penalty": exactly(0), "max_tool_calls": Null, "metadata": Object{},
		"parallel_tool_calls": exactly(true), "presence_penalty": exactly(0), "previous_response_id": Null,
		"prompt_cache_key": Null,
		"reasoning":        Object{"effort": Null, "summary": Null}, "safety_identifier": Null,
		"service_tier": exactly("default"),
		"store":        exactly(false), "top_logprobs": exactly(0), "top_p": exactly(1), "truncation": exactly("disabled"),
	}

	responseUnsettled = unsettled(responseUsage)
	failedResponse    = with(response, Object{
		"status": exactly("failed"), "error": responseError, "completed_at": Null, "usage": responseUnsettled,
	})

	responseEvents = eventTypes(Object{"sequence_number": Count}, map[string]Object{
		"response.created":           {"response": response},
		"response.in_progress":       {"response": response},
		"response.completed":         {"response": response},
		"response.incomplete":        {"response": response},
		"response.failed":            {"response": failedResponse},
		"response.output_item.added": {"output_index": Count, "item": outputItem},
		"response.output_item.done":  {"output_index": Count, "item": outputItem},
		"response.content_part.added": {
			"item_id": Text, "output_index": Count, "content_index": Count, "part": outputText,
		},
		"response.content_part.done": {
			"item_id": Text, "output_index": Count, "content_index": Count, "part": outputText,
		},
		"response.output_text.delta": {
			"item_id": Text, "output_index": Count, "content_index": Count, "delta": Text, "logprobs": List{JSON},
		},
		"response.output_text.done": {
			"item_id": Text, "output_index": Count, "content_index": Count, "text": Text, "logprobs": List{JSON},
		},
		"response.function_call_arguments.delta": {"item_id": Text, "output_index": Count, "delta": Text},
		"response.function_call_arguments.done":  {"item_id": Text, "output_index": Count, "name": Text, "arguments": Text},
		"error":                                  {"code": Text, "message": Text, "param": Null, "usage": responseUnsettled},
	})

	responses = &Family{body: response, failure: Object{"error": codedError}, event: typed(responseEvents)}
)

// with is an object some of whose members are of other types.
func with(o, members Object) Object {
	o = maps.Clone(o)
	maps.Copy(o, members)
	return o
}

// eventTypes completes events that say their type, which is their name here, with the members that all of them have.
func eventTypes(all Object, events map[string]Object) map[string]Object {
	for name, event := range events {
		maps.Copy(event, all)
		event["type"] = exactly(name)
	}
	return events
}

// typed finds the schema of an event that says its type.
func typed(events map[string]Object) func(map[string]any) Type {
	return func(event map[string]any) Type {
		name, _ := event["type"].(string)
		if t, ok := events[name]; ok {
			return t
		}
		return nil
	}
}
