package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// promtool runs the program that `make .cache/bin/promtool` provides, in this folder.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := filepath.Abs("../../.cache/bin/promtool")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "promtool %v (`make .cache/bin/promtool` provides it): %s", args, out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// TestAlertRules: they load in Debian's Prometheus, each fires in one case and is quiet in one near it, and they name
// no metric that METRICS.md does not have.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")

	rules, cases := read(t, "alerts.yml"), read(t, "alerts_test.yml")
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	require.Greater(t, len(alerts), 20)
	for _, alert := range alerts {
		require.Contains(t, cases, "- name: "+alert[1]+" fires\n")
		require.Contains(t, cases, "- name: "+alert[1]+" is quiet\n")
	}
	described := describeMetrics(read(t, metricsFile))
	for _, name := range metricName.FindAllString(rules, -1) {
		if _, exists := described[name]; !exists { // a summary may name a histogram as a whole
			require.Contains(t, described, name+"_bucket")
		}
	}
}

// TestTheDashboardIsUpToDate: dashboard.json is what the panels and METRICS.md make.
func TestTheDashboardIsUpToDate(t *testing.T) {
	t.Parallel()
	made, err := makeDashboard(describeMetrics(read(t, metricsFile)))
	require.NoError(t, err)
	require.Equal(t, string(made), read(t, "dashboard.json"), "run `go generate ./examples/observe`")
}

// TestAPanelOfNoMetricIsRefused, with its name.
func TestAPanelOfNoMetricIsRefused(t *testing.T) {
	t.Parallel()
	_, err := describePanel(chart("Nothing", "short", query{"sum(fareway_nothing_total)", ""}), nil)
	require.ErrorContains(t, err, `panel "Nothing": METRICS.md has no fareway_nothing_total`)
}
