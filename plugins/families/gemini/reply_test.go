package gemini_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/gemini"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

var dialect = familytest.Family{
	NewDecoder: func(send func(llm.Event) error) familytest.Decoder { return gemini.NewDecoder(send) },
	DecodeReply: func(body []byte, send func(llm.Event) error) error {
		return gemini.NewDecoder(send).Whole(body)
	},
}

// chunk is a chunk with these parts; more follows within the candidate.
func chunk(parts, more string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]}` + more + `,"index":0}],` +
		`"modelVersion":"m-1","responseId":"r-1"}`
}

// usage is a chunk with this usage, and with the end of the reply.
func usage(object, reason string) string {
	return `{"candidates":[{"finishReason":"` + reason + `"}],"usageMetadata":{` + object + `},"modelVersion":"m-1"}`
}

const counted = `"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15`

var spent = llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: llm.Count(10), Output: llm.Count(5)}}

func finished(reason llm.FinishReason) llm.Event {
	return llm.Event{Kind: llm.EventFinish, Finish: reason, Model: "m-1"}
}

func said(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }

func TestDecoder(t *testing.T) {
	t.Parallel()
	begin, arguments, end := familytest.Begin, familytest.Arguments, familytest.End
	for name, c := range map[string]struct {
		chunks []string
		want   []llm.Event
	}{
		"text": {[]string{chunk(`{"text":"a"}`, ""), chunk(`{"text":"b"},{"text":"c"}`, ""), usage(counted, "STOP")},
			[]llm.Event{said("a"), said("b"), said("c"), spent, finished(llm.FinishStop)}},
		"thoughts are hidden": {[]string{chunk(`{"text":"hm","thought":true},{"text":"a"}`, ""), usage(counted, "STOP")},
			[]llm.Event{{Kind: llm.EventReasoning, Text: "hm"}, said("a"), spent, finished(llm.FinishStop)}},
		"GAP-74 a pair cut in two": {[]string{chunk(`{"text":"\ud83d"}`, ""), chunk(`{"text":"\ude00"}`, ""),
			usage(counted, "STOP")}, []llm.Event{said("😀"), spent, finished(llm.FinishStop)}},
		"a call": {[]string{chunk(`{"functionCall":{"id":"x","name":"f","args":{"q": [1]}},"thoughtSignature":"c2ln"}`, ""),
			usage(counted, "STOP")},
			[]llm.Event{{Kind: llm.EventToolCall, ID: "x", Name: "f", State: []byte("c2ln")}, arguments(0, `{"q": [1]}`), end(0),
				spent, finished(llm.FinishToolCalls)}},
		"GAP-84 a call that goes on": {[]string{chunk(`{"functionCall":{"id":"x","name":"f","args":{},"willContinue":true},`+
			`"thoughtSignature":"c2ln"}`, ""), chunk(`{"functionCall":{"name":"f","args":{"q":1}}}`, ""),
			usage(counted, "STOP")},
			[]llm.Event{{Kind: llm.EventToolCall, ID: "x", Name: "f", State: []byte("c2ln")}, arguments(0, `{"q":1}`), end(0),
				spent, finished(llm.FinishToolCalls)}},
		"GAP-84 a call that goes on under its id, without its name": {[]string{chunk(`{"functionCall":{"id":"x","name":"f",`+
			`"willContinue":true}}`, ""), chunk(`{"functionCall":{"id":"x","args":{"q":1}},"thoughtSignature":"c2ln"}`, ""),
			usage(counted, "STOP")},
			[]llm.Event{{Kind: llm.EventToolCall, ID: "x", Name: "f", State: []byte("c2ln")}, arguments(0, `{"q":1}`), end(0),
				spent, finished(llm.FinishToolCalls)}},
		"GAP-84 a call whose id comes later": {[]string{chunk(`{"functionCall":{"name":"f","willContinue":true}}`, ""),
			chunk(`{"functionCall":{"id":"x","willContinue":true}}`, ""), chunk(`{"functionCall":{"args":{"q":1}}}`, ""),
			usage(counted, "STOP")}, []llm.Event{begin(0, "x", "f"), arguments(0, `{"q":1}`), end(0), spent,
			finished(llm.FinishToolCalls)}},
		"a cut reply stays one, whatever follows": {[]string{chunk(`{"text":"a"}`, `,"finishReason":"MAX_TOKENS"`),
			usage(counted, "STOP")}, []llm.Event{said("a"), spent, finished(llm.FinishLength)}},
		"GAP-84 arguments by another name": {[]string{chunk(`{"functionCall":{"id":"x","name":"f","arguments":{"q":1}}}`, ""),
			usage(counted, "STOP")}, []llm.Event{begin(0, "x", "f"), arguments(0, `{"q":1}`), end(0), spent,
			finished(llm.FinishToolCalls)}},
		"GAP-84 a call without arguments": {[]string{chunk(`{"functionCall":{"id":"x","name":"f"}}`, ""),
			usage(counted, "STOP")}, []llm.Event{begin(0, "x", "f"), end(0), spent, finished(llm.FinishToolCalls)}},
		"GAP-84 arguments that are none, or a text": {[]string{chunk(`{"functionCall":{"id":"x","name":"f","args":[]}},`+
			`{"functionCall":{"id":"x","name":"f","args":"{\"q\":1}"}}`, ""), usage(counted, "STOP")},
			[]llm.Event{begin(0, "x", "f"), arguments(0, "[]"), end(0), begin(1, "x_2", "f"), arguments(1, `{"q":1}`), end(1),
				spent, finished(llm.FinishToolCalls)}},
		"calls that are cut short": {[]string{chunk(`{"functionCall":{"id":"x","name":"f"}}`, ""),
			usage(counted, "MAX_TOKENS")}, []llm.Event{begin(0, "x", "f"), end(0), spent, finished(llm.FinishLength)}},
		"what the service runs itself": {[]string{chunk(`{"executableCode":{"code":"1"}},{"codeExecutionResult":{}},`+
			`{"text":"","thoughtSignature":"c2ln"}`, ""), usage(counted, "STOP")}, []llm.Event{spent, finished(llm.FinishStop)}},
		"usage after the end": {[]string{chunk(`{"text":"a"}`, `,"finishReason":"STOP"`),
			`{"usageMetadata":{` + counted + `}}`}, []llm.Event{said("a"), spent, finished(llm.FinishStop)}},
		"no usage": {[]string{chunk(`{"text":"a"}`, `,"finishReason":"STOP"`)},
			[]llm.Event{said("a"), finished(llm.FinishStop)}},
		"one reply only": {[]string{strings.Replace(chunk(`{"text":"a"}`, ""), `"index":0}]`,
			`"index":0},{"content":{"parts":[{"text":"z"}]},"index":1}]`, 1), usage(counted, "STOP")},
			[]llm.Event{said("a"), spent, finished(llm.FinishStop)}},
		"one reply only, in whatever order": {[]string{chunk(`{"text":"a"}`, ""),
			`{"candidates":[{"content":{"parts":[{"text":"z"}]},"finishReason":"SAFETY","index":1}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"z"}]},"index":1},{"content":{"parts":[{"text":"b"}]}}]}`,
			usage(counted, "STOP")}, []llm.Event{said("a"), said("b"), spent, finished(llm.FinishStop)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := dialect.Read(c.chunks...)
			require.NoError(t, err)
			require.Equal(t, c.want, events)
		})
	}
	t.Run("ids", func(t *testing.T) {
		t.Parallel()
		d := gemini.NewDecoder(func(llm.Event) error { return nil })
		require.NoError(t, d.Data([]byte(chunk(`{"text":"a"}`, ""))))
		require.Equal(t, "r-1", d.ID())
		require.False(t, d.Done())
	})
}

// TestCallsWithoutIDs: each gets one of ours, by which it is known not to be the service's.
func TestCallsWithoutIDs(t *testing.T) {
	t.Parallel()
	events, err := dialect.Read(chunk(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}`, ""),
		usage(counted, "STOP"))
	require.NoError(t, err)
	require.Len(t, events, 6)
	for _, i := range []int{0, 2} {
		require.Regexp(t, `^call_made_[A-Z2-7]{26}$`, events[i].ID)
	}
	require.NotEqual(t, events[0].ID, events[2].ID)
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]llm.FinishReason{
		"STOP": llm.FinishStop, "MAX_TOKENS": llm.FinishLength, "FINISH_REASON_UNSPECIFIED": llm.FinishUnknown,
		"SAFETY": llm.FinishPolicy, "RECITATION": llm.FinishPolicy, "BLOCKLIST": llm.FinishPolicy,
		"PROHIBITED_CONTENT": llm.FinishPolicy, "SPII": llm.FinishPolicy, "MODEL_ARMOR": llm.FinishPolicy,
		"IMAGE_SAFETY": llm.FinishPolicy, "IMAGE_PROHIBITED_CONTENT": llm.FinishPolicy, "IMAGE_RECITATION": llm.FinishPolicy,
		"MALFORMED_FUNCTION_CALL": "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL": "UNEXPECTED_TOOL_CALL",
		"TOO_MANY_TOOL_CALLS": "TOO_MANY_TOOL_CALLS", "LANGUAGE": "LANGUAGE", "OTHER": "OTHER",
	} {
		events, err := dialect.Read(chunk(`{"text":"a"}`, ""), usage(counted, word))
		require.NoError(t, err)
		require.Equal(t, finished(want), events[len(events)-1], "GAP-114")
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	n := llm.Count
	for name, c := range map[string]struct {
		chunks []string
		want   *llm.Usage
	}{
		"GAP-109 disjoint classes": {[]string{chunk(`{"text":"a"}`, ""), usage(`"promptTokenCount":100,`+
			`"cachedContentTokenCount":40,"toolUsePromptTokenCount":7,"candidatesTokenCount":20,"thoughtsTokenCount":30`,
			"STOP")},
			&llm.Usage{Input: n(67), CacheRead: n(40), Output: n(50), Reasoning: n(30)}},
		"what grows": {[]string{`{"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}`,
			strings.Replace(chunk(`{"text":"a"}`, ""), `"modelVersion"`,
				`"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2},"modelVersion"`, 1),
			usage(`"promptTokenCount":9,"candidatesTokenCount":4`, "STOP")}, &llm.Usage{Input: n(9), Output: n(4)}},
		"nothing but thoughts": {[]string{usage(`"promptTokenCount":9,"thoughtsTokenCount":90,"totalTokenCount":99`,
			"MAX_TOKENS")}, &llm.Usage{Input: n(9), Output: n(90), Reasoning: n(90)}},
		"GAP-111 text and no word of it": {[]string{chunk(`{"text":"a"}`, ""), usage(`"promptTokenCount":9,`+
			`"thoughtsTokenCount":90`, "STOP")}, &llm.Usage{Flaw: "candidatesTokenCount is missing"}},
		"GAP-111 nothing of the prompt": {[]string{chunk(`{"text":"a"}`, ""), usage(`"candidatesTokenCount":9`, "STOP")},
			&llm.Usage{Flaw: "promptTokenCount is missing"}},
		"GAP-111 no count": {[]string{chunk(`{"text":"a"}`, ""), usage(`"promptTokenCount":-1`, "STOP")},
			&llm.Usage{Flaw: "promptTokenCount is negative"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := dialect.Read(c.chunks...)
			require.NoError(t, err)
			require.Equal(t, llm.Event{Kind: llm.EventUsage, Usage: c.want}, events[len(events)-2])
		})
	}
}

func TestDecoderFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chunks []string
		want   llm.ErrorKind
	}{
		"cut before anything": {nil, llm.ErrBroken},
		"cut after text":      {[]string{chunk(`{"text":"a"}`, "")}, llm.ErrBroken},
		"no JSON":             {[]string{"<html>"}, llm.ErrProtocol},
		"GAP-84 a call that does not go on": {[]string{chunk(`{"functionCall":{"name":"f","willContinue":true}}`, ""),
			usage(counted, "STOP")}, llm.ErrProtocol},
		"GAP-84 a call within another": {[]string{chunk(`{"functionCall":{"name":"f","willContinue":true}},`+
			`{"functionCall":{"name":"g","args":{}}}`, ""), usage(counted, "STOP")}, llm.ErrProtocol},
		"GAP-84 a call of that name within another": {[]string{chunk(`{"functionCall":{"id":"x","name":"f",`+
			`"willContinue":true}},{"functionCall":{"id":"y","name":"f","args":{}}}`, ""), usage(counted, "STOP")},
			llm.ErrProtocol},
		"GAP-84 arguments in parts": {[]string{chunk(`{"functionCall":{"name":"f","willContinue":true}},{"functionCall":`+
			`{"partialArgs":[{"jsonPath":"$.q","stringValue":"x"}]}}`, "")}, llm.ErrProtocol},
		"a call without name": {[]string{chunk(`{"functionCall":{"args":{}}}`, "")}, llm.ErrProtocol},
		"an error": {[]string{chunk(`{"text":"a"}`, ""), `{"error":{"code":503,"message":"overloaded",` +
			`"status":"UNAVAILABLE"}}`}, llm.ErrCapacity},
		"a prompt that is declined": {[]string{`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` +
			`"usageMetadata":{"promptTokenCount":4}}`}, llm.ErrPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dialect.Read(c.chunks...)
			var failed *llm.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.want, failed.Kind)
		})
	}
	t.Run("usage before the refusal", func(t *testing.T) {
		t.Parallel()
		events, err := dialect.Read(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}`)
		require.EqualError(t, err, "policy: the upstream declined the prompt (SAFETY)")
		require.Equal(t, []llm.Event{{Kind: llm.EventUsage, Usage: &llm.Usage{Input: llm.Count(4)}}}, events)
	})
	t.Run("feedback beside a reply is none", func(t *testing.T) {
		t.Parallel()
		_, err := dialect.Read(strings.Replace(usage(counted, "STOP"), `"modelVersion"`,
			`"promptFeedback":{"blockReason":"OTHER"},"modelVersion"`, 1))
		require.NoError(t, err)
	})
}

func TestWhole(t *testing.T) {
	t.Parallel()
	events, err := dialect.ReadWhole(strings.Replace(chunk(`{"text":"a"},{"functionCall":{"id":"x","name":"f"}}`,
		`,"finishReason":"STOP"`), `"modelVersion"`, `"usageMetadata":{`+counted+`},"modelVersion"`, 1))
	require.NoError(t, err)
	require.Equal(t, []llm.Event{said("a"), familytest.Begin(0, "x", "f"), familytest.End(0), spent,
		finished(llm.FinishToolCalls)}, events)
	for body, kind := range map[string]llm.ErrorKind{
		`{}`: llm.ErrProtocol, `x`: llm.ErrProtocol, chunk(`{"text":"a"}`, ""): llm.ErrProtocol,
		`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`: llm.ErrCapacity,
	} {
		_, err = dialect.ReadWhole(body)
		require.Equal(t, kind, llm.KindOf(err), body)
	}
}

func FuzzDecoder(f *testing.F) {
	familytest.FuzzDecoder(f, dialect, "testdata/stream.txt",
		[]string{chunk(`{"text":"\ud83d"},{"text":"a","thought":true}`, ""), chunk(`{"text":"b"}`, ""),
			usage(counted, "STOP")},
		[]string{chunk(`{"functionCall":{"id":"x","name":"f","args":{"q":1}}},{"functionCall":{"name":"g"}}`, ""),
			chunk(`{"text":"b"}`, `,"finishReason":"STOP"`), chunk(`{"functionCall":{"name":"h","args":[]}}`, ""),
			usage(counted, "OTHER")},
		[]string{usage(`"promptTokenCount":1e0,"thoughtsTokenCount":9007199254740992,"candidatesTokenCount":9007199254740992`,
			"MAX_TOKENS")},
		[]string{chunk(`{"text":"a"}`, ""), `{"error":{"code":503,"status":"UNAVAILABLE"}}`, usage(counted, "STOP")},
		[]string{`{"promptFeedback":{"blockReason":"SAFETY"}}`}, []string{`{"candidates":{}}`, `{"candidates":[7]}`, "[]"})
}
