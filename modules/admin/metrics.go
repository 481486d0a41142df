package admin

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fareway/fareway/modules/internal/engine"
)

// newExposition shows the gateway's metrics and those of its process, as Prometheus reads them. Caddy's own are in its
// registry, which its endpoint /metrics shows whole: not to whoever has only a token of ours.
func newExposition(m *engine.Metrics) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append(m.Collectors(), collectors.NewGoCollector(), collectors.NewProcessCollector(
		collectors.ProcessCollectorOpts{}))
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) error {
	a.exposition.ServeHTTP(w, r)
	return nil
}

// mayAll lets pass who may operate the gateway.
func (a *API) mayAll(r *http.Request) error { return a.token.authorize(r) }

// mayMeasure lets pass who may look at the metrics, or operate the gateway.
func (a *API) mayMeasure(r *http.Request) error {
	if a.metricsToken.authorize(r) == nil {
		return nil
	}
	return a.token.authorize(r)
}
