package verify

import (
	"encoding/json"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func opsFieldChecks() []opsCheck {
	// sends checks what the route gets of a member; want is JSON, "" for nothing.
	sends := func(o *ops, s shape, members, name, want string) {
		o.ok(s, o.ask(s, members))
		got, ok := o.sentBody()[name]
		if want == "" {
			o.True(!ok, "the route got %s %s", name, brief(got))
			return
		}
		b, err := json.Marshal(got)
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		o.Equal(want, string(b), "the route's "+name)
	}
	return []opsCheck{
		onEach("CHAT-06 RESP-08 MSG-08", "temperature", standardGate, func(o *ops, s shape) {
			sends(o, s, `"temperature":0.3`, "temperature", "0.3")
			sends(o, s, `"temperature":0`, "temperature", "0")
			sends(o, s, ``, "temperature", "")
		}),
		{"CHAT-13 CHAT-14 CHAT-15 CHAT-16", "tool_choice on chat", standardGate, func(o *ops) {
			named := `{"function":{"name":"` + toolName + `"},"type":"function"}`
			for choice, want := range map[string]string{`"auto"`: `"auto"`, `"none"`: `"none"`, `"required"`: `"required"`,
				named: named} {
				o.ok(chat, o.ask(chat, chat.tools(), `"tool_choice":`+choice))
				got := o.sentBody()["tool_choice"]
				if got == nil && want == `"auto"` {
					continue // it is what no choice means
				}
				b, err := json.Marshal(got)
				o.True(err == nil && string(b) == want, "the route got %s for %s", b, choice)
			}
			for _, bad := range []string{`"always"`, `{"type":"function","function":{"name":"other"}}`} {
				o.refused(chat, o.ask(chat, chat.tools(), `"tool_choice":`+bad), 400, invalid)
			}
		}},
		{"RESP-19", "tool_choice on responses", standardGate, func(o *ops) {
			for _, choice := range []string{`"auto"`, `"none"`, `"required"`, `{"type":"function","name":"` + toolName + `"}`} {
				o.ok(responses, o.ask(responses, responses.tools(), `"tool_choice":`+choice))
			}
			o.Equal(toolName, str(at(o.namedChoice(responses, `{"type":"function","name":"`+toolName+`"}`), "function", "name")),
				"the function of the route's choice")
			o.refused(responses, o.ask(responses, responses.tools(), `"tool_choice":"always"`), 400, invalid)
		}},
		{"MSG-15", "tool_choice on messages", standardGate, func(o *ops) {
			o.Equal("required", str(o.namedChoice(messages, `{"type":"any"}`)), "the route's choice")
			o.Equal("none", str(o.namedChoice(messages, `{"type":"none"}`)), "the route's choice")
			o.Equal(toolName, str(at(o.namedChoice(messages, `{"type":"tool","name":"`+toolName+`"}`), "function", "name")),
				"the function of the route's choice")
			o.ok(messages, o.ask(messages, messages.tools(), `"tool_choice":{"type":"auto"}`))
			o.refused(messages, o.ask(messages, messages.tools(), `"tool_choice":{"type":"x"}`), 400, invalid)
		}},
		{"CHAT-17", "parallel tool calls", standardGate, func(o *ops) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 20}, "tool_calls",
				upstream.ToolCall(0, "c1", toolName), upstream.Arguments(0, `{}`), upstream.ToolCall(1, "c2", toolName),
				upstream.Arguments(1, `{}`)))
			v := o.ok(chat, o.ask(chat, chat.tools(), `"parallel_tool_calls":false`))
			o.Equal(2, len(chat.calls(v)), "the number of calls")
			o.True(o.sentBody()["parallel_tool_calls"] != false, "the route was told to make one call at a time")
		}},
		{"CHAT-20 CHAT-21", "fields that are ignored on chat", standardGate, func(o *ops) {
			for _, value := range []string{`0.1`, `"wrong"`} {
				sends(o, chat, `"top_p":`+value+`,"user":"verify-user"`, "top_p", "")
				o.True(!strings.Contains(string(o.sent().Body), "verify-user"), "the route got the user")
			}
		}},
		{"MSG-16", "thinking on messages", standardGate, func(o *ops) {
			o.ok(messages, o.ask(messages))
			plain := o.sentBody()
			for _, value := range []string{`{"type":"enabled","budget_tokens":1024}`, `"junk"`} {
				o.ok(messages, o.ask(messages, `"thinking":`+value))
				o.Equal(any(plain), any(o.sentBody()), "what the route got")
			}
		}},
		{"MSG-13 MSG-14", "a server-side tool is a client's", standardGate, func(o *ops) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 20}, "tool_calls", upstream.ToolCall(0, "c1", "web_search"),
				upstream.Arguments(0, `{"query":"x"}`)))
			v := o.ok(messages, o.ask(messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`))
			calls := messages.calls(v)
			o.Equal(1, len(calls), "the number of tool_use blocks")
			o.Equal("web_search", calls[0].Name, "the name of the call")
			o.Equal("tool_use", messages.finish(v), "the stop_reason")
			o.Equal(1, len(list(v["content"])), "the number of blocks")
			o.Equal(1, len(o.calls()), "the number of calls to the route")
		}},
		onEach("POL-03 POL-04 POL-05 CHAT-32 RESP-29 MSG-22 SSE-13", "the content policy ends a reply", standardGate,
			func(o *ops, s shape) {
				o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "content_filter", upstream.Text("Some text.")))
				want := map[string]string{"chat": "content_filter", "responses": "incomplete/content_filter",
					"messages": "refusal"}[s.Name]
				v := o.ok(s, o.ask(s))
				o.Equal(want, s.finish(v), "the end of the reply")
				o.Equal("Some text.", s.text(v), "the text")
				r := o.stream(s)
				o.Equal(want, r.finish(s), "the end of the stream")
				o.Equal("Some text.", r.Text, "the text of the stream")
				r.requireEnd(o.T, s)
			}),
		onEach("POL-06", "the content policy leaves no text", standardGate, func(o *ops, s shape) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 0}, "content_filter"))
			for _, text := range []string{s.text(o.ok(s, o.ask(s))), o.stream(s).Text} {
				o.True(strings.Contains(text, "blocked by the content policy") && strings.Contains(text, "contact support"),
					"the text is %q", text)
			}
		}),
		onEach("POL-02 ERR-12", "the route declines", standardGate, func(o *ops, s shape) {
			o.answers(upstream.Refuse(upstream.ContentFilter()))
			for _, mode := range modes {
				a := o.ask(s, mode)
				o.refused(s, a, 400, invalid)
				o.True(!strings.Contains(string(a.Raw), "blocked by a content filter"), "the message is the screening's")
			}
		}),
	}
}

// namedChoice is the tool choice that the route gets for one of the shape's own.
func (o *ops) namedChoice(s shape, choice string) any {
	o.ok(s, o.ask(s, s.tools(), `"tool_choice":`+choice))
	return o.sentBody()["tool_choice"]
}
