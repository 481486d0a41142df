package engine

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate is how the certificate of a host stands that the gateway is served at.
type Certificate struct {
	Host   string `json:"host"`
	Issuer string `json:"issuer,omitempty"`
	// Expires is absent while there is none.
	Expires *time.Time `json:"expires,omitempty"`
	Begins  time.Time  `json:"-"` // when it was made
	// Failed is why it could not be obtained or renewed when that was tried last; absent where it has been since.
	Failed *CertificateFailure `json:"failed,omitempty"`
}

// CertificateFailure is when it could not be obtained, and why: in the words of the issuer, without control characters.
type CertificateFailure struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// IsValid reports whether clients take it at a time.
func (c *Certificate) IsValid(now time.Time) bool { return c.Expires != nil && now.Before(*c.Expires) }

// isFresh reports whether it is not to be renewed yet: Caddy does when a third of its time is left.
func (c *Certificate) isFresh(now time.Time) bool {
	return c.Expires != nil && 3*c.Expires.Sub(now) > c.Expires.Sub(c.Begins)
}

// failingCollector tells how certificates stand, as whoever has them says when it is asked.
type failingCollector struct {
	failed *prometheus.Desc
	look   atomic.Pointer[func() []Certificate]
}

func newFailingCollector() *failingCollector {
	return &failingCollector{
		failed: prometheus.NewDesc("fareway_certificate_failed",
			"1 while the certificate of a host could not be obtained or renewed when that was tried last.",
			[]string{"host"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *failingCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.failed
}

// Collect implements prometheus.Collector.
func (c *failingCollector) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.list() {
		failed := 0.0
		if v.Failed != nil {
			failed = 1
		}
		ch <- prometheus.MustNewConstMetric(c.failed, prometheus.GaugeValue, failed, v.Host)
	}
}

func (c *failingCollector) list() []Certificate {
	if look := c.look.Load(); look != nil {
		return (*look)()
	}
	return nil
}

// SetCertificates says who knows how certificates stand: the web server does, which the engine knows nothing of.
func (c *core) SetCertificates(look func() []Certificate) { c.metrics.failing.look.Store(&look) }

// Certificates are those of the hosts that the gateway is served at; none where it has no TLS of its own.
func (c *core) Certificates() []Certificate { return c.metrics.failing.list() }
