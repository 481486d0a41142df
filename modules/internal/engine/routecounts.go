package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// RouteCounts is what was counted of a route of the configuration since the process began.
type RouteCounts struct {
	Failed     map[string]int64 // attempts that failed, by kind
	Took       Histogram        // seconds of attempts, failed ones among them: their count is that of attempts
	FirstToken Histogram        // seconds to the first token
}

// RouteCounts are those of a route that the configuration has.
func (m *Metrics) RouteCounts(route string) RouteCounts {
	c := RouteCounts{Failed: make(map[string]int64), Took: readObserver(m.tried.of(route)),
		FirstToken: readObserver(m.firstTokens.of(route))}
	for _, kind := range FailureKinds() {
		var v dto.Metric
		if err := m.upstreamError.WithLabelValues(route, string(kind)).Write(&v); err == nil && v.Counter.GetValue() > 0 {
			c.Failed[string(kind)] = int64(v.Counter.GetValue())
		}
	}
	return c
}

// readObserver reads what a histogram has observed.
func readObserver(o prometheus.Observer) Histogram {
	var v dto.Metric
	if metric, ok := o.(prometheus.Metric); !ok || metric.Write(&v) != nil {
		return Histogram{}
	}
	return ReadHistogram(&v)
}
