// Command observe writes dashboard.json, Grafana's dashboard of a gateway. What it shows stands in panels.go, and the
// descriptions come from METRICS.md.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

//go:generate go run .

const metricsFile = "../../modules/internal/engine/METRICS.md"

func main() {
	table, err := os.ReadFile(metricsFile)
	if err == nil {
		var text []byte
		if text, err = makeDashboard(describeMetrics(string(table))); err == nil {
			err = os.WriteFile("dashboard.json", text, 0o644)
		}
	}
	if err != nil {
		log.Fatalf("writing the dashboard (run `go generate ./examples/observe`): %v", err)
	}
}

var metricRow = regexp.MustCompile("(?m)^\\| `(fareway_[a-z_]+)` \\| ([a-z]+) \\| [^|]* \\| (.*) \\|$")

// describeMetrics is what METRICS.md says of each metric, by the names that are queried: a histogram has three.
func describeMetrics(table string) map[string]string {
	described := make(map[string]string)
	for _, row := range metricRow.FindAllStringSubmatch(table, -1) {
		name, kind, text := row[1], row[2], row[3]
		if kind != "histogram" {
			described[name] = text
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			described[name+suffix] = text
		}
	}
	return described
}

var metricName = regexp.MustCompile(`\bfareway_[a-z_]+`)

// makeDashboard draws the rows, and fails where a query names a metric that there is not.
func makeDashboard(described map[string]string) ([]byte, error) {
	//nolint:staticcheck // deprecated for a second version, which Grafana before 12 does not take
	board := dashboard.NewDashboardBuilder("Fareway").Uid("fareway").Tags([]string{"fareway"}).
		Refresh("30s").Time("now-3h", "now").Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("instance").Label("Gateway").Datasource(source()).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(fareway_build_info, instance)")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*"))
	for _, r := range rows {
		board.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			text, err := describePanel(p, described)
			if err != nil {
				return nil, err
			}
			board.WithPanel(drawPanel(p, text))
		}
	}
	made, err := board.Build()
	if err != nil {
		return nil, fmt.Errorf("building the dashboard: %w", err)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	return append(text, '\n'), err
}

// describePanel is what METRICS.md says of the metrics that a panel shows, and what the panel says of itself.
func describePanel(p panel, described map[string]string) (string, error) {
	var texts []string
	seen := make(map[string]bool)
	if p.note != "" {
		texts = append(texts, p.note)
	}
	for _, q := range p.queries {
		for _, name := range metricName.FindAllString(q.expr, -1) {
			text, ok := described[name]
			if !ok {
				return "", fmt.Errorf("panel %q: METRICS.md has no %s", p.title, name)
			}
			if !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func drawPanel(p panel, text string) cog.Builder[dashboard.Panel] {
	if p.single {
		s := stat.NewPanelBuilder().Title(p.title).Description(text).Datasource(source()).Unit(p.unit).Height(4).Span(4).
			GraphMode(common.BigValueGraphModeArea).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
		for i, q := range p.queries {
			s.WithTarget(target(i, q))
		}
		return s
	}
	lines := timeseries.NewPanelBuilder().Title(p.title).Description(text).Datasource(source()).Unit(p.unit).Height(8).
		Span(8).Min(0).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom))
	for i, q := range p.queries {
		lines.WithTarget(target(i, q))
	}
	return lines
}

func target(i int, q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Expr(q.expr).LegendFormat(q.legend).Range()
}
