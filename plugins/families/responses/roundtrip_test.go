package responses_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// aText draws text of valid UTF-8 that is not empty.
func aText() *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(1, 12, -1), func(s string) string { return string([]rune(s)) })
}

// canonical draws a request in the form that this family can express: turns of the assistant that do not follow
// each other, one text for instructions and for results, no stop sequences, and none of what a client does not
// decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{MaxTokens: rapid.Int64Range(0, 1<<40).Draw(t, "allowance")}
		for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: "f" + strconv.Itoa(i), Description: rapid.String().Draw(t, "description"),
				Schema: []byte(rapid.SampledFrom([]string{`{}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`}).Draw(t, "schema"))})
		}
		if len(req.Tools) > 0 {
			req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired}, {Mode: llm.ToolNamed, Name: "f0"}}).Draw(t, "choice")
		}
		if rapid.Bool().Draw(t, "has temperature") {
			temperature := rapid.Float64Range(0, 2).Draw(t, "temperature")
			req.Temperature = &temperature
		}
		if rapid.Bool().Draw(t, "has instructions") {
			req.Messages = append(req.Messages, text(llm.RoleSystem, aText().Draw(t, "instructions")))
		}
		req.Messages = append(req.Messages, someTexts(t, llm.RoleUser))
		ids := 0
		for range rapid.IntRange(0, 3).Draw(t, "turns") {
			req.Messages = append(req.Messages, exchange(t, &ids)...)
		}
		return req
	})
}

func someTexts(t *rapid.T, role llm.Role) llm.Message {
	return text(role, rapid.SliceOfN(aText(), 1, 3).Draw(t, "texts")...)
}

// exchange draws a turn of the assistant and what the other side answers.
func exchange(t *rapid.T, ids *int) []llm.Message {
	reply := llm.Message{Role: llm.RoleAssistant}
	var answers []llm.Message
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "is text") {
			reply.Parts = append(reply.Parts, llm.Text(aText().Draw(t, "text")))
			continue
		}
		id := "c" + strconv.Itoa(*ids)
		*ids++
		reply.Parts = append(reply.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: aText().Draw(t, "name"),
			Arguments: rapid.SampledFrom([]string{"{}", `{"q":"é\n"}`, "not json"}).Draw(t, "arguments")}})
		result := text(llm.RoleTool, rapid.String().Draw(t, "result"))
		result.CallID = id
		answers = append(answers, result)
	}
	if len(answers) == 0 || rapid.Bool().Draw(t, "says more") {
		answers = append(answers, someTexts(t, rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleSystem}).Draw(t, "role")))
	}
	return append([]llm.Message{reply}, answers...)
}

func TestDecodingAnEncodedRequestGivesItBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		req := canonical().Draw(rt, "request")
		body, err := responses.EncodeRequest(nil, req)
		require.NoError(rt, err)
		got := accepted(t, string(body))
		require.True(rt, got.Stream)
		require.Equal(rt, req, got.LLM)
	})
}

// fold is what a reader makes of a reply. On the wire no arguments are {} (GAP-84).
func fold(events []llm.Event) ([]llm.Item, llm.FinishReason, *llm.Usage) {
	var reply llm.Reply
	for _, ev := range events {
		reply.Add(ev)
	}
	reply.Close()
	var items []llm.Item
	for _, item := range reply.Items {
		if item.Call != nil && item.Call.Arguments == "" {
			item.Call.Arguments = "{}"
		}
		if item.Call != nil || item.Text != "" {
			items = append(items, item)
		}
	}
	return items, reply.Finish, reply.Usage
}

func TestDecodingAnEncodedReplyGivesItBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := legal(t)
		items, _, _ := fold(events)
		ending := families.End{Finish: rapid.SampledFrom([]llm.FinishReason{llm.FinishStop, llm.FinishLength, llm.FinishPolicy}).Draw(t, "finish"),
			Usage: used(rapid.Int64Range(0, 99).Draw(t, "input"), rapid.Int64Range(0, 99).Draw(t, "output"))}
		ending.Usage.CacheRead, ending.Usage.Reasoning = llm.Count(rapid.Int64Range(0, 9).Draw(t, "read")), llm.Count(0)
		finish := ending.Finish
		for _, item := range items {
			if item.Call != nil && finish == llm.FinishStop {
				finish = llm.FinishToolCalls
			}
		}
		check := func(got []llm.Event, err error) {
			require.NoError(t, err)
			var order wire.Order
			require.NoError(t, order.Check(llm.Event{Kind: llm.EventAccepted}))
			for _, ev := range got {
				require.NoError(t, order.Check(ev))
			}
			require.True(t, order.Finished())
			gotItems, gotFinish, gotUsage := fold(got)
			require.Equal(t, items, gotItems)
			require.Equal(t, finish, gotFinish)
			require.Equal(t, ending.Usage, gotUsage)
		}
		check(readStream([]byte(stream(events, ending))))
		check(readWhole(whole(events, ending)))
	})
}

// readStream reads a stream as a provider does.
func readStream(stream []byte) ([]llm.Event, error) {
	var events []llm.Event
	d := responses.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
	reader := sse.NewReader(bytes.NewReader(stream), 1<<20)
	for {
		ev, err := reader.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events, d.Close()
		}
		if err != nil {
			return events, err
		}
		if err := d.Data(ev.Data); err != nil {
			return events, err
		}
	}
}

func TestStreamCutAtEveryByte(t *testing.T) {
	t.Parallel()
	whole := strings.TrimSuffix(stream(append(say("a", "b"), begin(0, "c", "f"), arguments(0, `{"q":1}`), end(0)), families.End{Finish: llm.FinishToolCalls, Usage: used(10, 2)}), "data: [DONE]\n\n")
	for at := range len(whole) {
		events, err := readStream([]byte(whole[:at]))
		require.Equal(t, llm.ErrBroken, llm.KindOf(err), "cut after %d bytes", at)
		for _, ev := range events {
			require.NotEqual(t, llm.EventFinish, ev.Kind)
		}
	}
	_, err := readStream([]byte(whole))
	require.NoError(t, err)
}

// What clients send can be sent on, and is then read as the same conversation.
func TestEncodeCaptures(t *testing.T) {
	t.Parallel()
	for name, body := range captures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, refused := decodeBody(t, body)
			if refused != nil {
				require.Equal(t, families.UnsupportedField, refused.Code)
				return
			}
			official(t, checkSent(t, req.LLM))
		})
	}
}

// checkSent fails if a request that was read cannot be sent on, or is then read as another one, and returns what is
// sent.
func checkSent(t *testing.T, req *llm.Request) []byte {
	t.Helper()
	sent, err := responses.EncodeRequest(nil, req)
	require.NoError(t, err)
	again := accepted(t, string(sent)).LLM
	require.Len(t, again.Messages, len(req.Messages))
	for i, m := range again.Messages {
		require.Equal(t, req.Messages[i].Role, m.Role)
		require.Equal(t, req.Messages[i].Text(), m.Text())
		require.Equal(t, req.Messages[i].CallID, m.CallID)
	}
	require.Len(t, again.Tools, len(req.Tools))
	require.Equal(t, req.ToolChoice, again.ToolChoice)
	require.Equal(t, req.MaxTokens, again.MaxTokens)
	require.Equal(t, req.Temperature, again.Temperature)
	return sent
}

// FuzzDecoder checks that no stream makes the decoder break the rules of events, and that the finish comes
// last and once, or an error instead.
func FuzzDecoder(f *testing.F) {
	golden, err := os.ReadFile("testdata/e17.txt")
	require.NoError(f, err)
	f.Add(golden)
	f.Add([]byte(stream(append(say("a"), begin(0, "c", "f"), begin(1, "d", "g"), arguments(1, "{}"), end(1)), families.End{Usage: used(10, 2)})))
	for _, data := range [][]string{
		{created, added("0", `{"type":"function_call","name":"f"}`), delta("output_text", "1", `\ud83d`), delta("function_call_arguments", "0", "{"), argumentsDone("0", "{}")},
		{created, itemDone("0", `{"type":"function_call","name":"f","arguments":"{}"}`), last("incomplete", `"incomplete_details":{"reason":"content_filter"}`)},
		{`{"type":"error","code":"server_error"}`}, {delta("reasoning_summary_text", "0", "h"), last("completed", `"output":[{"type":"message","content":[{"text":"a"}]}]`)},
	} {
		var stream []byte
		for _, d := range data {
			stream = sse.Append(stream, "", []byte(d))
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var order wire.Order
		require.NoError(t, order.Check(llm.Event{Kind: llm.EventAccepted}))
		d := responses.NewDecoder(func(ev llm.Event) error {
			require.NoError(t, order.Check(ev))
			return nil
		})
		reader := sse.NewReader(bytes.NewReader(stream), 1<<16)
		for {
			ev, err := reader.Next()
			if err != nil || d.Data(ev.Data) != nil {
				break
			}
		}
		require.Equal(t, d.Close() == nil, order.Finished())
	})
}
