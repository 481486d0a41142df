package verify

import (
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// lookUp is a tool with an argument.
var lookUp = wire.Function{Name: "look_up", Description: "looks things up",
	Schema: `{"type":"object","properties":{"q":{"type":"string"}}}`}

func opsToolChecks() []opsCheck {
	return []opsCheck{
		onEach("GEN-08 GEN-09 TOOL-01 TOOL-02 TOOL-03 TOOL-04 CHAT-04 RESP-05 MSG-06", "a tool call and its result",
			standardGate, requireToolLoop),
		onEach("CHAT-17 TOOL-01", "parallel calls (GAP-83)", standardGate, requireParallelCalls),
		onEach("TOOL-01", "the native form of a call (GAP-129)", standardGate, requireNativeCall),
		onEach("ERR-29", "no route has tools", hastyGate, requireNoToolRoute),
	}
}

func requireToolLoop(o *ops, s shape) {
	o.answers(upstream.Call("call_1", lookUp.Name, `{"q":"é \"x\""}`))
	first := o.both(s, s.Tools(lookUp), s.Forced())
	o.Equal(s.Ended("tool_calls"), first.Finish, "the end of the reply")
	o.Equal("", first.Text, "the text")
	o.Equal([]wire.ToolCall{{ID: "call_1", Name: lookUp.Name, Arguments: `{"q":"é \"x\""}`}}, first.Calls, "the calls")
	o.Equal(2, len(o.calls()), "the number of calls to the route, for two requests")
	o.Equal("required", str(o.sentBody()["tool_choice"]), "the route's tool_choice")

	o.answers(hello)
	second := o.both(s, s.Tools(lookUp), s.Answered(prompt, first.Calls, "found 42"))
	o.Equal("Hello", second.Text, "the text of the second reply")
	o.Equal(0, len(second.Calls), "the number of calls in the second reply")
	turns := list(o.sentBody()["messages"])
	o.Equal(any(map[string]any{"role": "tool", "tool_call_id": "call_1", "content": "found 42"}), at(turns, 2),
		"the route's result")
	call := at(turns, 1, "tool_calls", 0)
	o.Equal("call_1", str(at(call, "id")), "the id of the route's call")
	o.Equal(lookUp.Name, str(at(call, "function", "name")), "the name of the route's call")
}

func requireParallelCalls(o *ops, s shape) {
	o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "tool_calls", upstream.Text("Let me see."),
		upstream.ToolCall(0, "call_1", lookUp.Name), upstream.Arguments(0, `{"q":1}`),
		upstream.ToolCall(1, "call_2", lookUp.Name), upstream.Arguments(1, `{"q":2}`)))
	first := o.both(s, s.Tools(lookUp), `"parallel_tool_calls":false`)
	o.Equal("Let me see.", first.Text, "the text")
	o.Equal([]wire.ToolCall{{ID: "call_1", Name: lookUp.Name, Arguments: `{"q":1}`},
		{ID: "call_2", Name: lookUp.Name, Arguments: `{"q":2}`}}, first.Calls, "the calls")
	_, there := o.sentBody()["parallel_tool_calls"]
	o.True(!there, "the route got parallel_tool_calls")
	second := o.both(s, s.Tools(lookUp), s.Answered(prompt, first.Calls, "one", "two"))
	o.Equal(first.Calls, second.Calls, "the calls of the second reply")
	var results []string
	for _, m := range list(o.sentBody()["messages"]) {
		if at(m, "role") == "tool" {
			results = append(results, str(at(m, "tool_call_id")), str(at(m, "content")))
		}
	}
	o.Equal([]string{"call_1", "one", "call_2", "two"}, results, "the route's results")
}

func requireNativeCall(o *ops, s shape) {
	o.answers(upstream.Call("call_1", lookUp.Name, `{"q":1}`))
	want := map[string]string{
		"chat":      `"type":"function","function":{"name":"look_up","arguments":"{\"q\":1}"}`,
		"responses": `"call_id":"call_1","name":"look_up","arguments":"{\"q\":1}"`,
		"messages":  `{"type":"tool_use","id":"call_1","name":"look_up","input":{"q":1},"caller":{"type":"direct"}}`,
	}[s.Name]
	raw := string(o.ask(s, s.Tools(lookUp)).Raw)
	o.True(strings.Contains(raw, want), "the reply is %s", brief(raw))
}

func requireNoToolRoute(o *ops, s shape) {
	o.refusedFree(s, 503, featureUnavailable, s.Tools(lookUp))
	o.both(s)
	broke := o.customer(0)
	for _, mode := range modes {
		a := broke.ask(s, s.Tools(lookUp), mode)
		o.Equal(402, a.Status, "the status at a balance of 0")
		o.errorForm(s, a, "budget_exceeded")
	}
}
