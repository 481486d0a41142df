package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// allowance is the member that gives a shape's output allowance.
func allowance(sh shape, tokens int64) string {
	if sh.Name == "responses" {
		return fmt.Sprintf(`"max_output_tokens":%d`, tokens)
	}
	return fmt.Sprintf(`"max_tokens":%d`, tokens)
}

// prompt makes a text whose request is estimated at exactly so many tokens; it begins with the caller's mark.
func (c *caller) prompt(t testing.TB, tokens int64) string {
	t.Helper()
	body := func(text string) string { return shapeOf("messages").Body(text) }
	text := c.Mark + strings.Repeat(" a", int(tokens-c.Count(t, body(c.Mark))))
	require.Equal(t, tokens, c.Count(t, body(text)), "one token a letter")
	return text
}

// TestAllowanceFit is E27.
func TestAllowanceFit(t *testing.T) {
	t.Parallel()
	type routeOf struct{ window, limit int64 }
	gateways := make(map[routeOf]*scripted)
	for _, tc := range []struct {
		clauses      string
		route        routeOf
		input, given int64 // given 0: none
		sent         int64 // 0: does not fit
	}{
		{"ALLOW-04", routeOf{10_000, 8_192}, 4_000, 6_000, 6_000},
		{"ALLOW-04 ALLOW-05 ERR-30", routeOf{10_000, 8_192}, 4_000, 6_001, 0},
		{"ALLOW-12", routeOf{200_000, 8_192}, 1_000, 20_000, 8_192},
		{"ALLOW-12", routeOf{200_000, 8_192}, 1_000, 5_000, 5_000},
		{"ALLOW-06 ALLOW-10", routeOf{200_000, 64_000}, 1_000, 0, 32_768},
		{"ALLOW-07 ALLOW-10 GAP-36", routeOf{200_000, 8_192}, 1_000, 0, 8_192},
		{"ALLOW-08 ALLOW-09 ALLOW-10", routeOf{40_000, 64_000}, 30_000, 0, 10_000},
		{"ALLOW-08 ALLOW-09 GAP-36", routeOf{40_000, 64_000}, 39_999, 0, 1},
		{"ALLOW-05 ALLOW-09 ERR-30 GAP-36", routeOf{40_000, 64_000}, 40_000, 0, 0},
		{"ALLOW-05 ERR-30 GAP-34", routeOf{200_000, 64_000}, 1_000, 10_000_000, 0},
		{"ALLOW-05 ERR-30 twice the window", routeOf{200_000, 64_000}, 1_000, 400_000, 0},
		{"ALLOW-12 the whole window", routeOf{200_000, 64_000}, 1_000, 199_000, 64_000},
		{"ALLOW-05 ERR-30 input alone", routeOf{10_000, 8_192}, 10_001, 1, 0},
	} {
		g := gateways[tc.route]
		if g == nil {
			g = startScripted(t, setup{Routes: []route{{Name: "only", Window: tc.route.window, Max: tc.route.limit}}})
			gateways[tc.route] = g
		}
		for _, sh := range shapes {
			t.Run(fmt.Sprintf("%s %d of %d given %d %s", tc.clauses, tc.input, tc.route.window, tc.given, sh.Name),
				func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					text := c.prompt(t, tc.input)
					for _, mode := range modes {
						fields := []string{mode.Field}
						if tc.given > 0 {
							fields = append(fields, allowance(sh, tc.given))
						}
						a := c.Post(sh.Path, sh.Body(text, fields...))
						if tc.sent == 0 {
							requireError(t, sh, a, 503, "feature_unavailable")
							c.RequireUntouched(t)
							continue
						}
						outcomeOf(t, sh, a)
						require.EqualValues(t, tc.sent, c.Sent(t)["max_tokens"])
					}
				})
		}
	}
}

// TestAllowanceFields: each shape has fields of its own, and other shapes' are not read.
func TestAllowanceFields(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, tc := range []struct {
		name, shape, members string
		sent                 int64
	}{
		{"ALLOW-01", "chat", `"max_tokens":100`, 100},
		{"ALLOW-01", "chat", `"max_completion_tokens":100`, 100},
		{"ALLOW-01 GAP-21", "chat", `"max_completion_tokens":100,"max_tokens":200`, 100},
		{"ALLOW-01 GAP-21", "chat", `"max_completion_tokens":200,"max_tokens":100`, 100},
		{"ALLOW-01 GAP-22", "chat", `"max_completion_tokens":null,"max_tokens":100`, 100},
		{"ALLOW-01", "chat", `"max_output_tokens":100`, 32_768},
		{"ALLOW-02", "responses", `"max_output_tokens":100`, 100},
		{"ALLOW-02", "responses", `"max_tokens":100`, 32_768},
		{"ALLOW-02", "responses", `"max_completion_tokens":100`, 32_768},
		{"ALLOW-03", "messages", `"max_tokens":100`, 100},
		{"ALLOW-03 GAP-24", "messages", `"max_completion_tokens":100`, 32_768},
		{"ALLOW-03", "messages", `"max_output_tokens":100`, 32_768},
		{"ALLOW-03 GAP-25", "messages", `"max_tokens":10.0`, 10},
		{"ALLOW-06 GAP-22", "messages", `"max_tokens":null`, 32_768},
	} {
		t.Run(tc.name+" "+tc.shape+" "+tc.members, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				c := g.rich(t)
				outcomeOf(t, shapeOf(tc.shape), c.Ask(shapeOf(tc.shape), tc.members, mode.Field))
				require.EqualValues(t, tc.sent, c.Sent(t)["max_tokens"])
			}
		})
	}
}

// TestAllowanceCaps: the default is a real cap, and not raised on an ordinary route.
func TestAllowanceCaps(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "short", Max: 50}}})
	cut := map[string]string{"chat": "length", "responses": "incomplete/max_output_tokens", "messages": "max_tokens"}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ALLOW-10 ALLOW-11 the default cuts "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(wordy)
				o := outcomeOf(t, sh, c.Ask(sh, mode.Field))
				require.EqualValues(t, 50, c.Sent(t)["max_tokens"])
				require.Equal(t, cut[sh.Name], o.Finish)
				require.Len(t, strings.Fields(o.Text), 50)
			})
			t.Run("ALLOW-12 ALLOW-16 a small allowance is sent as given "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(wordy)
				o := outcomeOf(t, sh, c.Ask(sh, allowance(sh, 7), mode.Field))
				require.EqualValues(t, 7, c.Sent(t)["max_tokens"])
				require.Equal(t, cut[sh.Name], o.Finish)
				require.Len(t, strings.Fields(o.Text), 7)
			})
		}
		t.Run("ALLOW-20 reasoning shares the allowance "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			thought := int64(40)
			c.Answers(script(upstream.Usage{Prompt: 10, Completion: 40, Reasoning: &thought}, "length",
				upstream.Reasoning("hm hm")))
			before := c.Net()
			requireError(t, sh, c.Ask(sh, allowance(sh, 40)), 422, "invalid_request_error")
			require.EqualValues(t, 10*300+40*1500, before-c.Net(), "reasoning is charged as output")
		})
	}
}

// wordy keeps to the output limit that the gateway sends, and says more words than any test allows.
var wordy = func() upstream.Reply {
	r := upstream.Say(strings.Repeat("word ", 100))
	r.Honour.MaxTokens = true
	return r
}()
