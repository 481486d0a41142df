package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func testPrices(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)
	a := config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}
	b := config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 5}
	for i, step := range []struct {
		price, cost config.Price
		want        int64
	}{{a, a, 1}, {a, a, 1}, {b, a, 2}, {b, a, 2}, {a, a, 1}, {a, b, 3}, {a, b, 3}, {b, b, 4}, {b, a, 2}} {
		v, err := f.store.PriceVersion(ctx, "route", step.price, step.cost)
		require.NoError(t, err)
		require.Equal(t, step.want, v, "step %d", i)
	}
	v, err := f.store.PriceVersion(ctx, "another", b, a)
	require.NoError(t, err)
	require.EqualValues(t, 1, v)
	for _, negative := range []config.Price{{Input: -1}, {CacheRead: -1}, {CacheWrite: -1}, {Output: -1}} {
		_, err = f.store.PriceVersion(ctx, "route", negative, b)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.PriceVersion(ctx, "route", b, negative)
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}

	t.Run("the price when an attempt began counts, and its charge names the version", func(t *testing.T) {
		before := f.hold("unit", 1_000)
		old := f.version["unit"]
		f.version["unit"], err = f.store.PriceVersion(ctx, "unit", config.Price{Output: 9_000_000}, a)
		require.NoError(t, err)
		require.Equal(t, old+1, f.version["unit"])
		f.begin(before, 2, "unit")
		after := f.hold("unit", 1_000)
		s := ok(before, usage(0, 10))
		s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(before.Request, 2), Outcome: ledger.Finished,
			Usage: usage(0, 1)})
		require.EqualValues(t, 10+9, f.settle(s).Microcents)
		require.Equal(t, "unit@1 unit@2", f.lastEntry().Prices)
		require.EqualValues(t, 90, f.settle(ok(after, usage(0, 10))).Microcents)
		require.Equal(t, "unit@2", f.lastEntry().Prices)

		r := f.record(before.Request)
		require.Equal(t, prices["unit"], r.Attempts[0].Price)
		require.Equal(t, half(prices["unit"]), r.Attempts[0].Cost)
		require.Equal(t, config.Price{Output: 9_000_000}, r.Attempts[1].Price)
		require.Equal(t, a, r.Attempts[1].Cost)
	})
	t.Run("a charge names the versions of what was used, once each", func(t *testing.T) {
		h := f.hold("example", 0)
		f.begin(h, 2, "cached")
		f.begin(h, 3, "fraction")
		f.begin(h, 4, "example")
		s := ok(h, usage(1, 0))
		for i, u := range []int64{0, 2, 3} {
			r := ledger.Result{Attempt: ledger.AttemptID(h.Request, int64(i+2)), Outcome: ledger.Failed}
			if u > 0 {
				r.Usage = usage(u, 0)
			}
			s.Results = append(s.Results, r)
		}
		f.settle(s)
		require.Equal(t, "example@1 fraction@1", f.lastEntry().Prices)
	})
}
