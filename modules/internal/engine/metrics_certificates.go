package engine

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateCollector tells until when certificates are good. It asks who has them when it is asked.
type certificateCollector struct {
	until    *prometheus.Desc
	expiries atomic.Pointer[func() map[string]time.Time]
}

func newCertificateCollector() *certificateCollector {
	return &certificateCollector{until: prometheus.NewDesc("fareway_certificate_expiry_timestamp_seconds",
		"When the TLS certificate of a site expires, by the host that the Caddyfile names. Caddy renews it when a third of "+
			"its time is left.", []string{"host"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *certificateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.until }

// Collect implements prometheus.Collector.
func (c *certificateCollector) Collect(ch chan<- prometheus.Metric) {
	expiries := c.expiries.Load()
	if expiries == nil {
		return
	}
	for host, until := range (*expiries)() {
		ch <- prometheus.MustNewConstMetric(c.until, prometheus.GaugeValue, float64(until.Unix()), host)
	}
}

// WatchCertificates says whom to ask for the certificates of the configuration that serves: when each expires, by host.
func (m *Metrics) WatchCertificates(expiries func() map[string]time.Time) {
	m.certificates.expiries.Store(&expiries)
}
