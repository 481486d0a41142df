package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// allowanceField is the member that sets the output allowance in a shape.
func allowanceField(sh shape, n int64) string {
	name := "max_tokens"
	if sh.Name == "responses" {
		name = "max_output_tokens"
	}
	return fmt.Sprintf("%q:%d", name, n)
}

// failBoth asks for a reply in JSON and as a stream, which must fail alike, and returns the error.
func failBoth(t testing.TB, c *caller, sh shape, status int, fields ...string) wire.Failure {
	t.Helper()
	a := c.Ask(sh, fields...)
	require.Equal(t, status, a.StatusCode, "%s", a.Raw)
	whole := errorOf(t, sh, a)
	requireError(t, sh, a, status, whole.Code)
	v := c.Stream(t, sh, fields...)
	require.True(t, v.Started)
	require.Equal(t, whole, *v.Error, "the frame says what the status says (SSE-35)")
	require.Zero(t, c.Balance().Held)
	return whole
}

// TestNoVisibleAnswer is worked example E22.
func TestNoVisibleAnswer(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	special := startScripted(t, setup{Routes: specialRoutes})
	reasoned := func(output int64, finish string) upstream.Reply {
		return script(used(10, output), finish, upstream.Reasoning("hm, hm"))
	}
	for _, sh := range shapes {
		t.Run("SSE-39 SSE-40 SSE-35 ERR-22 reasoning used the allowance up "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(reasoned(50, "length"))
			before := c.Net()
			e := failBoth(t, c, sh, 422, allowanceField(sh, 50))
			require.Equal(t, "invalid_request_error", e.Code)
			require.Equal(t, int64(2*(10*300+50*1500)), before-c.Net(), "the work is charged (GAP-55)")
			require.Empty(t, c.Ask(sh, allowanceField(sh, 50)).Header.Get("X-Should-Retry"))
		})
		t.Run("ERR-26 SSE-35 nothing to show "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(reasoned(12, "stop"))
			e := failBoth(t, c, sh, 502, allowanceField(sh, 50))
			require.Equal(t, "no_visible_answer", e.Code)
			require.NotContains(t, e.Message, "max_tokens")
		})
		t.Run("ERR-27 SSE-35 the client's own limit "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(reasoned(50, "stop"))
			e := failBoth(t, c, sh, 502, allowanceField(sh, 50))
			require.Equal(t, "no_visible_answer", e.Code)
			require.Contains(t, e.Message, "the max_tokens budget (50)")
		})
		t.Run("ERR-27 GAP-40 an allowance that was raised is not the client's own "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := special.rich(t)
			c.Answers(reasoned(4096, "stop"))
			a := c.Post(sh.Path, sh.Body(drawing, allowanceField(sh, 50)))
			requireError(t, sh, a, 502, "no_visible_answer")
			require.EqualValues(t, 4096, c.Sent(t)["max_tokens"])
			require.NotContains(t, errorOf(t, sh, a).Message, "max_tokens")
		})
		t.Run("ERR-27 no limit of the client's "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(reasoned(32768, "stop"))
			e := failBoth(t, c, sh, 502)
			require.Equal(t, "no_visible_answer", e.Code)
			require.NotContains(t, e.Message, "max_tokens")
		})
		t.Run("ERR-22 one character is an answer "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 50), "length", upstream.Reasoning("hm"), upstream.Text(" ")))
			v := askBoth(t, c, sh, allowanceField(sh, 50))
			require.Equal(t, " ", v.Text)
			require.Equal(t, wire.Finishes["length"][sh.Name], v.Finish)
		})
		t.Run("ERR-26 a tool call is an answer "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 12), "tool_calls", upstream.ToolCall(0, "call_1", "f"), upstream.Arguments(0, "{}")))
			v := askBoth(t, c, sh, sh.Tools(wire.Function{Name: "f"}))
			require.Equal(t, wire.Finishes["tool_calls"][sh.Name], v.Finish)
		})
	}
}

// TestUpstreamErrors proves what becomes of a route's refusal (GAP-96), before and after it accepted.
func TestUpstreamErrors(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, tt := range []struct {
		name   string
		err    upstream.Error
		status int
		code   string
		final  string // x-should-retry
	}{
		{"ERR-25 internal error", upstream.ServerError(), 502, "upstream_error", ""},
		{"GAP-126 overloaded", upstream.Overloaded(), 429, "rate_limit_exceeded", ""},
		{"ERR-25 our key is not valid", upstream.InvalidKey(), 502, "upstream_error", ""},
		{"ERR-25 our key may not", upstream.Forbidden(), 502, "upstream_error", ""},
		{"ERR-25 no such model", upstream.ModelNotFound(), 502, "upstream_error", ""},
		{"ERR-25 bad request", upstream.BadRequest("no", ""), 502, "upstream_error", ""},
		{"GAP-39 rate limit", upstream.RateLimited("7"), 429, "rate_limit_exceeded", ""},
		{"GAP-96 too long", upstream.ContextLength(), 503, "feature_unavailable", "false"},
		{"POL-02 declined", upstream.ContentFilter(), 400, "invalid_request_error", "false"},
	} {
		for _, sh := range shapes {
			t.Run("SSE-29 SSE-35 SSE-44 GAP-43 "+tt.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(upstream.Refuse(tt.err))
				var whole wire.Failure
				for _, mode := range modes {
					a := c.Ask(sh, mode.Field)
					requireError(t, sh, a, tt.status, tt.code)
					require.Equal(t, tt.final, a.Header.Get("X-Should-Retry"))
					require.Empty(t, a.Header.Get("Retry-After"))
					require.Empty(t, a.Header.Get("X-RateLimit-Reason"))
					whole = errorOf(t, sh, a)
					require.NotContains(t, whole.Message, tt.err.Message, "an upstream's words are never shown")
				}
				c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Fail(tt.err)}})
				v := c.Stream(t, sh)
				require.True(t, v.Started)
				require.Equal(t, whole, *v.Error)
				require.Equal(t, c.Credits*1_000_000, c.Net(), "nothing was proven")
			})
		}
	}
	for _, sh := range shapes {
		t.Run("ERR-25 a proxy's page "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Refuse(upstream.BadGateway()))
			requireError(t, sh, c.Ask(sh, streamField), 502, "upstream_error")
		})
	}
}

// TestFrameOnlyCodes proves the two codes that only frames have.
func TestFrameOnlyCodes(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	badCall := func(finish string) upstream.Reply {
		return script(used(10, 60), finish, upstream.ToolCall(0, "call_1", "f"), upstream.Arguments(0, `{"q":`))
	}
	for _, sh := range shapes {
		offer := sh.Tools(wire.Function{Name: "f"})
		t.Run("ERR-32 BILL-25 arguments that are no JSON "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(badCall("tool_calls"))
			requireError(t, sh, c.Ask(sh, offer), 502, "upstream_error")
			v := c.Stream(t, sh, offer)
			require.Equal(t, "validator_failed", v.Error.Code)
			require.Empty(t, v.Finish)
			require.Equal(t, c.Credits*1_000_000, c.Net(), "a failure of the service is free")
		})
		t.Run("GAP-84 arguments cut by the allowance "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(badCall("length"))
			require.Equal(t, wire.Finishes["length"][sh.Name], c.Stream(t, sh, offer).Finish)
			require.Equal(t, wire.Finishes["length"][sh.Name], outcomeOf(t, sh, c.Ask(sh, offer)).Finish)
		})
		t.Run("ERR-33 the connection to the route breaks "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Reset()}})
			requireError(t, sh, c.Ask(sh), 502, "upstream_error")
			requireError(t, sh, c.Ask(sh, offer), 502, "upstream_error")
			require.Equal(t, "stream_error", c.Stream(t, sh).Error.Code)
		})
		t.Run("ERR-33 BILL-28 the route never says what it used "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			reply := hello
			reply.Usage = upstream.UsageNever
			c.Answers(reply)
			v := c.Stream(t, sh)
			require.Equal(t, "stream_error", v.Error.Code)
			require.Equal(t, []string{"Hel", "lo"}, v.Pieces)
			o := outcomeOf(t, sh, c.Ask(sh))
			require.Equal(t, "Hello", o.Text)
			require.Equal(t, true, o.Usage["billing_pending"])
			require.Zero(t, o.Billed(t))
			require.Zero(t, c.Balance().Held)
			require.Equal(t, c.Credits*1_000_000, c.Net())
		})
		t.Run("SSE-38 the route fails at its last moment "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Finish("stop"),
				upstream.ReportTokens(used(10, 2)), upstream.Cut()}})
			v := c.Stream(t, sh)
			require.Equal(t, "stream_error", v.Error.Code)
			require.Empty(t, v.Finish)
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
