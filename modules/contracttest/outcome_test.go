package contracttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// modes are the two ways in which a reply comes. Every shape but chat ignores stream_options.
var modes = []struct{ Name, Field string }{
	{"json", `"stream":false`},
	{"streamed", `"stream":true,"stream_options":{"include_usage":true}`},
}

// outcome is what a client reads from a whole reply, whichever way it came.
type outcome struct {
	Model, Text, Finish string
	Calls               []toolCall
	Usage               map[string]any
}

// toolCall is a call in a reply; Arguments is compact JSON.
type toolCall struct{ ID, Name, Arguments string }

// Billed is the charge in microcents that the reply reports.
func (o outcome) Billed(t testing.TB) int64 {
	t.Helper()
	n, ok := o.Usage["billed_microcents"].(json.Number)
	require.True(t, ok, "usage: %v", o.Usage)
	billed, err := n.Int64()
	require.NoError(t, err)
	return billed
}

// outcomeOf reads a successful reply. A stream has to be complete: its end marker last, no error frame.
func outcomeOf(t testing.TB, sh shape, a answer) outcome {
	t.Helper()
	require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		require.Equal(t, "application/json", a.Header.Get("Content-Type"))
		return jsonOutcome(t, sh, a)
	}
	var o outcome
	frames := streamFrames(t, a.Raw)
	last := frames[len(frames)-1]
	switch sh.Name {
	case "chat":
		require.Equal(t, "[DONE]", last, "stream: %s", a.Raw)
		chatOutcome(t, frames[:len(frames)-1], &o)
	case "responses":
		require.Equal(t, "[DONE]", last, "stream: %s", a.Raw)
		response, ok := decoded(t, frames[len(frames)-2])["response"].(map[string]any)
		require.True(t, ok, "stream: %s", a.Raw)
		whole, err := json.Marshal(response)
		require.NoError(t, err)
		o = jsonOutcome(t, sh, answer{a.Response, whole})
	case "messages":
		require.Equal(t, "message_stop", decoded(t, last)["type"], "stream: %s", a.Raw)
		messagesOutcome(t, frames, &o)
	}
	return o
}

// streamFrames returns the payloads of a stream's data lines.
func streamFrames(t testing.TB, raw []byte) []string {
	t.Helper()
	var frames []string
	for line := range strings.Lines(string(raw)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			frames = append(frames, strings.TrimSuffix(data, "\n"))
		}
	}
	require.NotEmpty(t, frames, "no stream: %s", raw)
	return frames
}

func decoded(t testing.TB, frame string) map[string]any {
	t.Helper()
	return answer{Raw: []byte(frame)}.JSON(t)
}

func jsonOutcome(t testing.TB, sh shape, a answer) outcome {
	t.Helper()
	o := outcome{Model: str(a.At(t, "model")), Text: sh.Text(a, t), Finish: sh.Finish(a, t)}
	o.Usage, _ = a.At(t, "usage").(map[string]any)
	list := map[string][]any{"chat": {"choices", 0, "message", "tool_calls"}, "responses": {"output"},
		"messages": {"content"}}
	items, _ := a.At(t, list[sh.Name]...).([]any)
	for _, item := range items {
		m := item.(map[string]any)
		switch m["type"] {
		case "function":
			f := m["function"].(map[string]any)
			o.Calls = append(o.Calls, toolCall{str(m["id"]), str(f["name"]), str(f["arguments"])})
		case "function_call":
			o.Calls = append(o.Calls, toolCall{str(m["call_id"]), str(m["name"]), str(m["arguments"])})
		case "tool_use":
			input, err := json.Marshal(m["input"])
			require.NoError(t, err)
			o.Calls = append(o.Calls, toolCall{str(m["id"]), str(m["name"]), string(input)})
		}
	}
	return o
}

func chatOutcome(t testing.TB, frames []string, o *outcome) {
	t.Helper()
	for _, frame := range frames {
		a := answer{Raw: []byte(frame)}
		require.Nil(t, a.At(t, "error"), "an error frame: %s", frame)
		o.Model = str(a.At(t, "model"))
		o.Text += str(a.At(t, "choices", 0, "delta", "content"))
		if finish := str(a.At(t, "choices", 0, "finish_reason")); finish != "" {
			o.Finish = finish
		}
		if usage, ok := a.At(t, "usage").(map[string]any); ok {
			o.Usage = usage
		}
		pieces, _ := a.At(t, "choices", 0, "delta", "tool_calls").([]any)
		for i := range pieces {
			at := func(path ...any) any {
				return a.At(t, append([]any{"choices", 0, "delta", "tool_calls", i}, path...)...)
			}
			n, err := at("index").(json.Number).Int64()
			require.NoError(t, err)
			if int(n) == len(o.Calls) {
				o.Calls = append(o.Calls, toolCall{ID: str(at("id")), Name: str(at("function", "name"))})
			}
			o.Calls[n].Arguments += str(at("function", "arguments"))
		}
	}
}

func messagesOutcome(t testing.TB, frames []string, o *outcome) {
	t.Helper()
	for _, frame := range frames {
		a := answer{Raw: []byte(frame)}
		switch a.At(t, "type") {
		case "message_start":
			o.Model = str(a.At(t, "message", "model"))
		case "content_block_start":
			if a.At(t, "content_block", "type") == "tool_use" {
				o.Calls = append(o.Calls, toolCall{ID: str(a.At(t, "content_block", "id")),
					Name: str(a.At(t, "content_block", "name"))})
			}
		case "content_block_delta":
			o.Text += str(a.At(t, "delta", "text"))
			if piece, ok := a.At(t, "delta", "partial_json").(string); ok {
				o.Calls[len(o.Calls)-1].Arguments += piece
			}
		case "message_delta":
			o.Finish = str(a.At(t, "delta", "stop_reason"))
			o.Usage, _ = a.At(t, "usage").(map[string]any)
		case "error":
			require.Fail(t, "an error frame", frame)
		}
	}
}
