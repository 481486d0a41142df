package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// TestWhatCameWithCallsGoesBack proves GAP-117 for what services of this family want back: whole and in pieces, before
// the calls and behind them.
func TestWhatCameWithCallsGoesBack(t *testing.T) {
	t.Parallel()
	const call = `"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":"{}"}}]`
	const two = `"tool_calls":[{"index":0,"id":"c0","function":{"name":"f","arguments":"{}"}},` +
		`{"index":1,"id":"c1","function":{"name":"f","arguments":"{}"}}]`
	long := strings.Repeat("x", llm.MaxState)
	for name, c := range map[string]struct {
		deltas  []string
		thought string
		message string // members of the message that comes back, beside its calls; "" for none
		calls   []string
	}{
		"OpenRouter, Anthropic's block in pieces (agno #8794)": {
			deltas: []string{
				`"reasoning":"Let","reasoning_details":[{"type":"reasoning.text","text":"Let",` +
					`"format":"anthropic-claude-v1","index":0}]`,
				`"reasoning":" me","reasoning_details":[{"type":"reasoning.text","text":" me","signature":null,"index":0}]`,
				`"reasoning_details":[{"type":"reasoning.text","signature":"Et8B","format":"anthropic-claude-v1","index":0}]`,
				call},
			thought: "Let me",
			message: `"reasoning_details":[{"type":"reasoning.text","text":"Let me","format":"anthropic-claude-v1","index":0,` +
				`"signature":"Et8B"}]`},
		"OpenRouter, blocks of several kinds, one behind the call": {
			deltas: []string{
				`"reasoning_details":[{"type":"reasoning.summary","summary":"a","index":0},` +
					`{"type":"reasoning.text","text":"b","index":1}]`,
				`"reasoning_details":[{"type":"reasoning.summary","summary":"c","index":0}]`, call,
				`"reasoning_details":[{"type":"reasoning.encrypted","data":"ZW5j","id":"c0",` +
					`"format":"google-gemini-v1","index":0}]`},
			thought: "abc",
			message: `"reasoning_details":[{"type":"reasoning.summary","summary":"ac","index":0},` +
				`{"type":"reasoning.text","text":"b","index":1},` +
				`{"type":"reasoning.encrypted","data":"ZW5j","id":"c0","format":"google-gemini-v1","index":0}]`},
		"MiniMax, each piece says all": {
			deltas: []string{
				`"reasoning_details":[{"type":"reasoning.text","format":"MiniMax-response-v1","index":0,"text":"Let"}]`,
				`"reasoning_details":[{"type":"reasoning.text","format":"MiniMax-response-v1","index":0,"text":"Let me"}]`, call},
			thought: "Let me",
			message: `"reasoning_details":[{"type":"reasoning.text","format":"MiniMax-response-v1","index":0,"text":"Let me"}]`},
		"LiteLLM, blocks without an index": {
			deltas: []string{
				`"reasoning_content":"a","thinking_blocks":[{"type":"thinking","thinking":"a","signature":""}]`,
				`"reasoning_content":"b","thinking_blocks":[{"type":"thinking","thinking":"b","signature":""}]`,
				`"thinking_blocks":[{"type":"thinking","thinking":"","signature":"s1"}]`,
				`"thinking_blocks":[{"type":"redacted_thinking","data":"d1"},{"type":"redacted_thinking","data":"d2"}]`,
				`"thinking_blocks":[{"type":"thinking","thinking":"c","signature":"s2"}]`, call},
			thought: "abc",
			message: `"thinking_blocks":[{"type":"thinking","thinking":"ab","signature":"s1"},` +
				`{"type":"redacted_thinking","data":"d1"},{"type":"redacted_thinking","data":"d2"},` +
				`{"type":"thinking","thinking":"c","signature":"s2"}]`},
		"Copilot (opencode PR 8900)": {
			deltas:  []string{`"reasoning_text":"a"`, `"reasoning_text":"b"`, `"reasoning_opaque":"o",` + call},
			thought: "ab", message: `"reasoning_text":"ab","reasoning_opaque":"o"`},
		"Google, a signature of a call (pi #6733)": {
			deltas: []string{strings.Replace(call, `"id":`, `"extra_content":{"google":{"thought_signature":"s"}},"id":`, 1)},
			calls:  []string{`"extra_content":{"google":{"thought_signature":"s"}}`}},
		"Google, behind the call, without an index (OpenHarness PR 338)": {
			deltas: []string{two, `"tool_calls":[{"extra_content":{"google":{"thought_signature":"s"}}}]`},
			calls:  []string{"", `"extra_content":{"google":{"thought_signature":"s"}}`}},
		"LiteLLM's name for it": {
			deltas: []string{strings.Replace(call, `"id":`, `"provider_specific_fields":{"thought_signature":"s"},"id":`, 1)},
			calls:  []string{`"provider_specific_fields":{"thought_signature":"s"}`}},
		"a pair of surrogates in two pieces": {
			deltas: []string{`"reasoning_details":[{"type":"reasoning.text","text":"\ud83d","index":0}]`,
				`"reasoning_details":[{"type":"reasoning.text","text":"\ude00","index":0}]`, call},
			thought: "😀", message: `"reasoning_details":[{"type":"reasoning.text","text":"😀","index":0}]`},
		"too much is nothing": {
			deltas:  []string{`"reasoning_details":[{"type":"reasoning.text","text":"` + long + `","index":0}]`, call},
			message: ""},
		"what is none": {
			deltas: []string{`"reasoning_details":null`, `"reasoning_details":[]`, `"reasoning_opaque":7`,
				strings.Replace(call, `"id":`, `"extra_content":null,"id":`, 1)}},
	} {
		decoders := map[string]func(t *testing.T, deltas []string) []llm.Event{"alike": streamed, "apart": apart}
		for mode, decode := range decoders {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				events := decode(t, c.deltas)
				sent := sentBack(t, events)
				var thought string
				for _, ev := range events {
					if ev.Kind == llm.EventReasoning {
						thought += ev.Text
					}
				}
				require.Equal(t, c.thought, thought)
				want := `{"role":"assistant","content":null`
				if c.message != "" {
					want += "," + c.message
				}
				calls := sent["tool_calls"].([]any)
				for i, got := range calls {
					members := `{"id":"c` + string(
						rune('0'+i),
					) + `","type":"function","function":{"name":"f","arguments":"{}"}`
					if i < len(c.calls) && c.calls[i] != "" {
						members += "," + c.calls[i]
					}
					raw, err := json.Marshal(got)
					require.NoError(t, err)
					require.JSONEq(t, members+"}", string(raw))
				}
				delete(sent, "tool_calls")
				raw, err := json.Marshal(sent)
				require.NoError(t, err)
				require.JSONEq(t, want+"}", string(raw))
			})
		}
	}
	t.Run("whole, as it is", func(t *testing.T) {
		t.Parallel()
		const blocks = `[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b","signature":"s"}]`
		var events []llm.Event
		require.NoError(
			t,
			chat.DecodeReply([]byte(`{"choices":[{"message":{"content":null,"reasoning_details":`+blocks+
				`,"tool_calls":[{"id":"c0","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
				func(ev llm.Event) error { events = append(events, ev); return nil }),
		)
		raw, err := json.Marshal(sentBack(t, events)["reasoning_details"])
		require.NoError(t, err)
		require.JSONEq(t, blocks, string(raw))
	})
	t.Run("a state of somebody else is none", func(t *testing.T) {
		t.Parallel()
		for _, state := range []string{"let me see", `"x"`, `{"message":7,"call":"x"}`, `{`} {
			message := encoded(t, map[string][]byte{"c0": []byte(state)}, []*llm.ToolCall{{ID: "c0", Name: "f"}})
			require.Len(t, message, 3, "role, content and calls")
		}
	})
}

func chunkOf(delta string) string { return `{"choices":[{"index":0,"delta":{` + delta + `}}]}` }

func streamed(t *testing.T, deltas []string) []llm.Event {
	t.Helper()
	var chunks []string
	for _, delta := range deltas {
		chunks = append(chunks, chunkOf(delta))
	}
	return decodeChunks(t, append(chunks, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`), true)
}

// apart has text between the pieces, which are then read by comparing.
func apart(t *testing.T, deltas []string) []llm.Event {
	t.Helper()
	var between []string
	for _, delta := range deltas {
		between = append(between, `"content":""`, delta, `"content":""`)
	}
	return streamed(t, between)
}

func called(states map[string][]byte, calls []*llm.ToolCall) *llm.Request {
	m := llm.Message{Role: llm.RoleAssistant}
	for _, c := range calls {
		m.Parts = append(m.Parts, llm.Part{Call: c})
	}
	return &llm.Request{Model: "m", Messages: []llm.Message{m}, States: states}
}

// encoded is the assistant's message as it goes upstream.
func encoded(t *testing.T, states map[string][]byte, calls []*llm.ToolCall) map[string]any {
	t.Helper()
	b, err := chat.EncodeRequest(nil, called(states, calls))
	require.NoError(t, err)
	var body struct{ Messages []map[string]any }
	require.NoError(t, json.Unmarshal(b, &body), "%s", b)
	return body.Messages[0]
}

// sentBack is the message of a reply as it goes upstream with the request that follows.
func sentBack(t *testing.T, events []llm.Event) map[string]any {
	t.Helper()
	var r llm.Reply
	states := map[string][]byte{}
	for _, ev := range events {
		r.Add(ev)
		if ev.State != nil {
			require.NotEmpty(t, ev.ID)
			states[ev.ID] = ev.State
		}
	}
	r.Close()
	return encoded(t, states, r.Calls())
}
