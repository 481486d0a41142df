package responses_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	created = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",` +
		`"status":"in_progress","model":"m-1","output":[],"usage":null}}`
	spent = `"usage":{"input_tokens":10,"output_tokens":2,"total_tokens":12}`
)

// last is the event with which a stream ends.
func last(status, members string) string {
	return `{"type":"response.` + status + `","response":{"status":"` + status + `","model":"m-1",` + members + `}}`
}

func added(at, item string) string {
	return `{"type":"response.output_item.added","output_index":` + at + `,"item":` + item + `}`
}

func itemDone(at, item string) string {
	return `{"type":"response.output_item.done","output_index":` + at + `,"item":` + item + `}`
}

func delta(kind, at, piece string) string {
	return `{"type":"response.` + kind + `.delta","output_index":` + at + `,"item_id":"i","delta":"` + piece + `"}`
}

func argumentsDone(at, whole string) string {
	return `{"type":"response.function_call_arguments.done","output_index":` + at + `,"item_id":"i","arguments":"` +
		whole + `"}`
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	const (
		message = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text",` +
			`"text":"ab"}]}`
		opened = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`
		called = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`
	)
	use := spending(*used(10, 2))
	for _, tt := range []struct {
		name string
		data []string // between response.created and the response's end
		want []llm.Event
	}{
		{"a text, said four times", []string{added("0", `{"type":"message","content":[]}`),
			`{"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":""}}`,
			delta("output_text", "0", "a"), delta("output_text", "0", "b"),
			`{"type":"response.output_text.done","output_index":0,"text":"ab"}`, itemDone("0", message)},
			append(say("a", "b"), use, finished(llm.FinishStop))},
		{"a text without deltas", []string{added("0", `{"type":"message","content":[]}`), itemDone("0", message)},
			append(say("ab"), use, finished(llm.FinishStop))},
		{"refusal is text", []string{delta("refusal", "0", "no"),
			itemDone("0", `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`)},
			append(say("no"), use, finished(llm.FinishStop))},
		{"reasoning, its summary and its text", []string{added("0", `{"type":"reasoning","summary":[]}`),
			delta("reasoning_summary_text", "0", "h"), delta("reasoning_text", "0", "m"),
			itemDone("0", `{"type":"reasoning","summary":[{"type":"summary_text","text":"h"}]}`),
			delta("output_text", "1", "a")},
			append([]llm.Event{thought("h"), thought("m")}, append(say("a"), use, finished(llm.FinishStop))...)},
		{"reasoning without deltas", []string{itemDone("0",
			`{"type":"reasoning","summary":[{"type":"summary_text","text":"h"}],"content":[{"type":"reasoning_text",`+
				`"text":"m"}],"encrypted_content":"x"}`)},
			[]llm.Event{thought("h"), thought("m"), use, finished(llm.FinishStop)}},
		{"GAP-82 a call ends with its arguments", []string{added("0", opened),
			delta("function_call_arguments", "0", `{\"q\"`), delta("function_call_arguments", "0", `:1}`),
			argumentsDone("0", `{\"q\":1}`),
			itemDone("0", called), delta("output_text", "1", "a")},
			append([]llm.Event{begin(0, "c1", "f"), arguments(0, `{"q"`), arguments(0, `:1}`), end(0)},
				append(say("a"), use, finished(llm.FinishToolCalls))...)},
		{"a call ends with its item", []string{added("0", opened), delta("function_call_arguments", "0", "{}"),
			itemDone("0", called), delta("function_call_arguments", "0", "late")},
			[]llm.Event{begin(0, "c1", "f"), arguments(0, "{}"), end(0), use, finished(llm.FinishToolCalls)}},
		{"arguments without deltas", []string{added("0", opened), argumentsDone("0", `{\"q\":1}`), itemDone("0", called)},
			[]llm.Event{begin(0, "c1", "f"), arguments(0, `{"q":1}`), end(0), use, finished(llm.FinishToolCalls)}},
		{"a call that comes whole", []string{itemDone("0", called)},
			[]llm.Event{begin(0, "c1", "f"), arguments(0, "{}"), end(0), use, finished(llm.FinishToolCalls)}},
		{"calls side by side", []string{added("0", opened), added("1", `{"type":"function_call","call_id":"c2","name":"g"}`),
			delta("function_call_arguments", "1", "1"), delta("function_call_arguments", "0", "0"), argumentsDone("1", "1"),
			argumentsDone("0", "0")},
			[]llm.Event{begin(0, "c1", "f"), begin(1, "c2", "g"), arguments(1, "1"), arguments(0, "0"), end(1), end(0), use,
				finished(llm.FinishToolCalls)}},
		{"tools that the upstream runs itself are passed over",
			[]string{added("0", `{"type":"web_search_call","id":"ws_1","status":"in_progress"}`),
				`{"type":"response.web_search_call.searching","output_index":0}`,
				delta("function_call_arguments", "0", "{}"), argumentsDone("0", "{}"), itemDone("0", `{"type":"web_search_call"}`),
				"", delta("output_text", "1", "a")}, append(say("a"), use, finished(llm.FinishStop))},
		{"GAP-74 a surrogate pair cut in two", []string{delta("output_text", "0", `x\ud83d`),
			delta("output_text", "0", `\ude00y`)}, append(say("x", "😀y"), use, finished(llm.FinishStop))},
		{"GAP-74 half a pair at the end of arguments",
			[]string{added("0", opened), delta("function_call_arguments", "0", `\ud83d`), argumentsDone("0", "x")},
			[]llm.Event{begin(0, "c1", "f"), arguments(0, "\uFFFD"), end(0), use, finished(llm.FinishToolCalls)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(append(append([]string{created}, tt.data...), last("completed", spent), "[DONE]",
				"nothing counts now")...)
			require.NoError(t, err)
			require.Equal(t, tt.want, events)
		})
	}
	t.Run("a response that comes with its end", func(t *testing.T) {
		t.Parallel()
		events, err := read(created, last("completed", `"output":[`+message+`,`+called+`],`+spent))
		require.NoError(t, err)
		require.Equal(t, append(say("ab"), begin(0, "c1", "f"), arguments(0, "{}"), end(0), use,
			finished(llm.FinishToolCalls)), events)
	})
}

// TestItems proves the wire's rows about items, and others of their kinds.
func TestItems(t *testing.T) {
	t.Parallel()
	const (
		call = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"q\":1}"}`
		text = `{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"ab"}]}`
		open = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`
	)
	nowhere := func(kind, id, piece string) string {
		return `{"type":"response.` + kind + `.delta","item_id":"` + id + `","delta":"` + piece + `"}`
	}
	f := []llm.Event{begin(0, "c1", "f"), arguments(0, `{"q":1}`), end(0)}
	for _, tt := range []struct {
		name string
		data []string
		out  string // the response's output at its end
		want []llm.Event
	}{
		{"a call only at the end", []string{delta("output_text", "0", "ab")}, text + "," + call, append(say("ab"), f...)},
		{"a call whose arguments stand only at the end", []string{added("0", open)}, call, f},
		{"a call whose arguments stand only in its item's end", []string{added("0", open), itemDone("0", call)}, call, f},
		{"a message ends at the index of a call", []string{added("0", open), itemDone("0", text), itemDone("0", call)},
			call + "," + text, []llm.Event{begin(0, "c1", "f"), say("ab")[0]}},
		{"a message ends at the index of a call that has its arguments", []string{added("0", open),
			delta("function_call_arguments", "0", `{\"q\":1}`), argumentsDone("0", `{\"q\":1}`), itemDone("0", text)},
			call + "," + text, append(f, say("ab")...)},
		{"no index at all", []string{`{"type":"response.output_item.added","item":` + open + `}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"g"}}`,
			nowhere("function_call_arguments", "fc_1", "{"), nowhere("function_call_arguments", "fc_2", "{"),
			nowhere("function_call_arguments", "fc_1", "}"), nowhere("function_call_arguments", "fc_2", "}")},
			`{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":"{}"},` + open,
			[]llm.Event{begin(0, "c1", "f"), begin(1, "c2", "g"), arguments(0, "{"), arguments(1, "{"), arguments(0, "}"),
				arguments(1, "}"), end(1), end(0)}},
		{"reasoning, and the message only at the end", []string{delta("reasoning_text", "0", "h")},
			`{"type":"reasoning","id":"rs","content":[{"type":"reasoning_text","text":"h"}]},` + text,
			append([]llm.Event{thought("h")}, say("ab")...)},
		{"another id in each event", []string{added("0", open),
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"x","delta":"{\"q\":1}"}`,
			itemDone("0", strings.Replace(call, "fc_1", "y", 1))}, strings.Replace(call, "fc_1", "z", 1), f},
		{"text that is there, by whatever id", []string{delta("output_text", "0", "ab")}, text, say("ab")},
		{"two messages, one only at the end", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "ab")}, `{"type":"message","id":"msg_0","content":[{"text":"c"}]},` + text,
			say("ab", "c")},
		{"arguments at a wrong index", []string{added("0", open), delta("function_call_arguments", "4", `{\"q\":1}`)},
			call, f},
		{"one id for two calls", nil, call + "," + strings.Replace(call, "fc_1", "fc_2", 1),
			append(f, begin(1, "c1_2", "f"), arguments(1, `{"q":1}`), end(1))},
		{"another id at the end", []string{added("0", open), nowhere("function_call_arguments", "fc_1", `{\"q\":1}`),
			itemDone("0", call)}, strings.Replace(call, "fc_1", "fc_z", 1), f},
		{"another id in its end and at the end", []string{added("0", open),
			nowhere("function_call_arguments", "fc_1", `{\"q\":1}`), itemDone("0", strings.Replace(call, "fc_1", "fc_b", 1))},
			strings.Replace(call, "fc_1", "fc_b", 1), f},
		{"an item that begins twice", []string{added("0", open), added("0", open),
			delta("function_call_arguments", "0", `{\"q\":1}`)}, call, f},
		{"an item that ends before it begins", []string{itemDone("0", call), added("0", open)}, call, f},
		{"two calls of one id", []string{added("0", open), delta("function_call_arguments", "0", `{\"q\":1}`),
			added("1", strings.Replace(open, `"c1"`, `"c2"`, 1)), delta("function_call_arguments", "1", `{}`)}, "",
			[]llm.Event{begin(0, "c1", "f"), arguments(0, `{"q":1}`), begin(1, "c2", "f"), arguments(1, "{}")}},
		{"a text under another id at the end", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "ab"), itemDone("0", text)}, strings.Replace(text, "msg_1", "msg_z", 1), say("ab")},
		{"the same where it ends", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "ab"), itemDone("0", strings.Replace(text, "msg_1", "msg_z", 1))}, "", say("ab")},
		{"a text that its item's end says longer", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "a"), itemDone("0", text)}, text, say("a", "b")},
		{"a text that the end says longer", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "a")}, text, say("a", "b")},
		{"a text that the end says otherwise", []string{added("0", `{"type":"message","id":"msg_1"}`),
			nowhere("output_text", "msg_1", "ab ")}, text, say("ab ")},
		{"a text that only its end says", []string{
			`{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"text":"ab"}`}, "", say("ab")},
		{"a text that its end says once more", []string{delta("output_text", "0", "ab"),
			`{"type":"response.output_text.done","output_index":0,"text":"ab"}`}, text, say("ab")},
		{"arguments by another name", nil, strings.Replace(call, `"arguments":"{\"q\":1}"`, `"parameters":{"q":1}`, 1), f},
		{"arguments in a text", nil, `{"type":"function_call","call_id":"c1","name":"f","arguments":"\"{\\\"q\\\":1}\""}`, f},
		{"an array is no arguments", nil, `{"type":"function_call","call_id":"c1","name":"f","arguments":[]}`,
			[]llm.Event{begin(0, "c1", "f"), arguments(0, "[]"), end(0)}},
	} {
		t.Run("GAP-84 "+tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(
				append(append([]string{created}, tt.data...), last("completed", `"output":[`+tt.out+`],`+spent))...)
			if tt.name == "a message ends at the index of a call" { // whose arguments come too late
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
				events, tt.want = events[:2], tt.want[:2]
				require.Equal(t, tt.want, events)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, events[:len(events)-2])
		})
	}
	t.Run("GAP-84 arguments of a call that never began", func(t *testing.T) {
		t.Parallel()
		_, err := read(created, delta("function_call_arguments", "0", "{}"), last("completed", `"output":[],`+spent))
		require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
	})
}

func TestDecoderEnds(t *testing.T) {
	t.Parallel()
	n := llm.Count
	for _, tt := range []struct {
		name string
		end  string
		want []llm.Event
	}{
		{"GAP-23 the allowance", last("incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`),
			[]llm.Event{finished(llm.FinishLength)}},
		{"the content policy", last("incomplete", `"incomplete_details":{"reason":"content_filter"}`),
			[]llm.Event{finished(llm.FinishPolicy)}},
		{"GAP-114 an unknown reason", last("incomplete", `"incomplete_details":{"reason":"tired"}`),
			[]llm.Event{finished("tired")}},
		{"GAP-114 incomplete without a reason", last("incomplete", `"incomplete_details":null`),
			[]llm.Event{finished("incomplete")}},
		{"GAP-114 incomplete for the reason of a whole one", last("incomplete", `"incomplete_details":{"reason":"stop"}`),
			[]llm.Event{finished("incomplete")}},
		{"GAP-114 another word for the allowance", last("incomplete", `"incomplete_details":{"reason":"max_tokens"}`),
			[]llm.Event{finished(llm.FinishLength)}},
		{"GAP-114 complete, and not", last("completed", `"incomplete_details":{"reason":"error"}`),
			[]llm.Event{finished("error")}},
		{"GAP-114 an unknown status",
			`{"type":"response.completed","response":{"status":"aborted","incomplete_details":null,"output":[]}}`,
			[]llm.Event{finished("aborted")}},
		{"no usage", last("completed", `"usage":null`), []llm.Event{finished(llm.FinishStop)}},
		{"GAP-109 cached tokens are taken out of the input",
			last("completed",
				`"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":1},"output_tokens":2,`+
					`"output_tokens_details":{"reasoning_tokens":1}}`),
			[]llm.Event{spending(llm.Usage{Input: n(5), CacheRead: n(4), CacheWrite: n(1), Output: n(2), Reasoning: n(1)}),
				finished(llm.FinishStop)}},
		{"GAP-109 zero is zero, absent is absent", last("completed",
			`"usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":1}`),
			[]llm.Event{spending(llm.Usage{Input: n(0), CacheRead: n(0), Output: n(1)}), finished(llm.FinishStop)}},
		{"GAP-108 zeros are no witness of a text", last("completed", `"usage":{"input_tokens":0,"output_tokens":0}`),
			[]llm.Event{spending(llm.Usage{Input: n(0), Output: n(0)}), finished(llm.FinishStop)}},
		{"GAP-109 more cached than there was", last("completed",
			`"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":9},"output_tokens":1}`),
			[]llm.Event{spending(llm.Usage{Input: n(0), CacheRead: n(2), CacheWrite: n(1), Output: n(1)}),
				finished(llm.FinishStop)}},
		{"GAP-111 counts that are none", last("completed", `"usage":{"input_tokens":-1,"output_tokens":"2"}`),
			[]llm.Event{spending(llm.Usage{Flaw: "input_tokens is negative"}), finished(llm.FinishStop)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(created, delta("output_text", "0", "a"), tt.end)
			require.NoError(t, err)
			require.Equal(t, append(say("a"), tt.want...), events)
		})
	}
}

func TestDecoderFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		data []string
		want llm.ErrorKind
	}{
		{"cut before anything", nil, llm.ErrBroken},
		{"cut after text", []string{created, delta("output_text", "0", "a")}, llm.ErrBroken},
		{"cut after the item's end", []string{created,
			itemDone("0", `{"type":"message","content":[{"type":"output_text","text":"a"}]}`)}, llm.ErrBroken},
		{"an end marker alone is none", []string{created, delta("output_text", "0", "a"), "[DONE]"}, llm.ErrBroken},
		{"no JSON", []string{"<html>"}, llm.ErrProtocol},
		{"no object", []string{"[]"}, llm.ErrProtocol},
		{"an end without anything", []string{created, last("completed", spent)}, llm.ErrProtocol},
		{"an end that is none", []string{created, delta("output_text", "0", "a"),
			`{"type":"response.completed","response":{"status":"in_progress"}}`}, llm.ErrProtocol},
		{"a call without a name", []string{created, added("0", `{"type":"function_call","call_id":"c1"}`)}, llm.ErrProtocol},
		{"a call goes on after text", []string{created, added("0", `{"type":"function_call","call_id":"c1","name":"f"}`),
			delta("output_text", "1", "a"), delta("function_call_arguments", "0", "{}")}, llm.ErrProtocol},
		{"failed", []string{created, last("failed", `"error":{"code":"server_error","message":"m"}`)}, llm.ErrUpstream},
		{"failed by a limit", []string{created, last("failed", `"error":{"code":"rate_limit_exceeded","message":"m"}`)},
			llm.ErrCapacity},
		{"failed by policy", []string{created, last("failed", `"error":{"code":"invalid_prompt","message":"m"}`)},
			llm.ErrPolicy},
		{"failed by length", []string{created, last("failed", `"error":{"code":"context_length_exceeded","message":"m"}`)},
			llm.ErrContext},
		{"failed without a word", []string{created, last("failed", `"error":null`)}, llm.ErrUpstream},
		{"an error event", []string{created, `{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}`},
			llm.ErrCapacity},
		{"an error event with an object", []string{created,
			`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"m"}}`},
			llm.ErrContext},
		{"an error event without a word", []string{`{"type":"error"}`}, llm.ErrUpstream},
		{"an error of another shape", []string{`{"error":{"message":"m","code":401}}`}, llm.ErrCredentials},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(tt.data...)
			var typed *llm.Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, tt.want, typed.Kind)
		})
	}
	t.Run("usage is sent before the error, and the error stays", func(t *testing.T) {
		t.Parallel()
		var events []llm.Event
		d := responses.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
		err := d.Data([]byte(last("failed", `"error":{"code":"server_error","message":"m"},`+spent)))
		require.Error(t, err)
		require.Equal(t, []llm.Event{spending(*used(10, 2))}, events)
		require.Equal(t, err, d.Data([]byte(last("completed", spent))))
		require.Equal(t, err, d.Close())
		require.False(t, d.Done())
	})
}

func TestDecodeReply(t *testing.T) {
	t.Parallel()
	events, err := readWhole(`{"id":"resp_1","object":"response","status":"completed","error":null,` +
		`"incomplete_details":null,"model":"m-1","output":[
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"h"}]},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a",` +
		`"annotations":[]},{"type":"refusal","refusal":"b"}]},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"q\":1}","status":"completed"},` +
		`{"type":"web_search_call","id":"ws_1"},
		{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","arguments":""}],` + spent + `}`)
	require.NoError(t, err)
	require.Equal(t, []llm.Event{thought("h"), say("a")[0], say("b")[0], begin(0, "c1", "f"), arguments(0, `{"q":1}`),
		end(0), begin(1, "c2", "g"), end(1),
		spending(*used(10, 2)), finished(llm.FinishToolCalls)}, events)

	for body, kind := range map[string]llm.ErrorKind{
		`{"error":{"message":"m","code":"context_length_exceeded"}}`: llm.ErrContext,
		`{"error":"boom"}`: llm.ErrUpstream,
		`{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"},"output":[]}`: llm.ErrCapacity,
		`{"status":"failed","error":null,"output":[]}`:                                         llm.ErrUpstream,
		`{"status":"cancelled"}`:                                     llm.ErrUpstream,
		`{"status":"in_progress","output":[]}`:                       llm.ErrProtocol,
		`{"status":"completed"}`:                                     llm.ErrProtocol,
		`{"status":"completed","output":[{"type":"function_call"}]}`: llm.ErrProtocol,
		`{"status":"completed","output":[`:                           llm.ErrProtocol,
	} {
		_, err = readWhole(body)
		require.Equal(t, kind, llm.KindOf(err), body)
	}
}

// official reads a request body as the official library writes it, and fails for what its types do not have.
func official(t testing.TB, body []byte) {
	t.Helper()
	beyond := []string{"stream"} // a method of its own asks for a stream
	var named struct {
		Choice map[string]any `json:"tool_choice"`
	}
	if json.Unmarshal(body, &named) == nil && named.Choice != nil { // the library takes every object for a hosted tool's
		beyond = append(beyond, "tool_choice")
	}
	familytest.Understood(t, body, new(sdk.ResponseNewParams), beyond...)
}

func TestEncodeRequest(t *testing.T) {
	t.Parallel()
	encode := func(req *llm.Request) string {
		b, err := family.Conformed(nil, req)
		require.NoError(t, err)
		official(t, b)
		return string(b)
	}
	hi := []llm.Message{text(llm.RoleUser, "hi")}
	temperature := 1.3
	full := &llm.Request{Model: "m", Messages: hi, MaxTokens: 99, Temperature: &temperature, Stop: []string{"a"},
		Tools: []llm.Tool{{Name: "f", Description: "d", Schema: []byte(`{"type":"object","properties":{"a":{}}}`)},
			{Name: "g", Schema: []byte(`{"type":"object"}`)}}}
	const (
		plain = `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],` +
			`"store":false`
		tools = `,"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object",` +
			`"properties":{"a":{}}},"strict":false},` +
			`{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}]`
	)
	require.Equal(t, plain+`,"stream":true,"max_output_tokens":99,"temperature":1.3`+tools+"}", encode(full))
	full.Unsupported = []string{"temperature"}
	require.Equal(t, plain+`,"stream":true,"max_output_tokens":99`+tools+"}", encode(full))
	require.Equal(t, plain+"}", encode(&llm.Request{Model: "m", Messages: hi, Whole: true}))
	for choice, want := range map[llm.ToolChoice]string{
		{}: "", {Mode: llm.ToolNone}: `"none"`, {Mode: llm.ToolRequired}: `"required"`,
		{Mode: llm.ToolNamed, Name: "f"}: `{"type":"function","name":"f"}`,
	} {
		full.ToolChoice = choice
		if want != "" {
			want = `,"tool_choice":` + want
		}
		require.Equal(t, plain+`,"stream":true,"max_output_tokens":99`+tools+want+"}", encode(full))
	}
	strict := true
	require.Contains(t, encode(&llm.Request{Messages: hi, Format: &llm.Format{Kind: llm.FormatJSONObject}}),
		`,"text":{"format":{"type":"json_object"}}}`)
	require.Contains(t, encode(&llm.Request{Messages: hi,
		Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Description: "d", Schema: []byte(`{"type":"object"}`),
			Strict: &strict}}),
		`,"text":{"format":{"type":"json_schema","name":"n","description":"d","schema":{"type":"object"},"strict":true}}}`)

	nan := math.NaN()
	for want, req := range map[string]*llm.Request{
		`encoding messages: unknown role "robot"`: {Messages: []llm.Message{{Role: "robot"}}},
		`encoding messages: there are none`:       {},
		`encoding tool choice: unknown mode "x"`: {Messages: hi, Tools: full.Tools,
			ToolChoice: llm.ToolChoice{Mode: "x"}},
		"encoding temperature: NaN is not a number in JSON": {Messages: hi, Temperature: &nan},
	} {
		_, err := responses.EncodeRequest(nil, req)
		require.EqualError(t, err, want)
	}
}

func TestEncodeConversation(t *testing.T) {
	t.Parallel()
	result := text(llm.RoleTool, "x", "y")
	result.CallID, result.IsError = "c1", true
	turn := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("a"), llm.Text("b"),
		{Call: &llm.ToolCall{ID: "c1", Name: "f"}}, llm.Text("c")}}
	message := func(role, content string) string {
		return `{"type":"message","role":"` + role + `","content":[` + content + `]}`
	}
	reply := func(text string) string { return `{"type":"message","role":"assistant","content":"` + text + `"}` }
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"the first system message are the instructions",
			[]llm.Message{text(llm.RoleSystem, "a", "b"), text(llm.RoleUser, "hi"), text(llm.RoleSystem, "c")},
			`"instructions":"a\nb","input":[` + message("user", `{"type":"input_text","text":"hi"}`) + `,` + message("system",
				`{"type":"input_text","text":"c"}`) + `]`},
		{"a system message alone is the input", []llm.Message{text(llm.RoleSystem, "a")},
			`"input":[` + message("system", `{"type":"input_text","text":"a"}`) + `]`},
		{"a turn in items, and its results", []llm.Message{text(llm.RoleUser, "hi"), turn, result},
			`"input":[` + message("user", `{"type":"input_text","text":"hi"}`) + `,` + reply("a") + `,` + reply("b") +
				`,{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},` + reply("c") +
				`,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"Error: the tool failed."},` +
				`{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]}]`},
		{"turns of nothing", []llm.Message{{Role: llm.RoleUser}, {Role: llm.RoleAssistant}},
			`"input":[` + message("user", `{"type":"input_text","text":""}`) + `,` + reply("") + `]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := family.Conformed(nil, &llm.Request{Model: "m", Messages: tt.messages, Whole: true})
			require.NoError(t, err)
			official(t, b)
			require.Equal(t, `{"model":"m",`+tt.want+`,"store":false}`, string(b))
		})
	}
}
