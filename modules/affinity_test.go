package modules_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConversationStays is issue 13: a turn that answers tool calls goes where they were made, whatever else is better
// at it; with affinity off each turn is chosen afresh.
func TestConversationStays(t *testing.T) {
	t.Parallel()
	const routes = `
route "writer" {
  provider       = "up"
  model          = "writer"
  context_window = 200000
  max_output     = 64000
  offers         = ["tools"]
  quality {
    default = 0.5
    writing = 0.99
    tools   = 0.1
  }
  price {
    input  = 3
    output = 15
  }
}
route "caller" {
  provider       = "up"
  model          = "caller"
  context_window = 200000
  max_output     = 64000
  offers         = ["tools"]
  quality {
    default = 0.5
    tools   = 0.99
  }
  price {
    input  = 3
    output = 15
  }
}
`
	const (
		prompt  = `{"role":"user","content":"Write me a short poem about the sea. PROMPT"}`
		call    = `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		result  = `{"role":"tool","tool_call_id":"1","content":"3 degrees"}`
		another = `{"role":"user","content":"What is the weather in Paris now?"}`
	)
	body := func(messages string) string {
		return `{"model":"service/auto","messages":[` + messages + `],"tools":[{"type":"function","function":{"name":"f"}}]}`
	}
	for _, tc := range []struct {
		name, extra, inLoop string
	}{
		{"on", "", "writer"},
		{"off", "affinity {\n  mode = \"off\"\n}\n", "caller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Extra: routes + tc.extra, Routes: []route{{Name: "any", Quality: 0.1, Input: "30"}}})
			c := g.rich(t)
			turn := func(body string) string {
				a := c.Post("/v1/chat/completions", body)
				require.Equal(t, 200, a.StatusCode)
				return c.Route(t)
			}
			require.Equal(t, "writer", turn(`{"model":"service/auto","messages":[`+prompt+`]}`))
			require.Equal(t, tc.inLoop, turn(body(prompt+","+call+","+result)))
			require.Equal(t, "caller", turn(body(prompt+","+call+","+result+`,{"role":"assistant","content":"Here."},`+another)),
				"the gain is larger than what a cold cache costs")
			other := g.rich(t)
			a := other.Post("/v1/chat/completions", body(prompt+","+call+","+result))
			require.Equal(t, 200, a.StatusCode)
			require.Equal(t, "caller", other.Route(t), "another account's conversation is another one")
		})
	}
}
