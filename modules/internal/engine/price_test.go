package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/stores"
)

// The price changes with the clock, under a version of its own, and a tariff that a request has stays as it is.
func TestPriceBegins(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	e, err := Open(Options{OpenStore: stores.Open, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Now: now},
		&config.Config{Store: sqliteStore})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	cfg := &config.Config{Store: sqliteStore, Routes: []config.Route{
		{Name: "steady", Price: config.Price{Input: 7}, Cost: config.Price{Input: 7}},
		{Name: "moving", Price: config.Price{Input: 1}, Cost: config.Price{Input: 10},
			LaterPrices: []config.Dated{{From: at(100), Price: config.Price{Input: 2}},
				{From: at(300), Price: config.Price{Input: 3}}},
			LaterCosts: []config.Dated{{From: at(200), Price: config.Price{Input: 20}}}},
	}}
	prepare := func() *Generation {
		g, err := e.Prepare(t.Context(), cfg)
		require.NoError(t, err)
		e.Activate(g)
		return g
	}
	tariff := func(g *Generation) *Tariff {
		f, err := g.Tariff(t.Context())
		require.NoError(t, err)
		return f
	}
	g := prepare()
	first := tariff(g)
	for _, c := range []struct{ now, price, cost, version int64 }{
		{0, 1, 10, 1}, {99, 1, 10, 1}, {100, 2, 10, 2}, {199, 2, 10, 2}, {200, 2, 20, 3}, {300, 3, 20, 4}, {999, 3, 20, 4},
	} {
		clock.Store(c.now)
		f := tariff(g)
		require.Equal(t, c.price, f.Routes[1].Price.Input, "at %d", c.now)
		require.Equal(t, c.cost, f.Routes[1].Cost.Input, "at %d", c.now)
		require.Equal(t, c.version, f.PriceVersion("moving"), "at %d", c.now)
		require.EqualValues(t, 1, f.PriceVersion("steady"))
		require.True(t, f.Exchange.MadeOf(f.Routes, cfg.Profiles, g.Predictor()), "GAP-131 at the prices in force")
		require.Same(t, f, tariff(g), "it is made once")
	}
	require.EqualValues(t, 1, first.Routes[1].Price.Input)
	require.EqualValues(t, 1, first.PriceVersion("moving"))
	require.EqualValues(t, 1, cfg.Routes[1].Price.Input, "the configuration is as it was")

	again := prepare()
	require.EqualValues(t, 4, tariff(again).PriceVersion("moving"), "a reload changes no price")
	require.Same(t, tariff(g).Exchange, tariff(again).Exchange, "nor what quality is worth, which is not made again")
	e.Retire(g)
	e.Retire(again)
}

// A price that cannot be recorded is not charged; nor is the one before it.
func TestPriceIsRecordedFirst(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	var recorded atomic.Int64
	now := time.Unix(0, 0)
	var inForce *routing.Predictor
	var madeFor []*routing.Predictor
	ts := tariffs{
		record: func(_ context.Context, _ string, p, _ config.Price) (int64, error) {
			if away.Load() {
				return 0, ledger.ErrUnavailable
			}
			recorded.Add(1)
			return p.Input, nil
		},
		now:       func() time.Time { return now },
		predictor: func() *routing.Predictor { return inForce },
		exchange: func(_ []config.Route, p *routing.Predictor) *routing.Exchange {
			madeFor = append(madeFor, p)
			return nil
		},
		routes: []config.Route{{Name: "r", Price: config.Price{Input: 1},
			LaterPrices: []config.Dated{{From: time.Unix(5, 0), Price: config.Price{Input: 2}}}}},
	}
	away.Store(true)
	require.ErrorIs(t, ts.begin(t.Context()), ledger.ErrUnavailable)
	away.Store(false)
	require.NoError(t, ts.begin(t.Context()))
	now = time.Unix(5, 0)
	away.Store(true)
	_, err := ts.of(t.Context())
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, `recording the price of route "r"`)
	away.Store(false)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			f, err := ts.of(t.Context())
			if err != nil || f.PriceVersion("r") != 2 {
				t.Errorf("%v, %v", f, err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2, recorded.Load(), "once for each price")

	inForce = new(routing.Predictor) // a model that outcomes have taught (GAP-131)
	before, err := ts.of(t.Context())
	require.NoError(t, err)
	require.Equal(t, []*routing.Predictor{nil, nil, inForce}, madeFor, "another model has rates of its own")
	again, err := ts.of(t.Context())
	require.NoError(t, err)
	require.Same(t, before, again)
}
