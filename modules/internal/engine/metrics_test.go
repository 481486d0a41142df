package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// running is a provider of which there is nothing but how it runs.
type running struct {
	Backend
	of host.Info
}

func (r running) info() host.Info { return r.of }

// TestMetrics: what each call does to the metrics, which dashboards and alerts go by.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	m.Request("chat", 200, 0, time.Second)
	m.Request("chat", 200, time.Millisecond, time.Second)
	m.Charged("small", 7)
	m.Over("small", 3)
	m.Held(9)
	m.Held(-4)
	m.UpstreamError("small", "capacity")
	m.ClientStalled()
	m.requestsUnlogged(3)
	m.decisionsLost(4)
	m.running("small", 2)
	m.watchSpool(func() int64 { return 2 })
	m.setAside(1)
	m.setNumber(5)
	m.setUnproven("p", 6)
	m.setUnproven("q", 6)
	m.forgetUnproven("q")
	m.receipt("p", receiptCharged)
	m.limitReached("key_requests_per_minute")
	m.providerFailed("p", host.CauseHang)
	m.providerViolated("p", host.ViolationOrder)
	m.providers.current = func() *Generation {
		return &Generation{Config: new(config.Config), now: time.Now, backends: map[string]Backend{
			"p": running{Backend: nil, of: host.Info{State: host.Ready, Memory: 8, Streams: 3}},
			"q": running{Backend: nil, of: host.Info{State: host.Restarting}},
		}}
	}
	for _, batch := range []int{0, 1, 2, 3, 512, 513} {
		m.observeLedger("hold", time.Microsecond, batch)
	}
	values := m.values(t)
	for name, want := range map[string]float64{
		`fareway_requests_total{endpoint="chat" status="200"}`:         2,
		`fareway_charged_microcents_total{route="small"}`:              7,
		`fareway_over_microcents_total{route="small"}`:                 3,
		`fareway_held_microcents{}`:                                    5,
		`fareway_upstream_errors_total{kind="capacity" route="small"}`: 1,
		`fareway_stalled_clients_total{}`:                              1,
		`fareway_requests_unlogged_total{}`:                            3,
		`fareway_decisions_unlogged_total{}`:                           4,
		`fareway_running_attempts{route="small"}`:                      2,
		`fareway_spooled_settlements{}`:                                2,
		`fareway_spool_undecided{}`:                                    1,
		`fareway_config_number{}`:                                      5,
		`fareway_unproven_attempts{provider="p"}`:                      6,
		`fareway_receipts_total{provider="p" result="charged"}`:        1,
		`fareway_limited_total{reason="key_requests_per_minute"}`:      1,

		`fareway_provider_failures_total{cause="hang" provider="p"}`:        1,
		`fareway_provider_violations_total{provider="p" violation="order"}`: 1,
		`fareway_provider_state{provider="p" state="ready"}`:                1,
		`fareway_provider_state{provider="q" state="restarting"}`:           1,
		`fareway_provider_memory_bytes{provider="p"}`:                       8,
		`fareway_provider_streams{provider="p"}`:                            3,
		`fareway_provider_streams{provider="q"}`:                            0,
	} {
		require.Contains(t, values, name)
		require.InDelta(t, want, values[name], 0, name)
	}
	require.NotContains(t, values, `fareway_unproven_attempts{provider="q"}`)
	require.NotContains(t, values, `fareway_provider_memory_bytes{provider="q"}`, "nobody knows")
	buckets := func(name string) (bounds []float64, counts []float64) {
		for le := range values {
			var bound float64
			if n, _ := fmt.Sscanf(le, name+"_bucket{le=%g}", &bound); n == 1 {
				bounds = append(bounds, bound)
			}
		}
		slices.Sort(bounds)
		for _, bound := range bounds {
			counts = append(counts, values[fmt.Sprintf("%s_bucket{le=%g}", name, bound)])
		}
		return bounds, counts
	}
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	bounds, counts := buckets("fareway_request_duration_seconds")
	require.Equal(t, seconds, bounds)
	require.Equal(t, []float64{0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2}, counts)
	bounds, counts = buckets("fareway_time_to_first_event_seconds")
	require.Equal(t, seconds, bounds)
	require.InDelta(t, 1, counts[0], 0, "nothing was written of the other one")
	bounds, counts = buckets("fareway_ledger_duration_seconds")
	require.InDelta(t, 5, bounds[len(bounds)-1], 0)
	require.InDelta(t, 6, counts[0], 0)
	bounds, counts = buckets("fareway_ledger_batch_size")
	require.Equal(t, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, bounds)
	require.Equal(t, []float64{1, 2, 3, 3, 3, 3, 3, 3, 3, 4}, counts, "what shared no commit has no size")
}

// values are the counters and gauges by name and labels, and the buckets of histograms by name and bound:
// `fareway_receipts_total{provider="p" result="charged"}`.
func (m *Metrics) values(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := ""
			for i, label := range metric.GetLabel() {
				if i > 0 {
					labels += " "
				}
				labels += fmt.Sprintf("%s=%q", label.GetName(), label.GetValue())
			}
			for _, b := range metric.GetHistogram().GetBucket() {
				values[fmt.Sprintf("%s_bucket{le=%g}", family.GetName(), b.GetUpperBound())] += float64(b.GetCumulativeCount())
			}
			values[family.GetName()+"{"+labels+"}"] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

// What a request counts by is looked up once.
func TestMetricsOfARequestAreKept(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	for range 10 {
		m.Request("chat", 200, time.Millisecond, time.Second)
		m.Request("chat", 503, 0, time.Second)
		m.Tokens("small", &llm.Usage{Input: llm.Count(2), Output: llm.Count(3)})
		m.Charged("small", 7)
		m.running("small", 1)
		m.observeLedger("hold", time.Microsecond, 1)
	}
	require.Same(t, m.charges.of("small"), m.charges.of("small"))
	m.charges.find = nil // it is not asked again
	m.charges.of("small")
	m.charges.find = func(route string) prometheus.Counter { return m.charged.WithLabelValues(route) }
	values := m.values(t)
	for name, want := range map[string]float64{
		`fareway_requests_total{endpoint="chat" status="200"}`: 10,
		`fareway_requests_total{endpoint="chat" status="503"}`: 10,
		`fareway_tokens_total{class="input" route="small"}`:    20,
		`fareway_tokens_total{class="output" route="small"}`:   30,
		`fareway_charged_microcents_total{route="small"}`:      70,
		`fareway_running_attempts{route="small"}`:              10,
	} {
		require.InDelta(t, want, values[name], 0, name)
	}
	m.Charged("large", 1)
	require.InDelta(t, 1, m.values(t)[`fareway_charged_microcents_total{route="large"}`], 0)
	require.InDelta(t, 70, m.values(t)[`fareway_charged_microcents_total{route="small"}`], 0)
}
