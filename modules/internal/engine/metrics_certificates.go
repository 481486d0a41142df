package engine

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateCollector tells until when certificates are good. It asks who has them when it is asked.
type certificateCollector struct {
	until, life *prometheus.Desc

	validities atomic.Pointer[func() map[string]Validity]
}

func newCertificateCollector() *certificateCollector {
	return &certificateCollector{until: prometheus.NewDesc("fareway_certificate_expiry_timestamp_seconds",
		"When the TLS certificate of a site expires, by the host that the Caddyfile names. Caddy renews it when a third of "+
			"its time is left. 0: there is none yet.", []string{"host"}, nil),
		life: prometheus.NewDesc("fareway_certificate_lifetime_seconds", "How long that certificate is good for in all.",
			[]string{"host"}, nil)}
}

// Validity is when a certificate is good.
type Validity struct{ From, Until time.Time }

// Describe implements prometheus.Collector.
func (c *certificateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.until; ch <- c.life }

// Collect implements prometheus.Collector.
func (c *certificateCollector) Collect(ch chan<- prometheus.Metric) {
	for host, v := range c.list() {
		until := float64(0)
		if !v.Until.IsZero() {
			until = float64(v.Until.Unix())
		}
		ch <- prometheus.MustNewConstMetric(c.until, prometheus.GaugeValue, until, host)
		ch <- prometheus.MustNewConstMetric(c.life, prometheus.GaugeValue, v.Until.Sub(v.From).Seconds(), host)
	}
}

func (c *certificateCollector) list() map[string]Validity {
	if validities := c.validities.Load(); validities != nil {
		return (*validities)()
	}
	return nil
}

// WatchCertificates says whom to ask when the certificates of the configuration that serves are good, by host.
func (m *Metrics) WatchCertificates(validities func() map[string]Validity) {
	m.certificates.validities.Store(&validities)
}
