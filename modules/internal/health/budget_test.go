package health_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/health"
)

// TestBudget compares with a list of all that happened: a limit on how much of the traffic may be retried.
func TestBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_000_000, 0)
		now := start
		ratio := rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.5, 1}).Draw(t, "ratio")
		floor := rapid.Int64Range(0, 3).Draw(t, "per second")
		b := health.NewBudget(start, ratio, floor)
		second := func(at time.Time) int64 { return int64(at.Sub(start) / time.Second) }
		var requests, retries []int64 // their seconds
		recent := func(list []int64) (n float64) {
			for _, s := range list {
				if second(now)-s < 10 {
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					b.Request(now)
					requests = append(requests, second(now))
				}
			},
			"retry": func(t *rapid.T) {
				allowed := recent(retries)+1 <= math.Floor(ratio*recent(requests))+float64(floor)*10
				require.Equal(t, allowed, b.Retry(now))
				if allowed {
					retries = append(retries, second(now))
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(12*time.Second)).Draw(t, "for")))
			},
			"configure": func(t *rapid.T) {
				ratio = rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "ratio")
				b.Configure(ratio, floor)
			},
		})
	})
}

// TestBudgetForgets: what was ten seconds ago counts no more, neither the requests nor the retries.
func TestBudgetForgets(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000, 0)
	b := health.NewBudget(start, 1, 0)
	at := func(seconds, requests int) (retries int) {
		now := start.Add(time.Duration(seconds) * time.Second)
		for range requests {
			b.Request(now)
		}
		for b.Retry(now) {
			retries++
		}
		return retries
	}
	require.Equal(t, 3, at(0, 3))
	require.Equal(t, 0, at(9, 0))
	require.Equal(t, 2, at(10, 2), "of the first second nothing counts")
	require.Equal(t, 0, at(19, 0))
	for range 5 {
		b.Request(start.Add(19 * time.Second))
	}
	require.Equal(t, 5, at(20, 0))
	require.Equal(t, 1, at(30, 1), "nor what was not used")
}
