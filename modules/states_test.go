package modules_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestStatesOfCalls proves GAP-117: what a service wants back with the result of its call comes back to it, from the
// account that the call was made for; no client sees it, and of another account's call there is nothing.
func TestStatesOfCalls(t *testing.T) {
	t.Parallel()
	for _, carry := range []string{"host", "process"} {
		t.Run(carry, func(t *testing.T) {
			t.Parallel()
			s := start(t, setup{Carry: carry, Settings: `preset = "deepseek"`, Script: upstream.Options{Service: "deepseek"}})
			_, other := s.NewAccount("other", s.plan, 1000)
			const secret = "let me think"
			const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
			const question = `{"role":"user","content":"hi"}`
			ask := func(key, messages string, reply upstream.Reply) answer {
				s.Upstream.Enqueue(reply)
				a := s.Do("POST", "/v1/chat/completions", `{"model":"service/auto","messages":[`+messages+`],`+tools+`}`,
					"Authorization", "Bearer "+key)
				require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
				require.NotContains(t, a.Raw, secret)
				return a
			}
			call := ask(s.Key, question, upstream.Reply{Steps: []upstream.Step{upstream.Reasoning(secret),
				upstream.ToolCall(0, "call_0", "f"), upstream.Arguments(0, "{}"), upstream.Finish("tool_calls"),
				upstream.ReportUsage(), upstream.Done()}})
			said, err := json.Marshal(call.At(t, "choices", 0, "message"))
			require.NoError(t, err)
			loop := question + "," + string(said) + `,{"role":"tool","tool_call_id":"call_0","content":"x"}`
			elsewhere := `{"role":"user","content":"another question"}` + loop[len(question):]
			for n, c := range []struct{ key, messages, want string }{
				{s.Key, loop, secret}, {other, loop, ""}, {s.Key, elsewhere, ""}, {s.Key, loop, secret},
			} {
				ask(c.key, c.messages, upstream.Say("done"))
				sent, err := s.Upstream.Request(within(t), int64(n+2))
				require.NoError(t, err)
				require.Equal(t, c.want, *sent.Messages[1].Reasoning)
			}
		})
	}
}
