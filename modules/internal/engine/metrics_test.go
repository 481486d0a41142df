package engine

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// values are the counters and gauges by name and labels: `fareway_receipts_total{provider="p" result="charged"}`.
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
			values[family.GetName()+"{"+labels+"}"] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}
