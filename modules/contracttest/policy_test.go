package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestContentPolicy is worked example E23, as far as routes decide it.
func TestContentPolicy(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1}}})
	clause := map[string]string{"chat": "POL-03", "responses": "POL-04 SSE-13", "messages": "POL-05"}
	const fixed = "This request was blocked by the content policy. If you think this is a mistake, contact support " +
		"with the request id."
	for _, sh := range shapes {
		t.Run("POL-02 ERR-12 declined by the route "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Refuse(upstream.ContentFilter()))
			for i, mode := range modes {
				a := c.Ask(sh, mode.Field)
				requireError(t, sh, a, 400, "invalid_request_error")
				require.Equal(t, "The request was declined by the model route's content policy.", errorOf(t, sh, a).Message)
				require.Len(t, c.Seen(), i+1, "no other route is tried")
			}
		})
		t.Run(clause[sh.Name]+" ended after text "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 2), "content_filter", upstream.Text("Hel")))
			before := c.Net()
			v := askBoth(t, c, sh)
			require.Equal(t, "Hel", v.Text, "nothing is added (GAP-94)")
			require.Equal(t, wire.Finishes["policy"][sh.Name], v.Finish)
			require.Equal(t, int64(2*helloCost), before-c.Net(), "charged like any reply (GAP-97)")
		})
		t.Run("POL-06 ended without text "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 3), "content_filter"))
			v := askBoth(t, c, sh, stopField(sh, "blocked")) // its own text is never matched (GAP-75)
			require.Equal(t, fixed, v.Text)
			require.NotEmpty(t, v.Pieces, "it is streamed as a delta")
			require.Equal(t, wire.Finishes["policy"][sh.Name], v.Finish)
		})
		t.Run("POL-06 a withheld fragment is text "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 3), "content_filter", upstream.Text("EN")))
			v := askBoth(t, c, sh, stopField(sh, "END"))
			require.Equal(t, "EN", v.Text)
			require.Equal(t, wire.Finishes["policy"][sh.Name], v.Finish)
		})
		t.Run("POL-06 calls already sent stay "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 3), "content_filter", upstream.ToolCall(0, "call_1", "f"), upstream.Arguments(0, `{}`)))
			v := askBoth(t, c, sh, sh.Tools(wire.Function{Name: "f"}))
			require.Equal(t, []toolCall{{ID: "call_1", Name: "f", Arguments: "{}"}}, v.Calls)
			require.Equal(t, wire.Finishes["policy"][sh.Name], v.Finish)
		})
	}
}
