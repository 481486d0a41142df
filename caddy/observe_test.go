//go:build linux

package main_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// prometheus is Debian's Prometheus with what examples/observe has for it.
type prometheus struct{ url string }

// startPrometheus runs it on a gateway's admin address, until the test ends.
func startPrometheus(t *testing.T, g *gateway, admin string, args ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "fareway"), 0o700))
	for _, name := range []string{"metrics.token", "admin.crt"} {
		content, err := os.ReadFile(filepath.Join(g.Dir, name))
		require.NoError(t, err)
		files{"fareway/" + name: string(content)}.write(t, dir)
	}
	for _, name := range []string{"prometheus.yml", "alerts.yml"} {
		content, err := os.ReadFile(filepath.Join("../examples/observe", name))
		require.NoError(t, err)
		files{name: strings.NewReplacer("127.0.0.1:2020", admin, "interval: 15s", "interval: 1s").Replace(
			string(content))}.write(t, dir)
	}
	program, err := filepath.Abs("../.cache/bin/prometheus")
	require.NoError(t, err)
	address := vacant(t)
	cmd := exec.Command(program, append(args, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")...)
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start(), "`make .cache/bin/promtool` provides it")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", out.String())
		}
	})
	return &prometheus{url: "http://" + address}
}

// ask calls its API. ok is false while it does not listen.
func (p *prometheus) ask(ctx context.Context, t *testing.T, path string, values url.Values) (reply apiReply, ok bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+values.Encode(), nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusServiceUnavailable {
		return reply, false // it starts
	}
	require.NoError(t, json.Unmarshal(body, &reply), "%s", body)
	return reply, true
}

type apiReply struct {
	Status   string
	Error    string
	Warnings []string
	Data     json.RawMessage
}

// query evaluates an expression, without an error or a warning, and returns its values by their labels.
func (p *prometheus) query(t *testing.T, expr string) (values map[string]float64, ok bool) {
	t.Helper()
	reply, ok := p.ask(withTimeout(t), t, "/api/v1/query", url.Values{"query": {expr}})
	if !ok {
		return nil, false
	}
	require.Equal(t, "success", reply.Status, "%s: %s", expr, reply.Error)
	require.Empty(t, reply.Warnings, expr)
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	require.NoError(t, json.Unmarshal(reply.Data, &data))
	var result []struct {
		Metric map[string]string
		Value  []any
	}
	if data.ResultType == "vector" {
		require.NoError(t, json.Unmarshal(data.Result, &result))
	}
	values = make(map[string]float64, len(result))
	for _, one := range result {
		labels, err := json.Marshal(one.Metric)
		require.NoError(t, err)
		if len(one.Value) == 2 {
			values[string(labels)], err = strconv.ParseFloat(one.Value[1].(string), 64)
			require.NoError(t, err)
		}
	}
	return values, true
}

// await waits until an expression has a value.
func (p *prometheus) await(t *testing.T, expr string) map[string]float64 {
	t.Helper()
	var values map[string]float64
	eventually(t, func() (bool, string) {
		var ok bool
		values, ok = p.query(t, expr)
		return ok && len(values) > 0, expr
	})
	return values
}

// shownExpressions are those of the dashboard, as Grafana asks for them.
func shownExpressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../examples/observe/dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all = append(all, strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m").Replace(target.Expr))
		}
	}
	return all
}

// TestPrometheusReadsTheGateway: Debian's Prometheus, with the files of examples/observe, scrapes a gateway that has a
// site with TLS. Every expression of the dashboard and of the alert rules is evaluated over that without an error, all
// their metrics are there, and no rule fires for a gateway that is well.
func TestPrometheusReadsTheGateway(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	admin := vacant(t)
	g := startGateway(t, files{"gateway.hcl": hcl(up),
		"Caddyfile": strings.Replace(site, "\tfareway {\n", "\tfareway {\n\t\tadmin "+admin+"\n", 1)})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}}
	key := g.account(t, 100_000_000)
	send := func(stream bool) {
		var resp *http.Response
		eventually(t, func() (bool, string) { // it may have no certificate yet
			var err error
			if resp, err = client.Do(shapes[0].request(t, g.URL, key, "hello", stream)); err != nil {
				return false, err.Error()
			}
			return true, ""
		})
		var err error
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	send(true)

	t.Run("classic histograms", func(t *testing.T) {
		t.Parallel()
		p := startPrometheus(t, g, admin)
		p.await(t, `fareway_requests_total{status="200"} > 0`)
		before := p.await(t, "sum(fareway_requests_total)")
		send(false)
		eventually(t, func() (bool, string) { // so that rates are there
			now := p.await(t, "sum(fareway_requests_total)")
			return now["{}"] > before["{}"], "no further request was scraped"
		})
		expressions := shownExpressions(t)
		require.Greater(t, len(expressions), 60)

		reply, ok := p.ask(withTimeout(t), t, "/api/v1/rules", nil)
		require.True(t, ok)
		var rules struct {
			Groups []struct {
				Rules []struct{ Name, Query, Health, LastError, State string }
			}
		}
		require.NoError(t, json.Unmarshal(reply.Data, &rules))
		require.Len(t, rules.Groups, 1)
		for _, rule := range rules.Groups[0].Rules {
			require.Empty(t, rule.LastError, rule.Name)
			require.NotEqual(t, "firing", rule.State, rule.Name)
			expressions = append(expressions, rule.Query)
		}
		names := make(map[string]bool)
		for _, expr := range expressions {
			_, ok := p.query(t, expr)
			require.True(t, ok)
			for _, name := range regexp.MustCompile(`\bfareway_[a-z_]+`).FindAllString(expr, -1) {
				names[name] = true
			}
		}
		// Of servers that this gateway shares nothing in, keys that its provider has not, a limit that does not adapt, and
		// destinations of alerts.
		absent := []string{"fareway_nodes", "fareway_nodes_differ", "fareway_ledger_standby", "fareway_limiter_up",
			"fareway_limiter_nodes", "fareway_limiter_errors_total", "fareway_limiter_shares_total", "fareway_server_up",
			"fareway_cache_lookups_total", "fareway_provider_key_state", "fareway_route_concurrency_limit",
			"fareway_alerts_failing"}
		for name := range names {
			if !slices.Contains(absent, name) {
				p.await(t, "count("+name+")")
			}
		}

		left := p.await(t, `fareway_certificate_expiry_timestamp_seconds{host="localhost"} - time()`)
		life := p.await(t, `fareway_certificate_lifetime_seconds{host="localhost"}`)
		for _, seconds := range left { // Caddy's own authority gives twelve hours
			require.InDelta(t, (12 * time.Hour).Seconds(), seconds, 3600)
		}
		for _, seconds := range life {
			require.InDelta(t, (12 * time.Hour).Seconds(), seconds, 3600)
		}

		files{"gateway.hcl": "nothing {}\n" + hcl(up)}.write(t, g.Dir)
		p.await(t, `ALERTS{alertname="FarewayConfigRefused"}`)
	})

	t.Run("native histograms", func(t *testing.T) {
		t.Parallel()
		p := startPrometheus(t, g, admin, "--enable-feature=native-histograms")
		for _, name := range []string{"fareway_request_duration_seconds", "fareway_time_to_first_token_seconds",
			"fareway_ledger_duration_seconds"} {
			p.await(t, "sum(histogram_count("+name+")) > 0")
			p.await(t, "histogram_quantile(0.95, sum("+name+")) > 0")
		}
	})
}
