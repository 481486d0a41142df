package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestUnfit proves GAP-127: a route that cannot carry a request is not called, another one serves it, and where none
// is fit the client hears that it is for what the request asks.
func TestUnfit(t *testing.T) {
	t.Parallel()
	const picky = `unsupported = ["forced_tool_choice"]`
	alone := startScripted(t, setup{Routes: []route{{Name: "picky", More: picky}}})
	two := startScripted(
		t,
		setup{Routes: []route{{Name: "picky", Quality: 0.9, More: picky}, {Name: "other", Quality: 0.1}}},
	)
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	chat := shapeOf("chat")
	for _, mode := range modes {
		t.Run("none is fit "+mode.Name, func(t *testing.T) {
			t.Parallel()
			c := alone.rich(t)
			requireError(t, chat, c.Ask(chat, tools, `"tool_choice":"required"`, mode.Field), 503, "feature_unavailable")
			c.RequireUntouched(t)
			outcomeOf(t, chat, c.Ask(chat, tools, mode.Field))
		})
		t.Run("another one is "+mode.Name, func(t *testing.T) {
			t.Parallel()
			c := two.rich(t)
			c.Answers(upstream.Call("c1", "f", `{}`))
			o := outcomeOf(t, chat, c.Ask(chat, tools, `"tool_choice":"required"`, mode.Field))
			require.Equal(t, []toolCall{{ID: "c1", Name: "f", Arguments: `{}`}}, o.Calls)
			require.Equal(t, "required", c.Sent(t)["tool_choice"])
		})
	}
	refused := upstream.Refuse(upstream.Error{Status: 400, Type: "invalid_request_error", Param: "tools",
		Message: "Invalid 'tools': array too long. Expected an array with maximum length 128, but got one of 325 instead."})
	for _, mode := range modes {
		t.Run("GAP-126 more than the upstream takes "+mode.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Breaker: breaker("")})
			c := g.rich(t)
			for range 3 { // it says nothing of the route
				c.AnswersBy(inTurn(refused))
				requireError(t, chat, c.Ask(chat, tools, mode.Field), 503, "feature_unavailable")
			}
			c.AnswersBy(inTurn(hello))
			outcomeOf(t, chat, c.Ask(chat, mode.Field))
		})
		t.Run("GAP-126 more than the upstream takes, and another takes it "+mode.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Routes: []route{{Name: "few", Quality: 0.9}, {Name: "many", Quality: 0.1}}})
			c := g.rich(t)
			c.AnswersBy(inTurn(refused, hello))
			outcomeOf(t, chat, c.Ask(chat, tools, mode.Field))
			require.Len(t, c.Seen(), 2)
		})
	}
	t.Run("what its provider says counts before it is called", func(t *testing.T) {
		t.Parallel()
		g := startScripted(t, setup{Settings: `preset = "ollama"`})
		c := g.rich(t)
		outcomeOf(t, chat, c.Ask(chat, tools)) // the endpoint is known from now on
		sent, net := len(c.Seen()), c.Net()
		requireError(t, chat, c.Ask(chat, tools, `"tool_choice":"required"`), 503, "feature_unavailable")
		require.Len(t, c.Seen(), sent)
		require.Equal(t, net, c.Net())
	})
}
