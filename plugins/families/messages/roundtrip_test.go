package messages_test

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
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// aText draws text of valid UTF-8 that is not blank and has no blanks at its end.
func aText() *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(0, 12, -1), func(s string) string { return string([]rune(s)) + "." })
}

func someTexts(t *rapid.T, role llm.Role) llm.Message {
	return text(role, rapid.SliceOfN(aText(), 1, 3).Draw(t, "texts")...)
}

// canonical draws a request in the form that this family can express: one system message at the beginning, then
// turns of the user and the assistant, results before what the user says, and none of what a client does not
// decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{MaxTokens: rapid.Int64Range(1, 1<<40).Draw(t, "allowance"),
			Stop: rapid.SliceOfNDistinct(aText(), 0, 4, rapid.ID).Draw(t, "stop")}
		if len(req.Stop) == 0 {
			req.Stop = nil
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: "f" + strconv.Itoa(i), Description: rapid.String().Draw(t, "description"),
				Schema: []byte(rapid.SampledFrom([]string{`{"type":"object"}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`}).Draw(t, "schema"))})
		}
		if len(req.Tools) > 0 {
			req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired}, {Mode: llm.ToolNamed, Name: "f0"}}).Draw(t, "choice")
		}
		if rapid.Bool().Draw(t, "has temperature") {
			temperature := rapid.Float64Range(0, 1).Draw(t, "temperature")
			req.Temperature = &temperature
		}
		if rapid.Bool().Draw(t, "has system") {
			req.Messages = append(req.Messages, someTexts(t, llm.RoleSystem))
		}
		req.Messages = append(req.Messages, someTexts(t, llm.RoleUser))
		ids := 0
		for range rapid.IntRange(0, 3).Draw(t, "turns") {
			req.Messages = append(req.Messages, exchange(t, &ids)...)
		}
		return req
	})
}

// exchange draws a turn of the assistant and what the user's side answers.
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
			Arguments: rapid.SampledFrom([]string{"{}", `{"q":"é\n","list":[1,{"x":null}]}`}).Draw(t, "arguments")}})
		result := text(llm.RoleTool, rapid.SliceOfN(aText(), 0, 2).Draw(t, "result")...)
		result.CallID, result.IsError = id, rapid.Bool().Draw(t, "failed")
		answers = append(answers, result)
	}
	if len(answers) == 0 || rapid.Bool().Draw(t, "says more") {
		answers = append(answers, someTexts(t, llm.RoleUser))
	}
	return append([]llm.Message{reply}, answers...)
}

func TestDecodingAnEncodedRequestGivesItBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		req := canonical().Draw(rt, "request")
		body, err := messages.EncodeRequest(nil, req)
		require.NoError(rt, err)
		require.Equal(rt, &families.Request{LLM: req, Stream: true}, accepted(t, string(body)))
	})
}

// fold is what a reader makes of a reply. On the wire no arguments are an empty object (GAP-84).
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
		ending.Usage.CacheRead, ending.Usage.CacheWrite = llm.Count(rapid.Int64Range(0, 9).Draw(t, "read")), llm.Count(rapid.Int64Range(0, 9).Draw(t, "written"))
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
	d := messages.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
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
	whole := stream(append(say("a", "b"), begin(0, "c", "f"), arguments(0, `{"q":1}`), end(0)), families.End{Finish: llm.FinishToolCalls, Usage: used(10, 2)})
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
				require.Equal(t, "sdk-anthropic-7", name)
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
	allowed := *req
	allowed.MaxTokens = max(req.MaxTokens, 1)
	sent, err := messages.EncodeRequest(nil, &allowed)
	if err != nil {
		require.ErrorContains(t, err, "there is no text in them")
		return nil
	}
	again := accepted(t, string(sent)).LLM
	// Instructions without a question are sent as the question.
	require.Equal(t, append(said(req, llm.RoleSystem), said(req, llm.RoleUser)...), append(said(again, llm.RoleSystem), said(again, llm.RoleUser)...))
	require.Equal(t, said(req, llm.RoleTool), said(again, llm.RoleTool))
	replies, repliesAgain := said(req, llm.RoleAssistant), said(again, llm.RoleAssistant)
	if n := len(replies); n > 0 && req.Messages[len(req.Messages)-1].Role == llm.RoleAssistant { // the beginning of the reply
		require.Equal(t, strings.TrimRight(replies[n-1], " \t\r\n"), strings.TrimRight(repliesAgain[n-1], " \t\r\n"))
		replies, repliesAgain = replies[:n-1], repliesAgain[:n-1]
	}
	require.Equal(t, replies, repliesAgain)
	require.Len(t, again.Tools, len(req.Tools))
	require.Equal(t, req.ToolChoice, again.ToolChoice)
	require.Equal(t, req.Temperature, again.Temperature)
	require.Equal(t, allowed.MaxTokens, again.MaxTokens)
	return sent
}

// said is all that one role says and calls, in order, without blank texts.
func said(req *llm.Request, role llm.Role) []string {
	var all []string
	for _, m := range req.Messages {
		if m.Role != role {
			continue
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				arguments := p.Call.Arguments
				if arguments == "" {
					arguments = "{}"
				}
				all = append(all, p.Call.Name+"("+arguments+")")
			} else if strings.TrimSpace(p.Text) != "" {
				all = append(all, p.Text)
			}
		}
	}
	return all
}

// FuzzDecoder checks that no stream makes the decoder break the rules of events, and that the finish comes
// last and once, or an error instead.
func FuzzDecoder(f *testing.F) {
	golden, err := os.ReadFile("testdata/e18.txt")
	require.NoError(f, err)
	f.Add(golden)
	for _, data := range [][]string{
		{started, blockStart("0", `{"type":"tool_use","id":"t","name":"f","input":{"q":1}}`), blockStop("0"), ended("tool_use"), stopped},
		{started, blockStart("0", `{"type":"tool_use","name":"f"}`), inputDelta("0", `{"q":`), textDelta(`\ud83d`), blockStart("1", `{"type":"tool_use","id":"t","name":"g"}`), inputDelta("1", "x"), blockStop("1"), stopped},
		{started, `{"type":"error","error":{"type":"overloaded_error"}}`}, {started, blockStart("0", `{"type":"thinking","thinking":"h"}`), ended("refusal"), stopped},
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
		d := messages.NewDecoder(func(ev llm.Event) error {
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
