package top

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fareway/fareway/modules/internal/engine"
)

// reading is what a gateway's counters were at a moment.
type reading struct {
	at    time.Time
	since time.Time // when the counters began

	answered, refused, failed float64 // requests: in all, with 4xx, with 5xx or none
	limited                   float64
	overs                     float64 // microcents beyond holds
	running, held             float64
	connections               float64
	memory, cpu               float64 // bytes, seconds
	files, maxFiles           float64
	spooled                   float64
	ledger                    engine.Histogram // seconds of a settlement
	routes                    map[string]*routeReading
}

// routeReading is the part of it that is about one route.
type routeReading struct {
	running           float64
	failed            float64 // attempts
	charged, cost     float64 // microcents
	over              float64
	input, output     float64 // tokens
	took, firstTokens engine.Histogram
}

// readMetrics reads what the gateway's metrics say.
func readMetrics(families map[string]*dto.MetricFamily, at, since time.Time) *reading {
	r := &reading{at: at, since: since, routes: map[string]*routeReading{}}
	each := func(name string, do func(labels map[string]string, m *dto.Metric)) {
		for _, m := range families[name].GetMetric() {
			labels := make(map[string]string, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			do(labels, m)
		}
	}
	sum := func(name string, to *float64) {
		each(name, func(_ map[string]string, m *dto.Metric) { *to += number(m) })
	}
	route := func(name string) *routeReading {
		if r.routes[name] == nil {
			r.routes[name] = new(routeReading)
		}
		return r.routes[name]
	}
	byRoute := func(name string, to func(*routeReading) *float64) {
		each(name, func(labels map[string]string, m *dto.Metric) { *to(route(labels["route"])) += number(m) })
	}
	each("fareway_requests_total", func(labels map[string]string, m *dto.Metric) {
		n := number(m)
		r.answered += n
		switch status, _ := strconv.Atoi(labels["status"]); {
		case status == clientLeft:
		case status >= http.StatusInternalServerError:
			r.failed += n
		case status >= http.StatusBadRequest:
			r.refused += n
		}
	})
	sum("fareway_limited_total", &r.limited)
	sum("fareway_running_requests", &r.running)
	sum("fareway_held_microcents", &r.held)
	sum("fareway_connections", &r.connections)
	sum("fareway_spooled_settlements", &r.spooled)
	sum("process_resident_memory_bytes", &r.memory)
	sum("process_cpu_seconds_total", &r.cpu)
	sum("process_open_fds", &r.files)
	sum("process_max_fds", &r.maxFiles)
	each("fareway_ledger_duration_seconds", func(labels map[string]string, m *dto.Metric) {
		if labels["operation"] == "settle" {
			r.ledger = engine.ReadHistogram(m)
		}
	})
	byRoute("fareway_running_attempts", func(v *routeReading) *float64 { return &v.running })
	byRoute("fareway_upstream_errors_total", func(v *routeReading) *float64 { return &v.failed })
	byRoute("fareway_charged_microcents_total", func(v *routeReading) *float64 { return &v.charged })
	byRoute("fareway_cost_microcents_total", func(v *routeReading) *float64 { return &v.cost })
	byRoute("fareway_over_microcents_total", func(v *routeReading) *float64 { return &v.over })
	each("fareway_tokens_total", func(labels map[string]string, m *dto.Metric) {
		if v := route(labels["route"]); labels["class"] == "output" {
			v.output += number(m)
		} else {
			v.input += number(m)
		}
	})
	each("fareway_attempt_duration_seconds", func(labels map[string]string, m *dto.Metric) {
		route(labels["route"]).took = engine.ReadHistogram(m)
	})
	each("fareway_time_to_first_token_seconds", func(labels map[string]string, m *dto.Metric) {
		route(labels["route"]).firstTokens = engine.ReadHistogram(m)
	})
	for v := range maps.Values(r.routes) {
		r.overs += v.over
	}
	return r
}

// clientLeft is the status of a request whose client left, which is nobody's failure.
const clientLeft = 499

func number(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}
