package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestRaisedAllowanceUsedUp is a part of worked example E22.
func TestRaisedAllowanceUsedUp(t *testing.T) {
	t.Parallel()
	special := startScripted(t, setup{Routes: specialRoutes})
	for _, sh := range shapes {
		t.Run("ERR-27 GAP-40 an allowance that was raised is not the client's own "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := special.rich(t)
			c.Answers(script(used(10, 4096), "stop", upstream.Reasoning("hm, hm")))
			a := c.Post(sh.Path, sh.Body(drawing, allowance(sh, 50)))
			requireError(t, sh, a, 502, "no_visible_answer")
			require.EqualValues(t, 4096, c.Sent(t)["max_tokens"])
			require.NotContains(t, errorOf(t, sh, a).Message, "max_tokens")
		})
	}
}

// recorded is a whole reply of an upstream.
const recorded = `data: {"choices":[{"delta":{"content":"Hi"}}]}` + "\n\n" +
	`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
	`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}` + "\n\n" +
	"data: [DONE]\n\n"

// TestUpstreamCutAtEveryByte breaks an upstream's stream off after each of its bytes.
func TestUpstreamCutAtEveryByte(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	cut := func(at int, how upstream.End) upstream.Reply {
		return upstream.Reply{Wire: upstream.Wire{Break: &upstream.Break{At: int64(at), How: how}},
			Steps: []upstream.Step{upstream.Raw(recorded)}}
	}
	proven := strings.Index(recorded, "}}\n\ndata: [DONE]") + len("}}") // finished, and its usage known
	for _, sh := range shapes {
		t.Run("SSE-30 SSE-36 SSE-37 the connection breaks "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for at := range len(recorded) {
				c.Answers(cut(at, upstream.EndAbort))
				v := c.Stream(t, sh) // judged: one end, nothing after it
				require.NotNil(t, v.Error, "byte %d", at)
				require.Equal(t, "stream_error", v.Error.Code, "byte %d", at)
			}
			c.Answers(cut(len(recorded)+1, upstream.EndAbort))
			require.True(t, c.Stream(t, sh).Complete)
		})
		t.Run("SSE-30 SSE-36 SSE-37 the body ends "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for at := range len(recorded) {
				c.Answers(cut(at, upstream.EndClean))
				v := c.Stream(t, sh)
				if at < proven {
					require.NotNil(t, v.Error, "byte %d", at)
					require.Equal(t, "stream_error", v.Error.Code, "byte %d", at)
				}
			}
		})
	}
}
