package engine

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// What labels may be, where that is a closed list. A counter of each is there from the start: an alert on a rate would
// miss the first event of one that appears with it.
var (
	statuses = []int{http.StatusOK, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized,
		http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusUpgradeRequired,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge, statusClientLeft,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	classes        = []string{"input", "cache_read", "cache_write", "output"}
	receiptResults = []string{receiptCharged, receiptRepeated, receiptEmpty, receiptRefused}
	hedges         = []string{HedgeStarted, HedgeWon, HedgeLimited, HedgeBusy, HedgeNotCovered}
	causes         = []host.Cause{host.CauseCrash, host.CauseHang, host.CauseMemory, host.CauseProtocol,
		host.CauseSlowStart, host.CauseHandshake, host.CauseStart}
	violations = []host.Violation{host.ViolationOrder, host.ViolationEnd, host.ViolationAfterFinish,
		host.ViolationMessage, host.ViolationStatus, host.ViolationAnswer, host.ViolationLate}
	upstreamKinds = []llm.ErrorKind{llm.ErrUpstream, llm.ErrRejected, llm.ErrUnfit, llm.ErrPolicy, llm.ErrContext,
		llm.ErrCapacity, llm.ErrAllowance, llm.ErrQuota, llm.ErrCredentials, llm.ErrProtocol, llm.ErrBroken, llm.ErrDied,
		llm.ErrCanceled}
	shadowOutcomes = []string{ShadowAnswered, ShadowNotCandidate, ShadowTooMany, ShadowSameRoute, ShadowNoReply,
		ShadowRouteBusy, ShadowNoCredits, ShadowLedger, ShadowLeaving, ShadowPanic}
	strategyOutcomes = []string{StrategyAccepted, StrategyRejected, StrategyLast, StrategyAgreed, StrategySplit,
		StrategyEscalated, StrategyJudged}
	screenings      = []string{ScreenedPassed, ScreenedFlagged, ScreenedBlocked, ScreenedNot}
	classifications = []string{ClassifiedKnown, ClassifiedUnknown, ClassifiedLate, ClassifiedSkipped, ClassifiedFailed}

	judgements = []string{string(llm.VerdictAllow), string(llm.VerdictFlag), string(llm.VerdictBlock), JudgedTooLarge,
		JudgedLate, JudgedFailed}
	operations = []string{"lookup", "check", "hold", "settle"} // those of requests
)

// What came of a call for comparison, beside the kinds of failures.
const (
	ShadowAnswered     = "answered"
	ShadowNotCandidate = "not_a_candidate" // the route could not have taken the request
	ShadowTooMany      = "too_many"        // are under way
	ShadowSameRoute    = "same_route"      // has answered
	ShadowNoReply      = "no_reply"        // to compare with: the request failed, or its client left
	ShadowRouteBusy    = "route_busy"      // or not to be called after all
	ShadowNoCredits    = "no_credits"      // are left to the account, or a cap of it is reached
	ShadowLedger       = "ledger"          // it could not be recorded
	ShadowLeaving      = "shutdown"
	ShadowPanic        = "panic"
)

// What came of a request by a strategy.
const (
	StrategyAccepted  = "accepted"
	StrategyRejected  = "rejected"
	StrategyLast      = "last"
	StrategyAgreed    = "agreed"
	StrategySplit     = "split"
	StrategyEscalated = "escalated"
	StrategyJudged    = "judged"
)

// What came of screening a request.
const (
	ScreenedPassed  = "passed"
	ScreenedFlagged = "flagged"
	ScreenedBlocked = "blocked"
	ScreenedNot     = "unscreened"
)

// What came of asking the provider that screens, beside its verdicts.
const (
	JudgedTooLarge = "too_large"
	JudgedLate     = "late"
	JudgedFailed   = "failed"
)

// statusClientLeft is of a request whose client left before its reply.
const statusClientLeft = 499

// FailureKinds are all that an attempt can fail of: what upstreams and hosts say, and what the exchange finds.
func FailureKinds() []llm.ErrorKind {
	return append(slices.Clone(upstreamKinds), "time_limit", "attempt_timeout", "shutdown", "invalid_arguments",
		"no_visible_text", "no_usage", "over_budget", "ledger", "outrun")
}

// series are those that have names of the configuration for labels.
type series struct {
	mu    sync.Mutex
	of    map[*Generation]int // that serve, or still have requests, by when they began
	begun int                 // configurations so far
}

// vec is a collector of several series.
type vec interface {
	prometheus.Collector
	Delete(prometheus.Labels) bool
}

// begin gives a configuration the series that it has, from 0 on, and ends those of names that no configuration has.
func (m *Metrics) begin(g *Generation) {
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	m.series.begun++
	m.series.of[g] = m.series.begun
	m.start(g.Config)
	m.prune()
}

// end is for a configuration that serves no more and whose last request has ended.
func (m *Metrics) end(g *Generation) {
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	if _, began := m.series.of[g]; began {
		delete(m.series.of, g)
		m.prune()
	}
}

// Endpoints gives the endpoints of the path table their series.
func (m *Metrics) Endpoints(names ...string) {
	for _, endpoint := range names {
		m.durations.of(endpoint)
		m.firstEvents.of(endpoint)
		for _, status := range statuses {
			m.answered.of(answer{endpoint, status})
		}
	}
}

// startAlways makes the series that every gateway has.
func (m *Metrics) startAlways() {
	for _, refusal := range refusals {
		m.limited.WithLabelValues(refusal.reason)
	}
	for _, result := range []string{"made", "over_budget"} {
		m.retries.WithLabelValues(result)
	}
	for _, result := range []string{"taken", "refused"} {
		m.loads.WithLabelValues(result)
	}
	for _, operation := range operations {
		m.operations.of(operation)
	}
	m.charges.of("")
}

func (m *Metrics) start(c *config.Config) {
	for i := range c.Routes {
		m.startRoute(c.Routes[i].Name)
	}
	for i := range c.Providers {
		m.startProvider(&c.Providers[i])
	}
	for i := range c.Strategies {
		for _, outcome := range strategyOutcomes {
			m.strategies.WithLabelValues(c.Strategies[i].Name, outcome)
		}
	}
	for i := range c.Profiles {
		if shadow := c.Profiles[i].Shadow.Route; shadow != "" {
			for _, outcome := range shadowOutcomes {
				m.shadows.WithLabelValues(shadow, outcome)
			}
			for _, kind := range FailureKinds() {
				m.shadows.WithLabelValues(shadow, string(kind))
			}
			for _, of := range []string{"shadow", "reply"} {
				m.ShadowSeries(shadow, of)
			}
		}
	}
	if p := c.Predictor.Provider; p != "" && len(c.Routes) > 1 {
		for _, outcome := range classifications {
			m.predicted.WithLabelValues(p, outcome)
		}
	}
	if c.Screening.On() {
		for _, verdict := range screenings {
			m.screened.WithLabelValues(string(c.Screening.Mode), verdict)
		}
		if c.Screening.Provider != "" {
			for _, verdict := range judgements {
				m.judged.WithLabelValues(c.Screening.Provider, verdict)
			}
		}
		for _, rule := range c.Screening.Rules.Rules() {
			m.rules.WithLabelValues(rule.Name, rule.Category, string(rule.Action))
		}
	}
	if c.Cache.Kind != "" {
		m.lookups.WithLabelValues("hit")
		m.lookups.WithLabelValues("miss")
	}
}

func (m *Metrics) startRoute(route string) {
	for _, class := range classes {
		m.used.of(used{route, class})
	}
	for _, kind := range FailureKinds() {
		m.upstreamError.WithLabelValues(route, string(kind))
	}
	for _, v := range outcome.Verdicts() {
		m.came.of(came{route, v.String()})
	}
	for _, outcome := range hedges {
		m.hedges.WithLabelValues(route, outcome)
	}
	m.charges.of(route)
	m.costs.of(route)
	m.over.WithLabelValues(route)
	m.runningRoutes.of(route)
	m.tried.of(route)
	m.firstTokens.of(route)
	m.interTokens.of(route)
	m.longestPauses.of(route)
}

func (m *Metrics) startProvider(p *config.Provider) {
	for _, cause := range causes {
		m.failures.WithLabelValues(p.Name, string(cause))
	}
	for _, violation := range violations {
		m.violations.WithLabelValues(p.Name, string(violation))
	}
	for _, result := range receiptResults {
		m.receipts.WithLabelValues(p.Name, result)
	}
	for i := range p.Keys {
		m.keyAttempts.WithLabelValues(p.Name, p.Keys[i].Name, "served")
		for _, kind := range upstreamKinds {
			m.keyAttempts.WithLabelValues(p.Name, p.Keys[i].Name, string(kind))
		}
	}
}

// names are those of a configuration that a label can be; a key's has its provider's before it.
type names map[string]map[string]bool

func (n names) add(c *config.Config) {
	for i := range c.Routes {
		n["route"][c.Routes[i].Name] = true
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		n["provider"][p.Name] = true
		for k := range p.Keys {
			n["key"][p.Name+"/"+p.Keys[k].Name] = true
		}
	}
	for i := range c.Strategies {
		n["strategy"][c.Strategies[i].Name] = true
	}
	for _, rule := range c.Screening.Rules.Rules() {
		n["rule"][rule.Name] = true
	}
}

// has reports whether all names among labels are there. "" is nobody's: a request that no route was called for.
func (n names) has(labels prometheus.Labels) bool {
	for label, value := range labels {
		if label == "key" {
			value = labels["provider"] + "/" + value
		}
		if known, is := n[label]; is && value != "" && !known[value] {
			return false
		}
	}
	return true
}

// prune ends the series whose names no configuration has that serves or has requests.
func (m *Metrics) prune() {
	known := names{"route": {}, "provider": {}, "key": {}, "strategy": {}, "rule": {}}
	for g := range m.series.of {
		known.add(g.Config)
	}
	ended := false
	for _, v := range []vec{m.tokens, m.charged, m.cost, m.over, m.upstreamError, m.outcomes, m.attempts,
		m.attemptTime, m.firstToken, m.interToken, m.longestPause, m.hedges, m.failures, m.violations, m.receipts,
		m.keyAttempts, m.strategies, m.shadows, m.shadowSeconds, m.shadowOutput, m.shadowCost, m.rules, m.judged,
		m.predicted} {
		for _, labels := range labelsOf(v) {
			if !known.has(labels) {
				ended = v.Delete(labels) || ended
			}
		}
	}
	if ended { // the handles of those that are left are found again
		m.used.forget()
		m.charges.forget()
		m.costs.forget()
		m.came.forget()
		m.runningRoutes.forget()
		m.tried.forget()
		m.firstTokens.forget()
		m.interTokens.forget()
		m.longestPauses.forget()
	}
}

// lateCost counts what an attempt cost that was proven after its request: at the cost that its route has now.
func (m *Metrics) lateCost(route string, u llm.Usage, now time.Time) {
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	var newest *config.Route
	last := 0
	for g, begun := range m.series.of {
		for i := range g.Config.Routes {
			if r := &g.Config.Routes[i]; r.Name == route && begun > last {
				newest, last = r, begun
			}
		}
	}
	if newest == nil {
		return // nobody knows
	}
	_, price := newest.In(now)
	if cost, err := ledger.Cost(u, price); err == nil {
		m.Cost(route, cost)
	}
}

// labelsOf are those of all series of a collector.
func labelsOf(v vec) (all []prometheus.Labels) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(v)
	families, _ := registry.Gather() // none of ours fails
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := make(prometheus.Labels)
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			all = append(all, labels)
		}
	}
	return all
}
