package engine

import (
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// TestQuantiles: as Prometheus interpolates them.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	h := ReadHistogram(&dto.Metric{Histogram: &dto.Histogram{SampleCount: new(uint64(100)), Bucket: []*dto.Bucket{
		{UpperBound: new(0.5), CumulativeCount: new(uint64(50))},
		{UpperBound: new(1.0), CumulativeCount: new(uint64(100))}}}})
	require.Equal(t, Histogram{bounds: []float64{0.5, 1, math.Inf(1)}, counts: []float64{50, 100, 100}}, h)
	require.InDelta(t, 0.5, *h.Quantile(0.5), 1e-9)
	require.InDelta(t, 0.95, *h.Quantile(0.95), 1e-9)
	require.Nil(t, h.Minus(h).Quantile(0.5))
	above := Histogram{bounds: []float64{10, math.Inf(1)}, counts: []float64{0, 5}}
	require.InDelta(t, 10, *above.Quantile(0.5), 1e-9, "above all bounds it is the highest of them")
	require.EqualValues(t, 200, h.Plus(h).Total())
}
