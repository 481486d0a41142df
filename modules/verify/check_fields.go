package verify

import (
	"fmt"
	"slices"
)

// Conversations with a tool call and its result, and what may be wrong with them.
const (
	chatCall = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"get_weather","arguments":"{}"}}]}`
	chatUser   = `{"role":"user","content":"Say hello in one short sentence."}`
	chatResult = `{"role":"tool","tool_call_id":"c1","content":"rain"}`
	respCall   = `{"type":"function_call","call_id":"c1","name":"get_weather","arguments":"{}"}`
	msgCall    = `{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1",` +
		`"name":"get_weather","input":{}}]}`
)

func chatChecks() []*Check {
	checks := rows(
		row{"CHAT-01", chat, ``, ""},
		row{"CHAT-02", chat,
			`"messages":[{"role":"system","content":"Be brief."},{"role":"developer","content":"Be kind."},` + chatUser + `,` +
				chatCall + `,` + chatResult + `]`, ""},
		row{"CHAT-02", chat, `"messages":[{"role":"function","content":"x"}]`, invalid},
		row{"CHAT-02", chat, `"messages":[{"role":"robot","content":"x"}]`, invalid},
		row{"CHAT-02", chat, `"messages":[]`, invalid},
		row{"CHAT-04", chat, `"messages":[` + chatUser + `,` + chatCall + `,` + chatResult + `]`, ""},
		row{"CHAT-04", chat, `"messages":[` + chatUser + `,` + chatCall + `,{"role":"tool","content":"rain"}]`, invalid},
		row{"CHAT-04", chat, `"messages":[` + chatUser + `,` + chatCall +
			`,{"role":"tool","tool_call_id":"other","content":"rain"}]`, invalid},
		row{"CHAT-07", chat, `"stop":"@@@"`, ""},
		row{"CHAT-07", chat, `"stop":["@@@","###"]`, ""},
		row{"CHAT-07", chat, `"stop":null`, ""},
		row{"CHAT-11", chat, chat.tools(), ""},
		row{"CHAT-11", chat, `"tools":[{"type":"function"}]`, invalid},
		row{"CHAT-22", chat, `"n":1`, ""},
		row{"CHAT-23 VER-06", chat, `"n":null`, ""},
	)
	checks = append(checks, values("CHAT-07", chat, "stop", invalid, `5`, `{}`, `[1]`)...)
	checks = append(checks, values("CHAT-12 ERR-13", chat, "tools", unsupported,
		`[{"type":"custom","custom":{"name":"x"}}]`, `[{"type":"web_search"}]`)...)
	checks = append(checks, values("CHAT-18", chat, "reasoning_effort", "", `"low"`, `"medium"`, `"high"`)...)
	checks = append(checks, values("CHAT-19", chat, "reasoning_effort", invalid, `"minimal"`, `"none"`, `"HIGH"`, `""`,
		`3`)...)
	checks = append(checks, values("CHAT-23 VER-06", chat, "n", unsupported, `2`, `128`)...)
	for i, name := range []string{"seed", "logprobs", "frequency_penalty", "presence_penalty"} {
		ids := fmt.Sprintf("CHAT-%d VER-06 ERR-13", 24+i)
		checks = append(checks, values(ids, chat, name, unsupported, `0`, `1`, `true`, `false`)...)
		checks = append(checks, values(ids, chat, name, "", `null`)...)
	}
	checks = append(checks,
		check("CHAT-22", "the choices of n: 1", func(t *T) {
			v := t.ok(chat, t.ask(chat, `"n":1`))
			t.Equal(1, len(list(v["choices"])), "the number of choices")
			n, ok := integer(at(v, "choices", 0, "index"))
			t.True(ok && n == 0, "the index is %s", brief(at(v, "choices", 0, "index")))
		}),
		check("CHAT-19", "reasoning_effort is looked at even when a header outranks it", func(t *T) {
			c := call{Path: chat.Path, Body: t.body(chat, `"reasoning_effort":"minimal"`),
				Header: map[string][]string{"X-Service-Profile": {"max"}}}
			t.refused(chat, t.do(c), 400, invalid)
		}),
		check("CHAT-09 SSE-06", "include_usage", func(t *T) {
			frames := t.sample(chat).Frames
			empty := slices.IndexFunc(frames, func(f frame) bool {
				choices, ok := f.JSON["choices"].([]any)
				return ok &&
					len(choices) == 0
			})
			t.True(empty == len(frames)-2, "the chunk with empty choices is frame %d of %d", empty+1, len(frames))
			usage := t.sample(chat).usage(t, chat)
			for _, name := range append(slices.Clone(chat.tokens), "billed_microcents") {
				_, ok := integer(usage[name])
				t.True(ok, "usage.%s is %s", name, brief(usage[name]))
			}
			t.Equal(any(false), usage["billing_pending"], "usage.billing_pending")
			for _, f := range frames[:empty] {
				t.True(f.JSON["usage"] == nil, "a chunk before has usage")
			}
		}),
		check("CHAT-10", "no include_usage", func(t *T) {
			for _, member := range []string{``, `"stream_options":{"include_usage":false}`} {
				for _, f := range t.stream(chat, member).Frames {
					choices, _ := f.JSON["choices"].([]any)
					t.True(f.Data == "[DONE]" || f.quiet() || len(choices) > 0 && f.JSON["usage"] == nil, "a chunk has usage: %s",
						brief(f.Data))
				}
			}
		}))
	return append(checks, sharedChecks(chat, ends{"CHAT-05", "CHAT-08", "CHAT-30", "CHAT-31"})...)
}

func responsesChecks() []*Check {
	checks := rows(
		row{"RESP-02", responses, `"input":"Say hello."`, ""},
		row{"RESP-03", responses,
			`"input":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"output_text","text":"Hello."}]},` +
				`{"role":"user","content":[{"type":"input_text","text":"Say hello again."}]}]`, ""},
		row{"RESP-05", responses, `"input":[{"role":"user","content":"Weather?"},` + respCall +
			`,{"type":"function_call_output","call_id":"c1","output":"rain"}]`, ""},
		row{"RESP-05", responses, `"input":[{"role":"user","content":"Weather?"},` + respCall +
			`,{"type":"function_call_output","output":"rain"}]`, invalid},
		row{"RESP-09", responses, `"stop":"@@@"`, ""},
		row{"RESP-09", responses, `"stop":["@@@"]`, ""},
		row{"RESP-09", responses, `"stop":5`, invalid},
		row{"RESP-11", responses, responses.tools(), ""},
		row{"RESP-11", responses, `"tools":[{"type":"function","parameters":{"type":"object"}}]`, invalid},
		row{"RESP-12 VER-07 ERR-13", responses, `"tools":[{"type":"web_search"}]`, unsupported},
		row{"RESP-12 VER-07", responses, `"tools":[{"type":"web_search_preview"}]`, unsupported},
		row{"RESP-13 VER-07", responses, `"tools":[{"type":"file_search","vector_store_ids":[]}]`, unsupported},
		row{"RESP-14 VER-07", responses, `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, unsupported},
		row{"RESP-15 VER-07", responses, `"tools":[{"type":"computer_use_preview"}]`, unsupported},
		row{"RESP-16 VER-07", responses, `"tools":[{"type":"image_generation"}]`, unsupported},
		row{"RESP-17 VER-07", responses,
			`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"mcp","server_label":"x",` +
				`"server_url":"https://x.example"}]`, unsupported},
		row{"RESP-18 VER-07", responses, `"tools":[{"type":"local_shell"}]`, unsupported},
		row{"RESP-18 VER-07", responses, `"tools":[{"type":"custom","name":"x"}]`, unsupported},
		row{"RESP-18 VER-07", responses, `"tools":[{"type":"whatever"}]`, unsupported},
		row{"RESP-21", responses, `"reasoning_effort":"minimal"`, invalid},
		row{"RESP-23 VER-07 ERR-13", responses, `"store":true`, unsupported},
		row{"RESP-25 VER-07", responses, `"background":true`, unsupported},
		row{"RESP-25", responses, `"background":false`, ""},
		row{"RESP-26", responses, `"previous_response_id":null`, ""},
	)
	checks = append(checks, values("RESP-02", responses, "input", invalid, `5`, `null`)...)
	checks = append(checks, values("RESP-20", responses, "reasoning_effort", "", `"low"`, `"medium"`, `"high"`)...)
	checks = append(checks, values("RESP-24", responses, "store", "", `false`, `null`)...)
	checks = append(checks, values("RESP-26 VER-07", responses, "previous_response_id", unsupported, `"resp_123"`,
		`""`)...)
	return append(checks, sharedChecks(responses, ends{"RESP-07", "RESP-10", "RESP-28", "RESP-30"})...)
}

func messagesChecks() []*Check {
	user := `{"role":"user","content":"Weather?"}`
	result := func(fields string) string {
		return `"messages":[` + user + `,` + msgCall + `,{"role":"user","content":[{"type":"tool_result",` + fields + `}]}]`
	}
	checks := rows(
		row{"MSG-03", messages, `"system":"Be brief."`, ""},
		row{"MSG-03", messages, `"system":[{"type":"text","text":"Be brief."}]`, ""},
		row{"MSG-04", messages, `"messages":[{"role":"user","content":"Say hello."}]`, ""},
		row{"MSG-04", messages, `"messages":[{"role":"user","content":[{"type":"text","text":"Say hello."}]}]`, ""},
		row{"MSG-05 MSG-06", messages, result(`"tool_use_id":"c1","content":"rain"`), ""},
		row{"MSG-06", messages, result(`"tool_use_id":"c1","content":[{"type":"text","text":"rain"}]`), ""},
		row{"MSG-06", messages, result(`"content":"rain"`), invalid},
		row{"MSG-07", messages, messages.media()[0].members, unsupportedContent},
		row{"MSG-09", messages, `"stop_sequences":["@@@"]`, ""},
		row{"MSG-09", messages, `"stop_sequences":"@@@"`, invalid},
		row{"MSG-09", messages, `"stop_sequences":[1]`, invalid},
		row{"MSG-09", messages, `"stop":5`, ""},
		row{"MSG-11", messages, messages.tools(), ""},
		row{"MSG-11", messages, `"tools":[{"description":"x","input_schema":{"type":"object"}}]`, invalid},
		row{"MSG-12 VER-09", messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, ""},
		row{"MSG-12", messages, `"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"}]`, ""},
	)
	checks = append(checks, check("MSG-02", "no max_tokens", func(t *T) {
		t.ok(messages, t.do(call{Path: messages.Path, Body: t.without(messages, "max_tokens")}))
	}))
	return append(checks, sharedChecks(messages, ends{"MSG-02", "MSG-10", "MSG-20", "MSG-21"})...)
}

// ends are the clauses that each shape has for the same rules.
type ends struct{ allowance, stream, natural, length string }

// sharedChecks are the rules of allowance, stream and finish in one shape.
func sharedChecks(s shape, ids ends) []*Check {
	checks := values(ids.allowance, s, s.allowance, invalid, `0`, `-1`, `"10"`, `1.5`)
	checks = append(checks, values(ids.stream, s, "stream", invalid, `"true"`, `1`)...)
	if s.Name == "chat" {
		checks = append(checks, values(ids.allowance, s, "max_completion_tokens", invalid, `0`, `-1`, `"10"`, `1.5`)...)
	}
	return append(checks,
		check(ids.stream, "streamed and not", func(t *T) {
			t.sample(s)
			t.ok(s, t.ask(s, `"stream":false`))
			t.visit(placeOf(s.Path))
		}),
		check(ids.natural, "a reply that ends by itself", func(t *T) {
			v, _ := t.visit(placeOf(s.Path))
			t.requireNatural(s, s.finish(v))
			t.requireNatural(s, t.sample(s).finish(s))
			if s.Name == "messages" {
				stop, ok := v["stop_sequence"]
				t.True(ok && stop == nil, "stop_sequence is %s", brief(stop))
			}
		}),
		check(ids.allowance+" "+ids.length, "a reply that runs into its allowance", func(t *T) {
			v := t.long(s, s.allowance)
			t.requireCut(s, s.finish(v))
			if s.Name == "chat" {
				t.requireCut(s, s.finish(t.long(s, "max_completion_tokens")))
			}
		}))
}

// smallAllowance cuts the reply to longPrompt, but leaves room for its first words.
const smallAllowance = 20

// long is a reply that its allowance, given in this member, cuts off.
func (t *T) long(s shape, member string) map[string]any {
	return memo(t, "long "+s.Name+" "+member, func() map[string]any {
		body := object(`"model":"service/auto"`, quote(s.input)+":"+s.said(longPrompt),
			fmt.Sprintf("%q:%d", member, smallAllowance))
		return t.ok(s, t.do(call{Path: s.Path, Body: body}))
	})
}

func (t *T) requireCut(s shape, finish string) {
	if finish == s.natural() {
		t.Pendingf("the model ended by itself before %d tokens", smallAllowance)
	}
	t.Equal(s.cut(), finish, "the end of a reply on "+s.Name)
}

func (t *T) requireNatural(s shape, finish string) {
	if finish == s.cut() {
		t.Pendingf("the model did not end within %d tokens (--allowance)", t.limits.Allowance)
	}
	t.Equal(s.natural(), finish, "the end of a reply on "+s.Name)
}
