package engine

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Histogram is a cumulative one of classic buckets.
type Histogram struct {
	bounds []float64 // upper, ascending; the last is +Inf
	counts []float64
}

// Total is how many values there are.
func (h Histogram) Total() float64 {
	if len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// Plus is both together: they have the same bounds.
func (h Histogram) Plus(o Histogram) Histogram {
	if len(h.counts) == 0 {
		return o
	}
	sum := Histogram{bounds: h.bounds, counts: slices.Clone(h.counts)}
	for i := range min(len(sum.counts), len(o.counts)) {
		sum.counts[i] += o.counts[i]
	}
	return sum
}

// Minus is what is new since before.
func (h Histogram) Minus(before Histogram) Histogram {
	diff := Histogram{bounds: h.bounds, counts: slices.Clone(h.counts)}
	for i := range min(len(diff.counts), len(before.counts)) {
		diff.counts[i] = max(0, diff.counts[i]-before.counts[i])
	}
	return diff
}

// Quantile is interpolated within its bucket, as Prometheus does it; nil where nothing was observed.
func (h Histogram) Quantile(q float64) *float64 {
	n := h.Total()
	if n == 0 {
		return nil
	}
	rank := q * n
	i, _ := slices.BinarySearch(h.counts, rank)
	i = min(i, len(h.counts)-1)
	if i == len(h.bounds)-1 { // above all bounds
		if i == 0 {
			return nil
		}
		return new(h.bounds[i-1])
	}
	from, below := 0.0, 0.0
	if i > 0 {
		from, below = h.bounds[i-1], h.counts[i-1]
	}
	in := h.counts[i] - below
	if in == 0 {
		return new(h.bounds[i])
	}
	return new(from + (h.bounds[i]-from)*(rank-below)/in)
}

// ReadHistogram reads one from a metric.
func ReadHistogram(m *dto.Metric) Histogram {
	var h Histogram
	for _, b := range m.GetHistogram().GetBucket() {
		h.bounds, h.counts = append(h.bounds, b.GetUpperBound()), append(h.counts, float64(b.GetCumulativeCount()))
	}
	if n := len(h.bounds); n == 0 || !math.IsInf(h.bounds[n-1], 1) {
		h.bounds = append(h.bounds, math.Inf(1))
		h.counts = append(h.counts, float64(m.GetHistogram().GetSampleCount()))
	}
	return h
}
