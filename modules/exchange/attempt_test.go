package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// What a provider says of usage is judged here, whatever language it is written in.
func TestUsageOfAnAttempt(t *testing.T) {
	t.Parallel()
	n := llm.Count
	used := func(u llm.Usage) llm.Event { return llm.Event{Kind: llm.EventUsage, Usage: &u} }
	input, output := used(llm.Usage{Input: n(10)}), used(llm.Usage{Output: n(5)})
	whole := &llm.Usage{Input: n(10), Output: n(5)}
	const missing = "the count of the input or of the output is missing"
	doubted := new(*whole)
	doubted.Doubt = "a later report has a smaller prompt"
	said := llm.Event{Kind: llm.EventText, Text: "a"}
	for _, tt := range []struct {
		name   string
		events []llm.Event
		want   *llm.Usage
		flaw   string
	}{
		{"none", []llm.Event{said}, nil, ""},
		{"whole", []llm.Event{said, used(*whole)}, whole, ""},
		{"the input, of a reply of nothing", []llm.Event{input, {Kind: llm.EventText}}, input.Usage, ""},
		{"the input before text", []llm.Event{input, said}, nil, missing},
		{"the output alone", []llm.Event{said, output}, nil, missing},
		{"the input of a thought", []llm.Event{{Kind: llm.EventReasoning, Text: "hm"}, input}, nil, missing},
		{"the input of a call", []llm.Event{{Kind: llm.EventToolCall, ID: "c", Name: "f"}, input}, nil, missing},
		{"the input of arguments", []llm.Event{{Kind: llm.EventToolArguments, Text: "{}"}, input}, nil, missing},
		{"both halves", []llm.Event{input, said, output}, whole, ""},
		{"less later", []llm.Event{said, used(*whole), used(llm.Usage{Input: n(7), Output: n(1)})}, doubted, ""},
		{"a flaw", []llm.Event{said, used(llm.Usage{Flaw: "x is negative"})}, nil, "x is negative"},
		{"better after a flaw", []llm.Event{said, used(llm.Usage{Flaw: "x is negative"}), used(*whole)}, whole, ""},
		{"an estimate beyond the allowance", []llm.Event{said,
			used(llm.Usage{Input: n(1), Output: n(50), Reasoning: n(40), Estimated: true})},
			&llm.Usage{Input: n(1), Output: n(20), Reasoning: n(20), Estimated: true}, ""},
	} {
		t.Run("GAP-111 "+tt.name, func(t *testing.T) {
			t.Parallel()
			a := &attempt{route: &config.Route{MaxOutput: 100}, allowance: 20}
			for _, ev := range append([]llm.Event{{Kind: llm.EventAccepted}}, tt.events...) {
				a.noteEvent(ev)
			}
			require.True(t, a.accepted)
			require.Equal(t, tt.want, a.usage)
			require.Equal(t, tt.flaw, a.flaw())
		})
	}
}

// TestNameOfAnAttempt: what the upstream calls the request is logged or, where it has no name for that, its reply.
func TestNameOfAnAttempt(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{"req-1": "req-1", "": "reply-1"} {
		a := &attempt{route: &config.Route{}}
		a.noteEvent(llm.Event{Kind: llm.EventAccepted, ID: request})
		a.noteEvent(llm.Event{Kind: llm.EventFinish, ID: "reply-1"})
		require.Equal(t, want, a.upstreamID)
	}
}

// TestRequestOfAnAttempt: what a route is sent of a request, and how.
func TestRequestOfAnAttempt(t *testing.T) {
	t.Parallel()
	stops := []string{"1", "2", "3", "4", "5"}
	tools := []llm.Tool{{Name: "f"}}
	for name, tc := range map[string]struct {
		stream bool
		tools  []llm.Tool
		whole  bool
	}{
		"a body": {whole: true},
		"STOP-12 a body whose texts and calls have an order": {tools: tools},
		"a stream":             {stream: true},
		"a stream with a tool": {stream: true, tools: tools},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &request{Request: &families.Request{Stream: tc.stream,
				LLM: &llm.Request{Stop: stops, Tools: tc.tools, MaxTokens: 7}}}
			for n := range stops {
				req.LLM.Stop = stops[:n+1]
				route := &config.Route{Model: "m", ContextWindow: 4096, Unsupported: []string{"top_p"},
					Metering: config.MeteringEstimate, BillsPastAllowance: tc.stream}
				up := (&attempt{id: "a.1", route: route, allowance: 9}).upstreamRequest(req)
				require.Equal(t, &llm.Request{Attempt: "a.1", Model: "m", Unsupported: []string{"top_p"}, MaxTokens: 9,
					Window: 4096, Tools: tc.tools, Stop: stops[:min(n+1, 4)], EstimateUsage: true, Whole: tc.whole,
					BillsPastAllowance: tc.stream}, up, "STOP-22")
				require.EqualValues(t, 7, req.LLM.MaxTokens, "the client's own stays")
			}
		})
	}
}

// TestWhole: a reply is asked for in one piece where the client sees no order of texts and calls, and no stop sequence
// is looked for in them.
func TestWhole(t *testing.T) {
	t.Parallel()
	tools, stops := []llm.Tool{{Name: "f"}}, []string{"END"}
	for _, tc := range []struct {
		stream, oneText, whole bool
		tools                  []llm.Tool
		stops                  []string
	}{
		{whole: true},
		{whole: true, stops: stops},
		{tools: tools},
		{tools: tools, oneText: true, whole: true},
		{tools: tools, oneText: true, stops: stops},
		{stream: true, oneText: true},
		{stream: true, oneText: true, tools: tools},
	} {
		req := &request{Request: &families.Request{Stream: tc.stream, OneText: tc.oneText,
			LLM: &llm.Request{Stop: tc.stops, Tools: tc.tools}}}
		require.Equal(t, tc.whole, req.wantsWhole(), "%+v", tc)
	}
}
