package engine

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/cache"
)

// replies is the response cache (GAP-61): of this process, and the one that nodes share where the configuration says
// so. It outlives reloads: what another configuration answered is another key.
type replies struct {
	memory *cache.Memory
	keys   cache.Keys
	shared *sharedReplies
}

// sharedReplies are the caches that nodes share, of the configurations that were current: one, unless it changes.
type sharedReplies struct {
	open func(config.Cache, *slog.Logger) (cache.Shared, error)

	mu     sync.Mutex
	at     config.Redis
	cache  cache.Shared // nil: none is open
	keys   cache.Keys
	closed bool
}

func newReplies(o *Options) replies {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return replies{cache.NewMemory(o.Now), cache.NewKeys(secret), &sharedReplies{open: o.OpenCache}}
}

// use opens what a configuration that has become the current one says, and closes the one before.
func (s *sharedReplies) use(at config.Cache, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Kind == config.RedisKind && s.cache != nil && s.at == at.Redis {
		return
	}
	s.shut(log)
	if at.Kind != config.RedisKind || s.open == nil || s.closed {
		return
	}
	c, err := s.open(at, log)
	if err != nil {
		log.Error("the gateway goes on without a response cache", "error", err)
		return
	}
	s.at, s.cache, s.keys = at.Redis, c, cache.NewKeys(c.Secret())
}

// shut closes the one that is open. Who still uses it finds nothing in it.
func (s *sharedReplies) shut(log *slog.Logger) {
	if s.cache == nil {
		return
	}
	if err := s.cache.Close(); err != nil {
		log.Warn("closing the response cache", "error", err)
	}
	s.cache = nil
}

func (s *sharedReplies) close(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.shut(log)
}

// of is the one of a configuration, nil where another one's is open.
func (s *sharedReplies) of(at config.Redis) (cache.Cache, cache.Keys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil || s.at != at {
		return nil, cache.Keys{}
	}
	return s.cache, s.keys
}

// Replies is the response cache, and what makes its keys; nil where the configuration has none.
func (g *Generation) Replies() (cache.Cache, cache.Keys) {
	switch g.Config.Cache.Kind {
	case "":
		return nil, cache.Keys{}
	case config.RedisKind:
		return g.replies.shared.of(g.Config.Cache.Redis)
	}
	return g.replies.memory, g.replies.keys
}

// watchReplies makes collectors of what the cache holds.
func (m *Metrics) watchReplies(usage func() (replies, bytes, evicted int64)) {
	gauge := func(name, help string, of func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, of)
	}
	m.policy = append(m.policy,
		gauge("fareway_cache_replies", "Replies in the response cache.", func() float64 {
			n, _, _ := usage()
			return float64(n)
		}),
		gauge("fareway_cache_bytes", "What they take; the cache's size bounds it.", func() float64 {
			_, n, _ := usage()
			return float64(n)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "fareway_cache_evicted_total",
			Help: "Replies that had to go for others before their time was over."}, func() float64 {
			_, _, n := usage()
			return float64(n)
		}))
}

// policyMetrics count what comes of screening and of the response cache.
type policyMetrics struct {
	screened  *prometheus.CounterVec
	rules     *prometheus.CounterVec
	judged    *prometheus.HistogramVec
	predicted *prometheus.HistogramVec
	lookups   *prometheus.CounterVec
	suspended prometheus.Counter
	policy    []prometheus.Collector
}

func newPolicyMetrics() policyMetrics {
	m := policyMetrics{
		screened: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fareway_screened_requests_total",
			Help: "Requests that were screened, by what came of it: passed, flagged, or blocked (and refused, where the mode " +
				"is enforce); unscreened where the provider that screens did not judge it."}, []string{"mode", "verdict"}),
		rules: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fareway_screening_rules_total",
			Help: "Requests in which a rule was found."},
			[]string{"rule", "category", "action"}),
		judged: prometheus.NewHistogramVec(histogram("fareway_screening_provider_seconds",
			"How long the provider that screens took to judge a request, by what came of it: allow, flag or block; "+
				"late, failed or too_large where it did not.", prometheus.ExponentialBuckets(0.005, 2, 12)),
			[]string{"provider", "verdict"}),
		predicted: prometheus.NewHistogramVec(histogram("fareway_predictor_seconds",
			"How long requests waited for the provider that predicts, by what came of it: known or unknown; late, "+
				"failed or skipped (it was late with others) where it did not answer.",
			prometheus.ExponentialBuckets(0.0005, 2, 12)), []string{"provider", "outcome"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fareway_cache_lookups_total",
			Help: "Requests that were looked for in the response cache, by what came of it: hit or miss."}, []string{"result"}),
		suspended: prometheus.NewCounter(prometheus.CounterOpts{Name: "fareway_suspensions_total",
			Help: "Accounts that were suspended by themselves, for declined requests."}),
	}
	m.policy = []prometheus.Collector{m.screened, m.rules, m.judged, m.predicted, m.lookups, m.suspended}
	return m
}

// Screened counts a request that was screened, by the configuration's mode.
func (m *policyMetrics) Screened(mode, verdict string) {
	m.screened.WithLabelValues(mode, verdict).Inc()
}

// RuleFound counts a rule, which is of the configuration.
func (m *policyMetrics) RuleFound(rule, category, action string) {
	m.rules.WithLabelValues(rule, category, action).Inc()
}

// Judged notes how long the provider that screens took, and what came of it.
func (m *policyMetrics) Judged(provider, verdict string, took time.Duration) {
	m.judged.WithLabelValues(provider, verdict).Observe(took.Seconds())
}

// Classified counts a request that the provider was asked about that predicts.
func (m *Metrics) Classified(provider, outcome string, waited time.Duration) {
	m.predicted.WithLabelValues(provider, outcome).Observe(waited.Seconds())
}

// CacheLookup counts a request that was looked for in the response cache.
func (m *policyMetrics) CacheLookup(result string) { m.lookups.WithLabelValues(result).Inc() }
