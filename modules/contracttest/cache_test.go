package contracttest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const (
	cached       = "\ncache \"memory\" {\n  ttl = \"10h\"\n}\n"
	noRandomness = `"temperature":0`
)

// TestCache is the response cache (GAP-61).
func TestCache(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: cached + `
plan "private" {
  requires {
    retention = "none"
  }
}
`, Routes: []route{{Name: "standard", More: `retention = "none"`}}})
	for _, sh := range shapes {
		t.Run("GAP-61 streamed and not, from either "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for first := range modes {
				c := g.rich(t)
				fields := []string{noRandomness, stopField(sh, "!", "?"), modes[first].Field}
				c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Text("lo! You")))
				before := c.Net()
				a := c.Ask(sh, fields...)
				require.Equal(t, 200, a.StatusCode)
				require.Equal(t, int64(helloCost), before-c.Net())
				c.Answers(upstream.Refuse(upstream.ServerError()))
				streamed := c.Stream(t, sh, noRandomness, stopField(sh, "!", "?"))
				require.True(t, streamed.Complete, "%v", streamed.Error)
				again := c.Ask(sh, noRandomness, stopField(sh, "!", "?"))
				whole := outcomeOf(t, sh, again)
				require.Equal(t, whole, streamed.Outcome)
				require.Equal(t, "Hello", whole.Text)
				require.Equal(t, wire.Finishes["matched"][sh.Name], whole.Finish)
				require.Zero(t, whole.Billed(t))
				if sh.Name == "messages" {
					require.Equal(t, "!", again.At(t, "stop_sequence"))
				}
				once := c.Ask(sh, noRandomness, stopField(sh, "!", "?"))
				require.NotEqual(t, once.At(t, "id"), again.At(t, "id"), "ids are new")
				require.Len(t, c.Seen(), 1)
				require.Equal(t, int64(helloCost), before-c.Net(), "0 tokens are billed")
				r := c.Record(t, again)
				require.Equal(t, "cached", r.Reason)
				require.Empty(t, r.Attempts)
				require.Positive(t, r.Held)
			}
		})
		t.Run("PROF-21 PROF-22 never for another default of the account's "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for i, profile := range []string{"balanced", "budget", "max"} {
				_, err := c.Engine.Store().SetProfile(t.Context(), c.Account.ID, profile)
				require.NoError(t, err)
				c.Engine.ForgetKeys()
				for _, header := range []string{"", "balanced", ""} {
					a := c.Post(sh.Path, sh.Body("PROMPT", noRandomness), profileHeader(header)...)
					require.Equal(t, 200, a.StatusCode)
					require.Len(t, c.Seen(), i+1, "with the default %s and header %q", profile, header)
				}
			}
		})
	}
	t.Run("GAP-61 never for another account, family or request", func(t *testing.T) {
		t.Parallel()
		c, other := g.rich(t), g.rich(t)
		calls := 0
		for _, sh := range shapes {
			for _, fields := range [][]string{{noRandomness}, {noRandomness, `"max_tokens":100`, `"max_output_tokens":100`},
				{noRandomness, stopField(sh, "x")}, {noRandomness, stopField(sh, "y")},
				{noRandomness, sh.Tools(wire.Function{Name: "f"})}} {
				calls++
				require.Equal(t, 200, c.Ask(sh, fields...).StatusCode)
				require.Len(t, c.Seen(), calls, "%s %v", sh.Name, fields)
				require.Equal(t, 200, c.Ask(sh, fields...).StatusCode)
				require.Len(t, c.Seen(), calls, "%s %v", sh.Name, fields)
			}
		}
		other.Mark = c.Mark // it says the very same
		require.Equal(t, 200, other.Ask(shapes[0], noRandomness).StatusCode)
		require.Len(t, c.Seen(), calls+1)
	})
	t.Run("GAP-61 what is not kept", func(t *testing.T) {
		t.Parallel()
		sh := shapes[0]
		for name, tt := range map[string]struct {
			reply  upstream.Reply
			fields []string
			header []string
			status int
		}{
			"randomness": {hello, nil, nil, 200},
			"a little":   {hello, []string{`"temperature":0.1`}, nil, 200},
			"no-store":   {hello, []string{noRandomness}, []string{"Cache-Control", "max-age=0, No-Store"}, 200},
			"no-cache":   {hello, []string{noRandomness}, []string{"Cache-Control", "no-cache"}, 200},
			"a tool call": {script(used(10, 2), "tool_calls", upstream.ToolCall(0, "call_1", "f"),
				upstream.Arguments(0, `{}`)), []string{noRandomness, sh.Tools(wire.Function{Name: "f"})}, nil, 200},
			"a policy's ending": {script(used(10, 2), "content_filter", upstream.Text("x")), []string{noRandomness}, nil, 200},
			"a part":            {script(used(10, 2), "length", upstream.Text("x")), []string{noRandomness}, nil, 200},
			"a decline":         {upstream.Refuse(upstream.ContentFilter()), []string{noRandomness}, nil, 400},
			"a failure":         {upstream.Refuse(upstream.ServerError()), []string{noRandomness}, nil, 502},
			"nothing":           {script(used(10, 2), "stop"), []string{noRandomness}, nil, 502},
		} {
			c := g.rich(t)
			c.Answers(tt.reply)
			for i := range 2 {
				a := c.Post(sh.Path, sh.Body("PROMPT", tt.fields...), tt.header...)
				require.Equal(t, tt.status, a.StatusCode, name)
				require.Len(t, c.Seen(), i+1, name)
			}
		}
	})
	t.Run("GAP-61 no-store does not read either, and no-cache refreshes", func(t *testing.T) {
		t.Parallel()
		c, sh := g.rich(t), shapes[0]
		require.Equal(t, 200, c.Ask(sh, noRandomness).StatusCode)
		require.Equal(t, 200, c.Post(sh.Path, sh.Body("PROMPT", noRandomness), "Cache-Control", "no-store").StatusCode)
		require.Len(t, c.Seen(), 2)
		c.Answers(script(used(10, 2), "stop", upstream.Text("new")))
		a := c.Post(sh.Path, sh.Body("PROMPT", noRandomness), "Cache-Control", "no-cache")
		require.Equal(t, "new", sh.Text(a.JSON(t)))
		require.Equal(t, "new", sh.Text(c.Ask(sh, noRandomness).JSON(t)))
		require.Len(t, c.Seen(), 3)
	})
	t.Run("GAP-117 nothing of an account whose plan demands so", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.SetPlan("private")
		for i := range 2 {
			require.Equal(t, 200, c.Ask(shapes[0], noRandomness).StatusCode)
			require.Len(t, c.Seen(), i+1)
		}
	})
	t.Run("GAP-38 an account without credits gets nothing from it", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		require.Equal(t, 200, c.Ask(shapes[0], noRandomness).StatusCode)
		c.Owe(c.Account, 1_000_000*1_000_000)
		requireError(t, shapes[0], c.Ask(shapes[0], noRandomness), 402, "budget_exceeded")
	})
}

// TestCacheEnds: a reply is kept for its ttl, and for its configuration.
func TestCacheEnds(t *testing.T) {
	t.Parallel()
	clock := newClock(1)
	g := startScripted(t, setup{Extra: cached, Clock: clock})
	c, sh := g.rich(t), shapes[0]
	ask := func(calls int) {
		t.Helper()
		require.Equal(t, 200, c.Ask(sh, noRandomness).StatusCode)
		require.Len(t, c.Seen(), calls)
	}
	ask(1)
	clock.ahead.Add(int64(9 * time.Hour))
	ask(1)
	clock.ahead.Add(int64(time.Hour))
	ask(2)
	g.Reload(func(hcl string) string { return strings.Replace(hcl, "input  = 3", "input  = 2", 1) })
	ask(3)
	ask(3)
	g.Reload(func(hcl string) string { return strings.Replace(hcl, cached, "", 1) })
	ask(4)
	ask(5)
}

// TestCacheIsScreened: a hit is screened and charged for that (GAP-59), and what is blocked stays so.
func TestCacheIsScreened(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: cached + screening("enforce")})
	for _, sh := range shapes {
		c := g.rich(t)
		before := c.Net()
		require.Equal(t, 200, c.Ask(sh, noRandomness).StatusCode)
		a := c.Ask(sh, noRandomness)
		require.Equal(t, int64(screeningCost), outcomeOf(t, sh, a).Billed(t))
		require.Equal(t, int64(screeningCost), c.Stream(t, sh, noRandomness).Billed(t))
		require.Len(t, c.Seen(), 1)
		require.Equal(t, int64(helloCost+3*screeningCost), before-c.Net())
		require.Equal(t, 400, c.asking(sh, "a pipe bomb", noRandomness).StatusCode)
		require.Equal(t, []ledger.AttemptRecord(nil), c.Record(t, a).Attempts)
	}
	require.EqualValues(t, 3, g.gauge(t, "fareway_cache_replies"))
}
