package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// withRoutes is a configuration of a provider and routes, which cost 2 and 3 US dollars per million tokens.
func withRoutes(provider string, routes ...string) *Generation {
	cfg := &config.Config{
		Providers:  []config.Provider{{Name: provider, Keys: []config.Key{{Name: "first"}}}},
		Strategies: []config.Strategy{{Name: "of " + provider}},
	}
	for _, name := range routes {
		cfg.Routes = append(cfg.Routes, config.Route{Name: name, Provider: provider,
			Cost: config.Price{Input: 200, Output: 300}})
		cfg.Profiles = append(cfg.Profiles, config.Profile{Name: name, Shadow: config.Shadow{Route: name, Share: 1}})
	}
	return &Generation{Config: cfg}
}

// TestCountersBeginAtZero: an alert on a rate misses the first event of a series that begins with it.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	m := newMetrics("1.2.3")
	m.Endpoints("chat", "unknown")
	g := withRoutes("p", "small")
	g.Config.Cache.Kind = "memory"
	g.Config.Screening = config.Screening{Mode: config.ScreeningEnforce, Provider: "p"}
	m.begin(g)
	values := m.values(t)
	for _, name := range []string{
		`fareway_cache_lookups_total{result="hit"}`,
		`fareway_cache_lookups_total{result="miss"}`,
		`fareway_requests_total{endpoint="chat" status="200"}`,
		`fareway_requests_total{endpoint="unknown" status="404"}`,
		`fareway_limited_total{reason="tenant_requests_per_minute"}`,
		`fareway_retries_total{result="over_budget"}`,
		`fareway_config_loads_total{result="refused"}`,
		`fareway_charged_microcents_total{route=""}`,
		`fareway_charged_microcents_total{route="small"}`,
		`fareway_cost_microcents_total{route="small"}`,
		`fareway_over_microcents_total{route="small"}`,
		`fareway_tokens_total{class="cache_read" route="small"}`,
		`fareway_upstream_errors_total{kind="attempt_timeout" route="small"}`,
		`fareway_upstream_errors_total{kind="capacity" route="small"}`,
		`fareway_route_outcomes_total{outcome="told_bad" route="small"}`,
		`fareway_hedges_total{outcome="won" route="small"}`,
		`fareway_running_attempts{route="small"}`,
		`fareway_shadow_calls_total{outcome="answered" route="small"}`,
		`fareway_shadow_calls_total{outcome="capacity" route="small"}`,
		`fareway_shadow_cost_microcents_total{of="reply" route="small"}`,
		`fareway_shadow_seconds_bucket{le=600}`,
		`fareway_screening_provider_seconds_bucket{le=0.64}`,
		`fareway_requests_total{endpoint="chat" status="499"}`,
		`fareway_strategy_outcomes_total{outcome="judged" strategy="of p"}`,
		`fareway_provider_failures_total{cause="hang" provider="p"}`,
		`fareway_provider_violations_total{provider="p" violation="order"}`,
		`fareway_receipts_total{provider="p" result="refused"}`,
		`fareway_provider_key_attempts_total{key="first" provider="p" result="quota"}`,
		`fareway_provider_key_attempts_total{key="first" provider="p" result="served"}`,
		`fareway_attempt_duration_seconds_bucket{le=600}`,
		`fareway_time_to_first_token_seconds_bucket{le=600}`,
		`fareway_inter_token_seconds_bucket{le=2.5}`,
		`fareway_longest_pause_seconds_bucket{le=120}`,
	} {
		require.Contains(t, values, name)
		require.Zero(t, values[name], name)
	}
}

// TestSeriesEnd: those of what a configuration has no more, as soon as no request is on an older one.
func TestSeriesEnd(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	first, second := withRoutes("p", "old", "kept"), withRoutes("q", "kept", "new")
	m.begin(first)
	use := func(route string) {
		m.Charged(route, 2)
		m.Cost(route, 1)
		m.Tokens(route, &llm.Usage{Input: llm.Count(3), Output: llm.Count(4)})
		m.Outcome(route, "worked")
		m.running(route, 1)
		m.Attempted(route, AttemptTimes{All: 2 * time.Second, FirstToken: time.Second, InterToken: 10 * time.Millisecond})
	}
	use("old")
	use("kept")
	m.begin(second)
	m.begin(second) // as often as it is told of
	values := m.values(t)
	require.InDelta(t, 2, values[`fareway_charged_microcents_total{route="old"}`], 0, "its requests still run")
	use("old")
	m.running("old", -2)
	m.setUnproven("p", 1)
	m.end(withRoutes("r", "never")) // a configuration that never served
	m.end(first)

	values = m.values(t)
	for name := range values {
		require.NotContains(t, name, `"old"`)
		require.NotContains(t, name, `"of p"`)
		if name != `fareway_unproven_attempts{provider="p"}` { // for as long as something waits
			require.NotContains(t, name, `provider="p"`)
		}
	}
	require.Contains(t, values, `fareway_charged_microcents_total{route=""}`, "of no route")
	require.Contains(t, values, `fareway_unproven_attempts{provider="p"}`)
	require.Contains(t, values, `fareway_charged_microcents_total{route="new"}`)
	use("kept")
	values = m.values(t)
	for name, want := range map[string]float64{
		`fareway_charged_microcents_total{route="kept"}`:              4,
		`fareway_cost_microcents_total{route="kept"}`:                 2,
		`fareway_tokens_total{class="output" route="kept"}`:           8,
		`fareway_route_outcomes_total{outcome="worked" route="kept"}`: 2,
		`fareway_running_attempts{route="kept"}`:                      2,
		`fareway_attempt_duration_seconds_bucket{le=2.5}`:             2,
		`fareway_attempt_duration_seconds_bucket{le=1}`:               0,
		`fareway_time_to_first_token_seconds_bucket{le=1}`:            2,
		`fareway_inter_token_seconds_bucket{le=0.01}`:                 2,
		`fareway_longest_pause_seconds_bucket{le=120}`:                0,
	} {
		require.InDelta(t, want, values[name], 0, name)
	}

	// Back again: from 0 on, and what is counted is seen.
	m.begin(withRoutes("p", "old"))
	m.end(second)
	require.Zero(t, m.values(t)[`fareway_charged_microcents_total{route="old"}`])
	use("old")
	values = m.values(t)
	require.InDelta(t, 2, values[`fareway_charged_microcents_total{route="old"}`], 0)
	require.InDelta(t, 1, values[`fareway_running_attempts{route="old"}`], 0)
	require.NotContains(t, values, `fareway_charged_microcents_total{route="kept"}`)
}

// TestLateCost: of what a receipt proves, at the cost that its route has now.
func TestLateCost(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	older, newer := withRoutes("p", "small"), withRoutes("p", "small")
	newer.Config.Routes[0].Cost.Input = 500
	later := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	newer.Config.Routes[0].LaterCosts = []config.Dated{{From: later, Price: config.Price{Input: 700}}}
	m.begin(older)
	m.begin(newer)
	usage := llm.Usage{Input: llm.Count(1_000_000), Output: llm.Count(1_000_000)}
	m.lateCost("small", usage, later.Add(-time.Second))
	require.InDelta(t, 500+300, m.values(t)[`fareway_cost_microcents_total{route="small"}`], 0)
	m.lateCost("small", usage, later)
	require.InDelta(t, 500+300+700, m.values(t)[`fareway_cost_microcents_total{route="small"}`], 0)
	m.lateCost("gone", usage, later)
	require.NotContains(t, m.values(t), `fareway_cost_microcents_total{route="gone"}`)
}

// TestFailureKindsAreListedOnce, for each has a series of each route.
func TestFailureKindsAreListedOnce(t *testing.T) {
	t.Parallel()
	kinds := FailureKinds()
	slices.Sort(kinds)
	require.Equal(t, slices.Compact(slices.Clone(kinds)), kinds)
}
