package messages_test

import (
	"os"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
)

// accumulate reads a stream as the official library does.
func accumulate(t require.TestingT, s string) anthropic.Message {
	var m anthropic.Message
	for _, f := range frames(t, s) {
		var ev anthropic.MessageStreamEventUnion
		require.NoError(t, ev.UnmarshalJSON([]byte(f.Data)))
		require.NoError(t, m.Accumulate(ev))
	}
	return m
}

// parse reads a JSON body as the official library does, and has it say which of the members of GAP-12 are
// missing.
func parse(t require.TestingT, body string) anthropic.Message {
	var m anthropic.Message
	require.NoError(t, m.UnmarshalJSON([]byte(body)))
	require.True(t, m.JSON.ID.Valid() && m.JSON.Content.Valid() && m.JSON.Model.Valid() && m.JSON.Role.Valid() &&
		m.JSON.Type.Valid() && m.JSON.StopReason.Valid() && m.JSON.Usage.Valid() && m.JSON.StopSequence.Raw() != "", body)
	require.True(t, m.Usage.JSON.InputTokens.Valid() && m.Usage.JSON.OutputTokens.Valid(), body)
	require.Empty(t, m.JSON.ExtraFields)
	return m
}

func TestStreamGolden(t *testing.T) {
	t.Parallel()
	t.Run("E18 SSE-16 SSE-17 SSE-18 SSE-19 SSE-24 SSE-48 a text reply byte by byte", func(t *testing.T) {
		t.Parallel()
		want, err := os.ReadFile("testdata/e18.txt")
		require.NoError(t, err)
		got := stream(say("Hel", "lo"), families.End{Finish: llm.FinishStop, Usage: used(10, 2), Billed: 6000})
		require.Equal(t, string(want), got)
	})
	t.Run("E21 SSE-30 SSE-34 SSE-49 GAP-129 an error after the start", func(t *testing.T) {
		t.Parallel()
		e := family.NewEncoder()
		e.AppendEvent(e.AppendStart(nil), say("Hel")[0])
		got := e.AppendError(nil, &families.Error{Status: 502, Code: families.UpstreamError,
			Message: "The model route failed."})
		require.Equal(t, "event: error\ndata: "+
			"{\"type\":\"error\",\"error\":{\"type\":\"upstream_error\",\"message\":\"The model route "+
			"failed.\"},\"usage\":{\"input_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"+
			"\"output_tokens\":0,\"billing_pending\":true}}\n\n", string(got))
	})
	t.Run("GAP-42 the frame has the code of its own", func(t *testing.T) {
		t.Parallel()
		got := family.NewEncoder().AppendError(nil, &families.Error{Status: 502, Code: families.UpstreamError,
			Frame: families.StreamError, Message: "m"})
		require.Contains(t, string(got), `"error":{"type":"stream_error","message":"m"}`)
	})
	t.Run("SSE-27 GAP-64 a keep-alive is a ping, before the start as well", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "event: ping\ndata: {\"type\":\"ping\"}\n\n", string(family.NewEncoder().AppendKeepAlive(nil)))
	})
	t.Run("E25 TOOL-01 GAP-129 a tool call in two pieces", func(t *testing.T) {
		t.Parallel()
		got := frames(t, stream([]llm.Event{begin(0, "call_1", "f"), arguments(0, `{"q"`), arguments(0, `:1}`)},
			families.End{Finish: llm.FinishToolCalls, Usage: used(10, 2)}))
		require.Equal(t, []familytest.Frame{
			{Name: "content_block_start",
				Data: `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_1","name":"f",` +
					`"input":{},"caller":{"type":"direct"}}}`},
			{Name: "content_block_delta",
				Data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\""}}`},
			{Name: "content_block_delta",
				Data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":":1}"}}`},
			{Name: "content_block_stop", Data: `{"type":"content_block_stop","index":0}`},
			{Name: "message_delta",
				Data: `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},` +
					`"usage":{"input_tokens":10,"output_tokens":2,"billed_microcents":0,"billing_pending":false}}`},
			{Name: "message_stop", Data: `{"type":"message_stop"}`},
		}, got[1:])
	})
}

func TestBlocksFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		events []llm.Event
		want   []string // what the blocks do: + begins, its name and content, - ends
	}{
		{"SSE-17 text, a call, text", append(append(say("a"), begin(0, "c0", "f"), arguments(0, "{}"), end(0)), say("b")...),
			[]string{"+0 text", "a", "-0", "+1 c0", "{}", "-1", "+2 text", "b", "-2"}},
		{"overlapping calls: the first streams, the second waits for its end",
			[]llm.Event{begin(0, "c0", "f"), begin(1, "c1", "g"), arguments(1, `{"x":`), arguments(0, `{"y":`),
				arguments(0, `2}`), end(0), arguments(1, `1}`), end(1)},
			[]string{"+0 c0", `{"y":`, `2}`, "-0", "+1 c1", `{"x":`, `1}`, "-1"}},
		{"a later call that has ended waits as well",
			[]llm.Event{begin(0, "c0", "f"), begin(1, "c1", "g"), arguments(1, `{}`), end(1), arguments(0, `{`),
				arguments(0, `}`), end(0)},
			[]string{"+0 c0", `{`, `}`, "-0", "+1 c1", `{}`, "-1"}},
		{"calls without an end are closed by the reply's",
			[]llm.Event{begin(0, "c0", "f"), arguments(0, `{}`), begin(1, "c1", "g"), begin(2, "c2", "h"), arguments(2, `{}`)},
			[]string{"+0 c0", `{}`, "-0", "+1 c1", "-1", "+2 c2", `{}`, "-2"}},
		{"text ends the calls before it", append([]llm.Event{begin(0, "c0", "f"), begin(1, "c1", "g"), arguments(1, `{}`)},
			say("a")...),
			[]string{"+0 c0", "-0", "+1 c1", `{}`, "-1", "+2 text", "a", "-2"}},
		{"empty deltas open nothing", append(say("", "", "a"), begin(0, "c0", "f"), arguments(0, "")),
			[]string{"+0 text", "a", "-0", "+1 c0", "-1"}},
		{"GAP-72 a reply of nothing is one empty text block", nil, []string{"+0 text", "-0"}},
		{"GAP-71 reasoning is never shown", []llm.Event{{Kind: llm.EventAccepted}, {Kind: llm.EventReasoning, Text: "hm"},
			{Kind: llm.EventUsage}},
			[]string{"+0 text", "-0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range frames(t, stream(tt.events, families.End{})) {
				var ev anthropic.MessageStreamEventUnion
				require.NoError(t, ev.UnmarshalJSON([]byte(f.Data)))
				at := string(rune('0' + ev.Index))
				switch ev.Type {
				case "content_block_start":
					name := ev.ContentBlock.ID
					if ev.ContentBlock.Type == "text" {
						name = "text"
					}
					got = append(got, "+"+at+" "+name)
				case "content_block_delta":
					got = append(got, ev.Delta.Text+ev.Delta.PartialJSON)
				case "content_block_stop":
					got = append(got, "-"+at)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestStopReason(t *testing.T) {
	t.Parallel()
	match, call := "END", begin(0, "c", "f")
	for _, tt := range []struct {
		name     string
		events   []llm.Event
		end      families.End
		reason   anthropic.StopReason
		sequence string
	}{
		{"MSG-18 STOP-24 the service found the match", say("a "), families.End{Finish: llm.FinishStop, StopSequence: &match},
			"stop_sequence", "END"},
		{"MSG-19 STOP-24 the route stopped first", say("a "), families.End{Finish: llm.FinishStop}, "end_turn", ""},
		{"MSG-20 a natural end", say("a"), families.End{Finish: llm.FinishStop}, "end_turn", ""},
		{"MSG-20 the route did not say", say("a"), families.End{Finish: llm.FinishUnknown}, "end_turn", ""},
		{"MSG-21 the allowance", say("a"), families.End{Finish: llm.FinishLength}, "max_tokens", ""},
		{"MSG-21 the allowance within a call", []llm.Event{call, arguments(0, `{"q":`)},
			families.End{Finish: llm.FinishLength}, "max_tokens", ""},
		{"MSG-22 POL-05 the content policy", say("Hel"), families.End{Finish: llm.FinishPolicy}, "refusal", ""},
		{"STOP-25 the content policy after a match", say("a "), families.End{Finish: llm.FinishPolicy, StopSequence: &match},
			"refusal", ""},
		{"GAP-73 the allowance after a match", say("a "), families.End{Finish: llm.FinishLength, StopSequence: &match},
			"stop_sequence", "END"},
		{"MSG-14 GAP-82 a call", []llm.Event{call}, families.End{Finish: llm.FinishToolCalls}, "tool_use", ""},
		{"GAP-70 a call and an ordinary stop", []llm.Event{call}, families.End{Finish: llm.FinishStop}, "tool_use", ""},
		{"GAP-70 STOP-34 a match after a call", append([]llm.Event{call}, say("y ")...),
			families.End{Finish: llm.FinishToolCalls, StopSequence: &match}, "stop_sequence", "END"},
		{"GAP-70 calls dropped by a match leave none", say("a "), families.End{Finish: llm.FinishToolCalls}, "end_turn", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			streamed, body := accumulate(t, stream(tt.events, tt.end)), parse(t, whole(tt.events, tt.end))
			require.Equal(t, tt.reason, streamed.StopReason)
			require.Equal(t, tt.reason, body.StopReason)
			require.Equal(t, tt.sequence, streamed.StopSequence)
			require.Equal(t, tt.sequence, body.StopSequence)
		})
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	t.Run("USE-01 USE-02 HTTP-10 HTTP-11 GAP-12 the whole body", func(t *testing.T) {
		t.Parallel()
		got := whole(append(say("Hel", "lo"), begin(0, "call_1", "f"), arguments(0, `{"q":1}`)),
			families.End{Finish: llm.FinishToolCalls, Usage: used(10, 2), Billed: 6000, Pending: true})
		require.Equal(t,
			`{"id":"msg_1","type":"message","role":"assistant","model":"auto","content":[{"type":"text","text":"Hello"},`+
				`{"type":"tool_use","id":"call_1","name":"f","input":{"q":1},"caller":{"type":"direct"}}],`+
				`"stop_reason":"tool_use","stop_sequence":null,`+
				`"usage":{"input_tokens":10,"output_tokens":2,"billed_microcents":6000,"billing_pending":true}}`, got)
		parse(t, got)
	})
	t.Run("GAP-109 the classes of input stand apart, and what was not reported is absent", func(t *testing.T) {
		t.Parallel()
		usage := used(10, 2)
		usage.CacheRead, usage.CacheWrite = llm.Count(7), llm.Count(0)
		end := families.End{Usage: usage}
		require.Contains(t, whole(say("a"), end),
			`"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":7,"output_tokens":2,`)
		usage.CacheRead, usage.CacheWrite = nil, nil
		require.NotContains(t, whole(say("a"), end), "cache")
	})
	for name, sent := range map[string]string{
		"GAP-84 empty arguments": "", "blank arguments": " ", "GAP-84 arguments cut short by the allowance": `{"q":`,
		"arguments that are no object": `[1]`,
	} {
		t.Run(name+" are shown as {}", func(t *testing.T) {
			t.Parallel()
			m := parse(t, whole([]llm.Event{begin(0, "c", "f"), arguments(0, sent)}, families.End{}))
			require.JSONEq(t, `{}`, string(m.Content[0].Input))
		})
	}
	t.Run("GAP-72 a match at the very beginning gives one empty text block", func(t *testing.T) {
		t.Parallel()
		match := "ab"
		m := parse(t, whole(nil, families.End{Finish: llm.FinishStop, StopSequence: &match}))
		require.Len(t, m.Content, 1)
		require.Equal(t, "text", m.Content[0].Type)
		require.Empty(t, m.Content[0].Text)
	})
}

func TestErrorBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  *families.Error
		want string
	}{
		{"ERR-04 ERR-05 the code is the type", &families.Error{Status: 402, Code: families.BudgetExceeded, Message: "m"},
			"budget_exceeded"},
		{"ERR-05 rate limit", &families.Error{Status: 429, Code: families.RateLimitExceeded, Message: "m"},
			"rate_limit_exceeded"},
		{"GAP-27 unsupported field", &families.Error{Status: 400, Code: families.UnsupportedField, Message: "m"},
			"unsupported_field"},
		{"ERR-08 unknown model", &families.Error{Status: 404, Code: families.ModelNotFound, Message: "m"}, "not_found_error"},
		{"GAP-02 unknown path", &families.Error{Status: 404, Code: families.NotFound, Message: "m"}, "not_found_error"},
		{"MEDIA-13 ERR-06 media", &families.Error{Status: 400, Code: families.UnsupportedContent, Message: "m"},
			"invalid_request_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, `{"type":"error","error":{"type":"`+tt.want+`","message":"m"}}`,
				string(messages.Server{}.AppendError(nil, tt.err)))
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	t.Run("EP-05 EP-06 CNT-04 each path has an unversioned twin", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []families.Endpoint{
			{Path: "/v1/messages", Kind: families.Generate}, {Path: "/messages", Kind: families.Generate},
			{Path: "/v1/messages/count_tokens", Kind: families.CountTokens},
			{Path: "/messages/count_tokens", Kind: families.CountTokens},
		}, messages.Server{}.Endpoints())
		require.True(t, messages.Server{}.APIKeyHeader())
		require.Equal(t, "messages", messages.Server{}.Name())
	})
}

func TestStreamAndReplyAgree(t *testing.T) {
	t.Parallel()
	t.Run("GAP-12 STOP-05 both hold the same content", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			events := familytest.DrawReply(t, callArguments())
			end := families.End{Finish: rapid.SampledFrom([]llm.FinishReason{llm.FinishStop, llm.FinishLength,
				llm.FinishToolCalls, llm.FinishPolicy}).Draw(t, "finish"),
				Usage: used(10, 2), Billed: 6000}
			streamed, body := accumulate(t, stream(events, end)), parse(t, whole(events, end))
			require.Len(t, streamed.Content, len(body.Content))
			for i, want := range body.Content {
				got := streamed.Content[i]
				require.Equal(t, want.Type, got.Type)
				require.Equal(t, want.Text, got.Text)
				require.Equal(t, want.ID, got.ID)
				require.Equal(t, want.Name, got.Name)
				if want.Type == "tool_use" {
					require.JSONEq(t, string(want.Input), string(got.Input))
				}
			}
			require.Equal(t, body.StopReason, streamed.StopReason)
			require.Equal(t, body.ID, streamed.ID)
			require.Equal(t, body.Model, streamed.Model)
			require.Equal(t, body.Usage.OutputTokens, streamed.Usage.OutputTokens)
			require.Equal(t, body.Usage.InputTokens, streamed.Usage.InputTokens)
		})
	})
}

// Not parallel: allocations are counted for the whole process.
func TestDeltasAllocateNothing(t *testing.T) {
	e := family.NewEncoder()
	b := e.AppendEvent(make([]byte, 0, 1<<12), say("first")[0])
	ev := say("a piece of the reply, with \"quotes\"")[0]
	require.Zero(t, testing.AllocsPerRun(100, func() { b = e.AppendEvent(b[:0], ev) }))
}
