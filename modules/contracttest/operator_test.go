package contracttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestClientModels proves what an operator adds to the accepted names.
func TestClientModels(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `client_models = ["my-agent", "^acme-\\d{2}$", "^.*-any$"]`})
	for _, sh := range posts {
		t.Run("MODEL-13 MODEL-15 GAP-07 names of the operator's "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, model := range []string{"my-agent", "acme-26", "x-any", "gpt-5.5", "auto"} {
				for _, mode := range modes {
					a := c.Ask(sh, `"model":`+quote(model), mode.Field)
					require.Equal(t, 200, a.StatusCode, "%s: %s", model, a.Raw)
					if sh.Path != wire.Count.Path {
						require.Equal(t, model, outcomeOf(t, sh, a).Model)
					}
				}
			}
		})
		t.Run("MODEL-14 MODEL-18 GAP-07 near them "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, model := range []string{"my-agents", "My-Agent", "my-agent ", "service/my-agent", "acme-2", "acme-266",
				"xacme-26", "openrouter/x-any"} {
				requireError(t, sh, c.Ask(sh, `"model":`+quote(model)), 404, "model_not_found")
			}
			c.RequireUntouched(t)
		})
	}
	t.Run("EP-10 the operator's names are not looked up", func(t *testing.T) {
		t.Parallel()
		requireError(t, shapeOf("chat"), g.Get("/v1/models/my-agent"), 404, "model_not_found")
	})
}

// TestUnsupportedSettings proves that a route that refuses a setting does not get it, and that the reply is
// the same.
func TestUnsupportedSettings(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "picky", More: `unsupported = ["stop", "temperature"]`}}})
	whole := startScripted(t, setup{})
	for _, sh := range shapes {
		stop := map[string]string{"messages": `"stop_sequences":["END"]`}[sh.Name]
		if stop == "" {
			stop = `"stop":["END"]`
		}
		for _, mode := range modes {
			t.Run("STOP-04 STOP-23 the reply ends at the stop sequence all the same "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				for _, gateway := range []*scripted{g, whole} {
					c := gateway.rich(t)
					c.Answers(script(used(10, 5), "stop", upstream.Text("one EN"), upstream.Text("D two")))
					o := outcomeOf(t, sh, c.Ask(sh, stop, `"temperature":0.5`, mode.Field))
					require.Equal(t, "one ", o.Text)
					sent := c.Sent(t)
					if gateway == g {
						require.NotContains(t, sent, "stop")
						require.NotContains(t, sent, "temperature")
					} else {
						require.Equal(t, []any{"END"}, sent["stop"])
						require.InDelta(t, 0.5, sent["temperature"], 0)
					}
				}
			})
		}
	}
}
