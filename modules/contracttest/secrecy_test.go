package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestLogsAreSilent proves that nothing a client, a model or an upstream says is logged, at any level: no key,
// no prompt, no reply, no tool's arguments, whatever goes wrong.
func TestLogsAreSilent(t *testing.T) {
	t.Parallel()
	// Words that stand nowhere else. Short ones, so that no rule about length blots them out.
	const prompt, reply, arguments, echoed = "quixotry", "zanzibar", "xylophone", "wainscot"
	g := startScripted(t, setup{Gateway: `
keepalive       = "20ms"
request_timeout = "1500ms"
`, Routes: twoRoutes})
	echo := func(e upstream.Error) upstream.Error {
		e.Message = "you said " + echoed + " and " + prompt
		return e
	}
	raw := func(text string) upstream.Reply { return upstream.Reply{Steps: []upstream.Step{upstream.Raw(text)}} }
	replies := map[string]upstream.Reply{
		"a reply": script(used(10, 2), "stop", upstream.Text(reply), upstream.Text("lo")),
		"a call": script(used(10, 2), "tool_calls", upstream.ToolCall(0, "call_1", "f"),
			upstream.Arguments(0, `{"q":"`+arguments+`"}`)),
		"a bad call": script(used(10, 2), "tool_calls", upstream.ToolCall(0, "call_1", "f"),
			upstream.Arguments(0, `{"q":"`+arguments)),
		"an endless":   {Steps: []upstream.Step{upstream.Text(reply), upstream.Silence()}},
		"a cut":        {Steps: []upstream.Step{upstream.Text(reply), upstream.Cut()}},
		"a late error": {Steps: []upstream.Step{upstream.Text(reply), upstream.Fail(echo(upstream.ServerError()))}},
		"a page":       upstream.Refuse(upstream.Error{Status: 502, Body: "<html>" + echoed + "</html>"}),
		"a string":     raw("data: {\"error\":\"" + echoed + "\"}\n\n"),
		"no JSON":      raw("data: " + echoed + "\n\n"),
		"no chunk":     raw("data: [\"" + echoed + "\"]\n\n"),
		"a huge code": upstream.Refuse(upstream.Error{Status: 400, Code: echoed + " " + prompt,
			Type: prompt + " " + prompt}),
		"a wrong call": raw(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"` + arguments +
			`"}}]}}]}` + "\n\n"),
		"a wrong usage": raw(`data: {"choices":[{"delta":{"content":"` + reply + `"}}],"usage":{"prompt_tokens":"` + echoed +
			`"}}` + "\n\n"),
	}
	for name, e := range map[string]upstream.Error{
		"500": upstream.ServerError(), "503": upstream.Overloaded(), "401": upstream.InvalidKey(),
		"403": upstream.Forbidden(),
		"404": upstream.ModelNotFound(), "400": upstream.BadRequest("", ""), "429": upstream.RateLimited("1"),
		"too long": upstream.ContextLength(), "declined": upstream.ContentFilter(), "quota": upstream.QuotaExceeded(),
	} {
		replies[name] = upstream.Refuse(echo(e))
	}
	var keys []string
	t.Run("busy", func(t *testing.T) {
		for name, r := range replies {
			c := g.rich(t)
			c.Answers(r)
			keys = append(keys, c.Key)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				asked := shapes
				if name == "an endless" {
					asked = shapes[:1] // each waits for the time limit
				}
				for _, sh := range asked {
					for _, mode := range modes {
						t.Run(sh.Name+" "+mode.Name, func(t *testing.T) {
							t.Parallel()
							a := c.Post(sh.Path, sh.Body("PROMPT "+prompt, mode.Field, stopField(sh, "lo"),
								sh.Tools(wire.Function{Name: "f", Description: prompt})))
							require.NotContains(t, string(a.Raw), echoed, "an upstream's words are never shown")
							c.Access(a.Header.Get("X-Request-Id"))
						})
					}
				}
			})
		}
		t.Run("refused", func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, sh := range shapes {
				c.Post(sh.Path, prompt)
				c.Post(sh.Path, sh.Body(prompt, `"model":"`+prompt+`"`))
				c.Post(sh.Path, sh.Body(prompt, `"api_key":"`+prompt+`"`))
				c.Post(sh.Path, sh.Body(prompt), "Authorization", "Bearer "+prompt)
				c.Post(sh.Path, sh.Body(prompt), "X-Service-Profile", prompt)
				c.Post(sh.Path, sh.Body(prompt), "X-Request-Id", prompt)
			}
			c.Do("GET", "/v1/models/"+prompt, "")
			c.Do("GET", "/v1/"+prompt+"?"+prompt, "")
		})
	})
	t.Run("GAP-15 GAP-96 the log", func(t *testing.T) {
		t.Parallel()
		log := g.Log.String()
		for _, word := range append(keys, g.Key, prompt, reply, arguments, echoed) {
			for line := range strings.Lines(log) {
				require.NotContains(t, line, word)
			}
		}
		require.Contains(t, log, "attempt failed", "failures are logged")
		require.Contains(t, log, "rate_limit_exceeded", "with the upstream's own code")
	})
}
