package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/health"
)

// running is an attempt of the model.
type running struct {
	*health.Attempt
	route int
	probe bool
	began time.Time
}

// TestStates plays any attempts on a few routes, and holds what is said of them against what must be so.
func TestStates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "routes")
		settings := health.Settings{
			Failures: rapid.Int64Range(0, 6).Draw(t, "failures"), Window: 10 * time.Second, OpenFor: 5 * time.Second,
			Outliers: rapid.Bool().Draw(t, "outliers"), Adaptive: rapid.Bool().Draw(t, "adaptive"),
		}
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("r", i)
		}
		b := newBench(settings, names...)
		var live []running
		states := make(map[string]health.State)
		opens := make(map[string]time.Time) // until when nothing is let through
		told := 0
		check := func(t *rapid.T) {
			for _, c := range b.told[told:] {
				was, ok := states[c.Route]
				if !ok {
					was = health.Serves
				}
				require.Equal(t, was, c.From, "%+v", c)
				require.NotEqual(t, c.From, c.To)
				states[c.Route] = c.To
				delete(opens, c.Route)
				if c.To == health.Open {
					require.Positive(t, settings.Failures)
					opens[c.Route] = c.Until
				}
				if c.To == health.Ejected {
					require.True(t, settings.Outliers)
				}
			}
			told = len(b.told)
			out := 0
			for _, r := range b.routes {
				if r.Look(b.now, true).State == health.Ejected {
					out++
				}
				require.GreaterOrEqual(t, r.Limit(), int64(1))
			}
			require.LessOrEqual(t, 2*out, n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"begin": func(t *rapid.T) {
				at := rapid.IntRange(0, n-1).Draw(t, "route")
				r := b.routes[at]
				call := health.Call{Input: rapid.SampledFrom([]int64{1, 5000, 50_000}).Draw(t, "input"),
					Light: rapid.Bool().Draw(t, "light"), Whole: rapid.Bool().Draw(t, "whole")}
				s := r.Look(b.now, call.Light)
				a := r.Begin(b.now, call)
				require.Equal(t, s.State != health.Open, a != nil, "%+v", s)
				if a == nil {
					require.NotEmpty(t, s.Why)
					require.True(t, s.Until.After(b.now) || !call.Light, "%+v", s)
					return
				}
				if until, ok := opens[r.Name()]; ok {
					require.False(t, b.now.Before(until), "it is open")
				}
				if s.State == health.HalfOpen {
					for _, other := range live {
						require.False(t, other.route == at && other.probe && b.now.Sub(other.began) < settings.OpenFor,
							"one probe at a time")
					}
				}
				live = append(live, running{a, at, s.State == health.HalfOpen, b.now})
			},
			"first": func(t *rapid.T) {
				if len(live) > 0 {
					rapid.SampledFrom(live).Draw(t, "attempt").First(b.now)
				}
			},
			"end": func(t *rapid.T) {
				if len(live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "attempt")
				live[i].End(b.now, rapid.SampledFrom([]health.Outcome{health.Succeeded, health.Failed, health.Failed,
					health.Refused, health.Nothing}).Draw(t, "outcome"))
				live = append(live[:i:i], live[i+1:]...)
			},
			"wait": func(t *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "for")))
			},
		})
	})
}

// TestClientsTripNothing: whatever clients do wrong, no route is thought worse of.
func TestClientsTripNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(usual, "one", "two")
		for range rapid.IntRange(0, 200).Draw(t, "attempts") {
			b.attempt(t, b.routes[0], time.Millisecond,
				rapid.SampledFrom([]health.Outcome{health.Nothing, health.Refused, health.Succeeded}).Draw(t, "outcome"))
		}
		require.Empty(t, b.told)
		require.Equal(t, health.Serves, b.state(b.routes[0]))
	})
}

// TestEverythingRecovers: whatever has happened, a route that does well again serves after a while, without anybody
// looking after it.
func TestEverythingRecovers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(usual, "one", "two", "three")
		for range rapid.IntRange(0, 100).Draw(t, "attempts") {
			r := rapid.SampledFrom(b.routes).Draw(t, "route")
			if a := r.Begin(b.now, light); a != nil {
				b.now = b.now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "took")))
				a.End(b.now, rapid.SampledFrom([]health.Outcome{health.Succeeded, health.Failed}).Draw(t, "outcome"))
			}
		}
		b.now = b.now.Add(5 * time.Minute)
		for _, r := range b.routes {
			require.NotEqual(t, health.Open, b.state(r))
			b.attempt(t, r, time.Millisecond, health.Succeeded)
			require.Equal(t, health.Serves, b.state(r))
		}
	})
}
