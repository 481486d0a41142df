//go:build !race

package routing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestPredictionDoesNotAllocate: choosing by what is predicted allocates no more than by what the
// operator says.
func TestPredictionDoesNotAllocate(t *testing.T) {
	in := routing.Input{
		Routes: []config.Route{route("small", 0.45, 0.05), at(route("middle", 0.75, 0.5), config.KindCode, 0.8),
			route("deep", 0.95, 5)},
		Profile: balanced, InputTokens: 1000, Request: saying(strings.Repeat(coding, 30)),
	}
	in.Exchange = routing.NewExchange(in.Routes, []config.Profile{balanced}, nil)
	plan := func() {
		if _, err := routing.MakeItinerary(in); err != nil {
			t.Fatal(err)
		}
	}
	without := testing.AllocsPerRun(50, plan)
	in.Predictor = routing.DefaultPredictor()
	plan() // the first one makes what the others use again
	require.InDelta(t, without, testing.AllocsPerRun(50, plan), 0.5)
}

func BenchmarkPlanPredicted(b *testing.B) {
	for name, n := range map[string]int{"1KB": 8, "4KB": 32, "64KB": 512} {
		b.Run(name, func(b *testing.B) {
			in := routing.Input{
				Routes:  []config.Route{route("small", 0.45, 0.05), route("middle", 0.75, 0.5), route("deep", 0.95, 5)},
				Profile: balanced, InputTokens: 1000, Predictor: routing.DefaultPredictor(),
				Request: saying(strings.Repeat(coding, n)),
			}
			in.Exchange = routing.NewExchange(in.Routes, []config.Profile{balanced}, nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := routing.MakeItinerary(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
