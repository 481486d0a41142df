package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxShadows is how many calls for comparison there are at most, of all requests: those that run, and those whose
// request is still answered.
const maxShadows = 32

// AcquireShadow sets a call for comparison aside, and the memory of its request; false where there are too many, or
// all bodies together would pass max_body_memory. ReleaseShadow gives both back.
func (r *requests) AcquireShadow(body int64) bool {
	if !r.shadows.acquire(1) {
		return false
	}
	if !r.bodies.acquire(body) {
		r.shadows.release(1)
		return false
	}
	return true
}

// ReleaseShadow gives back what AcquireShadow has set aside.
func (r *requests) ReleaseShadow(body int64) {
	r.bodies.release(body)
	r.shadows.release(1)
}

// Beside is more work on the configuration of a request, which goes on when that has ended; nil once a drain has
// begun. Call Done when it is over.
func (w *Work) Beside() *Work {
	if !w.engine.life.beside(w.gen) {
		return nil
	}
	return &Work{engine: w.engine, gen: w.gen, entered: true}
}

// Leaving is done, with cause ErrShutdown, once a drain has begun: work that no client waits for ends then.
func (w *Work) Leaving() context.Context { return w.engine.life.leaving }

// Wait waits until nothing runs: no request, and nothing beside one.
func (e *Engine) Wait() { e.life.wait() }

// shadowMetrics count what comes of calls for comparison.
type shadowMetrics struct {
	shadows       *prometheus.CounterVec
	shadowSeconds *prometheus.HistogramVec
	shadowOutput  *prometheus.CounterVec
	shadowCost    *prometheus.CounterVec
}

func newShadowMetrics(seconds []float64) shadowMetrics {
	of := []string{"route", "of"}
	return shadowMetrics{
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_shadow_calls_total", Help: "Calls for comparison by their route and by what came of them: " +
				"answered, the kind of the failure, or why none was made."}, []string{"route", "outcome"}),
		shadowSeconds: prometheus.NewHistogramVec(histogram("fareway_shadow_seconds",
			"Time of calls for comparison (of=shadow), and of those whose replies they are compared with (of=reply), by the "+
				"route of the former.", seconds), of),
		shadowOutput: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_shadow_output_tokens_total", Help: "Output of the same calls, in tokens."}, of),
		shadowCost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_shadow_cost_microcents_total", Help: "Cost of the same calls to the operator, in microcents. No " +
				"account pays for of=shadow."}, of),
	}
}

func (m *shadowMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.shadows, m.shadowSeconds, m.shadowOutput, m.shadowCost}
}

// Shadow counts what came of a call for comparison, or why none was made.
func (m *shadowMetrics) Shadow(route, outcome string) {
	m.shadows.WithLabelValues(route, outcome).Inc()
}

// ShadowSeries makes the series of one side of comparisons, see ShadowCompared.
func (m *shadowMetrics) ShadowSeries(route, of string) {
	m.shadowSeconds.WithLabelValues(route, of)
	m.shadowOutput.WithLabelValues(route, of)
	m.shadowCost.WithLabelValues(route, of)
}

// ShadowCompared counts one side of a comparison: of is "shadow" or "reply", and route that of the shadow.
func (m *shadowMetrics) ShadowCompared(route, of string, took time.Duration, output, microcents int64) {
	m.shadowSeconds.WithLabelValues(route, of).Observe(took.Seconds())
	m.shadowOutput.WithLabelValues(route, of).Add(float64(output))
	m.shadowCost.WithLabelValues(route, of).Add(float64(microcents))
}
