//go:build soak

package contracttest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSoakChaos: beside a route that misbehaves in every way, under load, no more requests fail than the healthy one
// alone would fail, retries stay under their limit, and reloads change nothing.
func TestSoakChaos(t *testing.T) {
	t.Parallel()
	for name, outliers := range map[string]string{"breaker alone": "false", "and ejection": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			soakChaos(t, outliers)
		})
	}
}

func soakChaos(t *testing.T, outliers string) {
	const workers, requests, ratio, perSecond = 16, 4000, 0.2, 10
	chaos := upstream.Chaos(5, time.Second, hello)
	g := startScripted(t, setup{
		Routes: []route{{Name: "chaos", Quality: 0.9, Timeout: "3s"}, {Name: "steady", Quality: 0.1}},
		Breaker: "breaker {\n  failures = 5\n  window = \"10s\"\n  open_for = \"50ms\"\n  outliers = " + outliers + "\n}\n" +
			"retry_budget {\n  ratio = 0.2\n  min_per_second = 10\n}\n",
	})
	c := g.rich(t)
	c.AnswersBy(func(req *upstream.Request) upstream.Reply {
		if req.Model == "chaos" {
			return chaos(req)
		}
		return hello
	})
	began := time.Now()
	var failed, asked atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := asked.Add(1); n <= requests; n = asked.Add(1) {
				sh, mode := alternate(int(n))
				if mode == streamField {
					mode = askForCalls(sh) // what is shown of a reply cannot be taken back
				}
				if n%1000 == 0 {
					g.Reload(func(hcl string) string { return strings.TrimSpace(hcl) + "\n# again\n" })
				}
				if c.Ask(sh, mode, light(sh)).StatusCode != 200 {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	retries := 0.0
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(g.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "fareway_retries_total" {
			for _, m := range family.GetMetric() {
				t.Logf("%v %v", m.GetLabel(), m.GetCounter().GetValue())
				if m.GetLabel()[0].GetValue() == "made" {
					retries += m.GetCounter().GetValue()
				}
			}
		}
	}
	chaotic := 0
	for _, req := range c.Seen() {
		if req.Model == "chaos" {
			chaotic++
		}
	}
	t.Logf("%d requests in %s: %d failed, %.0f retried, %d calls of the route that misbehaves", requests,
		time.Since(began).Round(time.Second), failed.Load(), retries, chaotic)
	require.Zero(t, failed.Load(), "the healthy route alone fails none")
	require.LessOrEqual(t, retries, ratio*requests+perSecond*(time.Since(began).Seconds()+20))
	require.Greater(t, chaotic, 10, "it was tried again and again")
}
