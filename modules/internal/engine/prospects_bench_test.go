package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// BenchmarkForetellManyRoutes is what pages about routes ask for, of a gateway with a hundred.
func BenchmarkForetellManyRoutes(b *testing.B) {
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced},
		Profiles: config.DefaultProfiles()}
	for i := range 100 {
		price := enginetest.ExamplePrice
		price.Input += int64(i) * 1_000_000
		cfg.Routes = append(cfg.Routes, config.Route{Name: fmt.Sprintf("route-%d", i), Provider: "up",
			Model: fmt.Sprintf("model-%d", i), Quality: float64(i) / 100, ContextWindow: 128_000, MaxOutput: 4096, Price: price,
			Cost: enginetest.ExampleCost})
	}
	e := enginetest.Start(b, cfg, engine.Options{})
	g := e.Current()
	b.Run("profiles", func(b *testing.B) {
		for b.Loop() {
			_, err := g.Prospects(b.Context())
			require.NoError(b, err)
		}
	})
	b.Run("routes", func(b *testing.B) {
		for b.Loop() {
			_, err := g.Standpoints(b.Context())
			require.NoError(b, err)
		}
	})
	b.Run("curve", func(b *testing.B) {
		for b.Loop() {
			t, err := g.Tariff(b.Context())
			require.NoError(b, err)
			t.Exchange.Curve(100)
		}
	})
}
