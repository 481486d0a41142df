package main

// row is a part of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is one chart, or where it is single, one number. note is for what METRICS.md does not say.
type panel struct {
	title, unit string
	queries     []query
	note        string
	single      bool
}

type query struct{ expr, legend string }

// number is a panel of one number.
func number(title, unit, expr string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, ""}}, single: true}
}

// chart is a panel of lines.
func chart(title, unit string, queries ...query) panel {
	return panel{title: title, unit: unit, queries: queries}
}

// quantiles are the median and the 95th percentile of a histogram, by a label.
func quantiles(metric, by string) []query {
	of := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le, " + by + ") (rate(" + metric +
			"_bucket{instance=~\"$instance\"}[$__rate_interval])))"
	}
	return []query{{of("0.5"), "{{" + by + "}} p50"}, {of("0.95"), "{{" + by + "}} p95"}}
}

// rows are what the dashboard shows. A credit is 1,000,000 microcents, and a dollar 100 credits.
var rows = []row{
	{"At a glance", []panel{
		number("Requests", "reqps", `sum(rate(fareway_requests_total{instance=~"$instance"}[$__rate_interval]))`),
		number("Failed with 5xx", "percentunit",
			`sum(rate(fareway_requests_total{instance=~"$instance",status=~"5.."}[$__rate_interval]))`+
				` / sum(rate(fareway_requests_total{instance=~"$instance"}[$__rate_interval]))`),
		number("Running", "short", `sum(fareway_running_requests{instance=~"$instance"})`),
		number("First token, p95", "s", `histogram_quantile(0.95, sum by (le) `+
			`(rate(fareway_time_to_first_token_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`),
		number("Charged in the last hour", "currencyUSD",
			`sum(increase(fareway_charged_microcents_total{instance=~"$instance"}[1h])) / 1e8`),
		number("Margin in the last hour", "currencyUSD",
			`(sum(increase(fareway_charged_microcents_total{instance=~"$instance"}[1h]))`+
				` - sum(increase(fareway_cost_microcents_total{instance=~"$instance"}[1h]))) / 1e8`),
		number("Routes that do not serve", "short",
			`count(fareway_route_state{instance=~"$instance",state!="serves"}) or vector(0)`),
		number("Providers that are not ready", "short",
			`count(fareway_provider_state{instance=~"$instance",state!="ready"}) or vector(0)`),
		number("Settlements in the spool", "short", `sum(fareway_spooled_settlements{instance=~"$instance"})`),
		number("Configuration refused", "bool_yes_no", `max(fareway_config_refused{instance=~"$instance"})`),
		number("Least disk that is free", "percentunit",
			`min(fareway_disk_free_bytes{instance=~"$instance"} / fareway_disk_bytes{instance=~"$instance"})`),
		number("Next certificate to expire", "s",
			`min(fareway_certificate_expiry_timestamp_seconds{instance=~"$instance"}) - time()`),
	}},
	{"Requests", []panel{
		chart("By status", "reqps", query{
			`sum by (status) (rate(fareway_requests_total{instance=~"$instance"}[$__rate_interval])) > 0`, "{{status}}"}),
		chart("By endpoint", "reqps", query{
			`sum by (endpoint) (rate(fareway_requests_total{instance=~"$instance"}[$__rate_interval])) > 0`, "{{endpoint}}"}),
		chart("Refused for a limit", "reqps", query{
			`sum by (reason) (rate(fareway_limited_total{instance=~"$instance"}[$__rate_interval])) > 0`, "{{reason}}"}),
		chart("Whole request", "s", quantiles("fareway_request_duration_seconds", "endpoint")...),
		chart("First byte of the reply", "s", quantiles("fareway_time_to_first_event_seconds", "endpoint")...),
		chart("In progress", "short",
			query{`sum by (instance) (fareway_running_requests{instance=~"$instance"})`, "{{instance}}"},
			query{`sum by (instance) (fareway_route_waiting{instance=~"$instance"})`, "{{instance}} waiting for a route"}),
	}},
	{"Routes", []panel{
		chart("First token", "s", quantiles("fareway_time_to_first_token_seconds", "route")...),
		chart("Between tokens", "s", quantiles("fareway_inter_token_seconds", "route")...),
		chart("Longest pause in a reply", "s", quantiles("fareway_longest_pause_seconds", "route")...),
		chart("Attempts", "reqps", query{
			`sum by (route) (rate(fareway_attempt_duration_seconds_count{instance=~"$instance"}[$__rate_interval]))`,
			"{{route}}"}),
		chart("Failed attempts", "reqps", query{`sum by (route, kind) ` +
			`(rate(fareway_upstream_errors_total{instance=~"$instance"}[$__rate_interval])) > 0`, "{{route}} {{kind}}"}),
		chart("Fallbacks and second calls", "reqps",
			query{`sum by (result) (rate(fareway_retries_total{instance=~"$instance"}[$__rate_interval]))`,
				"fallback {{result}}"},
			query{`sum by (outcome) (rate(fareway_hedges_total{instance=~"$instance"}[$__rate_interval])) > 0`,
				"hedge {{outcome}}"}),
		chart("Breakers: what does not serve", "short", query{
			`sum by (route, state) (fareway_route_state{instance=~"$instance",state!="serves"})`, "{{route}} {{state}}"}),
		chart("Running attempts", "short",
			query{`sum by (route) (fareway_running_attempts{instance=~"$instance"})`, "{{route}}"},
			query{`sum by (route) (fareway_route_concurrency_limit{instance=~"$instance"})`, "{{route}} limit"}),
		chart("Output tokens", "short", query{`sum by (route) ` +
			`(rate(fareway_tokens_total{instance=~"$instance",class="output"}[$__rate_interval]))`, "{{route}} a second"}),
	}},
	{"Money", []panel{
		chart("Charged and cost, an hour", "currencyUSD",
			query{`sum(increase(fareway_charged_microcents_total{instance=~"$instance"}[1h])) / 1e8`, "charged"},
			query{`sum(increase(fareway_cost_microcents_total{instance=~"$instance"}[1h])) / 1e8`, "our cost"},
			query{`sum(increase(fareway_over_microcents_total{instance=~"$instance"}[1h])) / 1e8`, "beyond what was held"}),
		chart("Margin by route, an hour", "currencyUSD", query{
			`(sum by (route) (increase(fareway_charged_microcents_total{instance=~"$instance"}[1h]))` +
				` - sum by (route) (increase(fareway_cost_microcents_total{instance=~"$instance"}[1h]))) / 1e8`, "{{route}}"}),
		chart("On hold", "currencyUSD",
			query{`sum by (instance) (fareway_held_microcents{instance=~"$instance"}) / 1e8`, "{{instance}}"}),
		chart("Input tokens", "short", query{`sum by (class) ` +
			`(rate(fareway_tokens_total{instance=~"$instance",class!="output"}[$__rate_interval]))`, "{{class}} a second"}),
		chart("Attempts without proof", "short",
			query{`sum by (provider) (fareway_unproven_attempts{instance=~"$instance"})`, "{{provider}}"}),
		chart("Receipts", "reqps", query{`sum by (provider, result) ` +
			`(rate(fareway_receipts_total{instance=~"$instance"}[$__rate_interval])) > 0`, "{{provider}} {{result}}"}),
	}},
	{"Providers", []panel{
		chart("State", "short", query{
			`sum by (provider, state) (fareway_provider_state{instance=~"$instance"})`, "{{provider}} {{state}}"}),
		chart("Failures of processes", "short", query{`sum by (provider, cause) ` +
			`(increase(fareway_provider_failures_total{instance=~"$instance"}[15m])) > 0`, "{{provider}} {{cause}}"}),
		chart("Memory", "bytes",
			query{`sum by (provider) (fareway_provider_memory_bytes{instance=~"$instance"})`, "{{provider}}"}),
		chart("Calls in progress", "short",
			query{`sum by (provider) (fareway_provider_streams{instance=~"$instance"})`, "{{provider}}"}),
		chart("Keys that do not serve", "short", query{`sum by (provider, key, state) ` +
			`(fareway_provider_key_state{instance=~"$instance",state!="serves"})`, "{{provider}} {{key}} {{state}}"}),
		chart("Broken protocol", "short", query{`sum by (provider, violation) ` +
			`(increase(fareway_provider_violations_total{instance=~"$instance"}[15m])) > 0`, "{{provider}} {{violation}}"}),
	}},
	{"Ledger", []panel{
		chart("Operations", "s", quantiles("fareway_ledger_duration_seconds", "operation")...),
		chart("Operations in a commit", "short", query{`sum(rate(fareway_ledger_batch_size_sum{instance=~"$instance"}` +
			`[$__rate_interval])) / sum(rate(fareway_ledger_batch_size_count{instance=~"$instance"}[$__rate_interval]))`,
			"mean"}),
		chart("Spool", "short",
			query{`sum by (instance) (fareway_spooled_settlements{instance=~"$instance"})`, "{{instance}} waiting"},
			query{`sum by (instance) (fareway_spool_undecided{instance=~"$instance"})`, "{{instance}} undecided"}),
		chart("Files", "bytes",
			query{`sum by (instance, file) (fareway_file_bytes{instance=~"$instance"})`, "{{instance}} {{file}}"}),
		chart("Free on the disk", "bytes",
			query{`min by (instance, folder) (fareway_disk_free_bytes{instance=~"$instance"})`, "{{instance}} {{folder}}"}),
		chart("Lost lines of logs", "short",
			query{`sum(increase(fareway_requests_unlogged_total{instance=~"$instance"}[15m]))`, "requests"},
			query{`sum(increase(fareway_decisions_unlogged_total{instance=~"$instance"}[15m]))`, "decisions"},
			query{`sum(increase(fareway_outcomes_unkept_total{instance=~"$instance"}[15m]))`, "outcomes"}),
	}},
	{"Nodes and what they share", []panel{
		{title: "Nodes", unit: "short", note: `Only with store "postgres".`, queries: []query{
			{`max(fareway_nodes{instance=~"$instance"})`, "nodes"},
			{`max(fareway_nodes_differ{instance=~"$instance"})`, "differ"},
			{`min(fareway_ledger_standby{instance=~"$instance"})`, "a standby is waited for"}}},
		{title: "Limiter", unit: "short", note: `Only with limiter "redis".`, queries: []query{
			{`min by (instance) (fareway_limiter_up{instance=~"$instance"})`, "{{instance}} up"},
			{`max by (instance) (fareway_limiter_nodes{instance=~"$instance"})`, "{{instance}} nodes"}}},
		{title: "Limiter's errors", unit: "reqps", note: `Only with limiter "redis".`, queries: []query{
			{`sum by (instance) (rate(fareway_limiter_errors_total{instance=~"$instance"}[$__rate_interval]))`,
				"{{instance}} errors"},
			{`sum by (instance) (rate(fareway_limiter_shares_total{instance=~"$instance"}[$__rate_interval]))`,
				"{{instance}} decided by its share"}}},
		{title: "Other servers", unit: "short", note: `Only with cache "redis", or shared conversations.`, queries: []query{
			{`min by (instance, of) (fareway_server_up{instance=~"$instance"})`, "{{instance}} {{of}}"}}},
		{title: "Response cache", unit: "reqps", note: "Only with a cache.", queries: []query{
			{`sum by (result) (rate(fareway_cache_lookups_total{instance=~"$instance"}[$__rate_interval]))`, "{{result}}"}}},
	}},
	{"Configuration and process", []panel{
		chart("Configuration", "short",
			query{`max by (instance) (fareway_config_number{instance=~"$instance"})`, "{{instance}} number"},
			query{`sum by (instance) (increase(fareway_config_loads_total{instance=~"$instance",result="refused"}[15m]))`,
				"{{instance}} refused"}),
		chart("Waits for clients", "bytes",
			query{`sum by (instance) (fareway_read_ahead_bytes{instance=~"$instance"})`, "{{instance}}"}),
		chart("Clients that stalled", "reqps", query{
			`sum by (instance) (rate(fareway_stalled_clients_total{instance=~"$instance"}[$__rate_interval]))`,
			"{{instance}}"}),
		chart("Memory of the gateway", "bytes", query{
			`process_resident_memory_bytes{instance=~"$instance"} and on (instance) fareway_build_info`, "{{instance}}"}),
		chart("CPU of the gateway", "percentunit", query{`rate(process_cpu_seconds_total{instance=~"$instance"}` +
			`[$__rate_interval]) and on (instance) fareway_build_info`, "{{instance}}"}),
		chart("Connections", "short",
			query{`sum by (instance) (fareway_connections{instance=~"$instance"})`, "{{instance}}"},
			query{`sum by (instance, of) (rate(fareway_connections_refused_total{instance=~"$instance"}[$__rate_interval]))`,
				"{{instance}} refused a second, of {{of}}"}),
		chart("Certificates that fail", "short",
			query{`max by (host) (fareway_certificate_failed{instance=~"$instance"})`, "{{host}}"}),
		chart("Backups", "short",
			query{`max by (instance, chore) (fareway_backup_missed{instance=~"$instance"})`, "{{instance}} {{chore}} missed"},
			query{`max by (instance, chore) (fareway_backup_failed{instance=~"$instance"})`, "{{instance}} {{chore}} failed"}),
		chart("Alerts that are raised", "short",
			query{`max by (instance, event) (fareway_alerts_raised{instance=~"$instance"}) > 0`, "{{instance}} {{event}}"},
			query{`max by (instance, destination) (fareway_alerts_failing{instance=~"$instance"}) > 0`,
				"{{instance}} {{destination}} takes none"},
			query{`max by (instance) (fareway_alerts_idle{instance=~"$instance"}) > 0`, "{{instance}} tells nobody"}),
		chart("Age of the last backup, and of its trial", "s",
			query{`time() - max by (instance, chore) (fareway_backup_done_timestamp_seconds{instance=~"$instance"} > 0)`,
				"{{instance}} {{chore}}"}),
		chart("Open files", "short",
			query{`process_open_fds{instance=~"$instance"} and on (instance) fareway_build_info`, "{{instance}}"},
			query{`process_max_fds{instance=~"$instance"} and on (instance) fareway_build_info`, "{{instance}} may have"}),
	}},
}
