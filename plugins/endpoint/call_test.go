package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/tokens"
)

// caller makes calls of one endpoint.
type caller struct {
	client endpoint.Client
	source endpoint.Source
}

// start makes a caller of a service at an address.
func start(t *testing.T, e endpoint.Endpoint) *caller {
	t.Helper()
	url, err := endpoint.Join("base_url", e.URL, endpoint.Chat)
	require.NoError(t, err)
	e.Dialect, e.URL = endpoint.Chat, url
	c := &caller{
		source: endpoint.Source{Ask: func(context.Context, string, bool) (*endpoint.Endpoint, error) { return &e, nil }},
	}
	t.Cleanup(c.client.CloseIdle)
	return c
}

// Generate makes one call.
func (c *caller) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	call, err := c.client.Call(ctx, &c.source, req)
	if err != nil {
		return err
	}
	defer call.Close()
	return call.Each(send)
}

// bearer is a key as a header.
func bearer(key string) []endpoint.Header {
	return []endpoint.Header{{Name: "Authorization", Value: "Bearer " + key}}
}

// pair makes a fake service, and a caller of it.
func pair(t *testing.T, o upstream.Options) (*upstream.Server, *caller) {
	t.Helper()
	s := upstream.Start(t, o)
	return s, start(t, endpoint.Endpoint{URL: s.BaseURL()})
}

// withTimeout bounds what a test waits for; it is no part of what is tested.
func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ask(text string) *llm.Request {
	return &llm.Request{Attempt: "att-1", Model: "m", MaxTokens: 100,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
}

// generate makes one attempt and returns its events up to its end.
func generate(t *testing.T, c *caller, req *llm.Request) ([]llm.Event, error) {
	t.Helper()
	var events []llm.Event
	err := c.Generate(withTimeout(t), req, func(ev llm.Event) error {
		events = append(events, ev)
		return nil
	})
	checkOrder(t, events, err)
	return events, err
}

// checkOrder checks what the SDK demands of every attempt.
func checkOrder(t *testing.T, events []llm.Event, err error) {
	t.Helper()
	finished := false
	for i, ev := range events {
		require.Equal(t, i == 0, ev.Kind == llm.EventAccepted, "Accepted comes first, once")
		require.False(t, finished, "nothing comes after Finish")
		finished = ev.Kind == llm.EventFinish
	}
	require.Equal(t, err == nil, finished, "an attempt ends with Finish or with an error (%v)", err)
}

func fold(events []llm.Event) *llm.Reply {
	var reply llm.Reply
	for _, ev := range events {
		reply.Add(ev)
	}
	reply.Close()
	return &reply
}

func TestReplies(t *testing.T) {
	t.Parallel()
	weather := llm.Item{Call: &llm.ToolCall{ID: "call_a", Name: "weather", Arguments: llm.Plain(`{"city":"Rome"}`)}}
	clock := llm.Item{Call: &llm.ToolCall{ID: "call_b", Name: "time", Arguments: llm.Plain(`{"zone":"CET"}`)}}
	every := upstream.Say("one two three")
	every.Usage = upstream.UsageEveryChunk
	always := upstream.Say("one two three")
	always.Usage = upstream.UsageWithFinish
	never := upstream.Say("one two three")
	never.Usage = upstream.UsageNever
	counted := &llm.Usage{Input: llm.Count(2), Output: llm.Count(3)}
	cached, zero := int64(600), int64(0)
	for name, c := range map[string]struct {
		reply  upstream.Reply
		items  []llm.Item
		finish llm.FinishReason
		usage  *llm.Usage
	}{
		"usage in a chunk of its own": {
			upstream.Say("one two three"), []llm.Item{{Text: "one two three"}}, llm.FinishStop, counted,
		},
		"usage in every chunk":  {every, []llm.Item{{Text: "one two three"}}, llm.FinishStop, counted},
		"usage with the finish": {always, []llm.Item{{Text: "one two three"}}, llm.FinishStop, counted},
		"usage never":           {never, []llm.Item{{Text: "one two three"}}, llm.FinishStop, nil},
		"GAP-109 disjoint classes, explicit zero": {
			upstream.Reply{Steps: []upstream.Step{
				upstream.Text("ok"), upstream.Finish("length"),
				upstream.ReportTokens(upstream.Usage{Prompt: 950, Completion: 700, Cached: &cached, Reasoning: &zero}),
				upstream.Done(),
			}},
			[]llm.Item{{Text: "ok"}}, llm.FinishLength,
			&llm.Usage{Input: llm.Count(350), CacheRead: llm.Count(600), Output: llm.Count(700), Reasoning: llm.Count(0)}},
		"interleaved tool calls": {upstream.Reply{Steps: []upstream.Step{
			upstream.ToolCall(0, "call_a", "weather"), upstream.ToolCall(1, "call_b", "time"),
			upstream.Arguments(0, `{"city":`), upstream.Arguments(1, `{"zone":`),
			upstream.Arguments(0, `"Rome"}`), upstream.Arguments(1, `"CET"}`),
			upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}},
			[]llm.Item{weather, clock}, llm.FinishToolCalls, &llm.Usage{Input: llm.Count(2), Output: llm.Count(4)}},
		"reasoning before the text": {
			upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("42"),
				upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}},
			[]llm.Item{{Text: "42"}}, llm.FinishStop,
			&llm.Usage{Input: llm.Count(2), Output: llm.Count(4), Reasoning: llm.Count(3)}},
		"comments and a policy's end": {
			upstream.Reply{Steps: []upstream.Step{
				upstream.Comment("OPENROUTER PROCESSING"), upstream.Text("no"),
				upstream.Comment("OPENROUTER PROCESSING"), upstream.Finish("content_filter"), upstream.Done(),
			}},
			[]llm.Item{{Text: "no"}}, llm.FinishPolicy, nil},
		"no end marker": {upstream.Reply{Steps: []upstream.Step{upstream.Text("ok"), upstream.Finish("stop")}},
			[]llm.Item{{Text: "ok"}}, llm.FinishStop, nil},
		"no blank line after the end marker": {
			upstream.Reply{Steps: []upstream.Step{upstream.Text("ok"), upstream.Finish("stop"), upstream.Raw("data: [DONE]")}},
			[]llm.Item{{Text: "ok"}}, llm.FinishStop, nil},
	} {
		for wire, shape := range map[string]upstream.Wire{
			"": {}, ", crlf": {LineEnd: "crlf"}, ", a byte a write": {Piece: 1}, ", one write": {Piece: 1 << 20},
		} {
			t.Run(name+wire, func(t *testing.T) {
				t.Parallel()
				s, p := pair(t, upstream.Options{})
				reply := c.reply
				reply.Wire = shape
				reply.Model = "m-2026"
				s.Enqueue(reply)
				events, err := generate(t, p, ask("x"))
				require.NoError(t, err)
				got := fold(events)
				require.Equal(t, c.items, got.Items)
				require.Equal(t, c.finish, got.Finish)
				require.Equal(t, c.usage, got.Usage)
				require.Equal(t, "m-2026", got.Model)
			})
		}
	}
}

// notStreamed is the body of a completion in one piece.
const notStreamed = `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",
	"message":{"role":"assistant","content":"whole"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`

func TestReplyInOnePieceThoughAStreamWasAsked(t *testing.T) {
	t.Parallel()
	s, p := pair(t, upstream.Options{})
	s.Enqueue(
		upstream.Reply{
			Header: map[string]string{"Content-Type": "application/json"},
			Steps:  []upstream.Step{upstream.Raw(notStreamed)},
		},
	)
	events, err := generate(t, p, ask("x"))
	require.NoError(t, err)
	require.Equal(t, "whole", fold(events).Text())
	require.Equal(t, &llm.Usage{Input: llm.Count(5), Output: llm.Count(1)}, fold(events).Usage)
}

func TestOnePieceSaysWhatAStreamSays(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	reply := upstream.Reply{Model: "m-2026", Steps: []upstream.Step{upstream.Text("let me"), upstream.Text(" see"),
		upstream.ToolCall(0, "call_a", "weather"), upstream.Arguments(0, `{"city":"Rome"}`),
		upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}}
	whole := ask("x")
	whole.Whole = true
	var folds []*llm.Reply
	for n, c := range []struct {
		request  *llm.Request
		always   bool
		streamed bool
	}{
		{ask("x"), false, true},
		{whole, false, false},
		{whole, true, true},
	} {
		s.Enqueue(reply)
		events, err := generate(t, start(t, endpoint.Endpoint{URL: s.BaseURL(), AlwaysStream: c.always}), c.request)
		require.NoError(t, err)
		folds = append(folds, fold(events))
		got, err := s.Request(withTimeout(t), int64(n)+1)
		require.NoError(t, err)
		require.Equal(t, c.streamed, got.Stream)
	}
	require.NotNil(t, folds[0].Usage)
	require.Len(t, folds[0].Items, 2)
	require.Equal(t, folds[0], folds[1])
	require.Equal(t, folds[0], folds[2])
}

func TestRequestIsWhatTheServiceTakes(t *testing.T) {
	t.Parallel()
	s, p := pair(t, upstream.Options{})
	temperature, strict := 0.5, true
	req := &llm.Request{
		Attempt: "att-1", Model: "m", MaxTokens: 77, Temperature: &temperature, Stop: []string{"a", "b", "c", "d"},
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("be brief")}},
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("weather "), llm.Text("and time?")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("let me see"),
				{
					Call: &llm.ToolCall{ID: "c1", Name: "weather"},
				}, {Call: &llm.ToolCall{ID: "c2", Name: "time", Arguments: llm.Plain(`{"zone":"CET"}`)}}}},
			{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("sunny")}},
			{Role: llm.RoleTool, CallID: "c2", IsError: true, Parts: []llm.Part{llm.Text("no clock")}},
		},
		Tools: []llm.Tool{
			{Name: "weather", Description: "the weather", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
			{Name: "time", Schema: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string"}}}`)},
		},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "time"},
		Format: &llm.Format{
			Kind:   llm.FormatJSONSchema,
			Name:   "out",
			Schema: json.RawMessage(`{"type":"object"}`),
			Strict: &strict,
		},
	}
	_, err := generate(t, p, req)
	require.NoError(t, err, "the fake is as strict as the real service")
	got, err := s.Request(withTimeout(t), 1)
	require.NoError(t, err)
	require.True(t, got.Stream)
	require.True(t, got.IncludeUsage)
	require.EqualValues(t, 77, got.MaxTokens)
	require.Equal(t, req.Stop, got.Stop)
	require.Equal(t, "weather and time?", got.LastUser())
	require.Equal(t, "{}", got.Messages[2].Calls[0].Arguments)
	require.NotContains(t, string(got.Body), "att-1", "the attempt's id is the gateway's business")
	require.Empty(t, got.Header.Get("Authorization"), "no key, no header")

	req.Whole, req.Unsupported = true, []string{"stop", "temperature"}
	_, err = generate(t, p, req)
	require.NoError(t, err)
	got, err = s.Request(withTimeout(t), 2)
	require.NoError(t, err)
	require.NotContains(t, string(got.Body), `"stop"`)
	require.NotContains(t, string(got.Body), `"temperature"`)
	require.False(t, got.Stream, "nobody waits for pieces")
}

func TestUsageIsEstimatedWhereNoneIsReported(t *testing.T) {
	t.Parallel()
	s, p := pair(t, upstream.Options{})
	long := strings.Repeat("the quick brown fox ", 5000)
	silent := upstream.Reply{
		Usage: upstream.UsageNever,
		Steps: []upstream.Step{upstream.Reasoning("let me see"), upstream.Text(long),
			upstream.ToolCall(0, "c1", "find"), upstream.Arguments(0, `{"a":1}`), upstream.Finish("stop"), upstream.Done()},
	}

	t.Run("GAP-108 estimated when told", func(t *testing.T) {
		s.Enqueue(silent)
		req := ask("hello there")
		req.EstimateUsage = true
		events, err := generate(t, p, req)
		require.NoError(t, err)
		usage := fold(events).Usage
		require.True(t, usage.Estimated)
		require.Positive(t, *usage.Input)
		require.InDelta(t, tokens.Text(long), *usage.Output, 20, "beside the reasoning and a call")
		require.InDelta(t, 3, *usage.Reasoning, 1)
	})
	t.Run("GAP-108 absent when not told", func(t *testing.T) {
		s.Enqueue(silent)
		events, err := generate(t, p, ask("hello there"))
		require.NoError(t, err)
		require.Nil(t, fold(events).Usage)
	})
	reporting := func(u upstream.Usage) upstream.Reply {
		return upstream.Reply{Steps: []upstream.Step{upstream.Text("ok"), upstream.Finish("stop"),
			upstream.ReportTokens(u), upstream.Done()}}
	}
	t.Run("GAP-108 reported usage is never replaced", func(t *testing.T) {
		s.Enqueue(reporting(upstream.Usage{Prompt: 0, Completion: 1}))
		req := ask("hello there")
		req.EstimateUsage = true
		events, err := generate(t, p, req)
		require.NoError(t, err)
		told := slices.DeleteFunc(slices.Clone(events), func(ev llm.Event) bool { return ev.Kind != llm.EventUsage })
		require.Len(t, told, 1, "nothing is estimated beside it")
		require.False(t, told[0].Usage.Estimated)
		require.Equal(t, &llm.Usage{Input: llm.Count(0), Output: llm.Count(1)}, fold(events).Usage)
	})
	t.Run("GAP-108 zeros for a text are no report", func(t *testing.T) {
		for _, zeros := range []upstream.Usage{{}, {Cached: llm.Count(0), Reasoning: llm.Count(0)}} {
			for _, estimate := range []bool{true, false} {
				s.Enqueue(reporting(zeros))
				req := ask("hello there")
				req.EstimateUsage = estimate
				events, err := generate(t, p, req)
				require.NoError(t, err)
				used := fold(events).Usage
				require.Equal(t, estimate, used.Estimated)
				require.Equal(t, !estimate, used.Blank(), "the gateway's to judge")
				if estimate {
					require.EqualValues(t, tokens.Text("ok"), *used.Output)
				}
			}
		}
	})
	t.Run("GAP-108 work before a failure is estimated too", func(t *testing.T) {
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("one two three"), upstream.Cut()}},
			upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Cut()}})
		req := ask("hello there")
		req.EstimateUsage = true
		events, err := generate(t, p, req)
		require.Equal(t, llm.ErrBroken, llm.KindOf(err))
		require.EqualValues(t, 3, *fold(events).Usage.Output)
		events, err = generate(t, p, req)
		require.Equal(t, llm.ErrBroken, llm.KindOf(err))
		require.Nil(t, fold(events).Usage, "but not where nothing was produced")
	})
}

// callPeer begins a call of an upstream that is a bare connection, and has begun a stream in chunks on it.
func callPeer(t *testing.T) (*endpoint.Call, net.Conn) {
	t.Helper()
	call, conn, events := answerPeer(t, endpoint.Endpoint{}, simple, "Content-Type: text/event-stream\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n")
	require.Len(t, events, 1)
	require.Equal(t, llm.EventAccepted, events[0].Kind)
	return call, conn
}

// answerPeer begins a call of an upstream that is a bare connection, on which an answer begins with some headers and
// what else is behind them. It returns the first events, too.
func answerPeer(t *testing.T, e endpoint.Endpoint, req *llm.Request, begun string) (
	*endpoint.Call, net.Conn, []llm.Event,
) {
	t.Helper()
	peer, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := peer.Accept(); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+begun)
			accepted <- conn
		}
	}()
	e.URL = "http://" + peer.Addr().String()
	c := start(t, e)
	call, err := c.client.Call(withTimeout(t), &c.source, req)
	require.NoError(t, err)
	t.Cleanup(call.Close)
	events, err := call.Recv()
	require.NoError(t, err)
	conn := <-accepted
	t.Cleanup(func() { _ = conn.Close() })
	return call, conn, events
}

// TestTheHeadWaitsForNoBody: that a reply in one piece is accepted, and what the upstream calls it, is said when the
// head has come, though it is long until the rest of the body has.
func TestTheHeadWaitsForNoBody(t *testing.T) {
	t.Parallel()
	const body = `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	for name, framing := range map[string]struct{ begun, rest string }{
		"of a known size": {fmt.Sprintf("Content-Length: %d\r\n\r\n\n", 1+len(body)), body},
		"in chunks": {"Transfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := *simple
			req.Whole = true
			call, conn, events := answerPeer(t, endpoint.Endpoint{References: true, ReferenceHeader: "Job"}, &req,
				"Content-Type: application/json\r\nJob: job-1\r\n"+framing.begun)
			require.Len(t, events, 2)
			require.Equal(t, llm.EventAccepted, events[0].Kind)
			require.Equal(t, llm.Event{Kind: llm.EventReference, ID: "job-1"}, events[1])
			_, err := io.WriteString(conn, framing.rest)
			require.NoError(t, err)
			events, err = call.Recv()
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, "hi", events[0].Text)
		})
	}
}

// said is an event of a stream with a text.
func said(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

// TestWhatHasComeComesTogether: Recv returns every event that has come, and waits for no other.
func TestWhatHasComeComesTogether(t *testing.T) {
	t.Parallel()
	call, conn := callPeer(t)
	const many = 40 // more than any buffer holds, less than a batch
	text := strings.Repeat("x", 300)
	event := said(text)
	for range many {
		_, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(event), event)
		require.NoError(t, err)
	}
	_, err := fmt.Fprintf(conn, "%x\r\n%s", len(event), event[:len(event)/2]) // of the next one
	require.NoError(t, err)
	events, err := call.Recv()
	require.NoError(t, err)
	require.Len(t, events, many)
	for _, ev := range events {
		require.Equal(t, text, ev.Text)
	}
}

// TestABatchIsBounded: what comes without a pause is handed on in pieces of some 32 KiB of the stream.
func TestABatchIsBounded(t *testing.T) {
	t.Parallel()
	call, conn := callPeer(t)
	const many = 100
	event := said(strings.Repeat("x", 900))
	_, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", many*len(event), strings.Repeat(event, many))
	require.NoError(t, err)
	for came := 0; came < many; {
		events, err := call.Recv()
		require.NoError(t, err)
		require.Less(t, (len(events)-1)*len(event), 40<<10)
		came += len(events)
	}
}
