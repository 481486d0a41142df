package bedrock_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// block is a content block: the pieces of it as a stream has them, and as a request has it.
type block struct {
	start  string
	deltas []string
	sent   string
}

func signedThought(text, signature string) block {
	half := len(text) / 2
	return block{deltas: []string{`{"reasoningContent":{"text":"` + text[:half] + `"}}`,
		`{"reasoningContent":{"text":"` + text[half:] + `"}}`, `{"reasoningContent":{"signature":"` + signature + `"}}`},
		sent: `{"reasoningContent":{"reasoningText":{"text":"` + text + `","signature":"` + signature + `"}}}`}
}

func unsignedThought(text string) block {
	return block{deltas: []string{`{"reasoningContent":{"text":"` + text + `"}}`}}
}

func encryptedThought(data string) block {
	data = base64.StdEncoding.EncodeToString([]byte(data))
	return block{deltas: []string{`{"reasoningContent":{"redactedContent":"` + data + `"}}`},
		sent: `{"reasoningContent":{"redactedContent":"` + data + `"}}`}
}

func spoken(text string) block {
	return block{deltas: []string{`{"text":"` + text + `"}`}, sent: `{"text":"` + text + `"}`}
}

func called(id string) block {
	return block{start: `{"toolUse":{"toolUseId":"` + id + `","name":"f"}}`,
		deltas: []string{`{"toolUse":{"input":"{}"}}`}, sent: `{"toolUse":{"toolUseId":"` + id + `","name":"f","input":{}}}`}
}

// streamed is a reply of blocks that ends in calls.
func streamed(blocks []block) upstream.Reply {
	var stream strings.Builder
	stream.WriteString(upstream.EventStreamMessage("messageStart", `{"role":"assistant"}`))
	for i, b := range blocks {
		if b.start != "" {
			stream.WriteString(upstream.EventStreamMessage("contentBlockStart",
				fmt.Sprintf(`{"contentBlockIndex":%d,"start":%s}`, i, b.start)))
		}
		for _, delta := range b.deltas {
			stream.WriteString(upstream.EventStreamMessage("contentBlockDelta",
				fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s}`, i, delta)))
		}
		stream.WriteString(upstream.EventStreamMessage("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, i)))
	}
	stream.WriteString(upstream.EventStreamMessage("messageStop", `{"stopReason":"tool_use"}`))
	stream.WriteString(upstream.EventStreamMessage("metadata", `{"usage":{"inputTokens":1,"outputTokens":1}}`))
	return upstream.Reply{Steps: []upstream.Step{upstream.Raw(stream.String())}}
}

// states are what a reply to req brings for later requests, and the message in which a client tells it again.
func states(t *testing.T, p provider.Provider, req *llm.Request) (map[string][]byte, llm.Message) {
	t.Helper()
	reply := generate(t, p, req)
	require.Nil(t, reply.err)
	again := llm.Message{Role: llm.RoleAssistant}
	if text := reply.Text(); text != "" {
		again.Parts = append(again.Parts, llm.Text(text))
	}
	for _, call := range reply.Calls() {
		again.Parts = append(again.Parts, llm.Part{Call: call})
	}
	return reply.States, again
}

// sentAfter is the body of the next request, which the fake may refuse: it takes no thoughts but its own.
func sentAfter(t *testing.T, s *upstream.Server, p provider.Provider, req *llm.Request) string {
	t.Helper()
	n := int64(len(s.Records())) + 1
	_ = p.Generate(providertest.Context(t), req, func(llm.Event) error { return nil })
	rec, err := s.Ended(providertest.Context(t), n)
	require.NoError(t, err)
	return string(rec.Body)
}

// TestThinkingGoesBack proves GAP-117: signed and encrypted reasoning goes back as it was and where it stood; what is
// not signed does not, for no model takes it; without it the calls go alone.
func TestThinkingGoesBack(t *testing.T) {
	t.Parallel()
	signed, other, secret := signedThought("one two", "Eq+/="), signedThought("", "s2"), encryptedThought("\x00\xff")
	half := strings.Repeat("x", llm.MaxState/2)
	for name, c := range map[string]struct {
		reply []block
		back  []block // nil for all of the reply
	}{
		"before a call":         {reply: []block{signed, called("t1")}},
		"before text":           {reply: []block{signed, spoken("well"), called("t1")}},
		"behind text":           {reply: []block{spoken("well"), secret, called("t1")}},
		"on both sides":         {reply: []block{secret, signed, spoken("well"), other, called("t1")}},
		"of calls":              {reply: []block{signed, called("t1"), other, secret, called("t2")}},
		"nothing":               {reply: []block{spoken("well"), called("t1")}},
		"not signed":            {[]block{unsignedThought("a"), called("t1")}, []block{called("t1")}},
		"one of two not signed": {[]block{signed, unsignedThought("a"), called("t1")}, []block{called("t1")}},
		"between texts": {[]block{spoken("a"), signed, spoken("b"), called("t1")},
			[]block{spoken("ab"), called("t1")}},
		"too large": {[]block{signedThought(half+half, "s"), other, called("t1")}, []block{called("t1")}},
		"too large together": {[]block{signedThought(half, "s"), signedThought(half, "s"), called("t1")},
			[]block{called("t1")}},
		"too large, and the next is not": {[]block{signedThought(half+half, "s"), called("t1"), other, called("t2")},
			[]block{called("t1"), other, called("t2")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.back == nil {
				c.back = c.reply
			}
			for _, b := range c.back {
				want = append(want, b.sent)
			}
			s := upstream.Start(t, upstream.Options{APIKey: keyID})
			s.Enqueue(streamed(c.reply))
			p := start(t, at(t, s, map[string]any{"prompt_caching": "off"}))
			req := ask("x")
			req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}
			kept, again := states(t, p, req)
			req.States, req.Messages = kept, append(req.Messages, again)
			for _, part := range again.Parts {
				if part.Call != nil {
					req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, CallID: part.Call.ID})
				}
			}
			var body struct {
				Messages []struct{ Content json.RawMessage }
			}
			require.NoError(t, json.Unmarshal([]byte(sentAfter(t, s, p, req)), &body))
			require.JSONEq(t, "["+strings.Join(want, ",")+"]", string(body.Messages[1].Content))

			req.States = map[string][]byte{"t1": []byte("no JSON"), "t2": []byte(`{"first":[1,{"text":"x"}]}`)}
			require.NotContains(t, sentAfter(t, s, p, req), "reasoningContent")
		})
	}
}
