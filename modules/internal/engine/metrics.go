package engine

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fareway/fareway/modules/internal/connections"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// Metrics are the gateway's collectors. They live as long as the engine and are registered anew at each
// reload, for Caddy's registry is new then. Every label value comes from the configuration or from a closed
// list, never from a request.
type Metrics struct {
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	firstEvent    *prometheus.HistogramVec
	tokens        *prometheus.CounterVec
	charged       *prometheus.CounterVec
	cost          *prometheus.CounterVec
	over          *prometheus.CounterVec
	held          prometheus.Gauge
	upstreamError *prometheus.CounterVec
	outcomes      *prometheus.CounterVec
	attempts      *prometheus.GaugeVec
	attemptTime   *prometheus.HistogramVec
	firstToken    *prometheus.HistogramVec
	interToken    *prometheus.HistogramVec
	longestPause  *prometheus.HistogramVec
	providers     *providerCollector
	keyAttempts   *prometheus.CounterVec
	retries       *prometheus.CounterVec
	failures      *prometheus.CounterVec
	violations    *prometheus.CounterVec
	ledger        *prometheus.HistogramVec
	ledgerBatch   prometheus.Histogram
	number        prometheus.Gauge
	unproven      *prometheus.GaugeVec
	receipts      *prometheus.CounterVec
	limited       *prometheus.CounterVec
	limiter       []prometheus.Collector // of a limiter that tells what it holds
	aside         prometheus.Gauge
	stalled       prometheus.Counter
	strategies    *prometheus.CounterVec
	hedges        *prometheus.CounterVec
	budgets       []prometheus.Collector // what of the engine's budgets is used
	spooled       []prometheus.Collector // how many settlements wait
	nodes         []prometheus.Collector // of the ledger
	policyMetrics
	shadowMetrics
	unlogged  prometheus.Counter
	undecided prometheus.Counter
	unkept    prometheus.Counter
	trainings *prometheus.CounterVec
	loads     *prometheus.CounterVec
	refused   prometheus.Gauge
	inForce   *prometheus.GaugeVec

	series  series
	files   *fileCollector
	backup  *backupCollector
	failing *failingCollector
	alerts  *alertCollector

	certificates *certificateCollector

	build prometheus.Collector

	traffic traffic

	// What every request counts.
	answered      *handles[answer, prometheus.Counter]
	durations     *handles[string, prometheus.Observer]
	firstEvents   *handles[string, prometheus.Observer]
	used          *handles[used, prometheus.Counter]
	charges       *handles[string, prometheus.Counter]
	costs         *handles[string, prometheus.Counter]
	came          *handles[came, prometheus.Counter]
	runningRoutes *handles[string, prometheus.Gauge]
	operations    *handles[string, prometheus.Observer]
	tried         *handles[string, prometheus.Observer]
	firstTokens   *handles[string, prometheus.Observer]
	interTokens   *handles[string, prometheus.Observer]
	longestPauses *handles[string, prometheus.Observer]
}

// histogram is one of fixed buckets, and a native one besides, for whoever scrapes that: Prometheus does with the
// feature native-histograms, in any version that has it. A native one costs an observation some 70 ns more, and has
// 100 buckets at most.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1,
		NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

func newMetrics(version string) *Metrics {
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_requests_total", Help: "Requests answered, by endpoint and HTTP status."},
			[]string{"endpoint", "status"}),
		duration: prometheus.NewHistogramVec(histogram("fareway_request_duration_seconds",
			"Time from a request's first byte to its reply's last.", seconds), []string{"endpoint"}),
		firstEvent: prometheus.NewHistogramVec(histogram("fareway_time_to_first_event_seconds",
			"Time from a request's first byte to the first byte of its reply.", seconds), []string{"endpoint"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_tokens_total", Help: "Tokens that upstreams reported, by route and price class."},
			[]string{"route", "class"}),
		charged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_charged_microcents_total", Help: "Microcents charged to accounts, by the route that answered, or " +
				"that a later receipt is about. Refunds do not lower it."},
			[]string{"route"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_cost_microcents_total", Help: "Microcents that upstreams cost the operator, by route, at its cost. " +
				"Calls that no account pays for are among them."},
			[]string{"route"}),
		over: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_over_microcents_total",
			Help: "Microcents that upstreams reported beyond what was held, which the operator pays, by route."},
			[]string{"route"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fareway_held_microcents", Help: "Microcents on hold for running requests."}),
		upstreamError: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_upstream_errors_total", Help: "Attempts that failed, by route and kind."},
			[]string{"route", "kind"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_route_outcomes_total", Help: "What came of attempts as far as it tells of the route, or showed of " +
				"them later, by route and outcome."},
			[]string{"route", "outcome"}),
		attempts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fareway_running_attempts", Help: "Attempts that run at the moment, by route; max_concurrent bounds them."},
			[]string{"route"}),
		attemptTime: prometheus.NewHistogramVec(histogram("fareway_attempt_duration_seconds",
			"Time of attempts, failed ones among them, by route; their count is that of attempts.", seconds),
			[]string{"route"}),
		firstToken: prometheus.NewHistogramVec(histogram("fareway_time_to_first_token_seconds",
			"Time from the beginning of an attempt to its first token, by route.", seconds), []string{"route"}),
		interToken: prometheus.NewHistogramVec(histogram("fareway_inter_token_seconds",
			"Time between two tokens of a reply that came in pieces: one value for each attempt, the mean after its first "+
				"token, by route.", []float64{.001, .0025, .005, .01, .025, .05, .075, .1, .15, .25, .5, 1, 2.5}),
			[]string{"route"}),
		longestPause: prometheus.NewHistogramVec(histogram("fareway_longest_pause_seconds",
			"How long a reply that came in pieces stood still at most after its first token: one value for each attempt, by "+
				"route.", []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}), []string{"route"}),
		providers: newProviderCollector(),
		keyAttempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_provider_key_attempts_total", Help: "Calls of upstreams by the provider's key: served, or the kind " +
				"of the failure."}, []string{"provider", "key", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_retries_total",
			Help: "Failed attempts after which another route was to be tried: made, or over_budget.",
		}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_provider_failures_total",
			Help: "Ends, failed starts and replacements of providers' processes, by cause. Each is followed by a start."},
			[]string{"provider", "cause"}),
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_provider_violations_total", Help: "What providers' processes have broken of the plugin protocol."},
			[]string{"provider", "violation"}),
		ledger: prometheus.NewHistogramVec(histogram("fareway_ledger_duration_seconds",
			"Time of a ledger operation, queueing and commit included.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}), []string{"operation"}),
		ledgerBatch: prometheus.NewHistogram(histogram("fareway_ledger_batch_size", "Operations that shared one commit.",
			[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512})),
		number: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fareway_config_number", Help: "Number of the configuration that serves, as in `gateway history`."}),
		unproven: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fareway_unproven_attempts", Help: "Attempts that wait for a receipt, by provider."},
			[]string{"provider"}),
		receipts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_receipts_total", Help: "Receipts that providers gave for earlier attempts, by what came of them."},
			[]string{"provider", "result"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_limited_total", Help: "Requests refused for a limit, by what X-RateLimit-Reason said."},
			[]string{"reason"}),
		aside: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fareway_spool_undecided", Help: "What was in the spool, could not be applied or read, and waits for an " +
				"operator's decision."}),
		hedges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_hedges_total", Help: "Calls that were late, by what came of it: a second one was started beside " +
				"it, or not; and the second ones that answered."}, []string{"route", "outcome"}),
		strategies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_strategy_outcomes_total", Help: "What came of strategies: a reply was accepted, rejected or the " +
				"last one of a cascade; seats agreed or were split, or a seat was escalated to; a panel was judged."},
			[]string{"strategy", "outcome"}),
		stalled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fareway_stalled_clients_total", Help: "Clients that took nothing for too long and were taken to have left."}),
		unlogged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fareway_requests_unlogged_total", Help: "Refused requests that the request log could not take, so that " +
				"nobody finds them by their ids."}),
		undecided: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fareway_decisions_unlogged_total", Help: "Requests that the decision log could not take, so that their " +
				"routing can be neither explained nor planned again."}),
		unkept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fareway_outcomes_unkept_total", Help: "Lines of outcomes and texts that could not be kept to train by, " +
				"because of the disk or of too many at once."}),
		trainings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_trainings_total", Help: "Nightly trainings by outcomes, by what came of them: taken, not_better or " +
				"failed."}, []string{"result"}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fareway_config_loads_total", Help: "Loads of a configuration, by what came of them: taken or refused."},
			[]string{"result"}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fareway_config_refused", Help: "1 while the saved configuration is refused, and the one before it serves."}),
		files:         newFileCollector(),
		certificates:  newCertificateCollector(),
		backup:        newBackupCollector(),
		failing:       newFailingCollector(),
		alerts:        newAlertCollector(),
		build:         buildInfo(version),
		policyMetrics: newPolicyMetrics(),
		shadowMetrics: newShadowMetrics(seconds),
		inForce: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fareway_config_in_force_since_timestamp_seconds",
			Help: "When the configuration that serves came into force, by the digest of its content."},
			[]string{"hash"}),
	}
	m.answered = handlesOf(func(a answer) prometheus.Counter {
		return m.requests.WithLabelValues(a.endpoint, strconv.Itoa(a.status))
	})
	m.durations = handlesOf(func(endpoint string) prometheus.Observer { return m.duration.WithLabelValues(endpoint) })
	m.firstEvents = handlesOf(func(endpoint string) prometheus.Observer { return m.firstEvent.WithLabelValues(endpoint) })
	m.used = handlesOf(func(u used) prometheus.Counter { return m.tokens.WithLabelValues(u.route, u.class) })
	m.came = handlesOf(func(c came) prometheus.Counter { return m.outcomes.WithLabelValues(c.route, c.outcome) })
	m.charges = handlesOf(func(route string) prometheus.Counter { return m.charged.WithLabelValues(route) })
	m.costs = handlesOf(func(route string) prometheus.Counter { return m.cost.WithLabelValues(route) })
	m.tried = handlesOf(func(route string) prometheus.Observer { return m.attemptTime.WithLabelValues(route) })
	m.firstTokens = handlesOf(func(route string) prometheus.Observer { return m.firstToken.WithLabelValues(route) })
	m.interTokens = handlesOf(func(route string) prometheus.Observer { return m.interToken.WithLabelValues(route) })
	m.longestPauses = handlesOf(func(route string) prometheus.Observer { return m.longestPause.WithLabelValues(route) })
	m.runningRoutes = handlesOf(func(route string) prometheus.Gauge { return m.attempts.WithLabelValues(route) })
	m.operations = handlesOf(func(operation string) prometheus.Observer { return m.ledger.WithLabelValues(operation) })
	m.series.of = make(map[*Generation]int)
	m.startAlways()
	return m
}

// Collectors lists everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{m.requests, m.duration, m.firstEvent, m.tokens, m.charged, m.cost, m.over,
		m.held, m.attemptTime, m.firstToken, m.interToken, m.longestPause,
		m.upstreamError, m.outcomes, m.attempts, m.retries, m.providers, m.failures, m.violations, m.ledger, m.ledgerBatch,
		m.number,
		m.keyAttempts, m.unproven, m.receipts, m.limited, m.aside, m.stalled, m.strategies, m.hedges, m.unlogged,
		m.undecided,
		m.unkept,
		m.trainings,
		m.loads, m.refused, m.inForce, m.files, m.backup, m.failing, m.alerts, m.certificates, m.build},
		slices.Concat(countConnections(), m.limiter, m.budgets, m.spooled, m.nodes, m.policy, m.collectors())...)
}

// gather is all that there is, for who does not scrape it.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	registry := prometheus.NewRegistry()
	for _, c := range m.Collectors() {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("gathering metrics: %w", err)
		}
	}
	return registry.Gather()
}

// Request counts a reply. endpoint is a name of the path table; firstEvent is zero when nothing was written.
func (m *Metrics) Request(endpoint string, status int, firstEvent, total time.Duration) {
	m.answered.of(answer{endpoint, status}).Inc()
	m.durations.of(endpoint).Observe(total.Seconds())
	if firstEvent > 0 {
		m.firstEvents.of(endpoint).Observe(firstEvent.Seconds())
	}
}

// Tokens counts what an attempt on route is proven to have used, by price class.
func (m *Metrics) Tokens(route string, u *llm.Usage) {
	for _, c := range [...]struct {
		class  string
		tokens *int64
	}{{"input", u.Input}, {"cache_read", u.CacheRead}, {"cache_write", u.CacheWrite}, {"output", u.Output}} {
		if n := llm.Tokens(c.tokens); n > 0 {
			m.used.of(used{route, c.class}).Add(float64(n))
		}
	}
}

// Charged counts a charge, in microcents.
func (m *Metrics) Charged(route string, microcents int64) {
	m.charges.of(route).Add(float64(microcents))
}

// Cost counts what an attempt cost the operator, in microcents.
func (m *Metrics) Cost(route string, microcents int64) {
	m.costs.of(route).Add(float64(microcents))
}

// AttemptTimes are how long an attempt took.
type AttemptTimes struct {
	All          time.Duration
	FirstToken   time.Duration // from its beginning; 0 where none came
	InterToken   time.Duration // between two tokens, as a mean; 0 where it did not come in pieces, or nobody counted
	LongestPause time.Duration // of a reply after its first token; 0 where it did not come in pieces
}

// Attempted counts an attempt that has ended.
func (m *Metrics) Attempted(route string, took AttemptTimes) {
	m.tried.of(route).Observe(took.All.Seconds())
	for _, one := range [...]struct {
		times *handles[string, prometheus.Observer]
		took  time.Duration
	}{{m.firstTokens, took.FirstToken}, {m.interTokens, took.InterToken}, {m.longestPauses, took.LongestPause}} {
		if one.took > 0 {
			one.times.of(route).Observe(one.took.Seconds())
		}
	}
}

// Over counts what an upstream reported beyond what was held for it, in microcents.
func (m *Metrics) Over(route string, microcents int64) {
	m.over.WithLabelValues(route).Add(float64(microcents))
}

// Held moves the sum of the holds, in microcents.
func (m *Metrics) Held(delta int64) { m.held.Add(float64(delta)) }

// UpstreamError counts a failed attempt; kind is an llm.ErrorKind.
func (m *Metrics) UpstreamError(route, kind string) {
	m.upstreamError.WithLabelValues(route, kind).Inc()
}

// Outcome counts what came of an attempt, or showed of it later.
func (m *Metrics) Outcome(route, outcome string) { m.came.of(came{route, outcome}).Inc() }

func (m *Metrics) providerFailed(provider string, c host.Cause) {
	m.failures.WithLabelValues(provider, string(c)).Inc()
}

func (m *Metrics) providerViolated(provider string, v host.Violation) {
	m.violations.WithLabelValues(provider, string(v)).Inc()
}

// keyAttempt counts a call with a provider's key; result is served, or an llm.ErrorKind.
func (m *Metrics) keyAttempt(provider, key, result string) {
	m.keyAttempts.WithLabelValues(provider, key, result).Inc()
}

// retried counts a fallback that was to be made; result is "made" or "over_budget".
func (m *Metrics) retried(result string) { m.retries.WithLabelValues(result).Inc() }

func (m *Metrics) running(route string, more int64) {
	m.runningRoutes.of(route).Add(float64(more))
}

// watchLimiter makes collectors of what a limiter in memory holds.
func (m *Metrics) watchLimiter(usage func() ratelimit.Usage) {
	m.limiter = []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fareway_limiter_addresses", Help: "Addresses whose requests of the last minute are counted."},
			func() float64 { return float64(usage().Addresses) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fareway_limiter_evicted_total", Help: "Addresses whose requests were forgotten before their minute was " +
				"over, for there were too many."},
			func() float64 { return float64(usage().Evicted) }),
	}
}

// watchLimiterServer makes collectors of the server in which a limiter counts.
func (m *Metrics) watchLimiterServer(status func() ratelimit.Status) {
	gauge := func(name, help string, of func(ratelimit.Status) float64) {
		m.limiter = append(m.limiter, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return of(status()) }))
	}
	counter := func(name, help string, of func(ratelimit.Status) int64) {
		m.limiter = append(m.limiter, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(of(status())) }))
	}
	gauge("fareway_limiter_up", "Whether the limiter's server answers; 0: this node admits its share of each limit.",
		func(s ratelimit.Status) float64 {
			if s.Up {
				return 1
			}
			return 0
		})
	gauge("fareway_limiter_nodes", "Nodes that share the limits, as this one knows.",
		func(s ratelimit.Status) float64 { return float64(s.Nodes) })
	counter("fareway_limiter_shares_total", "Questions to the limiter that were decided by this node's share, for its "+
		"server was away.", func(s ratelimit.Status) int64 { return s.Shares })
	counter("fareway_limiter_away_total", "How often the limiter's server went away.",
		func(s ratelimit.Status) int64 { return s.Aways })
	counter("fareway_limiter_lost_total", "How often it had lost what was counted, or an older copy of it was back, or "+
		"its clock was set.", func(s ratelimit.Status) int64 { return s.Losses })
	counter("fareway_limiter_errors_total", "Calls of the limiter's server without an answer in time, or with an error.",
		func(s ratelimit.Status) int64 { return s.Errors })
}

// serverCollector tells of the servers that nodes share beside the limiter's.
type serverCollector struct {
	servers func() map[string]redisconn.State
}

var (
	serverUp = prometheus.NewDesc("fareway_server_up", "Whether a server answers in which nodes share something: cache, "+
		"the response cache, or conversations. The gateway goes on without it.", []string{"of"}, nil)
	serverErrors = prometheus.NewDesc("fareway_server_errors_total", "Calls of it without an answer in time, or with an "+
		"error.", []string{"of"}, nil)
)

func (c serverCollector) Describe(to chan<- *prometheus.Desc) { to <- serverUp; to <- serverErrors }

func (c serverCollector) Collect(to chan<- prometheus.Metric) {
	for of, s := range c.servers() {
		up := 0.0
		if s.Up {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(serverUp, prometheus.GaugeValue, up, of)
		to <- prometheus.MustNewConstMetric(serverErrors, prometheus.CounterValue, float64(s.Errors), of)
	}
}

// watchServers makes collectors of the servers that nodes share beside the limiter's.
func (m *Metrics) watchServers(servers func() map[string]redisconn.State) {
	m.budgets = append(m.budgets, serverCollector{servers})
}

// watchSpool makes a collector of how many settlements wait in the spool.
func (m *Metrics) watchSpool(waiting func() int64) {
	m.spooled = []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fareway_spooled_settlements", Help: "Settlements that wait in the spool because the ledger is away."},
		func() float64 { return float64(waiting()) })}
}

// watchBudgets makes collectors of what runs and of what waits for clients.
func (m *Metrics) watchBudgets(streams, ahead *budget) {
	m.budgets = []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fareway_running_requests", Help: "Charged requests in progress; max_streams bounds them."},
			func() float64 { return float64(streams.used.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fareway_read_ahead_bytes", Help: "What upstreams have sent and clients have not taken yet."},
			func() float64 { return float64(ahead.used.Load()) }),
	}
}

// countConnections makes collectors of the connections of this process, where its listeners count them.
func countConnections() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fareway_connections", Help: "Connections that there are; counted by listeners with fareway_connections."},
		func() float64 { return float64(connections.Process.Open()) }), refusedConnections{}}
}

// refusedConnections are counted by why.
type refusedConnections struct{}

var refusedDesc = prometheus.NewDesc("fareway_connections_refused_total",
	"Connections that were one too many, of one address or of all.", []string{"of"}, nil)

// Describe implements prometheus.Collector.
func (refusedConnections) Describe(descs chan<- *prometheus.Desc) { descs <- refusedDesc }

// Collect implements prometheus.Collector.
func (refusedConnections) Collect(metrics chan<- prometheus.Metric) {
	for _, why := range connections.Refusals {
		metrics <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue,
			float64(connections.Process.Refused(why)), string(why))
	}
}

// Strategy counts what came of a strategy.
func (m *Metrics) Strategy(strategy, outcome string) {
	m.strategies.WithLabelValues(strategy, outcome).Inc()
}

// Hedge counts what came of a call on a route that was late.
func (m *Metrics) Hedge(route, outcome string) { m.hedges.WithLabelValues(route, outcome).Inc() }

// ClientStalled counts a client that took nothing for too long (GAP-112).
func (m *Metrics) ClientStalled() { m.stalled.Inc() }

func (m *Metrics) limitReached(reason string) { m.limited.WithLabelValues(reason).Inc() }

// setAside shows how much of the spool waits for an operator.
func (m *Metrics) setAside(undecided int64) { m.aside.Set(float64(undecided)) }

// decisionsLost counts what the decision log has lost.
func (m *Metrics) decisionsLost(n int) { m.undecided.Add(float64(n)) }

// trained counts a nightly training.
func (m *Metrics) trained(result string) { m.trainings.WithLabelValues(result).Inc() }

// outcomesLost counts what could not be kept to train by.
func (m *Metrics) outcomesLost(n int) { m.unkept.Add(float64(n)) }

// requestsUnlogged counts what the request log has lost.
func (m *Metrics) requestsUnlogged(n int) { m.unlogged.Add(float64(n)) }

func (m *Metrics) observeLedger(op string, d time.Duration, batch int) {
	m.operations.of(op).Observe(d.Seconds())
	if batch > 0 {
		m.ledgerBatch.Observe(float64(batch))
	}
}

// loaded counts a load; result is "taken" or "refused".
func (m *Metrics) loaded(result string) { m.loads.WithLabelValues(result).Inc() }

// setInForce shows what serves, and since when.
func (m *Metrics) setInForce(hash string, since time.Time) {
	m.inForce.Reset()
	m.inForce.WithLabelValues(hash).Set(float64(since.UnixMilli()) / 1000)
}

func (m *Metrics) setNumber(n int64) { m.number.Set(float64(n)) }

// setUnproven shows how many attempts wait, by provider.
func (m *Metrics) setUnproven(provider string, attempts int64) {
	m.unproven.WithLabelValues(provider).Set(float64(attempts))
}

// forgetUnproven is for a provider that is gone from the configuration, and for which nothing waits.
func (m *Metrics) forgetUnproven(provider string) { m.unproven.DeleteLabelValues(provider) }

func (m *Metrics) receipt(provider, result string) {
	m.receipts.WithLabelValues(provider, result).Inc()
}
