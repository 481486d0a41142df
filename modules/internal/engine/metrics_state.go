package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/plugins/host"
)

// stateCollector tells the states of the providers that serve. It looks when it is asked: what a replaced process of
// the same name goes through while it drains is nobody's state any more.
type stateCollector struct {
	desc   *prometheus.Desc
	states func() map[string]host.State // by provider; set before it is registered
}

func newStateCollector() *stateCollector {
	return &stateCollector{desc: prometheus.NewDesc("fareway_provider_state",
		"1 for the state that a provider's process is in.",
		[]string{"provider", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	if c.states == nil {
		return
	}
	for provider, state := range c.states() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, provider, string(state))
	}
}

// providerStates are the states of the current configuration's providers.
func (e *Engine) providerStates() map[string]host.State {
	states := make(map[string]host.State)
	g := e.Current()
	if g == nil {
		return states
	}
	for name, b := range g.backends {
		if p, ok := b.(interface{ state() host.State }); ok {
			states[name] = p.state()
		}
	}
	return states
}
