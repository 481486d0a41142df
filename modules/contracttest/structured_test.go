package contracttest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/tokens"
)

// offersObject is what a route offers that can be asked for JSON.
const offersObject = `"tools", "json_object"`

func startStructured(t testing.TB, routes ...route) *scripted {
	t.Helper()
	return startScripted(t, setup{Gateway: "structured_output = true", Routes: routes})
}

// TestStructuredRoutes proves which routes can serve, and what it costs (GAP-78).
func TestStructuredRoutes(t *testing.T) {
	t.Parallel()
	narrow := startStructured(t, route{Name: "plain"}, route{Name: "json", Window: 2000, Max: 1000, Offers: offersObject})
	both := startStructured(t, route{Name: "plain", Quality: 0.9}, route{Name: "json", Quality: 0.1, Offers: offersObject})
	object := startStructured(t, route{Name: "object", Offers: offersObject})
	for _, sh := range shapes {
		for _, w := range sh.Wishes() {
			schema := w.Member(w.Schema(`"schema":` + wire.DaySchema))
			for _, mode := range modes {
				t.Run(fmt.Sprintf("STRUCT-31 GAP-78 none that offers JSON fits %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						c := narrow.rich(t)
						requireError(t, sh, c.Ask(sh, schema, allowance(sh, 3000), mode.Field), 400, "unsupported_field")
						requireError(t, sh, c.Ask(sh, schema, allowance(sh, 300_000), mode.Field), 503, "feature_unavailable")
						c.RequireUntouched(t)
						outcomeOf(t, sh, c.Ask(sh, schema, allowance(sh, 500), mode.Field))
						require.Equal(t, "json", c.Route(t))
					})
				t.Run(fmt.Sprintf("STRUCT-31 only routes that offer JSON are tried %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						c := both.rich(t)
						outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT", `"model":"service/max"`, schema, mode.Field)))
						require.Equal(t, "json", c.Route(t))
						c.Answers(upstream.Refuse(upstream.ServerError()))
						requireError(t, sh, c.Ask(sh, schema, mode.Field), 502, "upstream_error")
						require.Len(t, c.Seen(), 2)
					})
				t.Run(fmt.Sprintf("STRUCT-34 BILL-07 the addition is held and charged %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						held := func(fields ...string) int64 {
							c := object.rich(t)
							c.Blocked(script(used(90, 5), "stop", upstream.Text("{}")))
							done := c.Start(t, sh, append(fields, allowance(sh, 100), mode.Field)...)
							held := c.Balance().Held
							c.Upstream.Open(c.Mark)
							outcomeOf(t, sh, <-done)
							require.Equal(t, int64(90*300+5*1500), c.Credits*1_000_000-c.Net(), "what the route reports is charged")
							return held
						}
						require.Greater(t, held(schema)-held(), tokens.Text(wire.DaySchema)*300, "the schema, and the words around it")
					})
			}
		}
	}
}
