package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/modules/internal/backup/chores"
)

// backupCollector tells when backups were made and tried. It looks when it is asked, for other processes do both.
type backupCollector struct {
	done, missed, failed *prometheus.Desc

	database string // "" until watch
	now      func() time.Time
}

func newBackupCollector() *backupCollector {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"chore"}, nil)
	}
	return &backupCollector{
		done: of("fareway_backup_done_timestamp_seconds", "When the last backup was made (`backup run`), and when one was "+
			"last restored on trial (`backup test`); 0: never."),
		missed: of("fareway_backup_missed", "1 while a backup, or its trial, should have been made by now and was not. A "+
			"backup that was never made is missed."),
		failed: of("fareway_backup_failed", "1 while the last run of that has failed."),
	}
}

// watch sets which ledger's backups they are; it is called before the collector is registered.
func (c *backupCollector) watch(database string, now func() time.Time) {
	c.database, c.now = database, now
}

// Describe implements prometheus.Collector.
func (c *backupCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.done
	ch <- c.missed
	ch <- c.failed
}

// Collect implements prometheus.Collector. A record that cannot be read is one of nothing.
func (c *backupCollector) Collect(ch chan<- prometheus.Metric) {
	if c.database == "" {
		return
	}
	s, _ := chores.ReadStanding(c.database)
	tell := func(desc *prometheus.Desc, value float64, chore chores.Chore) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, string(chore))
	}
	truth := map[bool]float64{true: 1}
	for _, chore := range chores.All {
		r := s.Of(chore)
		at := 0.0
		if r.Done != nil {
			at = float64(r.Done.Unix())
		}
		tell(c.done, at, chore)
		tell(c.missed, truth[s.IsMissed(chore, c.now())], chore)
		tell(c.failed, truth[r.Failed != nil], chore)
	}
}

// Backups is how the backups of the ledger stand; ok is false where the ledger is none that we back up.
func (c *core) Backups() (s chores.Standing, ok bool, err error) {
	if c.metrics.backup.database == "" {
		return s, false, nil
	}
	s, err = chores.ReadStanding(c.metrics.backup.database)
	return s, true, err
}
