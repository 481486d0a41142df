package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

var configurationChecks = []Check{
	{Name: "configuration", About: "settings", Worst: Error,
		Looks: "the Caddyfile, and the HCL file as `check` does, with the variables that the gateway has",
		Why:   "a file with a mistake is not taken, and a gateway with one does not start",
		Next:  "fareway gateway check FILE",
		run:   checkConfiguration},
	{Name: "in-force", About: "settings", Worst: Error, needs: gatewayRuns,
		Looks: "whether what is saved (HCL file and Caddyfile) is what serves",
		Why:   "what was changed last does not hold",
		Next:  "fareway gateway status",
		run:   checkInForce},
	{Name: "credentials", About: "settings", Worst: Error, needs: configured,
		Looks: "keys of upstreams: blanks, line breaks, quotes, placeholders, and keys of another service",
		Why:   "the upstream refuses them, and its routes serve nothing",
		Next:  "set the variable, or the file, to the key alone, and restart the gateway",
		run:   checkCredentials},
	{Name: "prices", About: "settings", Worst: Error, needs: configured,
		Looks: "prices in the wrong unit (a thousand times off), missing ones, and what costs more than it brings",
		Why:   "accounts pay a wrong price, or you lose with each request",
		Next:  "fareway gateway models PROVIDER MODEL   # what it usually costs",
		run:   checkPrices},
	{Name: "routes", About: "settings", Worst: Error, needs: gatewayRuns,
		Looks: "whether routes serve, why not, and since when",
		Why:   "requests go to another route, or are refused where there is none",
		Next:  "fareway gateway status",
		run:   checkRoutes},
	{Name: "offers", About: "settings", Worst: Warning, needs: configured,
		Looks: "whether any route takes tools, JSON, and prompts as long as agents send them",
		Why:   "such requests are refused",
		Next:  "fareway gateway models PROVIDER   # what the upstream offers",
		run:   checkOffers},
	{Name: "time-outs", About: "settings", Worst: Warning, needs: configured,
		Looks: "time-outs of routes, providers, the Caddyfile and the exit, against each other and how long replies take",
		Why:   "replies are cut off in the middle, and their upstream is paid all the same",
		Next:  "raise the time-out",
		run:   checkTimeouts},
	{Name: "limits", About: "settings", Worst: Warning, needs: gatewayRuns,
		Looks: "requests refused for limits, streams against max_streams, connections refused",
		Why:   "clients are refused although there is room",
		Next:  "fareway gateway account list",
		run:   checkLimits},
	{Name: "collector", About: "settings", Worst: Warning, needs: configured,
		Looks: "whether somebody listens where traces and metrics are sent by OTLP",
		Why:   "what nobody takes is lost, and the log fills with it",
		Next:  "set OTEL_EXPORTER_OTLP_ENDPOINT to your collector, or take the block telemetry and `tracing` away",
		run:   checkCollector},
	{Name: "logs", About: "settings", Worst: Warning,
		Looks: "logs: level, size, rotation, and records that could not be kept",
		Why:   "a log that grows fills the disk, and what was not kept cannot be explained",
		Next:  "see `log` in the Caddyfile that `gateway up` writes",
		run:   checkLogs},
}

// isPriceFinding reports whether a diagnostic is about the unit of a price.
func isPriceFinding(d *config.Diagnostic) bool { return strings.Contains(d.Summary, "usually costs") }

func checkConfiguration(_ context.Context, s *Subject, r *result) {
	if s.SiteError != nil && s.Caddyfile != "" {
		r.found("the Caddyfile %s cannot be read: %v", s.Caddyfile, s.SiteError).
			because("no gateway starts with it, and one that runs takes no reload").
			then("fareway validate --config %s", quote(s.Caddyfile))
	}
	if s.Diagnostics == nil && s.Elsewhere != "" {
		r.skip("%s", s.Elsewhere)
		return
	}
	if s.Diagnostics == nil {
		r.skip("there is no configuration to read at %s", s.HCL)
		return
	}
	for _, d := range s.Diagnostics.All() {
		if isPriceFinding(&d) {
			continue // of the check `prices`
		}
		if d.UnsetVariable() && s.EnvHidden != "" {
			r.skip("%s: %s (%s)", d.Position(), d.Summary, s.EnvHidden)
			continue
		}
		severity := Warning
		if d.Severity == config.SeverityError {
			severity = Error
		}
		f := r.found("%s: %s", d.Position(), d.Summary).as(severity).because("%s", d.Detail).
			then("fareway gateway check %s", s.HCL)
		if d.UnsetVariable() && s.Status != nil {
			f.because("%s (looked for in %s)", d.Detail, s.EnvOf)
		} else if d.UnsetVariable() {
			f.because("it is not set in %s", s.EnvOf).
				then("set it where the gateway is started (EnvironmentFile= of the unit, or export NAME=...)")
		}
	}
}

func checkInForce(ctx context.Context, s *Subject, r *result) {
	if f := s.Status.FailedLoad; f != nil {
		r.found("%s is refused since %s, and the configuration before it serves: %s", cmp.Or(f.Config, s.HCL),
			human.Moment(f.At), firstOf(f)).then("fareway gateway check %s   # then save it; or: %s", cmp.Or(f.Config, s.HCL),
			s.command("rollback"))
	} else if s.Config != nil && s.Config.Path == s.Status.Config && s.Config.Hash != s.Status.ConfigHash &&
		s.Now().Sub(lastSaved(s.Config)) > 10*time.Second {
		r.found("%s as it is saved is not what serves (%.12s is, and the file has %.12s)", s.Status.Config,
			s.Status.ConfigHash, s.Config.Hash).then("%s", s.command("reload"))
	}
	if s.Status.Reason != "" {
		r.found("the gateway is not ready: %s", s.Status.Reason).because("load balancers send it nothing, and requests fail")
	}
	if s.Site == nil {
		return // the check `configuration` says why
	}
	checkCaddyfileInForce(ctx, s, r)
}

// firstOf is the first of what is wrong.
func firstOf(f *admin.FailedLoad) string {
	if len(f.Diagnostics) > 0 {
		return fmt.Sprintf("%s: %s", f.Diagnostics[0].Position(), f.Diagnostics[0].Summary)
	}
	return f.Problem
}

// lastSaved is when the last of a configuration's files was changed.
func lastSaved(cfg *config.Config) (last time.Time) {
	for _, f := range cfg.Files {
		if at := modified(f.Path); at.After(last) {
			last = at
		}
	}
	return last
}

// checkCaddyfileInForce compares the Caddyfile with the configuration that Caddy runs.
func checkCaddyfileInForce(ctx context.Context, s *Subject, r *result) {
	var runs any
	if err := s.Client.Call(ctx, "GET", "/config/", nil, &runs); err != nil {
		r.skip("Caddy does not show what it runs here, so that it cannot be compared with %s: %v", s.Caddyfile, err)
		return
	}
	var saved any
	if err := json.NewDecoder(bytes.NewReader(s.Site.JSON)).Decode(&saved); err != nil {
		r.skip("reading the adapted %s: %v", s.Caddyfile, err)
		return
	}
	for _, v := range []any{runs, saved} { // what is not in the Caddyfile itself
		drop(v, "apps", "fareway", "digest")
		drop(v, "admin")
	}
	if where := differs(runs, saved, ""); where != "" {
		r.found("%s as it is saved is not what Caddy runs: they differ in %s", s.Caddyfile, where).as(Warning).
			then("fareway reload --config %s --force", s.Caddyfile)
	}
}

// drop takes a member out of a JSON value.
func drop(v any, path ...string) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if len(path) == 1 {
		delete(m, path[0])
		return
	}
	drop(m[path[0]], path[1:]...)
}

// differs says where two JSON values first differ, "" where they do not.
func differs(a, b any, at string) string {
	if ma, ok := a.(map[string]any); ok {
		if mb, ok := b.(map[string]any); ok {
			names := slices.Concat(slices.Collect(maps.Keys(ma)), slices.Collect(maps.Keys(mb)))
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				if where := differs(ma[name], mb[name], at+"/"+name); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if la, ok := a.([]any); ok {
		if lb, ok := b.([]any); ok && len(la) == len(lb) {
			for i := range la {
				if where := differs(la[i], lb[i], fmt.Sprintf("%s/%d", at, i)); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Or(strings.TrimPrefix(at, "/"), "everything")
}

func checkRoutes(ctx context.Context, s *Subject, r *result) {
	serving := 0
	for _, route := range s.Status.Routes {
		if route.State == "serves" || route.State == "half_open" {
			serving++
			checkFailures(ctx, s, r, route.Name)
			continue
		}
		seen := fmt.Sprintf("route %s (%s of %s) is %s", route.Name, route.Model, route.Provider,
			strings.ReplaceAll(route.State, "_", " "))
		if route.Reason != "" {
			seen += ": " + route.Reason
		}
		if f := route.LastFailure; f != nil {
			seen += fmt.Sprintf("; its last attempt failed at %s: %s", human.Moment(f.At), f.Text)
		}
		f := r.found("%s", seen).as(Warning)
		switch route.State {
		case "refused":
			f.as(Error).because("the upstream refuses the key").then("%s", s.command("models %s", route.Provider))
		case "out_of_quota":
			f.as(Error).because("what is paid at the upstream is used up").then("top up at the service of provider %s",
				route.Provider)
		}
	}
	for _, p := range s.Status.Providers {
		for _, k := range p.Keys {
			if k.State != "serves" && k.State != "rate_limited" {
				r.found("key %s of provider %s is %s", k.Name, p.Name, strings.ReplaceAll(k.State, "_", " ")).as(Warning).
					because("the provider's other keys have to do its work")
			}
		}
	}
	switch {
	case len(s.Status.Routes) == 0:
		r.found("the configuration has no route").because("no request can be answered").
			then("fareway gateway init   # or add a route block to %s", s.HCL)
	case serving == 0:
		r.found("none of the %s serves", human.Count(len(s.Status.Routes), "route")).because("every request is refused")
	}
}

// checkFailures tells of a route that serves, and often fails.
func checkFailures(ctx context.Context, s *Subject, r *result, route string) {
	_, attempts := s.quantile(ctx, 0.5, "fareway_attempt_duration_seconds", "route", route)
	kinds, most, sum := "", 0.0, 0.0
	s.each(ctx, "fareway_upstream_errors_total", func(m *dto.Metric, n float64) {
		if label(m, "route") != route || label(m, "kind") == "canceled" {
			return
		}
		if sum += n; n > most {
			kinds, most = label(m, "kind"), n
		}
	})
	if sum >= 10 && sum > 0.1*float64(attempts) {
		r.found("%.0f of %d attempts of route %s failed since the gateway started, most of them as %q", sum, attempts, route,
			kinds).as(Warning).because("each failed attempt costs its client time").then("%s", s.command("explain REQUEST_ID"))
	}
}

func checkOffers(_ context.Context, s *Subject, r *result) {
	var tools, json, any bool
	var widest int64
	for i := range s.Config.Routes {
		route := &s.Config.Routes[i]
		tools, json, any = tools || route.Tools, json || route.JSONObject || route.JSONSchema, true
		widest = max(widest, route.ContextWindow)
		if p := route.ContextWindow; route.MaxOutput*2 > p && route.MaxOutput < p && p >= 8192 {
			r.found("route %s has max_output = %d in a window of %d", route.Name, route.MaxOutput, p).as(Note).
				because("a request without an allowance of its own leaves %d tokens for its prompt", p-route.MaxOutput).
				then("lower max_output of route %s", route.Name)
		}
	}
	switch {
	case !any:
		return // the configuration's own check says so
	case !tools:
		r.found("no route offers tools").because("coding agents, and everybody else who sends tools, are refused").
			then("offers = [\"tools\", \"json_object\"]   # in a route of %s whose model can", s.HCL)
	}
	if any && !json {
		r.found("no route offers JSON").as(Note)
	}
	if widest < 32_000 {
		r.found("the widest window is %d tokens", widest).as(Note).because("agents send prompts of 20,000 and more")
	}
	checkGrants(s, r)
}

// checkGrants looks at what plans give.
func checkGrants(s *Subject, r *result) {
	for _, p := range s.Config.Plans {
		if cap := p.SpendCapCredits; cap > 0 && p.MonthlyCredits > cap {
			r.found("plan %s gives %s credits a month, and lets %s be spent", p.Name, human.Thousands(p.MonthlyCredits),
				human.Thousands(cap)).as(Warning).because("the rest can never be used").
				then("raise spend_cap_credits, or lower monthly_credits, in %s", s.HCL)
		}
		if rates := p.RequestsPerMinute; rates.Key > 0 && rates.Account > 0 && rates.Account < rates.Key {
			r.found("plan %s lets a key send %d requests a minute, and its account %d", p.Name, rates.Key, rates.Account).
				as(Note).because("the key's limit is never reached").then("look at requests_per_minute in %s", s.HCL)
		}
	}
}

// waits are the time-outs of a provider's settings, by name, where it has such.
func waits(p *config.Provider) map[string]time.Duration {
	var set map[string]any
	list := make(map[string]time.Duration)
	if json.Unmarshal(p.Settings, &set) != nil {
		return list
	}
	for name, v := range set {
		text, ok := v.(string)
		if !ok || !strings.HasSuffix(name, "_timeout") {
			continue
		}
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			list[name] = d
		}
	}
	return list
}

func checkTimeouts(ctx context.Context, s *Subject, r *result) {
	g := s.Config.Gateway
	for i := range s.Config.Routes {
		route := &s.Config.Routes[i]
		if g.RequestTimeout < route.Timeout {
			r.found("route %s has timeout = %s, and request_timeout is %s", route.Name, span(route.Timeout),
				span(g.RequestTimeout)).as(Note).because("the shorter one ends the reply")
		}
		checkDurations(ctx, s, r, route)
	}
	for i := range s.Config.Providers {
		p := &s.Config.Providers[i]
		for name, d := range waits(p) {
			if name != "connect_timeout" && d < 10*time.Second {
				r.found("provider %s has %s = %s", p.Name, name, span(d)).
					because("models think for longer before the first token, and the attempt fails").
					then("raise %s of provider %s in %s", name, p.Name, s.HCL)
			}
		}
	}
	if g.Keepalive >= time.Minute {
		r.found("keepalive is %s", span(g.Keepalive)).
			because("proxies close a connection on which nothing comes for 60 seconds").then("keepalive = \"15s\" in %s", s.HCL)
	}
	if s.Site != nil {
		checkCaddyTimeouts(s, r)
	}
}

// checkDurations compares a route's time-out with how long its attempts took.
func checkDurations(ctx context.Context, s *Subject, r *result, route *config.Route) {
	const enough = 20 // attempts: of fewer the 99th percentile says nothing
	took, n := s.quantile(ctx, 0.99, "fareway_attempt_duration_seconds", "route", route.Name)
	if n >= enough && took > 0.8*route.Timeout.Seconds() {
		r.found("one attempt in a hundred of route %s takes %.0f s or more (of %s), and its timeout is %s", route.Name, took,
			human.Count(int64(n), "attempt"), span(route.Timeout)).
			then("raise timeout of route %s in %s", route.Name, s.HCL)
	}
	first, n := s.quantile(ctx, 0.99, "fareway_time_to_first_token_seconds", "route", route.Name)
	for i := range s.Config.Providers {
		p := &s.Config.Providers[i]
		limit, ok := waits(p)["first_byte_timeout"]
		if ok && p.Name == route.Provider && n >= enough && first > 0.8*limit.Seconds() {
			r.found("the first token of route %s takes %.0f s or more in one attempt of a hundred, and first_byte_timeout "+
				"of provider %s is %s", route.Name, first, p.Name, span(limit)).
				then("raise first_byte_timeout of provider %s in %s", p.Name, s.HCL)
		}
	}
}

// checkCaddyTimeouts looks at what the Caddyfile says of time.
func checkCaddyTimeouts(s *Subject, r *result) {
	g := s.Config.Gateway
	apps := s.Site.apps()
	if grace := time.Duration(apps.HTTP.GracePeriod); grace > 0 && grace < g.DrainTimeout {
		r.found("grace_period is %s, and drain_timeout %s", span(grace), span(g.DrainTimeout)).
			because("Caddy cuts off running streams at exit").
			then("grace_period %s   # in the global options of %s", g.DrainTimeout+time.Minute, s.Caddyfile)
	}
	for _, name := range slices.Sorted(maps.Keys(apps.HTTP.Servers)) {
		server := apps.HTTP.Servers[name]
		if !server.hasGateway() {
			continue
		}
		if write := time.Duration(server.WriteTimeout); write > 0 && write < g.RequestTimeout {
			r.found("the Caddyfile's `timeouts { write %s }` is shorter than request_timeout (%s)", span(write),
				span(g.RequestTimeout)).as(Error).
				because("every reply that takes longer is cut off, and its upstream is paid").
				then("take `write` out of `timeouts` in %s", s.Caddyfile)
		}
		if read := time.Duration(server.ReadTimeout); read > 0 && read < 10*time.Second {
			r.found("the Caddyfile's `timeouts { read_body %s }`", span(read)).
				because("a prompt of a megabyte over a slow line does not arrive in time")
		}
		for _, limit := range server.bodyLimits() {
			if limit > 0 && limit < g.MaxBody {
				r.found("the Caddyfile's request_body takes %s, and max_body is %s", bytesText(uint64(limit)),
					bytesText(uint64(g.MaxBody))).because("prompts that the gateway would take are refused").
					then("raise `request_body { max_size }` in %s", s.Caddyfile)
			}
		}
		if server.encodes() {
			r.found("the Caddyfile has `encode` on the gateway's site").as(Note).
				because("streams are not compressed (no-transform); JSON replies are, which costs CPU")
		}
	}
}

// often is how bad it is that so many were refused since the gateway started: a scanner is refused on every gateway.
func often(refused, requests float64) Severity {
	if refused > 0.01*requests {
		return Warning
	}
	return Note
}

func checkLimits(ctx context.Context, s *Subject, r *result) {
	if !s.needMetrics(ctx, r) {
		return
	}
	requests, _ := s.metric(ctx, "fareway_requests_total")
	for reason, why := range map[string]string{
		"ip_requests_per_minute":          "behind a proxy that is not in trusted_proxies all clients have its address",
		"pre_auth_ip_requests_per_minute": "somebody tries out keys, or a client behind your proxy has a wrong one for all",
	} {
		if n, _ := s.metric(ctx, "fareway_limited_total", "reason", reason); n > 0 && n > 0.01*requests {
			r.found("%.0f of %.0f requests were refused for the limit %q", n, requests, reason).because("%s", why).
				then("%s", s.command("doctor client-address"))
		}
	}
	if running, _ := s.metric(ctx, "fareway_running_requests"); s.Config != nil && s.Config.Gateway.MaxStreams > 0 &&
		running > 0.8*float64(s.Config.Gateway.MaxStreams) {
		r.found("%.0f of max_streams = %d are in progress", running, s.Config.Gateway.MaxStreams).
			because("beyond it requests are refused").then("raise max_streams in %s", s.HCL)
	}
	if n, _ := s.metric(ctx, "fareway_connections_refused_total", "of", "address"); n > 0 {
		r.found("%s refused, for there were too many of one address",
			human.Count(int64(n), "connection")+" "+were(int64(n))).as(often(n, requests)).
			because("a load balancer has the connections of all of its clients").
			then("listener_wrappers { fareway_connections { exempt ADDRESS } }   # if it is your proxy, in the Caddyfile")
	}
	if n, _ := s.metric(ctx, "fareway_connections_refused_total", "of", "all"); n > 0 {
		r.found("%s refused, for there were too many in all", human.Count(int64(n), "connection")+" "+were(int64(n))).
			as(often(n, requests)).then("raise LimitNOFILE of the unit, or `max` of fareway_connections")
	}
	if n, _ := s.metric(ctx, "fareway_stalled_clients_total"); n > 0 && n > 0.05*requests {
		r.found("%.0f of %.0f clients took nothing for client_stall", n, requests).
			because("a proxy that reads nothing looks like that, and the reply is charged").
			then("%s", s.command("doctor streams"))
	}
}

// checkCollector tries where OpenTelemetry is told, if anything is.
func checkCollector(ctx context.Context, s *Subject, r *result) {
	traces := false
	if s.Site != nil {
		for _, server := range s.Site.apps().HTTP.Servers {
			traces = traces || server.has("tracing")
		}
	}
	if !traces && !s.Config.Telemetry.Metrics && !s.Config.Telemetry.Providers {
		return
	}
	if none, _ := s.Env("OTEL_TRACES_EXPORTER"); none == "none" || none == "console" {
		return
	}
	at, ok := s.Env("OTEL_EXPORTER_OTLP_ENDPOINT")
	if !ok || at == "" {
		at = "http://localhost:4318" // OpenTelemetry's own default
	}
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" {
		r.found("OTEL_EXPORTER_OTLP_ENDPOINT is no address").then("write it as in http://127.0.0.1:4318")
		return
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")
	dialer := net.Dialer{Timeout: 5 * time.Second, Resolver: s.Resolver}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		r.found("nobody takes traces and metrics at %s: %v", u.Host, err)
		return
	}
	_ = conn.Close()
}

func checkLogs(ctx context.Context, s *Subject, r *result) {
	if s.Site == nil && s.Status == nil {
		r.skip("neither a Caddyfile nor a gateway is known")
		return
	}
	if s.Site != nil {
		logging := s.Site.logging()
		for _, name := range slices.Sorted(maps.Keys(logging)) {
			l := logging[name]
			if strings.EqualFold(l.Level, "debug") {
				r.found("the log %q of the Caddyfile has level DEBUG", name).as(s.unlessPublic(Warning)).
					because("it writes much more, and slows requests down").then("level INFO   # in %s", s.Caddyfile)
			}
			if off := l.Writer.Roll; off != nil && !*off && l.Writer.Filename != "" {
				r.found("the log file %s is never rotated (roll_disabled)", l.Writer.Filename).
					then("take roll_disabled out of %s, or have logrotate do it", s.Caddyfile)
			}
		}
		for _, file := range logFiles(s.Site.JSON) {
			if info, err := os.Stat(filepath.Dir(file)); err != nil || !s.mayWrite(info) {
				r.found("the gateway's user (%s) cannot write logs into %s", s.userName(), filepath.Dir(file)).
					because("it does not start, or there is no log").
					then("sudo install -d -m 750 -o %s %s", s.userName(), filepath.Dir(file))
			}
			const large = 2 << 30
			if size := sizeOf(file); size > large {
				r.found("%s has %s", file, bytesText(uint64(size))).because("it is not rotated, and fills the disk")
			}
		}
	}
	if s.Status == nil || s.families(ctx) == nil {
		return
	}
	for name, what := range map[string]string{
		"fareway_decisions_unlogged_total": "requests are missing in the decision log: `explain ID` cannot explain them",
		"fareway_requests_unlogged_total":  "refused requests are missing in the request log: `usage ID` does not find them",
		"fareway_outcomes_unkept_total":    "outcomes are missing in what is trained by",
	} {
		if n, _ := s.metric(ctx, name); n > 0 {
			r.found("%.0f %s", n, what).because("the disk was full or too slow").then("%s", s.command("doctor machine"))
		}
	}
}

// checkCredentials looks at the texts of credentials, and shows none.
func checkCredentials(_ context.Context, s *Subject, r *result) {
	for i := range s.Config.Providers {
		p := &s.Config.Providers[i]
		checkSettings(s, r, p, "provider "+p.Name, p.Settings)
		for _, k := range p.Keys {
			checkSettings(s, r, p, fmt.Sprintf("key %s of provider %s", k.Name, p.Name), k.Settings)
		}
	}
	for i := range s.Config.Providers {
		for j := range i {
			a, b := &s.Config.Providers[i], &s.Config.Providers[j]
			if key := keyOf(a.Settings); key != "" && key == keyOf(b.Settings) && serviceOf(a) != serviceOf(b) {
				r.found("providers %s and %s have the same key, and are different services", b.Name, a.Name).
					because("one of them refuses it, and has seen a key that it should not have")
			}
		}
	}
}

// Unset stands in for the value of a variable that is not set, so that the rest of a configuration can be read.
const Unset = "unset"

// keyNames are the settings that hold a credential.
var keyNames = []string{"api_key", "auth_token"}

func keyOf(values []byte) string {
	var set map[string]any
	if json.Unmarshal(values, &set) != nil {
		return ""
	}
	for _, name := range keyNames {
		if text, ok := set[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

func checkSettings(s *Subject, r *result, p *config.Provider, of string, values []byte) {
	var set map[string]any
	if len(values) == 0 || json.Unmarshal(values, &set) != nil {
		return
	}
	for _, name := range keyNames {
		text, ok := set[name].(string)
		if !ok {
			continue
		}
		if text == Unset {
			continue // the check `configuration` says so
		}
		if what, next := oddKey(text); what != "" {
			f := r.found("%s of %s %s", name, of, what)
			if next != "" {
				f.then("%s", next)
			}
			continue
		}
		theirs, ours := issuerOf(text), serviceOf(p)
		if theirs != "" && ours != "" && theirs != ours && ours != "local" {
			r.found("%s of %s looks like a key of %s (it begins with %q), and goes to %s", name, of, theirs,
				prefixOf(text), ours).because("%s refuses it, and has seen a key of %s: replace that", ours, theirs).
				then("give %s a key of %s", of, ours)
		}
	}
}

// oddKey says what is wrong with the text of a key, "" for nothing.
func oddKey(text string) (what, next string) {
	bare := strings.TrimSpace(text)
	switch lower := strings.ToLower(bare); {
	case bare == "":
		return "is empty", ""
	case strings.ContainsAny(bare, "\r\n"):
		return "has several lines", "put the key alone into the variable or file"
	case bare != text:
		return "has blanks or a line break around it", "printf %s \"$KEY\" > FILE   # echo adds a line break"
	case bare[0] == '"' || bare[0] == '\'' || bare[0] == '`':
		return "stands in quotes", "take the quotes away: `docker --env-file` and Kubernetes keep them"
	case strings.HasPrefix(lower, "bearer "):
		return "begins with \"Bearer\"", "give the key alone"
	case strings.ContainsFunc(bare, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "has a character that no key has (a blank, or one beyond ASCII)", "copy the key again"
	case strings.Contains(bare, "${") || strings.Contains(bare, "$("):
		return "is a variable's name that nobody has replaced", "give the key itself"
	case strings.Contains(bare, "...") || strings.Contains(bare, "***") || strings.Contains(lower, "your-") ||
		strings.Contains(lower, "your_") || strings.Contains(lower, "changeme") || strings.Contains(lower, "change-me") ||
		strings.Contains(lower, "xxxx") || strings.Contains(lower, "placeholder"):
		return "is a placeholder", "give the key itself"
	}
	return "", ""
}

// issuers are the services that keys of a beginning are of; the longest counts.
var issuers = []struct{ prefix, service string }{
	{"sk-ant-", "anthropic"}, {"sk-or-", "openrouter"}, {"gsk_", "groq"}, {"xai-", "xai"}, {"AIza", "gemini"},
	{"sk-proj-", "openai"}, {"sk-svcacct-", "openai"}, {"sk-admin-", "openai"}, {"fw_", "fireworks"},
	{"hf_", "huggingface"}, {"nvapi-", "nvidia"}, {"pplx-", "perplexity"}, {"AKIA", "aws"}, {"fwk_", "this gateway"},
	{"ghp_", "github"}, {"github_pat_", "github"},
}

func prefixOf(key string) string {
	for _, i := range issuers {
		if strings.HasPrefix(key, i.prefix) {
			return i.prefix
		}
	}
	return ""
}

func issuerOf(key string) string {
	for _, i := range issuers {
		if strings.HasPrefix(key, i.prefix) {
			return i.service
		}
	}
	return ""
}

// hosts are the services at addresses, by the end of the host's name.
var hosts = map[string]string{"api.openai.com": "openai", "api.anthropic.com": "anthropic",
	"openrouter.ai": "openrouter", "api.groq.com": "groq", "api.x.ai": "xai",
	"generativelanguage.googleapis.com": "gemini",
	"api.mistral.ai":                    "mistral", "api.deepseek.com": "deepseek", "api.fireworks.ai": "fireworks",
	"api.together.ai": "together", "api.moonshot.ai": "moonshot", "integrate.api.nvidia.com": "nvidia",
	"api.perplexity.ai": "perplexity", "router.huggingface.co": "huggingface"}

// serviceOf is the service that a provider speaks to, "" where that is not known.
func serviceOf(p *config.Provider) string {
	var set map[string]any
	_ = json.Unmarshal(p.Settings, &set) // no settings say nothing
	if base, ok := set["base_url"].(string); ok && base != "" {
		host := urlHost(base)
		for end, service := range hosts {
			if host == end || strings.HasSuffix(host, "."+end) {
				return service
			}
		}
		return "" // whoever has an address of its own may take any key
	}
	if preset, ok := set["preset"].(string); ok && preset != "" {
		return preset
	}
	switch p.Plugin {
	case "anthropic", "gemini":
		return p.Plugin
	case "responses", "openai":
		return "openai"
	}
	return ""
}
