package contracttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// What a watched apply goes by is what a configuration can have done, and nothing that somebody without a key, or a
// request that no route takes, can bring about.
func TestTrafficIsWhatReachedARoute(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	c := g.rich(t)
	ask := func(reply upstream.Reply) int {
		c.Answers(reply)
		return c.Ask(shapes[0]).StatusCode
	}
	traffic := func() string {
		all, _ := g.Engine.Metrics().Traffic()
		return fmt.Sprint(all.Answered, all.Failed, all.FailedAttempts)
	}
	counted := func(want, why string) { // behind the reply
		t.Helper()
		require.Eventually(t, func() bool { return traffic() == want }, time.Minute, time.Millisecond, why)
	}
	chat := func(message string, header ...string) int {
		return g.Do("POST", "/v1/chat/completions", fmt.Sprintf(
			`{"model":"service/auto","messages":[{"role":"user","content":%q}]}`, message), header...).StatusCode
	}
	for range 10 {
		require.Equal(t, 404, g.Get("/wp-login.php").StatusCode)
		require.Equal(t, 401, chat("hi", "Authorization", "Bearer fwk_wrong"))
		require.Equal(t, 404, g.Do("POST", "/v1/embeddings", `{}`).StatusCode)
		require.Equal(t, 400, g.Do("POST", "/v1/chat/completions", `{`).StatusCode)
		require.Equal(t, 503, chat(strings.Repeat("word ", 250_000)), "no route fits")
	}
	require.Equal(t, "0 0 0", traffic())

	require.Equal(t, 200, ask(upstream.Say("Hello.")))
	counted("1 0 0", "an answer")
	require.Equal(t, 503, ask(upstream.Refuse(upstream.ContextLength())))
	counted("2 0 0", "GAP-126 it is the request's size")
	require.Equal(t, 502, ask(upstream.Refuse(upstream.ServerError())))
	counted("3 1 1", "a failure of the route's")
}
