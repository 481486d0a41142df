package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
)

var begun = time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)

// hostile are names that would rule a terminal, or break a table.
var hostile = []string{"evil\x1b[2J\x1b]0;owned\a", "to\u202emoc.live", "日本語の名前", "e\u0301\u0301\u0301\u0301",
	"a\nb\tc"}

// counted is metrics after n requests on each of two routes, of which some failed.
func counted(n int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# TYPE fareway_requests_total counter")
	line(`fareway_requests_total{endpoint="chat",status="200"} %d`, 2*n)
	line(`fareway_requests_total{endpoint="chat",status="429"} %d`, n/4)
	line(`fareway_requests_total{endpoint="chat",status="499"} %d`, n)
	line(`fareway_requests_total{endpoint="messages",status="502"} %d`, n/8)
	line("# TYPE fareway_limited_total counter\nfareway_limited_total{reason=\"requests\"} %d", n/4)
	line("# TYPE fareway_running_requests gauge\nfareway_running_requests 37")
	line("# TYPE fareway_held_microcents gauge\nfareway_held_microcents 1.234e+08")
	line("# TYPE fareway_connections gauge\nfareway_connections 120")
	line("# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 2.2e+08")
	line("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %g", float64(n)/500)
	line("# TYPE process_open_fds gauge\nprocess_open_fds 300\n# TYPE process_max_fds gauge\nprocess_max_fds 20000")
	for name, values := range map[string][2]float64{"charged": {3e5, 1e6}, "cost": {1e5, 2e6}, "over": {0, 1000}} {
		line("# TYPE fareway_%s_microcents_total counter", name)
		line(`fareway_%s_microcents_total{route="small"} %g`, name, values[0]*float64(n))
		line(`fareway_%s_microcents_total{route="large"} %g`, name, values[1]*float64(n))
	}
	line("# TYPE fareway_upstream_errors_total counter\n"+
		`fareway_upstream_errors_total{route="large",kind="upstream"} %d`,
		n/4)
	line("# TYPE fareway_tokens_total counter\n"+`fareway_tokens_total{route="small",class="output"} %d`, n*200)
	line("# TYPE fareway_running_attempts gauge\n" + `fareway_running_attempts{route="small"} 30`)
	for _, name := range []string{"attempt_duration", "time_to_first_token"} {
		line("# TYPE fareway_%s_seconds histogram", name)
		for route, slow := range map[string]int{"small": 0, "large": n / 2} {
			line(`fareway_%s_seconds_bucket{route=%q,le="0.5"} %d`, name, route, (n-slow)/2)
			line(`fareway_%s_seconds_bucket{route=%q,le="1"} %d`, name, route, n-slow)
			line(`fareway_%s_seconds_bucket{route=%q,le="10"} %d`, name, route, n)
			line(`fareway_%s_seconds_bucket{route=%q,le="+Inf"} %d`, name, route, n)
			line(`fareway_%s_seconds_sum{route=%q} %d`, name, route, n)
			line(`fareway_%s_seconds_count{route=%q} %d`, name, route, n)
		}
	}
	line("# TYPE fareway_ledger_duration_seconds histogram")
	line(`fareway_ledger_duration_seconds_bucket{operation="settle",le="0.005"} %d`, n)
	line(`fareway_ledger_duration_seconds_bucket{operation="settle",le="+Inf"} %d`, n)
	line(`fareway_ledger_duration_seconds_count{operation="settle"} %d`, n)
	line(`fareway_ledger_duration_seconds_sum{operation="settle"} 1`)
	return b.String()
}

// readAt is what a busy gateway says after so many requests, with something wrong in each part of it.
func readAt(t testing.TB, at time.Time, n int, after uint64) *Snapshot {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	metrics, err := parser.TextToMetricFamilies(strings.NewReader(counted(n)))
	require.NoError(t, err)
	until, failed, started := begun.Add(5*time.Minute), begun.Add(-time.Minute), begun.Add(-time.Hour)
	s := &Snapshot{At: at, Metrics: metrics, Accounts: map[string]admin.Account{"acct_0": {ID: "acct_0", Name: hostile[0],
		State: "active", BalanceCredits: 12_345, AvailableCredits: -7, HeldMicrocents: 5_500_000}}}
	s.Status = admin.Status{Ready: true, PID: 4711, Version: "1.2.3", Routes: []admin.Route{
		{Name: "small", Provider: "echo", Model: "mini", State: "serves"},
		{Name: "large", Provider: "openai", Model: "gpt\x1b[31m", State: "open", Reason: "3 of 4 attempts failed",
			Until: &until, Waiting: 2, LastFailure: &admin.RouteFailure{At: failed, Text: "the upstream answered 503\x1b[0m"}},
	}, Providers: []admin.Provider{{Name: "openai", Plugin: "openai", Ready: false, State: "restarting",
		Problem: "it crashed\nwith \x1b[5mlast words"}, {Name: "echo", Plugin: "echo", Ready: true, State: "ready"}},
		FailedLoad:   &admin.FailedLoad{At: failed, Problem: "gateway.hcl:3: no\x07 such block"},
		Backups:      &admin.Backups{Missed: []chores.Chore{chores.Backup}},
		Certificates: []engine.Certificate{{Host: "api.example.com", Expires: &failed}},
		Servers:      map[string]admin.Server{"cache": {Address: "10.0.0.1:6379", Since: failed, Reason: "refused"}}}
	s.Status.Spool.Waiting = 3
	s.Plugins = []admin.Plugin{{Name: "echo", Providers: []admin.PluginProvider{{Name: "echo", State: "ready", Ready: true,
		Carry: "process", PID: 12, Started: &started, MemoryBytes: 16 << 20, Streams: 3}}},
		{Name: "openai", ReplacedBy: "abc", Providers: []admin.PluginProvider{{Name: "openai", State: "restarting",
			Carry: "host", MaxMemoryBytes: 64 << 20, MemoryBytes: 63 << 20, Restarts: 4,
			LastCrash: &admin.Crash{At: failed, Cause: "memory", Why: "killed\x1b]52;c;xx\a\nstack"}}}}}
	s.Recent = admin.Recent{Since: begun.Add(-90 * time.Minute), Last: uint64(n)}
	for i := n; i > max(int(after), n-60); i-- {
		r := admin.EndedRequest{N: uint64(i), ID: fmt.Sprintf("req_0193b0a7c5d07f3a9c1e5d2b%08x", i),
			Time: at.Add(-time.Duration(n-i) * time.Second), Endpoint: "chat", Status: 200, Took: 120.5 * float64(i%40),
			First: 80, Account: hostile[i%len(hostile)], AccountID: fmt.Sprint("acct_", i%len(hostile)), Last4: "c1XZ",
			Stream:  true,
			Profile: "balanced", Route: "small", Attempts: 1, Input: int64(i * 10), Output: 250, Microcents: int64(i * 1000),
			Reason: "ok"}
		switch i % 10 {
		case 3:
			r.Status, r.Reason, r.Route, r.Attempts = 502, "upstream_error", "large", 3
		case 5:
			r.Account, r.AccountID, r.Last4, r.Route, r.Attempts = "", "", "", "", 0
			r.Status, r.Reason, r.Input, r.Output, r.Microcents = 401, "authentication_error", 0, 0, 0
		case 7:
			r.Aborted = true
		case 9:
			r.Status, r.Pending = 499, true
		}
		s.Recent.Requests = append(s.Recent.Requests, r)
	}
	if n-60 > int(after) {
		s.Recent.Missed = uint64(n - 60 - int(after))
	}
	return s
}

// watched has looked at the gateway for a while.
func watched(t testing.TB) *Watch {
	t.Helper()
	w := new(Watch)
	for i := range 10 {
		w.Take(readAt(t, begun.Add(time.Duration(i)*2*time.Second), 1000+i*50, w.Last()))
	}
	return w
}
