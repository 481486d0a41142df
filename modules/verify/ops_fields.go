package verify

import (
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func opsFieldChecks() []opsCheck {
	return []opsCheck{
		{"HTTP-11", "a response says what it was asked (GAP-116)", standardGate, requireResponseEchoes},
		{"CHAT-08 RESP-10 MSG-10 GEN-15", "a reply is a stream when stream is true", standardGate,
			requireStreamOnlyWhenTrue},
		{"MSG-13 MSG-14", "a server-side tool is a client's", standardGate, func(o *ops) {
			o.answers(script(upstream.Usage{Prompt: 10, Completion: 20}, "tool_calls", upstream.ToolCall(0, "c1", "web_search"),
				upstream.Arguments(0, `{"query":"x"}`)))
			v := o.both(messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`)
			o.Equal([]wire.ToolCall{{ID: "c1", Name: "web_search", Arguments: `{"query":"x"}`}}, v.Calls, "the calls")
			o.Equal("tool_use", v.Finish, "the stop_reason")
			o.Equal("", v.Text, "the text")
			o.Equal(2, len(o.calls()), "the number of calls to the route, for two requests")
		}},
	}
}

// requireResponseEchoes checks the members of a response that repeat its request, and those that have a constant.
func requireResponseEchoes(o *ops) {
	got := o.ok(responses, o.ask(responses, `"instructions":"I","temperature":0.5,"max_output_tokens":50,`+
		`"tool_choice":"auto"`, weatherTool(responses)))
	want, err := wire.Decode([]byte(`{"object":"response","status":"completed","error":null,"incomplete_details":null,
		"instructions":"I","max_output_tokens":50,"model":"service/auto","parallel_tool_calls":true,
		"previous_response_id":null,"store":false,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto",
		"top_p":1,"metadata":{},"background":false,"truncation":"disabled","service_tier":"default","top_logprobs":0,
		"presence_penalty":0,"frequency_penalty":0,"max_tool_calls":null,"safety_identifier":null,
		"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null}}`))
	o.True(err == nil, "the suite's response is no JSON: %v", err)
	for name, value := range want {
		have, ok := got[name]
		o.True(ok, "the response has no %s", name)
		o.Equal(value, have, name)
	}
	o.Equal(1, len(list(got["tools"])), "the number of tools")
	item, _ := at(got, "output", 0).(map[string]any)
	o.True(strings.HasPrefix(str(got["id"]), "resp_") && strings.HasPrefix(str(item["id"]), "msg_"),
		"the ids are %s and %s", brief(got["id"]), brief(item["id"]))
	delete(item, "id")
	message, err := wire.Decode([]byte(`{"type":"message","role":"assistant","status":"completed",
		"content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}`))
	o.True(err == nil, "the suite's message is no JSON: %v", err)
	o.Equal(message, item, "the message")
	created, _ := integer(got["created_at"])
	completed, _ := integer(got["completed_at"])
	o.True(created > 0 && completed >= created, "it was created at %d and completed at %d", created, completed)
}

func requireStreamOnlyWhenTrue(o *ops) {
	for _, s := range shapes {
		for members, want := range map[string]string{`"foo":1`: "application/json", `"stream":false`: "application/json",
			`"stream":null`: "application/json", `"stream":true`: "text/event-stream; charset=utf-8"} {
			a := o.ask(s, members)
			o.Equal(want, a.Header.Get("Content-Type"), "the Content-Type with "+members)
		}
	}
}
