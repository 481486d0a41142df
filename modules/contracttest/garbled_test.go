package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestGarbledUsage is an upstream whose usage is no usage: it must not become a bill that gives the reply away, nor
// one that takes what was not used (GAP-111).
func TestGarbledUsage(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	estimating := startScripted(t, setup{Routes: []route{{Name: "local", Metering: "estimate"}}})
	reply := func(raw ...string) upstream.Reply {
		r := upstream.Reply{Usage: upstream.UsageAlways,
			Steps: []upstream.Step{upstream.Text("Hel"), upstream.Text("lo"), upstream.Finish("stop")}}
		for _, object := range raw {
			r.Steps = append(r.Steps, upstream.ReportRaw(object))
		}
		r.Steps = append(r.Steps, upstream.Done())
		return r
	}
	const good = `{"prompt_tokens":10,"completion_tokens":2}`
	for _, sh := range shapes {
		for _, mode := range modes {
			for raw, flaw := range map[string]string{
				`{"prompt_tokens":10,"completion_tokens":-50}`:  "completion_tokens is negative",
				`{"prompt_tokens":10,"completion_tokens":"50"}`: "completion_tokens is not a number",
				`{"prompt_tokens":10,"completion_tokens":50.5}`: "completion_tokens is not a whole number",
				`{"prompt_tokens":10,"completion_tokens":1e19}`: "completion_tokens is above 2^53",
				`{"prompt_tokens":10,"completion_tokens":null}`: "completion_tokens is missing",
				`{"completion_tokens":2}`:                       "prompt_tokens is missing",
				`{"prompt_tokens":-1,"completion_tokens":2}`:    "prompt_tokens is negative",
			} {
				t.Run("GAP-111 GAP-57 "+raw+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					c.Answers(reply(raw))
					a := c.Ask(sh, mode.Field)
					if mode.Name == "json" {
						o := outcomeOf(t, sh, a)
						require.Equal(t, "Hello", o.Text)
						require.Equal(t, true, o.Usage["billing_pending"])
						require.Zero(t, o.Billed(t))
					} else {
						require.Equal(t, "stream_error", c.Stream(t, sh).Error.Code)
					}
					require.Equal(t, c.Credits*1_000_000, c.Net())
					line := g.Log.Await(t, func(line map[string]any) bool {
						return line["msg"] == "the upstream's usage is no usage" && line["request_id"] == a.Header.Get("X-Request-Id")
					})
					require.Equal(t, flaw, line["flaw"])
					require.Equal(t, "standard", line["route"])
				})
			}
			t.Run("GAP-111 GAP-108 the provider counts instead "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := estimating.rich(t)
				c.Answers(reply(`{"prompt_tokens":10,"completion_tokens":-50}`))
				a := c.Ask(sh, mode.Field)
				require.Positive(t, outcomeOf(t, sh, a).Billed(t))
				require.True(t, c.Record(t, a).Attempts[0].Usage.Estimated)
			})
			t.Run("GAP-111 a later, smaller usage "+sh.Name, func(t *testing.T) {
				t.Parallel()
				for _, later := range []string{`{"prompt_tokens":7}`, `{"completion_tokens":1}`,
					`{"prompt_tokens":1,"completion_tokens":1}`, `null`, `{}`} {
					c := g.rich(t)
					c.Answers(reply(good, later))
					o := outcomeOf(t, sh, c.Ask(sh, modes[1].Field))
					require.EqualValues(t, helloCost, o.Billed(t), later)
				}
				c := g.rich(t)
				c.Answers(reply(`{"prompt_tokens":10}`, `{"completion_tokens":2}`))
				require.EqualValues(t, helloCost, outcomeOf(t, sh, c.Ask(sh, modes[1].Field)).Billed(t), "two halves are one")
			})
		}
	}
}
