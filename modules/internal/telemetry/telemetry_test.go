package telemetry

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

func attempt() Attempt {
	return Attempt{ID: "req_1.1", Request: "req_1", Route: "small", System: "openai", Model: "m", MaxTokens: 9,
		Stream: true}
}

// attributesOf are those of the one span that has ended.
func attributesOf(t *testing.T, spans *tracetest.SpanRecorder) map[attribute.Key]attribute.Value {
	t.Helper()
	ended := spans.Ended()
	require.Len(t, ended, 1)
	all := make(map[attribute.Key]attribute.Value)
	for _, a := range ended[0].Attributes() {
		all[a.Key] = a.Value
	}
	return all
}

// within is a context with the span of a request.
func within(t *testing.T) (context.Context, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, _ := provider.Tracer("test").Start(t.Context(), "request")
	return ctx, spans
}

func TestNobodyIsTold(t *testing.T) {
	t.Parallel()
	var r Recorder
	ctx, span := r.Begin(t.Context(), func() Attempt { t.Error("described for nobody"); return Attempt{} })
	require.Equal(t, t.Context(), ctx)
	require.Nil(t, span)
	span.Note(llm.Event{Kind: llm.EventText, Text: "hello"})
	span.End(End{})
}

// TestASpan has what the attempt used, and of a failure its kind and no more.
func TestASpan(t *testing.T) {
	t.Parallel()
	ctx, spans := within(t)
	var r Recorder
	inner, span := r.Begin(ctx, attempt)
	require.NotEqual(t, trace.SpanContextFromContext(ctx).SpanID(), trace.SpanContextFromContext(inner).SpanID())
	require.False(t, endpoint.TracesUpstream(inner))
	span.Note(llm.Event{Kind: llm.EventText, Text: "secret"})
	span.End(End{Failure: "capacity", Model: "m-2", Key: "main", Finish: llm.FinishLength, First: time.Second,
		Usage: &llm.Usage{Input: llm.Count(5), CacheRead: llm.Count(3), CacheWrite: llm.Count(2), Output: llm.Count(4),
			Reasoning: llm.Count(1)}})
	got := attributesOf(t, spans)
	for key, want := range map[attribute.Key]attribute.Value{
		"gen_ai.operation.name": attribute.StringValue("chat"), "gen_ai.provider.name": attribute.StringValue("openai"),
		"gen_ai.request.model": attribute.StringValue("m"), "gen_ai.request.max_tokens": attribute.Int64Value(9),
		"gen_ai.response.model": attribute.StringValue("m-2"), "gen_ai.usage.input_tokens": attribute.Int64Value(10),
		"gen_ai.usage.output_tokens":               attribute.Int64Value(4),
		"gen_ai.usage.cache_read.input_tokens":     attribute.Int64Value(3),
		"gen_ai.usage.cache_creation.input_tokens": attribute.Int64Value(2),
		"gen_ai.usage.reasoning.output_tokens":     attribute.Int64Value(1),
		"gen_ai.response.finish_reasons":           attribute.StringSliceValue([]string{"length"}),
		"gen_ai.response.time_to_first_chunk":      attribute.Float64Value(1),
		"error.type":                               attribute.StringValue("capacity"),
		"fareway.route":                            attribute.StringValue("small"),
	} {
		require.Equal(t, want, got[key], key)
	}
	require.NotContains(t, got, attribute.Key("gen_ai.input.messages"))
	require.NotContains(t, got, attribute.Key("gen_ai.output.messages"))
	ended := spans.Ended()[0]
	require.Equal(t, "chat m", ended.Name())
	require.Equal(t, trace.SpanKindClient, ended.SpanKind())
	require.Equal(t, sdktrace.Status{Code: codes.Error}, ended.Status())
}

// TestContent: the end of a conversation and the reply, as the conventions write them, with tool calls, and bounded.
func TestContent(t *testing.T) {
	t.Parallel()
	ctx, spans := within(t)
	var r Recorder
	_, span := r.Begin(ctx, func() Attempt {
		a := attempt()
		a.Upstream = true
		a.Content = &llm.Request{Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{{Text: llm.Plain("forgotten")}}},
			{Role: llm.RoleUser, Parts: []llm.Part{{Text: llm.Plain(strings.Repeat("ä", maxContent))}}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "c", Name: "look",
				Arguments: llm.Plain(`{"a":1}`)}}}},
			{Role: llm.RoleTool, CallID: "c", Parts: []llm.Part{{Text: llm.Plain("<done>")}}},
		}}
		return a
	})
	for _, ev := range []llm.Event{{Kind: llm.EventText, Text: "a"}, {Kind: llm.EventReasoning, Text: "hidden"},
		{Kind: llm.EventText, Text: "b"}, {Kind: llm.EventToolCall, ID: "d", Name: "go"},
		{Kind: llm.EventToolArguments, Text: "{}"}, {Kind: llm.EventText, Text: strings.Repeat("x", 2*maxContent)}} {
		span.Note(ev)
	}
	span.End(End{Finish: llm.FinishToolCalls})
	got := attributesOf(t, spans)
	in, out := got["gen_ai.input.messages"].AsString(), got["gen_ai.output.messages"].AsString()
	require.NotContains(t, in, "forgotten")
	require.Less(t, len(in), maxContent+1000)
	require.Contains(t, in, `{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"look",`+
		`"arguments":"{\"a\":1}"}]}`)
	require.Contains(t, in, `{"role":"tool","parts":[{"type":"tool_call_response","id":"c",`+
		`"result":"\u003cdone\u003e"}]}`)
	require.Less(t, len(out), maxContent+1000)
	require.True(t, strings.HasPrefix(out, `[{"role":"assistant","parts":[{"type":"text","content":"ab"},`+
		`{"type":"tool_call","id":"d","name":"go","arguments":"{}"},{"type":"text","content":"xxx`), out[:200])
	require.NotContains(t, out, "hidden")
}

// TestContentIsBounded by all that goes in: very many parts without a word, and ids and names of any length.
func TestContentIsBounded(t *testing.T) {
	t.Parallel()
	const many = 10_000
	long := strings.Repeat("n", 2*maxContent)
	for name, m := range map[string]llm.Message{
		"parts":     {Role: llm.RoleUser, Parts: make([]llm.Part, many)},
		"names":     {Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "c", Name: long}}}},
		"ids":       {Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: long, Name: "f"}}}},
		"responses": {Role: llm.RoleTool, CallID: long, Parts: []llm.Part{{Text: llm.Plain("x")}}},
		"empty":     {Role: llm.RoleUser},
	} {
		req := &llm.Request{}
		for range many {
			req.Messages = append(req.Messages, m)
		}
		got := describeMessages(req)
		require.LessOrEqual(t, len(got), maxContent+2*overhead, name)
		require.Greater(t, len(got), maxContent/5, name)
	}
	for name, ev := range map[string]llm.Event{
		"calls": {Kind: llm.EventToolCall, ID: "c", Name: "f"},
		"names": {Kind: llm.EventToolCall, ID: "c", Name: long},
		"texts": {Kind: llm.EventText, Text: "word"},
	} {
		var said text
		for i := range 2 * many {
			ev.Index = i
			said.add(ev)
			said.add(llm.Event{Kind: llm.EventToolArguments, Index: i, Text: "{}"})
		}
		require.LessOrEqual(t, len(said.message(llm.FinishStop)), maxContent+2*overhead, name)
	}
}

// TestInterleavedCalls: each has its own arguments, and none has them that never began.
func TestInterleavedCalls(t *testing.T) {
	t.Parallel()
	var said text
	for _, ev := range []llm.Event{{Kind: llm.EventText, Text: "so"}, {Kind: llm.EventToolArguments, Text: "lost"},
		{Kind: llm.EventToolCall, ID: "a", Name: "f"}, {Kind: llm.EventToolCall, Index: 1, ID: "b", Name: "g"},
		{Kind: llm.EventToolArguments, Text: "[1"}, {Kind: llm.EventToolArguments, Index: 1, Text: "[2]"},
		{Kind: llm.EventToolArguments, Text: "]"}} {
		said.add(ev)
	}
	require.JSONEq(t, `[{"role":"assistant","finish_reason":"tool_calls","parts":[{"type":"text","content":"so"},`+
		`{"type":"tool_call","id":"a","name":"f","arguments":"[1]"},`+
		`{"type":"tool_call","id":"b","name":"g","arguments":"[2]"}]}]`, said.message(llm.FinishToolCalls))
}

// TestSystem: services go by the conventions' names, and others by their plugins'.
func TestSystem(t *testing.T) {
	t.Parallel()
	require.Equal(t, "aws.bedrock", System("bedrock", ""))
	require.Equal(t, "mistral_ai", System("openai", "mistral"))
	require.Equal(t, "vllm", System("openai", "vllm"))
	require.Equal(t, "hello", System("hello", ""))
}

// BenchmarkOff is what an attempt costs that nobody is told of, in a context as deep as a request's.
func BenchmarkOff(b *testing.B) {
	ctx := context.Background()
	type key int
	for i := range 12 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	var r Recorder
	b.ReportAllocs()
	for b.Loop() {
		_, span := r.Begin(ctx, attempt)
		span.Note(llm.Event{Kind: llm.EventText, Text: "hello"})
		span.End(End{})
	}
}

func BenchmarkOn(b *testing.B) {
	provider := sdktrace.NewTracerProvider()
	ctx, _ := provider.Tracer("test").Start(b.Context(), "request")
	var r Recorder
	b.ReportAllocs()
	for b.Loop() {
		_, span := r.Begin(ctx, attempt)
		span.End(End{Finish: llm.FinishStop, Usage: &llm.Usage{Input: llm.Count(5), Output: llm.Count(4)}})
	}
}
