package contracttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// function is a tool that a request declares; Schema is JSON, "" for none.
type function struct{ Name, Description, Schema string }

// tools is the member that declares functions in a shape's native form.
func tools(sh shape, list ...function) string {
	out := `"tools":[`
	for i, f := range list {
		if i > 0 {
			out += ","
		}
		fields := `"name":` + quote(f.Name)
		if f.Description != "" {
			fields += `,"description":` + quote(f.Description)
		}
		if f.Schema != "" {
			fields += map[string]string{"chat": `,"parameters":`, "responses": `,"parameters":`,
				"messages": `,"input_schema":`}[sh.Name] + f.Schema
		}
		switch sh.Name {
		case "chat":
			out += `{"type":"function","function":{` + fields + `}}`
		case "responses":
			out += `{"type":"function",` + fields + `}`
		default:
			out += `{` + fields + `}`
		}
	}
	return out + "]"
}

// forced is the member that makes the model call some tool.
func forced(sh shape) string {
	if sh.Name == "messages" {
		return `"tool_choice":{"type":"any"}`
	}
	return `"tool_choice":"required"`
}

// answered is the conversation after a reply with these calls: the user's turn, the calls as they came, and a
// result for each.
func answered(sh shape, calls []toolCall, results ...string) string {
	var turns, said, heard string
	for i, c := range calls {
		comma := ""
		if i > 0 {
			comma = ","
		}
		switch sh.Name {
		case "chat":
			said += comma + fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}`, c.ID, c.Name,
				c.Arguments)
			heard += fmt.Sprintf(`,{"role":"tool","tool_call_id":%q,"content":%q}`, c.ID, results[i])
		case "responses":
			said += fmt.Sprintf(`,{"type":"function_call","call_id":%q,"name":%q,"arguments":%q}`, c.ID, c.Name, c.Arguments)
			heard += fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":%q}`, c.ID, results[i])
		default:
			said += comma + fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Arguments)
			heard += comma + fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%q}`, c.ID, results[i])
		}
	}
	turns = `{"role":"user","content":"PROMPT"}`
	switch sh.Name {
	case "chat":
		return `"messages":[` + turns + `,{"role":"assistant","content":null,"tool_calls":[` + said + `]}` + heard + `]`
	case "responses":
		return `"input":[` + turns + said + heard + `]`
	}
	return `"messages":[` + turns + `,{"role":"assistant","content":[` + said + `]},{"role":"user","content":[` + heard +
		`]}]`
}

func TestToolLoop(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	look := function{"look_up", "looks things up", `{"type":"object","properties":{"q":{"type":"string"}}}`}
	roundTrip := map[string]string{"chat": "TOOL-02 CHAT-04", "responses": "TOOL-03 RESP-05", "messages": "TOOL-04 MSG-06"}
	finish := map[string]string{"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GEN-08 GEN-09 TOOL-01 "+roundTrip[sh.Name]+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(upstream.Call("call_1", "look_up", `{"q": "é \"x\""}`))
				first := outcomeOf(t, sh, c.Ask(sh, tools(sh, look), forced(sh), mode.Field))
				require.Equal(t, finish[sh.Name], first.Finish)
				require.Empty(t, first.Text)
				require.Len(t, first.Calls, 1)
				require.Equal(t, "call_1", first.Calls[0].ID)
				require.Equal(t, "look_up", first.Calls[0].Name)
				require.JSONEq(t, `{"q": "é \"x\""}`, first.Calls[0].Arguments)
				require.Len(t, c.Seen(), 1, "the service runs no tools")
				require.Equal(t, "required", c.Sent(t)["tool_choice"])

				c.Answers(hello)
				second := outcomeOf(t, sh, c.Ask(sh, tools(sh, look), answered(sh, first.Calls, "found 42"), mode.Field))
				require.Equal(t, "Hello", second.Text)
				require.Empty(t, second.Calls)
				require.Len(t, c.Seen(), 2)
				sent := c.Sent(t)["messages"].([]any)
				require.Equal(t, map[string]any{"role": "tool", "tool_call_id": "call_1", "content": "found 42"}, sent[2])
				past := sent[1].(map[string]any)["tool_calls"].([]any)[0].(map[string]any)
				require.Equal(t, "call_1", past["id"])
				require.Equal(t, "look_up", past["function"].(map[string]any)["name"])
			})
			t.Run("CHAT-17 TOOL-01 GAP-83 parallel calls, "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "tool_calls", upstream.Text("Let me see."),
					upstream.ToolCall(0, "call_1", "look_up"), upstream.Arguments(0, `{"q":1}`),
					upstream.ToolCall(1, "call_2", "look_up"), upstream.Arguments(1, `{"q":2}`)))
				first := outcomeOf(t, sh, c.Ask(sh, tools(sh, look), `"parallel_tool_calls":false`, mode.Field))
				require.Equal(t, "Let me see.", first.Text)
				require.Equal(t, []toolCall{{"call_1", "look_up", `{"q":1}`}, {"call_2", "look_up", `{"q":2}`}}, first.Calls)
				require.NotContains(t, c.Sent(t), "parallel_tool_calls")
				second := outcomeOf(t, sh, c.Ask(sh, tools(sh, look), answered(sh, first.Calls, "one", "two"), mode.Field))
				require.Equal(t, first.Calls, second.Calls)
				var results []any
				for _, m := range c.Sent(t)["messages"].([]any) {
					if m := m.(map[string]any); m["role"] == "tool" {
						results = append(results, m["tool_call_id"], m["content"])
					}
				}
				require.Equal(t, []any{"call_1", "one", "call_2", "two"}, results)
			})
		}
	}
	t.Run("TOOL-01 GAP-129 the native forms", func(t *testing.T) {
		t.Parallel()
		for family, want := range map[string]string{
			"chat": `"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look_up",` +
				`"arguments":"{\"q\":1}"}}]`,
			"responses": `"call_id":"call_1","name":"look_up","arguments":"{\"q\":1}"`,
			"messages": `{"type":"tool_use","id":"call_1","name":"look_up","input":{"q":1},` +
				`"caller":{"type":"direct"}}`,
		} {
			sh, c := shapeOf(family), g.rich(t)
			c.Answers(upstream.Call("call_1", "look_up", `{"q":1}`))
			require.Contains(t, string(c.Ask(sh, tools(sh, look)).Raw), want)
		}
	})
	t.Run("CHAT-14 MSG-15 RESP-19 none calls nothing", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			c := g.rich(t)
			choice := `"tool_choice":"none"`
			if sh.Name == "messages" {
				choice = `"tool_choice":{"type":"none"}`
			}
			require.Empty(t, outcomeOf(t, sh, c.Ask(sh, tools(sh, look), choice)).Calls)
			require.Equal(t, "none", c.Sent(t)["tool_choice"])
		}
	})
}

func TestRouteWithoutTools(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "plain", Offers: `"json_object"`}}})
	for _, sh := range shapes {
		t.Run("ERR-29 no route offers tools, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				c := g.rich(t)
				f := function{Name: "f"}
				requireError(t, sh, c.Ask(sh, tools(sh, f), mode.Field), 503, "feature_unavailable")
				c.RequireUntouched(t)
				require.Equal(t, 200, c.Ask(sh, mode.Field).StatusCode, "without tools")
				broke := g.caller(t, 0)
				requireError(t, sh, broke.Ask(sh, tools(sh, f), mode.Field), 402, "budget_exceeded")
			}
		})
	}
}
