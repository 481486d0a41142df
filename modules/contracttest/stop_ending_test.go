package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestEndingsAfterAMatch is worked example E15: the route sends "a END b", and then something else.
func TestEndingsAfterAMatch(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `keepalive = "20ms"`})
	for _, sh := range shapes {
		t.Run("STOP-29 STOP-30 STOP-33 the route goes on "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "stop", upstream.Text("a END b"), upstream.Wait(c.Mark),
				upstream.Text(" and much more END")))
			before := c.Net()
			l := c.Open(t, sh, stopField(sh, "END"))
			l.Start(sh)
			require.Equal(t, "a ", l.Text(sh))
			for range 3 {
				require.True(t, isKeepAlive(l.Next()), "only keep-alives before the route ends: %s", l.Raw.String())
			}
			c.Upstream.Open(c.Mark)
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.Equal(t, "a ", v.Text)
			require.Equal(t, finishes["matched"][sh.Name], v.Finish)
			require.Equal(t, int64(10*300+60*1500), v.Billed(t), "all that the route generated")
			require.Equal(t, v.Billed(t), before-c.Net())
			require.Equal(t, v.outcome, outcomeOf(t, sh, c.Ask(sh, stopField(sh, "END"))))
		})
		t.Run("STOP-25 a policy ending is reported "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "content_filter", upstream.Text("a END b")))
			v := askBoth(t, c, sh, stopField(sh, "END"))
			require.Equal(t, "a ", v.Text)
			require.Equal(t, finishes["policy"][sh.Name], v.Finish)
			require.Nil(t, v.StopSequence)
		})
		t.Run("GAP-73 the allowance changes nothing "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "length", upstream.Text("a END b")))
			v := askBoth(t, c, sh, stopField(sh, "END"))
			require.Equal(t, "a ", v.Text)
			require.Equal(t, finishes["matched"][sh.Name], v.Finish)
		})
		t.Run("GAP-72 a match at the very beginning is no failure "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 12), "stop", upstream.Text("END b")))
			v := askBoth(t, c, sh, stopField(sh, "END"))
			require.Empty(t, v.Text)
			require.Equal(t, finishes["matched"][sh.Name], v.Finish)
		})
		for name, end := range map[string]upstream.Step{"fails": upstream.Fail(upstream.ServerError()),
			"breaks off": upstream.Cut()} {
			t.Run("STOP-26 STOP-32 the route "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("a END b"), end}})
				v := c.Stream(t, sh, stopField(sh, "END"))
				require.NotNil(t, v.Error)
				require.False(t, v.Complete)
				require.Equal(t, []string{"a "}, v.Pieces)
				requireError(t, sh, c.Ask(sh, stopField(sh, "END")), 502, "upstream_error")
			})
		}
	}
}

func TestTimeLimitAfterAMatch(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `
keepalive       = "20ms"
request_timeout = "2500ms"
`})
	whole, streamed := make(map[string]*sent), make(map[string]*sent)
	for _, sh := range shapes { // all wait at the same time
		c := g.rich(t)
		c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("a END b"), upstream.Silence()}})
		whole[sh.Name] = c.Send(t, within(t), sh, stopField(sh, "END"))
		streamed[sh.Name] = c.Send(t, within(t), sh, streamField, stopField(sh, "END"))
	}
	for _, sh := range shapes {
		l, a := streamed[sh.Name].Live(), whole[sh.Name].Answer()
		l.End()
		t.Run("STOP-31 the route never ends "+sh.Name, func(t *testing.T) {
			t.Parallel()
			v := judge(t, sh, l)
			require.Equal(t, []string{"a "}, v.Pieces)
			require.Positive(t, v.KeepAlives)
			require.False(t, v.Complete)
			requireError(t, sh, a, 504, "upstream_error")
			require.Equal(t, errorOf(t, sh, a), *v.Error)
			require.Contains(t, v.Error.Message, "time limit")
		})
	}
}
