package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
)

// alertCollector tells what is raised, and whether those hear of it who are to. It looks when it is asked.
type alertCollector struct {
	raised, waiting, failing, deliveries, unsaved, idle *prometheus.Desc

	standing func() alerts.Standing // nil until there are alerts
}

func newAlertCollector() *alertCollector {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &alertCollector{
		raised: of("fareway_alerts_raised", "Alerts that are raised at the moment, by event: `gateway alert list` has them.",
			"event"),
		waiting: of("fareway_alerts_waiting", "Messages that wait for a destination of alerts.", "destination"),
		failing: of("fareway_alerts_failing", "1 while a destination of alerts takes no messages, or has said that it is "+
			"gone.", "destination"),
		deliveries: of("fareway_alerts_deliveries_total", "Deliveries of alerts, by destination and result: delivered, "+
			"failed (and tried again) or given_up.", "destination", "result"),
		unsaved: of("fareway_alerts_unsaved", "1 while the outbox of alerts cannot be written: a restart may repeat or lose "+
			"messages."),
		idle: of("fareway_alerts_idle", "1 while nobody may look for alerts and tell of them: the outbox's lock, or the "+
			"outbox, cannot be had for too long. `gateway alert list` says why."),
	}
}

// Describe implements prometheus.Collector.
func (c *alertCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.raised, c.waiting, c.failing, c.deliveries, c.unsaved, c.idle} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *alertCollector) Collect(ch chan<- prometheus.Metric) {
	if c.standing == nil {
		return
	}
	s := c.standing()
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	raised := make(map[string]int)
	for i := range s.Alerts {
		raised[s.Alerts[i].Event]++
	}
	for _, event := range config.AlertEventNames() {
		gauge(c.raised, raised[event]+s.Beyond[event], event)
	}
	for i := range s.Destinations {
		d := &s.Destinations[i]
		gauge(c.waiting, d.Waiting, d.Key)
		failing := 0
		if d.Failing != nil || d.Disabled != nil {
			failing = 1
		}
		gauge(c.failing, failing, d.Key)
		for _, result := range []string{"delivered", "failed", "given_up"} {
			ch <- prometheus.MustNewConstMetric(c.deliveries, prometheus.CounterValue,
				float64(s.Counts[alerts.Count{Destination: d.Key, Result: result}]), d.Key, result)
		}
	}
	gauge(c.unsaved, min(len(s.Problem), 1))
	gauge(c.idle, min(len(s.Idle), 1))
}
