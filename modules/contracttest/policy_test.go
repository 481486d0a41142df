package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestContentPolicy: what a route declines goes to no other.
func TestContentPolicy(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1}}})
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
	}
}
