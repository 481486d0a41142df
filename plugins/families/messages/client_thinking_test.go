package messages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	oneThought   = `{"type":"thinking","thinking":"one 😀","signature":"Eq+/="}`
	otherThought = `{"type":"thinking","thinking":"","signature":"s2"}`
	redacted     = `{"type":"redacted_thinking","data":"x"}`
	saidText     = `{"type":"text","text":"well"}`
	firstCall    = `{"type":"tool_use","id":"t1","name":"f","input":{}}`
	secondCall   = `{"type":"tool_use","id":"t2","name":"f","input":{}}`
)

// streamed is a block as the events of a stream.
func streamed(index, block string) []string {
	events := []string{blockStart(index, block)}
	switch block {
	case oneThought: // in pieces, one of them half a pair
		events = []string{blockStart(index, `{"type":"thinking","thinking":"","signature":""}`),
			blockDelta(index, `{"type":"thinking_delta","thinking":"on"}`),
			blockDelta(index, `{"type":"thinking_delta","thinking":"e \ud83d"}`),
			blockDelta(index, `{"type":"thinking_delta","thinking":"\ude00"}`),
			blockDelta(index, `{"type":"signature_delta","signature":"Eq+"}`),
			blockDelta(index, `{"type":"signature_delta","signature":"/="}`)}
	case saidText:
		events = []string{blockStart(index, `{"type":"text","text":""}`),
			blockDelta(index, `{"type":"text_delta","text":"well"}`)}
	}
	return append(events, blockStop(index))
}

// TestThinkingGoesBack proves GAP-117 for thinking and redacted thinking: the blocks before a call are its state, and
// go back as they were and where they stood; without it the calls go alone.
func TestThinkingGoesBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reply []string
		said  []llm.Part // as clients tell it again
		back  []string   // nil for all of the reply
	}{
		"before a call": {reply: []string{oneThought, firstCall}},
		"before text":   {reply: []string{oneThought, saidText, firstCall}},
		"behind text":   {reply: []string{saidText, oneThought, firstCall}},
		"on both sides": {reply: []string{oneThought, redacted, saidText, otherThought, firstCall}},
		"of calls":      {reply: []string{oneThought, firstCall, otherThought, redacted, secondCall}},
		"of the first":  {reply: []string{redacted, firstCall, secondCall}},
		"of the second": {reply: []string{saidText, firstCall, otherThought, secondCall}},
		"between texts": {reply: []string{oneThought, saidText, otherThought, saidText, firstCall},
			back: []string{`{"type":"text","text":"wellwell"}`, firstCall}},
		"nothing": {reply: []string{saidText, firstCall}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var events []string
			for i, block := range tt.reply {
				events = append(events, streamed(string(rune('0'+i)), block)...)
			}
			want := strings.Join(tt.back, ",")
			if tt.back == nil {
				want = strings.Join(tt.reply, ",")
			}
			var kept map[string][]byte
			for _, decode := range []func(send func(llm.Event) error) error{
				func(send func(llm.Event) error) error {
					d := messages.NewDecoder(send)
					for _, data := range append(append([]string{started}, events...), ended("tool_use"), stopped) {
						if err := d.Data([]byte(data)); err != nil {
							return err
						}
					}
					return d.Close()
				},
				func(send func(llm.Event) error) error {
					return messages.DecodeReply([]byte(`{"id":"m","content":[`+strings.Join(tt.reply, ",")+
						`],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`), send)
				},
			} {
				var reply llm.Reply
				states := map[string][]byte{}
				require.NoError(t, decode(func(ev llm.Event) error {
					reply.Add(ev)
					if ev.State != nil {
						states[ev.ID] = ev.State
					}
					return nil
				}))
				reply.Close()
				said := llm.Message{Role: llm.RoleAssistant}
				if text := reply.Text(); text != "" {
					said.Parts = append(said.Parts, llm.Text(text))
				}
				results := []llm.Message{}
				for _, call := range reply.Calls() {
					said.Parts = append(said.Parts, llm.Part{Call: call})
					results = append(results, llm.Message{Role: llm.RoleTool, CallID: call.ID})
				}
				// Texts between calls come before them when a client tells the reply again; here they do not.
				req := &llm.Request{Model: "m", MaxTokens: 9, States: states,
					Messages: append([]llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}, said}, results...)}
				b, err := family.Conformed(nil, req)
				require.NoError(t, err)
				require.Contains(t, string(b), `{"role":"assistant","content":[`+want+`]}`)

				req.States = map[string][]byte{"t1": []byte("no JSON"), "t2": []byte(`{"first":1}`)}
				b, err = family.Conformed(nil, req)
				require.NoError(t, err)
				require.NotContains(t, string(b), "thinking")
				if kept == nil {
					kept = states
				}
				require.Equal(t, kept, states, "a stream and a reply in one piece say the same")
			}
		})
	}
}

// TestThinkingIsBounded: what is too large is not kept, nor a part of it, and the next call's is.
func TestThinkingIsBounded(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", llm.MaxState/2)
	block := func(text string) string { return `{"type":"thinking","thinking":"` + text + `","signature":"s"}` }
	for name, reply := range map[string][]string{
		"one block":          {block(half + half)},
		"two blocks":         {block(half), block(half)},
		"and what follows":   {block(half), block(half), block("y")},
		"one of the service": {`{"type":"redacted_thinking","data":"` + half + half + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := append(append([]string{}, reply...), firstCall, oneThought, secondCall)
			for _, whole := range []bool{false, true} {
				states := map[string][]byte{}
				d := messages.NewDecoder(func(ev llm.Event) error {
					if ev.State != nil {
						states[ev.ID] = ev.State
					}
					return nil
				})
				if whole {
					require.NoError(t, d.Whole([]byte(`{"content":[`+strings.Join(reply, ",")+`],"stop_reason":"tool_use"}`)))
				} else {
					require.NoError(t, d.Data([]byte(started)))
					for i, block := range reply {
						for _, data := range streamed(string(rune('0'+i)), block) {
							require.NoError(t, d.Data([]byte(data)))
						}
					}
				}
				require.Len(t, states, 1)
				require.Contains(t, string(states["t2"]), "one")
			}
		})
	}
}
