package engine

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/backup/chores"
)

// gathered are the values of a collector's metrics, by name and labels.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = m.GetGauge().GetValue()
		}
	}
	return values
}

// TestBackupMetrics: a backup that is not made is seen by its metrics alone, and a ledger that we do not back up has
// none.
func TestBackupMetrics(t *testing.T) {
	t.Parallel()
	c := newBackupCollector()
	require.Empty(t, gathered(t, c))
	database := filepath.Join(t.TempDir(), "fareway.db")
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	c.watch(database, func() time.Time { return now })
	require.Equal(t, map[string]float64{
		"fareway_backup_done_timestamp_seconds backup": 0, "fareway_backup_done_timestamp_seconds trial": 0,
		"fareway_backup_missed backup": 1, "fareway_backup_missed trial": 0,
		"fareway_backup_failed backup": 0, "fareway_backup_failed trial": 0,
	}, gathered(t, c))

	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{}, now, 24*time.Hour))
	require.NoError(t, chores.KeepFailed(database, chores.Trial, now, errors.New("no room")))
	values := gathered(t, c)
	require.InDelta(t, now.Unix(), values["fareway_backup_done_timestamp_seconds backup"], 0)
	require.Zero(t, values["fareway_backup_missed backup"])
	require.InDelta(t, 1, values["fareway_backup_failed trial"], 0)
	now = now.Add(31 * time.Hour)
	require.InDelta(t, 1, gathered(t, c)["fareway_backup_missed backup"], 0)
}

// TestFailingCertificates: as whoever has the certificates says.
func TestFailingCertificates(t *testing.T) {
	t.Parallel()
	c := newFailingCollector()
	require.Empty(t, gathered(t, c))
	expires := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	look := func() []Certificate {
		return []Certificate{{Host: "a", Expires: &expires}, {Host: "b", Failed: &CertificateFailure{}}}
	}
	c.look.Store(&look)
	require.Equal(t, map[string]float64{
		"fareway_certificate_failed a": 0, "fareway_certificate_failed b": 1,
	}, gathered(t, c))
}
