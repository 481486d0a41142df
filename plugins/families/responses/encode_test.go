package responses_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/families/schema"
	"github.com/fareway/fareway/plugins/llm"
)

// event is one event of a stream: what it is in the official library, and as it was written.
type event struct {
	sdk.ResponseStreamEventUnion
	data string
}

// frames splits a stream of named and numbered events; a [DONE] at its end is cut off.
func frames(t require.TestingT, s string) []event {
	var all []event
	for i, f := range familytest.Frames(t, strings.TrimSuffix(s, "data: [DONE]\n\n")) {
		var ev sdk.ResponseStreamEventUnion
		require.NoError(t, ev.UnmarshalJSON([]byte(f.Data)), f.Data)
		require.EqualValues(t, i, ev.SequenceNumber)
		requireMembers(t, f.Data, ev.AsAny())
		all = append(all, event{ev, f.Data})
	}
	return all
}

// parse reads a JSON body as the official library does.
func parse(t require.TestingT, body string) sdk.Response {
	var r sdk.Response
	require.NoError(t, r.UnmarshalJSON([]byte(body)), body)
	requireMembers(t, body, r)
	for _, item := range r.Output {
		requireMembers(t, item.RawJSON(), item.AsAny())
		for _, part := range item.Content {
			requireMembers(t, part.RawJSON(), part.AsAny())
		}
	}
	requireMembers(t, r.Usage.RawJSON(), r.Usage)
	return r
}

// notOurs are members that the library calls required and the contract's family (GAP-12, E17) does not have.
var notOurs = map[string]bool{"access_programs": true}

// requireMembers fails for members that the library's type requires and the JSON text does not have.
func requireMembers(t require.TestingT, text string, v any) {
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &members), text)
	typ := reflect.TypeOf(v)
	require.Equal(t, reflect.Struct, typ.Kind(), text)
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Tag.Get("api") == "required" && !notOurs[name] {
			require.Contains(t, members, name, "in %s", text)
		}
	}
}

const (
	running = `{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","completed_at":null,` +
		`"background":false,"error":null,` +
		`"incomplete_details":null,"instructions":null,"max_output_tokens":null,"output":[],"max_tool_calls":null,` +
		`"parallel_tool_calls":true,` +
		`"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},` +
		`"safety_identifier":null,` +
		`"service_tier":"default","store":false,"truncation":"disabled","top_logprobs":0,"top_p":1,"presence_penalty":0,` +
		`"frequency_penalty":0,` +
		`"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"metadata":{},"model":"auto",` +
		`"usage":null}`
	hello = `[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text",` +
		`"text":"Hello","annotations":[],"logprobs":[]}]}]`
	usage = `{"input_tokens":10,"output_tokens":2,"total_tokens":12,"input_tokens_details":{"cached_tokens":0,` +
		`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0},"billed_microcents":6000,` +
		`"billing_pending":false}`
	unsettled = `{"input_tokens":0,"output_tokens":0,"total_tokens":0,"input_tokens_details":{"cached_tokens":0,` +
		`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0},"billing_pending":true}`
)

// unread is what a response says of what is not read, whatever was sent.
const unread = `"max_tool_calls":null,"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,` +
	`"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"service_tier":"default","store":false,` +
	`"truncation":"disabled","top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,`

func TestStreamGolden(t *testing.T) {
	t.Parallel()
	t.Run("E17 SSE-08 SSE-09 SSE-11 SSE-14 SSE-15 SSE-23 SSE-48 a text reply byte by byte", func(t *testing.T) {
		t.Parallel()
		want, err := os.ReadFile("testdata/e17.txt")
		require.NoError(t, err)
		done := strings.NewReplacer(`"in_progress","completed_at":null`, `"completed","completed_at":7`, `"output":[]`,
			`"output":`+hello, `"usage":null`, `"usage":`+usage).Replace(running)
		expected := strings.NewReplacer("R(in_progress)", running, "R(completed)", done).Replace(string(want))
		require.Equal(t, expected, stream(say("Hel", "lo"),
			families.End{Finish: llm.FinishStop, Usage: used(10, 2), Billed: 6000, At: 7}))
	})
	failed := strings.NewReplacer(`"in_progress"`, `"failed"`, `"error":null`,
		`"error":{"code":"upstream_error","message":"The model route failed."}`,
		`"usage":null`, `"usage":`+unsettled).Replace(running)
	frame := func(first, second string) string {
		return "event: error\ndata: {\"type\":\"error\",\"sequence_number\":" + first +
			",\"code\":\"upstream_error\",\"message\":\"The model route " +
			"failed.\",\"param\":null,\"usage\":" + unsettled + "}\n\n" +
			"event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":" + second + ",\"response\":" +
			failed + "}\n\n"
	}
	upstream := &families.Error{Status: 502, Code: families.UpstreamError, Message: "The model route failed."}
	t.Run("E20 SSE-30 SSE-32 SSE-33 SSE-49 GAP-129 an error after the start", func(t *testing.T) {
		t.Parallel()
		e := family.NewEncoder()
		e.AppendEvent(e.AppendStart(nil), say("Hel")[0])
		require.Equal(t, frame("5", "6"), string(e.AppendError(nil, upstream)))
	})
	t.Run("SSE-32 in place of an end that was not sent", func(t *testing.T) {
		t.Parallel()
		e := family.NewEncoder()
		e.AppendStart(nil)
		e.AppendEvent(nil, llm.Event{Kind: llm.EventText, Text: "Hel"})
		e.AppendEnd(nil, families.End{Finish: llm.FinishStop})
		require.Equal(t, frame("5", "6"), string(e.AppendError(nil, upstream)))
	})
	t.Run("GAP-68 SSE-33 an error before the start", func(t *testing.T) {
		t.Parallel()
		got := string(family.NewEncoder().AppendError(nil, upstream))
		require.Equal(t, frame("0", "1"), got)
		require.Len(t, frames(t, got), 2)
	})
	t.Run("GAP-42 both frames have the code of the stream", func(t *testing.T) {
		t.Parallel()
		got := string(family.NewEncoder().AppendError(nil,
			&families.Error{Status: 502, Code: families.UpstreamError, Frame: families.StreamError, Message: "m"}))
		require.Equal(t, 2, strings.Count(got, `"code":"stream_error","message":"m"`))
	})
	t.Run("SSE-26 GAP-64 a keep-alive is a comment", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, ": keepalive\n\n", string(family.NewEncoder().AppendKeepAlive(nil)))
	})
	t.Run("E25 SSE-10 TOOL-01 a tool call in two pieces", func(t *testing.T) {
		t.Parallel()
		var got []string
		for _, ev := range frames(t, stream([]llm.Event{begin(0, "call_1", "f"), arguments(0, `{"q"`), arguments(0, `:1}`)},
			families.End{Finish: llm.FinishToolCalls}))[2:6] {
			got = append(got, ev.data)
		}
		require.Equal(t, []string{
			`{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"fc_1",` +
				`"type":"function_call","status":"in_progress","call_id":"call_1","name":"f","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_1","output_index":0,` +
				`"delta":"{\"q\""}`,
			`{"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_1","output_index":0,` +
				`"delta":":1}"}`,
			`{"type":"response.function_call_arguments.done","sequence_number":5,"item_id":"fc_1","output_index":0,"name":"f",` +
				`"arguments":"{\"q\":1}"}`,
		}, got)
	})
}

func TestItemsOfAStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		events []llm.Event
		want   []string // item events in short, and deltas
	}{
		{"SSE-10 text, a call, text are three items",
			append(append(say("a"), begin(0, "c0", "f"), arguments(0, "{}"), end(0)), say("b")...),
			[]string{"+msg_1", "a", "-msg_1", "+fc_1_1", "{}", "-fc_1_1", "+msg_1_2", "b", "-msg_1_2"}},
		{"overlapping calls stream side by side", []llm.Event{begin(0, "c0", "f"), begin(1, "c1", "g"), arguments(1, `{`),
			arguments(0, `{`), arguments(1, `}`), end(1), arguments(0, `}`)},
			[]string{"+fc_1", "+fc_1_1", "{", "{", "}", "-fc_1_1", "}", "-fc_1"}},
		{"text ends the calls before it", append([]llm.Event{begin(0, "c0", "f"), begin(1, "c1", "g"), arguments(1, "{}")},
			say("b")...),
			[]string{"+fc_1", "+fc_1_1", "{}", "{}", "-fc_1", "-fc_1_1", "+msg_1_2", "b", "-msg_1_2"}},
		{"GAP-84 no arguments are {}", []llm.Event{begin(0, "c0", "f"), end(0)}, []string{"+fc_1", "{}", "-fc_1"}},
		{"empty deltas begin nothing", append(say("", ""), begin(0, "c0", "f"), arguments(0, ""), arguments(0, "{}")),
			[]string{"+fc_1", "{}", "-fc_1"}},
		{"GAP-72 a reply of nothing has one empty text part", nil, []string{"+msg_1", "-msg_1"}},
		{"GAP-71 reasoning is never shown", []llm.Event{{Kind: llm.EventAccepted}, {Kind: llm.EventReasoning, Text: "hm"}},
			[]string{"+msg_1", "-msg_1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, ev := range frames(t, stream(tt.events, families.End{})) {
				switch ev.Type {
				case "response.output_item.added":
					got = append(got, "+"+ev.Item.ID)
				case "response.output_item.done":
					got = append(got, "-"+ev.Item.ID)
				case "response.output_text.delta", "response.function_call_arguments.delta":
					got = append(got, ev.Delta)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	match, callF := "END", begin(0, "c", "f")
	for _, tt := range []struct {
		name   string
		events []llm.Event
		end    families.End
		status sdk.ResponseStatus
		reason string
		last   string // status of the last item
	}{
		{"RESP-28 SSE-11 a natural end", say("a"), families.End{Finish: llm.FinishStop}, "completed", "", "completed"},
		{"RESP-28 a match", say("a "), families.End{Finish: llm.FinishStop, StopSequence: &match}, "completed", "",
			"completed"},
		{"RESP-29 POL-04 SSE-13 the content policy", say("Hel"), families.End{Finish: llm.FinishPolicy}, "incomplete",
			"content_filter", "incomplete"},
		{"STOP-25 the content policy after a match", say("a "), families.End{Finish: llm.FinishPolicy, StopSequence: &match},
			"incomplete", "content_filter", "incomplete"},
		{"RESP-30 GAP-23 SSE-12 the allowance", say("a"), families.End{Finish: llm.FinishLength}, "incomplete",
			"max_output_tokens", "incomplete"},
		{"GAP-73 the allowance after a match", say("a"), families.End{Finish: llm.FinishLength, StopSequence: &match},
			"completed", "", "completed"},
		{"GAP-82 a call", []llm.Event{callF}, families.End{Finish: llm.FinishToolCalls}, "completed", "", "completed"},
		{"GAP-84 the allowance within a call", []llm.Event{callF, arguments(0, `{"q":`)},
			families.End{Finish: llm.FinishLength}, "incomplete", "max_output_tokens", "incomplete"},
		{"GAP-84 the allowance within a call that the route ended", []llm.Event{callF, arguments(0, `{"q":`), end(0)},
			families.End{Finish: llm.FinishLength}, "incomplete", "max_output_tokens", "incomplete"},
		{"the allowance after a whole call", []llm.Event{callF, arguments(0, `{}`)}, families.End{Finish: llm.FinishLength},
			"incomplete", "max_output_tokens", "completed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := stream(tt.events, tt.end)
			require.True(t, strings.HasSuffix(s, "\n\ndata: [DONE]\n\n"))
			all := frames(t, s)
			final := all[len(all)-1]
			require.Equal(t, "response."+string(tt.status), final.Type)
			require.Equal(t, "response.output_item.done", all[len(all)-2].Type)
			require.Equal(t, tt.last, all[len(all)-2].Item.Status)
			for _, r := range []sdk.Response{final.Response, parse(t, whole(tt.events, tt.end))} {
				require.Equal(t, tt.status, r.Status)
				require.Equal(t, tt.reason, r.IncompleteDetails.Reason)
				require.Equal(t, tt.last, r.Output[len(r.Output)-1].Status)
			}
		})
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	t.Run("USE-01 USE-02 HTTP-10 HTTP-11 GAP-12 the whole body", func(t *testing.T) {
		t.Parallel()
		got := whole(say("Hel", "lo"), families.End{Finish: llm.FinishStop, Usage: used(10, 2), Billed: 6000, At: 7})
		require.Equal(t, strings.NewReplacer(`"in_progress","completed_at":null`, `"completed","completed_at":7`,
			`"output":[]`, `"output":`+hello, `"usage":null`, `"usage":`+usage).Replace(running), got)
		parse(t, got)
	})
	t.Run("GAP-116 tools and the choice of one, in the family's own form", func(t *testing.T) {
		t.Parallel()
		const declared = `{"type":"function","name":"f","description":null,"parameters":null,"strict":null}`
		for sent, want := range map[string]string{
			`"tools":[{"type":"function","name":"f"}]`:              `"tool_choice":"auto","tools":[` + declared + `]`,
			`"tools":[{"type":"function","function":{"name":"f"}}]`: `"tool_choice":"auto","tools":[` + declared + `]`,
			`"tools":[{"type":"function","name":"f","strict":true,"description":"d","parameters":{"type": "object"},` +
				`"cache":1},{"type":"function","name":"g","strict":"yes"}],` +
				`"tool_choice":"required"`: `"tool_choice":"required","tools":[` +
				`{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},` +
				`{"type":"function","name":"g","description":null,"parameters":null,"strict":null}]`,
			`"tools":[{"type":"function","name":"f"}],` +
				`"tool_choice":{"type":"function","function":{"name":"f"}}`: `"tool_choice":{"type":"function","name":"f"},` +
				`"tools":[` + declared + `]`,
			`"tools":null,"tool_choice":null`:         `"tool_choice":"auto","tools":[]`,
			`"tool_choice":"none","temperature":null`: `"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"none"`,
			`"max_output_tokens":5e1,"top_p":0.1,"truncation":"auto","service_tier":"flex",` +
				`"reasoning":{"effort":"high"}`: `"max_output_tokens":50,`,
			`"top_p":0.1,"truncation":"auto","service_tier":"flex","reasoning":{"effort":"high"},` +
				`"metadata":{"a":"b"}`: unread,
		} {
			req := accepted(t, `{"input":"hi",`+sent+`}`)
			b := responses.Server{}.NewEncoder(req, familytest.Head).AppendReply(nil, new(llm.Reply), families.End{})
			require.NoError(t, schema.Of("responses").Body(b))
			require.Contains(t, string(b), want, sent)
		}
	})
	t.Run("GAP-116 when it was completed, and that it was not", func(t *testing.T) {
		t.Parallel()
		for finish, want := range map[llm.FinishReason]string{
			llm.FinishStop:      `"status":"completed","completed_at":9,`,
			llm.FinishToolCalls: `"status":"completed","completed_at":9,`,
			llm.FinishLength:    `"status":"incomplete","completed_at":null,`,
			llm.FinishPolicy:    `"status":"incomplete","completed_at":null,`,
		} {
			require.Contains(t, whole(say("a"), families.End{Finish: finish, At: 9}), want)
		}
	})
	t.Run("GAP-12 what the request said is repeated, on one line", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, `{"input":"hi","instructions":"be\nbrief","temperature":0.5,"max_output_tokens":50,`+
			"\"tools\":[{\"type\":\"function\",\n\"name\":\"f\",\"parameters\":{}}],"+
			`"tool_choice":{"type":"function","name":"f"}}`)
		e := responses.Server{}.NewEncoder(req, families.Head{ID: "1", Model: "auto"})
		r := frames(t, string(e.AppendStart(nil)))[0].Response
		require.Equal(t, "be\nbrief", r.Instructions.OfString)
		require.InDelta(t, 0.5, r.Temperature, 0)
		require.EqualValues(t, 50, r.MaxOutputTokens)
		require.Equal(t, "f", r.Tools[0].Name)
		require.Equal(t, "f", r.ToolChoice.Name)
	})
	t.Run("GAP-109 input_tokens is the whole prompt", func(t *testing.T) {
		t.Parallel()
		u := used(10, 5)
		u.CacheRead, u.CacheWrite, u.Reasoning = llm.Count(7), llm.Count(3), llm.Count(4)
		got := parse(t, whole(say("a"), families.End{Usage: u})).Usage
		require.EqualValues(t, 20, got.InputTokens)
		require.EqualValues(t, 7, got.InputTokensDetails.CachedTokens)
		require.EqualValues(t, 5, got.OutputTokens)
		require.EqualValues(t, 4, got.OutputTokensDetails.ReasoningTokens)
		require.EqualValues(t, 25, got.TotalTokens)
	})
	t.Run("GAP-72 a match at the very beginning gives an empty output_text part", func(t *testing.T) {
		t.Parallel()
		match := "ab"
		r := parse(t, whole(nil, families.End{Finish: llm.FinishStop, StopSequence: &match}))
		require.Len(t, r.Output, 1)
		require.Len(t, r.Output[0].Content, 1)
		require.Equal(t, "output_text", r.Output[0].Content[0].Type)
		require.Empty(t, r.OutputText())
	})
}

func TestErrorBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  *families.Error
		want string
	}{
		{"ERR-01 ERR-03 the type is the code", &families.Error{Code: families.BudgetExceeded, Message: "m"},
			`{"error":{"code":"budget_exceeded","message":"m","type":"budget_exceeded"}}`},
		{"ERR-07 unknown model", &families.Error{Code: families.ModelNotFound, Message: "m"},
			`{"error":{"code":"model_not_found","message":"m","type":"invalid_request_error","param":"model"}}`},
		{"MEDIA-12 ERR-06 media", &families.Error{Code: families.UnsupportedContent, Message: "m"},
			`{"error":{"code":"unsupported_content","message":"m","type":"invalid_request_error"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, string(responses.Server{}.AppendError(nil, tt.err)))
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	t.Run("EP-03 EP-04 VER-03 one path, versioned", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []families.Endpoint{{Path: "/v1/responses", Kind: families.Generate}},
			responses.Server{}.Endpoints())
		require.False(t, responses.Server{}.APIKeyHeader())
		require.Equal(t, "responses", responses.Server{}.Name())
	})
}

func TestStreamAndReplyAgree(t *testing.T) {
	t.Parallel()
	t.Run("GAP-12 SSE-09 SSE-10 both hold the same content, and so do the deltas", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			events := familytest.DrawReply(t, callArguments())
			end := families.End{Finish: rapid.SampledFrom([]llm.FinishReason{llm.FinishStop, llm.FinishLength,
				llm.FinishToolCalls, llm.FinishPolicy}).Draw(t, "finish"),
				Usage: used(10, 2), Billed: 6000}
			body := whole(events, end)
			deltas, done := map[string]string{}, map[string]string{}
			all := frames(t, stream(events, end))
			for _, ev := range all {
				switch ev.Type {
				case "response.output_text.delta", "response.function_call_arguments.delta":
					deltas[ev.ItemID] += ev.Delta
				case "response.output_text.done":
					done[ev.ItemID] = ev.Text
				case "response.function_call_arguments.done":
					done[ev.ItemID] = ev.Arguments
				}
			}
			final := all[len(all)-1].Response
			require.Equal(t, body, final.RawJSON(), "the final event holds what JSON would")
			for _, item := range parse(t, body).Output {
				want := item.Arguments.OfString
				if item.Type == "message" {
					want = item.Content[0].Text
				}
				require.Equal(t, want, deltas[item.ID])
				require.Equal(t, want, done[item.ID])
			}
		})
	})
}
