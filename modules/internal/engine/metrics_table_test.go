package engine

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

var describedAs = regexp.MustCompile(
	`^Desc\{fqName: "([a-z_]+)", help: (".*"), constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// TestMetricsAreDocumented: METRICS.md has every collector, its kind, labels and help, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	m.watchBudgets(new(budget), new(budget))
	m.watchServers(nil)
	m.watchSpool(func() int64 { return 0 })
	m.nodes = []prometheus.Collector{new(nodes)}
	m.watchReplies(func() (replies, bytes, evicted int64) { return 0, 0, 0 })
	m.watchLimiter(func() ratelimit.Usage { return ratelimit.Usage{} })
	m.watchLimiterServer(func() ratelimit.Status { return ratelimit.Status{} })
	var rows []string
	for _, c := range m.Collectors() {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			c.Describe(descs)
		}()
		for d := range descs {
			parts := describedAs.FindStringSubmatch(d.String())
			require.NotNil(t, parts, d.String())
			var help string
			_, err := fmt.Sscanf(parts[2], "%q", &help)
			require.NoError(t, err)
			var labels []string
			for label := range strings.SplitSeq(strings.Trim(parts[3]+","+parts[4], ","), ",") {
				if name, _, _ := strings.Cut(label, "="); name != "" {
					labels = append(labels, "`"+name+"`")
				}
			}
			require.NotEmpty(t, help, parts[1])
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", parts[1], kindOf(c, parts[1]),
				strings.Join(labels, ", "), strings.ReplaceAll(help, "|", `\|`)))
		}
	}
	slices.Sort(rows)
	const head = "| name | kind | labels | what |\n|---|---|---|---|\n"
	text, err := os.ReadFile("METRICS.md")
	require.NoError(t, err)
	before, _, ok := bytes.Cut(text, []byte(head))
	require.True(t, ok)
	golden.Equal(t, "METRICS.md", append(before, (head+strings.Join(rows, ""))...))
}

// kindOf tells a counter from a gauge by its name, as promtool does: their types do not.
func kindOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}
