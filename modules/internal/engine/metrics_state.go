package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/plugins/host"
)

// providerCollector tells how the providers that serve do. It looks when it is asked: what a replaced process of the
// same name goes through while it drains is nobody's state any more.
type providerCollector struct {
	state, memory, streams, key, route, limit, waiting *prometheus.Desc

	current func() *Generation // that serves, nil for none; set before anybody asks
}

func newProviderCollector() *providerCollector {
	return &providerCollector{
		state: prometheus.NewDesc("fareway_provider_state", "1 for the state that a provider's process is in.",
			[]string{"provider", "state"}, nil),
		memory: prometheus.NewDesc("fareway_provider_memory_bytes",
			"Resident memory that a provider's process and what it has started have to themselves; max_memory bounds it.",
			[]string{"provider"}, nil),
		streams: prometheus.NewDesc("fareway_provider_streams", "Calls in progress of a provider, by its process or for it.",
			[]string{"provider"}, nil),
		key: prometheus.NewDesc("fareway_provider_key_state",
			"1 for the state that a key of a provider is in: serves, rate_limited, out_of_quota or refused.",
			[]string{"provider", "key", "state"}, nil),
		route: prometheus.NewDesc("fareway_route_state",
			"1 for the state that a route is in: serves, open, half_open, ejected, rate_limited, out_of_quota, refused or "+
				"not_ready.", []string{"route", "state"}, nil),
		limit: prometheus.NewDesc("fareway_route_concurrency_limit",
			"How many attempts may run at a time on a route with max_concurrent = \"auto\".", []string{"route"}, nil),
		waiting: prometheus.NewDesc("fareway_route_waiting",
			"Requests that wait for a route whose upstream said that it takes more within seconds.", []string{"route"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *providerCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	ch <- c.memory
	ch <- c.streams
	ch <- c.key
	ch <- c.route
	ch <- c.limit
	ch <- c.waiting
}

// Collect implements prometheus.Collector.
func (c *providerCollector) Collect(ch chan<- prometheus.Metric) {
	if c.current == nil {
		return
	}
	g := c.current()
	if g == nil {
		return
	}
	for provider, i := range g.Infos() {
		ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, provider, string(i.State))
		if i.Memory > 0 { // where the system tells
			ch <- prometheus.MustNewConstMetric(c.memory, prometheus.GaugeValue, float64(i.Memory), provider)
		}
		ch <- prometheus.MustNewConstMetric(c.streams, prometheus.GaugeValue, float64(i.Streams), provider)
	}
	for _, r := range g.RouteHealth() {
		ch <- prometheus.MustNewConstMetric(c.route, prometheus.GaugeValue, 1, r.Route, string(r.State))
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(r.Waiting), r.Route)
		if r.Limit > 0 {
			ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(r.Limit), r.Route)
		}
	}
	for provider := range g.backends {
		for _, k := range g.Keys(provider) {
			ch <- prometheus.MustNewConstMetric(c.key, prometheus.GaugeValue, 1, provider, k.Name, string(k.State))
		}
	}
}

// Infos tell how the providers run, by their names.
func (g *Generation) Infos() map[string]host.Info {
	infos := make(map[string]host.Info)
	for name, b := range g.backends {
		if p, ok := b.(interface{ info() host.Info }); ok {
			infos[name] = p.info()
		}
	}
	return infos
}
