package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/spool"
)

// fileCollector tells how large files are, and how much room there is for them. It looks when it is asked, and a file
// that is not there has no size.
type fileCollector struct {
	size, free, whole *prometheus.Desc

	paths   map[string]string // by what the label says
	folders map[string]string // likewise
}

func newFileCollector() *fileCollector {
	return &fileCollector{size: prometheus.NewDesc("fareway_file_bytes",
		"Size of the ledger's files: database, its write-ahead log, spool (made at its full size), and the decision log.",
		[]string{"file"}, nil),
		free: prometheus.NewDesc("fareway_disk_free_bytes", "What the gateway's user may still write on the disk of a "+
			"folder: data, or ledger, where its database or its spool is.", []string{"folder"}, nil),
		whole: prometheus.NewDesc("fareway_disk_bytes", "Size of that disk.", []string{"folder"}, nil)}
}

// watch sets which ledger's files they are, and where they are; it is called before the collector is registered.
func (c *fileCollector) watch(data, database string) {
	c.folders = map[string]string{"data": data, "ledger": filepath.Dir(database)}
	c.paths = map[string]string{"database": database, "log": database + "-wal", "spool": spool.Path(database),
		"decisions": DecisionsPath(database)}
}

// Describe implements prometheus.Collector.
func (c *fileCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.size
	ch <- c.free
	ch <- c.whole
}

// Collect implements prometheus.Collector.
func (c *fileCollector) Collect(ch chan<- prometheus.Metric) {
	for file, path := range c.paths {
		if info, err := os.Stat(path); err == nil {
			ch <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(info.Size()), file)
		}
	}
	for folder, d := range c.disks() {
		ch <- prometheus.MustNewConstMetric(c.free, prometheus.GaugeValue, float64(d.free), folder)
		ch <- prometheus.MustNewConstMetric(c.whole, prometheus.GaugeValue, float64(d.whole), folder)
	}
}

// disk is that of a folder, in bytes.
type disk struct {
	path        string // of the folder
	free, whole uint64
}

// disks are those of the folders, where the system tells, by what the label says.
func (c *fileCollector) disks() map[string]disk {
	all := make(map[string]disk, len(c.folders))
	for folder, path := range c.folders {
		if d, ok := files.ReadDisk(path); ok {
			all[folder] = disk{path, d.Free, d.Size}
		}
	}
	return all
}

// buildInfo tells which program this is.
func buildInfo(version string) prometheus.Collector {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if version == "" {
		version = "unknown"
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "fareway_build_info",
		Help:        "1; the labels say which version, revision and Go the gateway was built of.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}
