package contracttest

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is what a stream was, read by rules that know nothing of how it was written.
type verdict struct {
	outcome

	Pieces       []string // the pieces of text, as they came
	StopSequence any      // messages: the member stop_sequence of message_delta
	KeepAlives   int
	Started      bool       // the first events came
	Complete     bool       // the end marker came
	Error        *wireError // the error frame

	chunks int // of chat
	open   map[int]string
	texts  map[int]string // by block or item
	next   int            // block or sequence number
}

// wireError is an error as a client reads it, from a frame or from a JSON body.
type wireError struct{ Code, Message string }

// judge reads a whole stream, and fails where it breaks a rule that holds for every stream of its shape: the
// order of events, their form, what may follow what, and that there is exactly one end, with nothing after it.
func judge(t testing.TB, sh shape, l *live) verdict {
	t.Helper()
	v := verdict{open: make(map[int]string), texts: make(map[int]string)}
	rules := map[string]func(testing.TB, *verdict, []frame) int{
		"chat": judgeChat, "responses": judgeResponses, "messages": judgeMessages,
	}
	frames := l.Frames
	for len(frames) > 0 {
		require.False(t, v.Complete || v.Error != nil, "something follows the end: %s", l.Raw.String())
		if isKeepAlive(frames[0]) {
			want := frame{Comment: "keepalive"}
			if sh.Name == "messages" {
				want = frame{Event: "ping", Data: `{"type":"ping"}`}
			}
			require.Equal(t, want, frames[0])
			v.KeepAlives++
			frames = frames[1:]
			continue
		}
		frames = frames[rules[sh.Name](t, &v, frames):]
	}
	require.True(t, v.Complete || v.Error != nil, "neither an end marker nor an error frame: %s", l.Raw.String())
	return v
}

// judgeChat takes one chunk (SSE-03 to SSE-07, SSE-31).
func judgeChat(t testing.TB, v *verdict, frames []frame) int {
	f := frames[0]
	require.Empty(t, f.Event, "chat has no event lines")
	if f.Data == "[DONE]" {
		require.NotEmpty(t, v.Finish, "an end marker without a finish_reason")
		v.Complete = true
		return 1
	}
	if failed, ok := f.at(t, "error").(map[string]any); ok {
		require.Empty(t, v.Finish, "an error after the finish_reason")
		require.Equal(t, map[string]any{"code": failed["code"], "type": failed["code"], "message": failed["message"]}, failed)
		requireUnsettled(t, f.at(t, "usage"), "prompt_tokens", "completion_tokens", "total_tokens")
		v.Error = &wireError{str(failed["code"]), str(failed["message"])}
		return 1
	}
	require.Equal(t, "chat.completion.chunk", f.at(t, "object"))
	choices, ok := f.at(t, "choices").([]any)
	require.True(t, ok)
	if len(choices) == 0 {
		require.NotEmpty(t, v.Finish, "usage before the finish_reason")
		v.Usage, _ = f.at(t, "usage").(map[string]any)
		require.NotNil(t, v.Usage)
		return 1
	}
	require.Len(t, choices, 1)
	require.Empty(t, v.Finish, "a delta after the finish_reason")
	require.Nil(t, f.at(t, "usage"))
	delta := f.at(t, "choices", 0, "delta").(map[string]any)
	if v.chunks == 0 {
		require.Equal(t, map[string]any{"role": "assistant", "content": ""}, delta)
		v.Started = true
	} else {
		require.NotContains(t, delta, "role")
		if piece, ok := delta["content"].(string); ok {
			v.text(piece)
		}
	}
	v.chunks++
	chatOutcome(t, []string{f.Data}, &v.outcome)
	return 1
}

func (v *verdict) text(piece string) {
	v.Pieces = append(v.Pieces, piece)
}

// judgeResponses takes one event; the error event and response.failed are one, and so are the terminal event
// and the end marker (SSE-08 to SSE-15, SSE-32, SSE-33).
func judgeResponses(t testing.TB, v *verdict, frames []frame) int {
	f := frames[0]
	require.NotEqual(t, "[DONE]", f.Data, "an end marker without a terminal event")
	require.Equal(t, f.Event, f.at(t, "type"))
	require.Equal(t, json.Number(strconv.Itoa(v.next)), f.at(t, "sequence_number"))
	v.next++
	at := 0
	if n, ok := f.at(t, "output_index").(json.Number); ok {
		at = index(t, n)
	}
	switch f.Event {
	case "response.created":
		require.Equal(t, json.Number("0"), f.at(t, "sequence_number"))
		require.Equal(t, "in_progress", f.at(t, "response", "status"))
	case "response.in_progress":
		require.Equal(t, json.Number("1"), f.at(t, "sequence_number"))
		v.Started = true
	case "response.output_item.added":
		require.Equal(t, len(v.texts), at, "items are numbered in order")
		require.Equal(t, "in_progress", f.at(t, "item", "status"))
		v.texts[at], v.open[at] = "", str(f.at(t, "item", "type"))
		if v.open[at] == "function_call" {
			v.Calls = append(v.Calls, toolCall{ID: str(f.at(t, "item", "call_id")), Name: str(f.at(t, "item", "name"))})
		}
	case "response.output_text.delta":
		require.Equal(t, "part", v.open[at])
		v.text(str(f.at(t, "delta")))
		v.Text += str(f.at(t, "delta"))
		v.texts[at] += str(f.at(t, "delta"))
	case "response.content_part.added":
		require.Equal(t, "message", v.open[at])
		v.open[at] = "part"
	case "response.output_text.done":
		require.Equal(t, v.texts[at], f.at(t, "text"))
	case "response.content_part.done":
		require.Equal(t, v.texts[at], f.at(t, "part", "text"))
		v.open[at] = "message"
	case "response.function_call_arguments.delta":
		require.Equal(t, "function_call", v.open[at])
		v.texts[at] += str(f.at(t, "delta"))
	case "response.function_call_arguments.done":
		require.Equal(t, v.texts[at], f.at(t, "arguments"))
	case "response.output_item.done":
		require.Equal(t, v.open[at], f.at(t, "item", "type"))
		delete(v.open, at)
		for i := range v.Calls {
			if v.Calls[i].ID == f.at(t, "item", "call_id") {
				v.Calls[i].Arguments = v.texts[at]
				require.Equal(t, v.texts[at], f.at(t, "item", "arguments"))
			}
		}
	case "response.completed", "response.incomplete":
		return judgeResponsesEnd(t, v, frames)
	case "error":
		return judgeResponsesError(t, v, frames)
	default:
		require.Failf(t, "an event that nobody expects", "%+v", f)
	}
	return 1
}

func judgeResponsesEnd(t testing.TB, v *verdict, frames []frame) int {
	require.Empty(t, v.open, "items are open at the end")
	require.GreaterOrEqual(t, len(frames), 2)
	require.Equal(t, frame{Data: "[DONE]"}, frames[1], "the end marker follows the terminal event")
	response, ok := frames[0].at(t, "response").(map[string]any)
	require.True(t, ok)
	require.Equal(t, "response."+str(response["status"]), frames[0].Event)
	whole, err := json.Marshal(response)
	require.NoError(t, err)
	streamed := v.outcome
	v.outcome = jsonOutcome(t, shapeOf("responses"), answer{Raw: whole})
	require.Equal(t, streamed.Text, v.Text, "the deltas add up to the response")
	require.Equal(t, streamed.Calls, v.Calls)
	v.Complete = true
	return 2
}

// requireUnsettled fails for a usage of an error frame that says more than that nothing is known (GAP-58, GAP-129).
func requireUnsettled(t testing.TB, usage any, tokens ...string) {
	t.Helper()
	members, ok := usage.(map[string]any)
	require.True(t, ok, "the usage is %v", usage)
	require.Equal(t, true, members["billing_pending"])
	require.NotContains(t, members, "billed_microcents")
	for _, name := range tokens {
		require.Equal(t, json.Number("0"), members[name], name)
	}
}

func judgeResponsesError(t testing.TB, v *verdict, frames []frame) int {
	f := frames[0]
	v.Error = &wireError{str(f.at(t, "code")), str(f.at(t, "message"))}
	tokens := []string{"input_tokens", "output_tokens", "total_tokens"}
	requireUnsettled(t, f.at(t, "usage"), tokens...)
	members := f.at(t).(map[string]any)
	require.Contains(t, members, "param")
	require.Nil(t, members["param"])
	require.Len(t, frames, 2, "response.failed follows the error event, and nothing follows it")
	failed := frames[1]
	require.Equal(t, "response.failed", failed.Event)
	require.Equal(t, failed.Event, failed.at(t, "type"))
	require.Equal(t, json.Number(strconv.Itoa(v.next)), failed.at(t, "sequence_number"))
	require.Equal(t, "failed", failed.at(t, "response", "status"))
	require.Equal(t, map[string]any{"code": v.Error.Code, "message": v.Error.Message}, failed.at(t, "response", "error"))
	requireUnsettled(t, failed.at(t, "response", "usage"), tokens...)
	return 2
}

// judgeMessages takes one event (SSE-16 to SSE-19, SSE-34).
func judgeMessages(t testing.TB, v *verdict, frames []frame) int {
	f := frames[0]
	require.Equal(t, f.Event, f.at(t, "type"))
	switch f.Event {
	case "message_start":
		require.False(t, v.Started)
		v.Started = true
	case "content_block_start":
		require.True(t, v.Started)
		require.Empty(t, v.open, "two blocks are open")
		require.Equal(t, v.next, index(t, f.at(t, "index")))
		v.open[v.next] = str(f.at(t, "content_block", "type"))
	case "content_block_delta":
		require.Equal(t, v.next, index(t, f.at(t, "index")))
		kind := map[string]string{"text": "text_delta", "tool_use": "input_json_delta"}[v.open[v.next]]
		require.Equal(t, kind, f.at(t, "delta", "type"))
		if kind == "text_delta" {
			v.text(str(f.at(t, "delta", "text")))
		}
	case "content_block_stop":
		require.Equal(t, v.next, index(t, f.at(t, "index")))
		require.NotEmpty(t, v.open[v.next])
		delete(v.open, v.next)
		v.next++
	case "message_delta":
		require.Empty(t, v.open, "blocks are open at the end")
		delta := f.at(t, "delta").(map[string]any)
		require.Contains(t, delta, "stop_sequence")
		v.StopSequence = delta["stop_sequence"]
	case "message_stop":
		require.NotEmpty(t, v.Finish, "an end marker without a stop_reason")
		v.Complete = true
	case "error":
		require.Empty(t, v.Finish, "an error after the stop_reason")
		failed := f.at(t, "error").(map[string]any)
		require.Equal(t, map[string]any{"type": failed["type"], "message": failed["message"]}, failed)
		requireUnsettled(t, f.at(t, "usage"), "input_tokens", "output_tokens")
		v.Error = &wireError{str(failed["type"]), str(failed["message"])}
		return 1
	default:
		require.Failf(t, "an event that nobody expects", "%+v", f)
	}
	messagesOutcome(t, []string{f.Data}, &v.outcome)
	return 1
}

func index(t testing.TB, v any) int {
	t.Helper()
	n, ok := v.(json.Number)
	require.True(t, ok, "%v is no number", v)
	i, err := n.Int64()
	require.NoError(t, err)
	return int(i)
}

// errorOf reads a JSON error body.
func errorOf(t testing.TB, sh shape, a answer) wireError {
	t.Helper()
	return wireError{sh.Code(a, t), str(a.At(t, "error", "message"))}
}
