package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of a price's tiers the highest that the input reaches counts.
func TestPriceAt(t *testing.T) {
	t.Parallel()
	p := Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Tiers: []Tier{
		{Above: 100, Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40},
		{Above: 200, Input: 5, CacheRead: 6, CacheWrite: 7, Output: 8},
	}}
	for input, want := range map[int64]struct {
		price Price
		from  int64
	}{
		-1:  {Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}, 0},
		99:  {Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}, 0},
		100: {Price{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40}, 100},
		199: {Price{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40}, 100},
		200: {Price{Input: 5, CacheRead: 6, CacheWrite: 7, Output: 8}, 200},
	} {
		got, from := p.At(input)
		require.Equal(t, want.price, got, "%d", input)
		require.Equal(t, want.from, from, "%d", input)
	}
	require.Len(t, p.Tiers, 2)

	require.True(t, p.Equal(p))
	other := p
	other.Tiers = []Tier{p.Tiers[0], p.Tiers[1]}
	require.True(t, p.Equal(other))
	other.Tiers[1].Output++
	require.False(t, p.Equal(other))
	for _, change := range []func(*Price){
		func(p *Price) { p.Input++ }, func(p *Price) { p.CacheRead++ }, func(p *Price) { p.CacheWrite++ },
		func(p *Price) { p.Output++ }, func(p *Price) { p.Tiers = nil },
	} {
		other := p
		change(&other)
		require.False(t, p.Equal(other))
		require.False(t, other.Equal(p))
	}
}

// Prices begin on a date.
func TestPricesBegin(t *testing.T) {
	t.Parallel()
	at := func(day string) time.Time {
		moment, err := time.Parse(time.RFC3339, day)
		require.NoError(t, err)
		return moment
	}
	r := Route{
		Price:       Price{Input: 1},
		LaterPrices: []Dated{{at("2027-01-01T00:00:00Z"), Price{Input: 2}}, {at("2027-03-01T00:00:00Z"), Price{Input: 3}}},
		Cost:        Price{Input: 10},
		LaterCosts:  []Dated{{at("2027-02-01T00:00:00Z"), Price{Input: 20}}},
	}
	for _, c := range []struct {
		now         string
		price, cost int64
		next        string
	}{
		{"2026-12-31T23:59:59.999999999Z", 1, 10, "2027-01-01T00:00:00Z"},
		{"2027-01-01T00:00:00Z", 2, 10, "2027-02-01T00:00:00Z"},
		{"2027-01-01T00:59:59+01:00", 1, 10, "2027-01-01T00:00:00Z"},
		{"2027-02-01T00:00:00Z", 2, 20, "2027-03-01T00:00:00Z"},
		{"2027-03-01T00:00:00Z", 3, 20, ""},
	} {
		price, cost := r.In(at(c.now))
		require.Equal(t, c.price, price.Input, c.now)
		require.Equal(t, c.cost, cost.Input, c.now)
		want := time.Time{}
		if c.next != "" {
			want = at(c.next)
		}
		require.True(t, want.Equal(r.NextPrice(at(c.now))), c.now)
	}
}
