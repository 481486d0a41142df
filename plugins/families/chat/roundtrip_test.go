package chat_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// aText draws text of valid UTF-8 that is not empty.
func aText() *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(1, 12, -1), func(s string) string { return string([]rune(s)) })
}

// canonical draws a request in the form that this family can express: one text to a message, before its
// calls, and none of what a client does not decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{Stop: rapid.SliceOfNDistinct(aText(), 0, 4, rapid.ID).Draw(t, "stop")}
		if len(req.Stop) == 0 {
			req.Stop = nil
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: "f" + strconv.Itoa(i), Description: rapid.String().Draw(t, "description"),
				Schema: []byte(rapid.SampledFrom([]string{`{"type":"object"}`, `{}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`}).Draw(t, "schema"))})
		}
		if len(req.Tools) > 0 {
			req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired}, {Mode: llm.ToolNamed, Name: "f0"}}).Draw(t, "choice")
		}
		var ids []string
		for range rapid.IntRange(1, 5).Draw(t, "messages") {
			req.Messages = append(req.Messages, message(t, &ids))
		}
		req.MaxTokens = rapid.Int64Range(0, 1<<40).Draw(t, "allowance")
		if rapid.Bool().Draw(t, "has temperature") {
			temperature := rapid.Float64Range(0, 2).Draw(t, "temperature")
			req.Temperature = &temperature
		}
		return req
	})
}

func message(t *rapid.T, ids *[]string) llm.Message {
	role := rapid.SampledFrom([]llm.Role{llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool}).Draw(t, "role")
	if role == llm.RoleTool && len(*ids) == 0 {
		role = llm.RoleUser
	}
	m := llm.Message{Role: role, Parts: []llm.Part{llm.Text(aText().Draw(t, "text"))}}
	switch role {
	case llm.RoleTool:
		m.CallID = rapid.SampledFrom(*ids).Draw(t, "answers")
	case llm.RoleAssistant:
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			id := "c" + strconv.Itoa(len(*ids))
			*ids = append(*ids, id)
			m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: aText().Draw(t, "name"),
				Arguments: rapid.SampledFrom([]string{"{}", `{"q":"é\n"}`, "not json"}).Draw(t, "arguments")}})
		}
		if len(m.Parts) > 1 && rapid.Bool().Draw(t, "only calls") {
			m.Parts = m.Parts[1:]
		}
	}
	return m
}

func TestDecodingAnEncodedRequestGivesItBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := canonical().Draw(t, "request")
		body, err := chat.EncodeRequest(nil, req)
		require.NoError(t, err)
		got := good(t, string(body))
		require.Equal(t, &families.Request{LLM: req, Stream: true, IncludeUsage: true}, got)
	})
}

// fold is what a client makes of a reply: its text, its calls in their order, and how it ended.
func fold(t require.TestingT, events []llm.Event) (string, []llm.ToolCall, llm.FinishReason, *llm.Usage) {
	var reply llm.Reply
	for _, ev := range events {
		reply.Add(ev)
	}
	reply.Close()
	var calls []llm.ToolCall
	for _, item := range reply.Items {
		if item.Call != nil {
			call := *item.Call
			if call.Arguments == "" {
				call.Arguments = "{}" // on the wire no arguments are an empty object (GAP-84)
			}
			calls = append(calls, call)
		}
	}
	return reply.Text(), calls, reply.Finish, reply.Usage
}

// replies draws a legal sequence of events and the end that belongs to it. Pieces of several calls may be
// interleaved with each other; text ends the calls before it.
func replies() *rapid.Generator[[]llm.Event] {
	return rapid.Custom(func(t *rapid.T) []llm.Event {
		var events []llm.Event
		calls, open := 0, 0
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0:
				events = append(events, callEvent(calls, "c"+strconv.Itoa(calls), aText().Draw(t, "name")))
				calls++
			case kind == 1 && calls > open:
				events = append(events, argumentsEvent(rapid.IntRange(open, calls-1).Draw(t, "call"), rapid.String().Draw(t, "piece")))
			default:
				events, open = append(events, text(rapid.String().Draw(t, "text"))), calls
			}
		}
		finish := rapid.SampledFrom([]llm.FinishReason{llm.FinishStop, llm.FinishLength, llm.FinishPolicy}).Draw(t, "finish")
		if calls > 0 && finish == llm.FinishStop {
			finish = llm.FinishToolCalls
		}
		read := rapid.Int64Range(0, 9).Draw(t, "cache read")
		return append(events, usage(llm.Usage{Input: llm.Count(rapid.Int64Range(0, 99).Draw(t, "input")), CacheRead: &read,
			Output: llm.Count(rapid.Int64Range(0, 99).Draw(t, "output")), Reasoning: llm.Count(0)}), finished(finish))
	})
}

func TestDecodingAnEncodedReplyGivesItBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := replies().Draw(t, "reply")
		wantText, wantCalls, finish, used := fold(t, events)
		end := families.End{Finish: finish, Usage: used}
		check := func(got []llm.Event) {
			gotText, gotCalls, gotFinish, gotUsage := fold(t, got)
			require.Equal(t, wantText, gotText)
			require.Equal(t, wantCalls, gotCalls)
			require.Equal(t, finish, gotFinish)
			require.Equal(t, used, gotUsage)
		}
		check(readStream(t, []byte(stream(encoder(true), events, end))))

		var whole llm.Reply
		for _, ev := range events {
			whole.Add(ev)
		}
		whole.Close()
		var got []llm.Event
		require.NoError(t, chat.DecodeReply(encoder(true).AppendReply(nil, &whole, end), func(ev llm.Event) error { got = append(got, ev); return nil }))
		check(got)
	})
}

// readStream reads a stream as a provider does.
func readStream(t require.TestingT, stream []byte) []llm.Event {
	var events []llm.Event
	d := chat.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
	reader := sse.NewReader(bytes.NewReader(stream), 1<<20)
	for {
		ev, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, d.Data(ev.Data))
	}
	require.True(t, d.Done())
	require.NoError(t, d.Close())
	return events
}

func TestCapturedRequests(t *testing.T) {
	t.Parallel()
	for path, body := range seeds(t) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			req, err := decode(t, string(body))
			if bytes.Contains(body, []byte(`"response_format"`)) {
				require.Equal(t, families.UnsupportedField, err.Code)
				return
			}
			require.Nil(t, err)
			require.NotEmpty(t, req.LLM.Messages)
		})
	}
}

// seeds are requests of real clients, with their texts replaced and shortened and most tools left out.
func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/requests/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	bodies := make(map[string][]byte)
	for _, path := range paths {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		bodies[filepath.Base(path)] = body
	}
	return bodies
}

// FuzzDecode checks that whatever is accepted can be sent on, and is then read as the same request.
func FuzzDecode(f *testing.F) {
	for _, body := range seeds(f) {
		f.Add(body)
	}
	f.Add([]byte(with(`"response_format":{"type":"json_schema","json_schema":{"schema":{},"name":"n","strict":true}}`)))
	f.Add([]byte(with(`"response_format":{"type":"json_object","json_schema":5}`)))
	f.Add([]byte(with(toolF + `,"tool_choice":{"type":"function","name":"f"},"stop":["a","",1],"n":1.0,"max_tokens":1e2`)))
	f.Add([]byte(messages(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:image/png"}},{"type":"text"}]}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := families.Parse(body)
		if err != nil {
			require.Equal(t, 400, err.Status)
			return
		}
		checkRead(t, doc, families.Rules{})
		checkRead(t, doc, families.Rules{StructuredOutput: true})
	})
}

// checkRead is FuzzDecode for one set of rules.
func checkRead(t *testing.T, doc *families.Document, rules families.Rules) {
	req, err := chat.Server{}.Decode(doc, rules)
	if err != nil {
		require.Equal(t, 400, err.Status)
		return
	}
	require.True(t, rules.StructuredOutput || req.LLM.Format == nil)
	sent, encodeErr := chat.EncodeRequest(nil, req.LLM)
	require.NoError(t, encodeErr)
	doc, err = families.Parse(sent)
	require.Nil(t, err)
	again, err := chat.Server{}.Decode(doc, families.Rules{StructuredOutput: true})
	require.Nil(t, err)
	require.Len(t, again.LLM.Messages, len(req.LLM.Messages))
	for i := range again.LLM.Messages {
		require.Equal(t, req.LLM.Messages[i].Text(), again.LLM.Messages[i].Text())
		require.Equal(t, req.LLM.Messages[i].Role, again.LLM.Messages[i].Role)
	}
	require.Equal(t, req.LLM.Stop, again.LLM.Stop)
	require.Equal(t, req.LLM.MaxTokens, again.LLM.MaxTokens)
	require.Equal(t, req.LLM.ToolChoice, again.LLM.ToolChoice)
	require.Equal(t, req.LLM.Tools, again.LLM.Tools)
	require.Equal(t, req.LLM.Format, again.LLM.Format)
}

// FuzzDecoder checks that no stream makes the decoder break the rules of events: calls begin before their
// arguments, and the finish comes last and once, or an error instead.
func FuzzDecoder(f *testing.F) {
	golden, err := os.ReadFile("testdata/e16.sse")
	require.NoError(f, err)
	f.Add(golden)
	for _, chunks := range [][]string{
		{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"\ud83d"}}`), tool(`{"index":0,"function":{"arguments":"\ude00"}}`), finish("tool_calls")},
		{tool(`{"function":{"name":"f"}},{"id":"b","function":{"arguments":{}}}`), delta(`{"function_call":{"name":"g"}}`), "[DONE]"},
		{`{"error":{"code":429,"message":"m"}}`}, {delta(`{"content":[{"text":"a"}],"reasoning":"r","refusal":"x"}`)},
	} {
		var stream []byte
		for _, c := range chunks {
			stream = sse.Append(stream, "", []byte(c))
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		begun, ended := 0, false
		d := chat.NewDecoder(func(ev llm.Event) error {
			require.False(t, ended)
			switch ev.Kind {
			case llm.EventToolCall:
				require.Equal(t, begun, ev.Index)
				require.NotEmpty(t, ev.ID)
				require.NotEmpty(t, ev.Name)
				begun++
			case llm.EventToolArguments:
				require.Less(t, ev.Index, begun)
			case llm.EventFinish:
				ended = true
			}
			return nil
		})
		reader := sse.NewReader(bytes.NewReader(stream), 1<<16)
		for {
			ev, err := reader.Next()
			if err != nil || d.Data(ev.Data) != nil {
				break
			}
		}
		require.Equal(t, d.Close() == nil, ended)
	})
}
