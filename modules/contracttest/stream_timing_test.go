package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The tests of when something is sent wait for it, with gates for the upstream's part; none looks at a clock.
// That the interval is what the configuration says is proven beside the delivery, in modules/exchange.

// refusal is a route that fails before it accepts, once its gate is open.
func refusal(gate string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Wait(gate), upstream.Fail(upstream.ServerError())}}
}

// TestAdmission is worked example E24 with an interval that never passes.
func TestAdmission(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `keepalive = "1h"`, Routes: []route{
		{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1},
	}})
	for _, sh := range shapes {
		t.Run("SSE-43 the second route accepts "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.AnswersBy(func(req *upstream.Request) upstream.Reply {
				if req.Model == "first" {
					return refusal(c.Mark)
				}
				return hello
			})
			s := c.Send(t, within(t), sh, streamField)
			require.NoError(t, c.Upstream.AtGate(within(t), c.Mark, 1))
			c.Upstream.Open(c.Mark)
			l := s.Live()
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.Equal(t, "Hello", v.Text)
			require.Zero(t, v.KeepAlives)
		})
	}
}

// TestTimeLimit proves the end of a request whose route says nothing.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	quiet := startScripted(t, setup{Gateway: `
keepalive       = "20ms"
request_timeout = "2500ms"
`})
	held := startScripted(t, setup{Gateway: `
keepalive       = "1h"
request_timeout = "1500ms"
`})
	silent := upstream.Reply{Steps: []upstream.Step{upstream.Silence()}}
	accepted := upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}}
	type waiting struct {
		accepted, silent         *caller
		whole, streamed, refused *sent
	}
	all := make(map[string]waiting)
	for _, sh := range shapes { // all wait at the same time
		w := waiting{accepted: quiet.rich(t), silent: held.rich(t)}
		w.accepted.Answers(accepted)
		w.silent.Answers(silent)
		w.whole, w.streamed = w.accepted.Send(t, within(t), sh), w.accepted.Send(t, within(t), sh, streamField)
		w.refused = w.silent.Send(t, within(t), sh, streamField)
		all[sh.Name] = w
	}
	for _, sh := range shapes {
		w := all[sh.Name]
		l, whole, refused := w.streamed.Live(), w.whole.Answer(), w.refused.Answer()
		l.End()
		t.Run("SSE-28 SSE-35 ERR-31 LIM-14 GAP-69 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			v := judge(t, sh, l)
			require.True(t, v.Started)
			require.Positive(t, v.KeepAlives)
			require.Empty(t, v.Pieces)
			requireError(t, sh, whole, 504, "upstream_error")
			require.Empty(t, whole.Header.Get("X-Should-Retry"))
			require.Empty(t, whole.Header.Get("Retry-After"))
			require.Equal(t, errorOf(t, sh, whole), *v.Error)
			require.Zero(t, w.accepted.Balance().Held)
			require.Equal(t, w.accepted.Credits*1_000_000, w.accepted.Net())
		})
		t.Run("SSE-44 ERR-31 GAP-69 before admission "+sh.Name, func(t *testing.T) {
			t.Parallel()
			requireError(t, sh, refused, 504, "upstream_error")
			require.Zero(t, w.silent.Balance().Held)
		})
	}
}
