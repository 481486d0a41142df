package modules_test

import (
	"fmt"
	"strings"
	"testing"

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
		answered, failed, attempts := g.Engine.Metrics().Traffic()
		return fmt.Sprint(answered, failed, attempts)
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
	require.Equal(t, "1 0 0", traffic())
	require.Equal(t, 503, ask(upstream.Refuse(upstream.ContextLength())))
	require.Equal(t, "2 1 0", traffic(), "the route promised a window that it does not have")
	require.Equal(t, 502, ask(upstream.Refuse(upstream.ServerError())))
	require.Equal(t, "3 2 1", traffic())
}
