package verify

import (
	"encoding/json"
	"slices"
	"strconv"
)

func streamChecks() []*Check {
	return []*Check{
		check("SSE-02", "a stream in each shape, and none of a count", requireStreams),
		check("SSE-03", "the data of a chat stream", requireChunks),
		check("SSE-04 SSE-22", "the role chunk", requireRoleFirst),
		check("SSE-05", "the finish_reason", requireFinishLast),
		check("SSE-07", "the end of a chat stream", func(t *T) { t.sample(chat).requireEnd(t, chat) }),
		check("SSE-08", "the events of a responses stream", requireNumbers),
		check("SSE-09", "the order of a responses stream", requireResponseOrder),
		check("SSE-10 TOOL-01", "a tool call in a responses stream", requireArguments),
		check("SSE-11", "response.completed", requireCompleted),
		check("SSE-12", "response.incomplete", requireIncomplete),
		check("SSE-14", "the usage of a responses stream", func(t *T) {
			t.requirePrices(responses, t.sample(responses).usage(t, responses))
		}),
		check("SSE-15", "the end of a responses stream", func(t *T) { t.sample(responses).requireEnd(t, responses) }),
		check("SSE-16", "the events of a messages stream", requireTypes),
		check("SSE-17", "the order of a messages stream", requireMessageOrder),
		check("SSE-17 TOOL-01", "a tool call in a messages stream", func(t *T) { t.requireBlocks(t.toolStream(messages)) }),
		check("SSE-18", "message_delta", requireMessageDelta),
		check("SSE-19", "the end of a messages stream", requireMessageStop),
		check("SSE-23", "the first events of a responses stream", requireFirstEvents),
		check("SSE-24", "the first event of a messages stream", func(t *T) {
			t.Equal("message_start", t.sample(messages).loud()[0].Event, "the event")
		}),
	}
}

func requireStreams(t *T) {
	for _, s := range shapes {
		t.sample(s)
	}
	t.ok(count, t.ask(count, `"stream":true`))
}

func requireChunks(t *T) {
	for _, f := range t.sample(chat).loud() {
		t.Equal("", f.Event, "the event line")
		t.True(f.Data == "[DONE]" || str(f.JSON["object"]) == "chat.completion.chunk", "the data are %s", brief(f.Data))
	}
}

func requireRoleFirst(t *T) {
	for i, f := range t.sample(chat).loud() {
		role := at(f.JSON, "choices", 0, "delta", "role")
		if i == 0 {
			t.Equal("assistant", str(role), "the role of the first delta")
		} else {
			t.True(role == nil, "a later delta has a role")
		}
	}
}

func requireFinishLast(t *T) {
	var reasons []string
	for _, f := range t.sample(chat).loud() {
		if len(list(f.JSON["choices"])) > 0 {
			reasons = append(reasons, str(at(f.JSON, "choices", 0, "finish_reason")))
		}
	}
	first := slices.IndexFunc(reasons, func(r string) bool { return r != "" })
	t.Equal(len(reasons)-1, first, "the place of the finish_reason among the choices")
}

func requireNumbers(t *T) {
	n := 0
	for _, f := range t.sample(responses).loud() {
		if f.Data == "[DONE]" {
			continue
		}
		t.Equal(f.Event, str(f.JSON["type"]), "the type of the data")
		t.Equal(any(json.Number(strconv.Itoa(n))), f.JSON["sequence_number"], "the sequence_number")
		n++
	}
}

func requireResponseOrder(t *T) {
	r := t.sample(responses)
	t.Equal([]string{"response.created", "response.in_progress", "response.output_item.added",
		"response.content_part.added", "response.output_text.delta", "response.output_text.done",
		"response.content_part.done", "response.output_item.done", "response.completed"}, withoutReasoning(r),
		"the order of the events")
	for _, f := range r.named("response.output_text.done") {
		t.Equal(r.Text, str(f.JSON["text"]), "the text of the done event")
	}
	t.Equal(r.Text, responses.Text(r.Final), "the text of the final response")
}

func requireArguments(t *T) {
	r := t.toolStream(responses)
	for _, event := range []string{"response.output_item.added", "response.function_call_arguments.done",
		"response.output_item.done"} {
		t.True(len(r.named(event)) > 0, "there is no %s", event)
	}
	deltas, done := "", ""
	for _, f := range r.named("response.function_call_arguments.delta") {
		deltas += str(f.JSON["delta"])
	}
	for _, f := range r.named("response.function_call_arguments.done") {
		done += str(f.JSON["arguments"])
	}
	t.Equal(deltas, done, "the arguments of the done events")
}

func requireCompleted(t *T) {
	r := t.sample(responses)
	t.requireNatural(responses, r.Finish(responses))
	t.Equal(1, len(r.named("response.completed")), "the number of response.completed")
	t.Equal("completed", str(r.Final["status"]), "the status")
}

func requireIncomplete(t *T) {
	r := t.stream(responses, `"input":`+responses.Said(longPrompt), `"max_output_tokens":`+strconv.Itoa(smallAllowance))
	t.requireCut(responses, r.Finish(responses))
	t.Equal(1, len(r.named("response.incomplete")), "the number of response.incomplete")
	t.Equal(0, len(r.named("response.completed")), "the number of response.completed")
	r.requireEnd(t, responses)
}

func requireTypes(t *T) {
	for _, f := range t.sample(messages).Frames {
		t.True(f.Event != "" && f.Event == str(f.JSON["type"]), "the event %q has the data %s", f.Event, brief(f.Data))
	}
}

func requireMessageOrder(t *T) {
	t.Equal([]string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
		"message_stop"}, t.sample(messages).events(), "the order of the events")
	t.requireBlocks(t.sample(messages))
}

func requireMessageDelta(t *T) {
	all := t.sample(messages).named("message_delta")
	t.Equal(1, len(all), "the number of message_delta")
	delta, _ := all[0].JSON["delta"].(map[string]any)
	t.True(str(delta["stop_reason"]) != "", "stop_reason is %s", brief(delta["stop_reason"]))
	_, ok := delta["stop_sequence"]
	t.True(ok, "stop_sequence is missing")
	_, ok = integer(at(all[0].JSON, "usage", "output_tokens"))
	t.True(ok, "the usage is %s", brief(all[0].JSON["usage"]))
}

func requireMessageStop(t *T) {
	t.sample(messages).requireEnd(t, messages)
	for _, f := range t.sample(messages).Frames {
		t.True(f.Data != "[DONE]", "it has [DONE]")
	}
}

func requireFirstEvents(t *T) {
	loud := t.sample(responses).loud()
	t.True(len(loud) > 2, "the stream has %d events", len(loud))
	for i, event := range []string{"response.created", "response.in_progress"} {
		t.Equal(event, loud[i].Event, "the event")
		t.Equal("in_progress", str(at(loud[i].JSON, "response", "status")), "the status")
	}
}

// toolStream is a stream with a forced tool call.
func (t *T) toolStream(s shape) *stream {
	return memo(t, "tool stream "+s.Name, func() *stream {
		r := t.stream(s, quote(s.Input)+":"+s.Said(weatherPrompt), weatherTool(s), s.Forced())
		for _, f := range r.Frames {
			if oneOf(str(at(f.JSON, "item", "type")), "function_call") ||
				str(at(f.JSON, "content_block", "type")) == "tool_use" {
				return r
			}
		}
		t.Pendingf("the model did not call the tool")
		return nil
	})
}

// withoutReasoning are the events of a responses stream without those of reasoning items, which a model may
// have before its text.
func withoutReasoning(r *stream) []string {
	reasoning := map[any]bool{}
	var names []string
	for _, f := range r.loud() {
		if str(at(f.JSON, "item", "type")) == "reasoning" {
			reasoning[f.JSON["output_index"]] = true
		}
		index, ok := f.JSON["output_index"]
		if f.Event == "" || ok && reasoning[index] || len(names) > 0 && names[len(names)-1] == f.Event {
			continue
		}
		names = append(names, f.Event)
	}
	return names
}

// requireBlocks checks that the content blocks of a messages stream are numbered, and open one at a time.
func (t *T) requireBlocks(r *stream) {
	next, open := 0, false
	for _, f := range r.loud() {
		index, _ := integer(f.JSON["index"])
		switch f.Event {
		case "content_block_start":
			t.True(!open && index == int64(next), "block %d begins when block %d should", index, next)
			open = true
		case "content_block_delta":
			t.True(open && index == int64(next), "a delta is for block %d instead of %d", index, next)
		case "content_block_stop":
			t.True(open && index == int64(next), "block %d ends instead of %d", index, next)
			open = false
			next++
		}
	}
	t.True(!open && next > 0, "there are %d whole blocks", next)
}
