package verify

import (
	"fmt"
	"slices"
)

func shapeChecks() []*Check {
	return slices.Concat([]*Check{
		check("CHAT-22", "the choices of n: 1", requireOneChoice),
		check("CHAT-19", "reasoning_effort is looked at even when a header outranks it", requireEffortJudged),
		check("CHAT-09 SSE-06", "include_usage", requireUsageChunk),
		check("CHAT-10", "no include_usage", requireNoUsageChunk),
		check("MSG-02", "no max_tokens", func(t *T) {
			t.ok(messages, t.do(call{Path: messages.Path, Body: t.without(messages, "max_tokens")}))
		}),
	}, sharedChecks(chat, ends{"CHAT-05", "CHAT-08", "CHAT-30", "CHAT-31"}),
		sharedChecks(responses, ends{"RESP-07", "RESP-10", "RESP-28", "RESP-30"}),
		sharedChecks(messages, ends{"MSG-02", "MSG-10", "MSG-20", "MSG-21"}))
}

func requireOneChoice(t *T) {
	v := t.ok(chat, t.ask(chat, `"n":1`))
	t.Equal(1, len(list(v["choices"])), "the number of choices")
	n, ok := integer(at(v, "choices", 0, "index"))
	t.True(ok && n == 0, "the index is %s", brief(at(v, "choices", 0, "index")))
}

func requireEffortJudged(t *T) {
	for _, s := range []shape{chat, responses} {
		c := call{Path: s.Path, Body: t.body(s, `"reasoning_effort":"minimal"`),
			Header: map[string][]string{"X-Service-Profile": {"max"}}}
		t.refused(s, t.do(c), 400, invalid)
	}
}

func requireUsageChunk(t *T) {
	frames := t.sample(chat).Frames
	empty := slices.IndexFunc(frames, func(f frame) bool {
		choices, ok := f.JSON["choices"].([]any)
		return ok && len(choices) == 0
	})
	t.True(empty == len(frames)-2, "the chunk with empty choices is frame %d of %d", empty+1, len(frames))
	t.requirePrices(chat, t.sample(chat).usage(t, chat))
	for _, f := range frames[:empty] {
		t.True(f.JSON["usage"] == nil, "a chunk before has usage")
	}
}

// requirePrices checks the usage of a whole reply: its counts, and that its charge is proven.
func (t *T) requirePrices(s shape, usage map[string]any) {
	for _, name := range append(slices.Clone(s.Tokens), "billed_microcents") {
		_, ok := integer(usage[name])
		t.True(ok, "usage.%s is %s", name, brief(usage[name]))
	}
	t.Equal(any(false), usage["billing_pending"], "usage.billing_pending")
}

func requireNoUsageChunk(t *T) {
	for _, member := range []string{``, `"stream_options":{"include_usage":false}`, `"stream_options":{}`,
		`"stream_options":null`} {
		for _, f := range t.stream(chat, member).Frames {
			choices, _ := f.JSON["choices"].([]any)
			t.True(f.Data == "[DONE]" || f.IsKeepAlive() || len(choices) > 0 && f.JSON["usage"] == nil, "a chunk has usage: %s",
				brief(f.Data))
		}
	}
}

// ends are the clauses that each shape has for the same rules.
type ends struct{ allowance, stream, natural, length string }

// sharedChecks are the rules of allowance, stream and finish in one shape.
func sharedChecks(s shape, ids ends) []*Check {
	return []*Check{
		check(ids.stream, "streamed and not", func(t *T) {
			t.sample(s)
			t.ok(s, t.ask(s, `"stream":false`))
			t.visit(placeOf(s.Path))
		}),
		check(ids.natural, "a reply that ends by itself", func(t *T) {
			v, _ := t.visit(placeOf(s.Path))
			t.requireNatural(s, s.Finish(v))
			t.requireNatural(s, t.sample(s).Finish(s))
			if s.Name == "messages" {
				stop, ok := v["stop_sequence"]
				t.True(ok && stop == nil, "stop_sequence is %s", brief(stop))
			}
		}),
		check(ids.allowance+" "+ids.length, "a reply that runs into its allowance", func(t *T) {
			v := t.long(s, s.Allowance)
			t.requireCut(s, s.Finish(v))
			if s.Name == "chat" {
				t.requireCut(s, s.Finish(t.long(s, "max_completion_tokens")))
			}
		}),
	}
}

// smallAllowance cuts the reply to longPrompt, but leaves room for its first words.
const smallAllowance = 20

// long is a reply that its allowance, given in this member, cuts off.
func (t *T) long(s shape, member string) map[string]any {
	return memo(t, "long "+s.Name+" "+member, func() map[string]any {
		body := object(`"model":"service/auto"`, quote(s.Input)+":"+s.Said(longPrompt),
			fmt.Sprintf("%q:%d", member, smallAllowance))
		return t.ok(s, t.do(call{Path: s.Path, Body: body}))
	})
}

func (t *T) requireCut(s shape, finish string) {
	if finish == s.Ended("natural") {
		t.Pendingf("the model ended by itself before %d tokens", smallAllowance)
	}
	t.Equal(s.Ended("length"), finish, "the end of a reply on "+s.Name)
}

func (t *T) requireNatural(s shape, finish string) {
	if finish == s.Ended("length") {
		t.Pendingf("the model did not end within %d tokens (--allowance)", t.limits.Allowance)
	}
	t.Equal(s.Ended("natural"), finish, "the end of a reply on "+s.Name)
}
