package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestUnfinished is a reply whose upstream says that it ended for a reason that nobody knows, or for none (GAP-114).
func TestUnfinished(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "standard",
		More: `finish_reasons = { EOD = "stop", cut = "length", abort2 = "content_filter" }`}}})
	two := startScripted(t, setup{Routes: twoRoutes})
	five := used(5, 5)
	const cost = 5*300 + 5*1500
	for _, sh := range shapes {
		for _, mode := range modes {
			failed := func(t *testing.T, c *caller, fields ...string) wire.Failure {
				t.Helper()
				before := c.Net()
				a := c.Ask(sh, append(fields, mode.Field)...)
				require.EqualValues(t, cost, before-c.Net(), "verified work is charged (BILL-21)")
				if a.StatusCode != 200 {
					requireError(t, sh, a, 502, "upstream_error")
					return errorOf(t, sh, a)
				}
				require.Equal(t, "streamed", mode.Name)
				require.NotContains(t, string(a.Raw), "[DONE]")
				e := c.Stream(t, sh).Error
				require.NotNil(t, e)
				return *e
			}
			for _, word := range []string{"error", "abort", "ERROR", "cancelled", "insufficient_system_resource", "eot",
				"a text of the user"} {
				t.Run("GAP-114 BILL-21 "+word+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					c.Answers(script(five, word, upstream.Text("Hel")))
					require.Equal(t, "upstream_error", failed(t, c).Code)
					c.Answers(script(five, word)) // without a word of text it is no answer, and a failure before that
					require.Equal(t, "upstream_error", failed(t, c).Code)
					c.Answers(script(five, word, upstream.Text("a END b")))
					require.Equal(t, "upstream_error", failed(t, c, `"stop":["END"],"stop_sequences":["END"]`).Code,
						"a match does not hide it (STOP-25)")
				})
			}
			t.Run("GAP-114 words of the route "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for word, finish := range map[string][3]string{
					"eod": {"stop", "completed", "end_turn"}, "Eod": {"stop", "completed", "end_turn"},
					"eos_token": {"stop", "completed", "end_turn"},
					"CUT":       {"length", "incomplete/max_output_tokens", "max_tokens"},
					"abort2":    {"content_filter", "incomplete/content_filter", "refusal"},
				} {
					c.Answers(script(five, word, upstream.Text("Hel")))
					o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
					require.Equal(t, "Hel", o.Text)
					require.Equal(t, map[string]string{"chat": finish[0], "responses": finish[1], "messages": finish[2]}[sh.Name],
						o.Finish)
				}
			})
			t.Run("GAP-114 GAP-40 no reason at all "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				ends := func(steps ...upstream.Step) upstream.Reply {
					return upstream.Reply{Steps: append(steps, upstream.ReportTokens(five), upstream.Done())}
				}
				c.Answers(ends(upstream.Text("Hel")))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "Hel", o.Text)
				require.Equal(t, map[string]string{"chat": "stop", "responses": "completed", "messages": "end_turn"}[sh.Name],
					o.Finish)
				c.Answers(ends())
				a := c.Ask(sh, mode.Field)
				if mode.Name == "json" {
					requireError(t, sh, a, 502, "no_visible_answer")
				} else {
					require.Equal(t, "no_visible_answer", c.Stream(t, sh).Error.Code)
				}
			})
			t.Run("GAP-114 ERR-25 another route answers "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := two.rich(t)
				c.AnswersBy(byRoute(script(five, "abort"), script(five, "stop", upstream.Text("Hello"))))
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.Equal(t, "Hello", o.Text)
				require.EqualValues(t, 2*cost, o.Billed(t))
				require.Len(t, c.Seen(), 2)
			})
		}
	}
	t.Run("GAP-114 the log says what to do, and shows no text", func(t *testing.T) {
		c := g.rich(t)
		for _, word := range []string{"odd-end", "words of the user", strings.Repeat("x", 70)} {
			c.Answers(script(five, word, upstream.Text("Hel")))
			requireError(t, shapes[0], c.Ask(shapes[0]), 502, "upstream_error")
		}
		lines := g.Log.Lines(t, func(line map[string]any) bool { return line["msg"] == "attempt failed" })
		var said []string
		for _, line := range lines {
			said = append(said, str(line["error"]))
		}
		all := strings.Join(said, "\n")
		require.Contains(t, all, `finish_reasons, as in { "odd-end" = "stop" }`)
		require.Contains(t, all, "a reason that is no word")
		require.NotContains(t, all, "words of the user")
	})
}
