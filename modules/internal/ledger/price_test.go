package ledger_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// example has the prices of the worked examples: $3 and $15 per million tokens.
var example = config.Price{Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000}

func TestCost(t *testing.T) {
	t.Parallel()
	n := llm.Count
	for name, c := range map[string]struct {
		usage llm.Usage
		price config.Price
		want  int64
	}{
		"BILL-01 BILL-03 reported usage at $3 and $15": {llm.Usage{Input: n(950), Output: n(700)}, example, 1_335_000},
		"GAP-48 rounds down":                           {llm.Usage{Output: n(1)}, config.Price{Output: 1_999_999}, 1},
		"GAP-48 absent counts 0":                       {llm.Usage{}, example, 0},
		"GAP-109 classes are disjoint": {
			llm.Usage{Input: n(1), CacheRead: n(2), CacheWrite: n(3), Output: n(4), Reasoning: n(4)},
			config.Price{Input: 1_000_000, CacheRead: 10_000_000, CacheWrite: 100_000_000, Output: 1_000_000_000}, 4_321,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ledger.Cost(c.usage, c.price)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for name, u := range map[string]llm.Usage{
		"negative input":       {Input: n(-1)},
		"negative output":      {Input: n(5), Output: n(-1)},
		"negative cache read":  {CacheRead: n(-1)},
		"negative cache write": {CacheWrite: n(math.MinInt64)},
		"negative reasoning":   {Reasoning: n(-1)},
		"too many":             {Output: n(math.MaxInt64)},
		"too expensive":        {Output: n(ledger.MaxTokens)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ledger.Cost(u, example)
			require.ErrorIs(t, err, ledger.ErrUsage)
		})
	}
}

func TestTallyDividesOnce(t *testing.T) {
	t.Parallel()
	var tally ledger.Tally
	for range 3 {
		require.NoError(t, tally.Add(llm.Usage{Input: llm.Count(1)}, config.Price{Input: 400_000}))
	}
	require.ErrorIs(t, tally.Add(llm.Usage{Input: llm.Count(-1)}, example), ledger.ErrUsage)
	got, err := tally.Microcents()
	require.NoError(t, err)
	require.EqualValues(t, 1, got, "0.4 three times is 1.2: what was refused left no trace")
}

func TestHoldFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bound, allowance, want int64 }{
		"E02 BILL-09 counts the allowance":  {1_000, 2_000, 3_300_000},
		"E05 the default allowance":         {8, 32_768, 49_154_400},
		"E05 a small allowance":             {8, 100, 152_400},
		"E05 a route with a lower limit":    {8, 8_192, 12_290_400},
		"nothing":                           {0, 0, 0},
		"a negative bound is never covered": {-1, 0, math.MaxInt64},
		"nor is a negative allowance":       {0, -1, math.MaxInt64},
		"nor one that overflows":            {math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ledger.HoldFor(c.bound, c.allowance, example))
		})
	}
	t.Run("GAP-48 rounds up", func(t *testing.T) {
		t.Parallel()
		require.EqualValues(t, 1, ledger.HoldFor(1, 0, config.Price{Input: 1}))
	})
	t.Run("GAP-49 takes the dearest input class", func(t *testing.T) {
		t.Parallel()
		for _, p := range []config.Price{{Input: 7_000_000}, {CacheRead: 7_000_000}, {CacheWrite: 7_000_000}} {
			require.EqualValues(t, 21, ledger.HoldFor(3, 9, p))
		}
	})
}

// tiered charges more from 100 tokens of input on, and less from 1,000.
var tiered = config.Price{Input: 1_000_000, CacheRead: 500_000, CacheWrite: 2_000_000, Output: 10_000_000,
	Tiers: []config.Tier{
		{Above: 100, Input: 3_000_000, CacheRead: 1_500_000, CacheWrite: 6_000_000, Output: 20_000_000},
		{Above: 1_000, Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000},
	}}

// All tokens of a request cost what its whole input, cached or not, says.
func TestTiers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ input, read, write, output, want int64 }{
		"below":                       {99, 0, 0, 1, 99 + 10},
		"at the bound":                {100, 0, 0, 1, 300 + 20},
		"cached tokens count":         {40, 40, 20, 1, 120 + 60 + 120 + 20},
		"output does not":             {99, 0, 0, 1_000_000, 99 + 10_000_000},
		"above":                       {999, 0, 0, 0, 2_997},
		"the highest that is fitting": {1_000, 0, 0, 1, 1_001},
	} {
		u := llm.Usage{Input: &c.input, CacheRead: &c.read, CacheWrite: &c.write, Output: &c.output}
		got, err := ledger.Cost(u, tiered)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
	for bound, want := range map[int64]int64{
		99:     99*2 + 10,
		100:    600 + 20,
		999:    999*6 + 20,
		1_000:  999*6 + 20, // a prompt below the bound can be dearer
		10_000: 10_000 + 1,
	} {
		require.Equal(t, want, ledger.HoldFor(bound, 1, tiered), "GAP-49 a bound of %d", bound)
	}
}

// GAP-49, GAP-110: what a call is charged is at most its hold, whatever the prompt within its bound.
func TestHoldCoversEveryTier(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPrice.Draw(t, "price")
		bound, allowance := rapid.Int64Range(0, 3_000).Draw(t, "bound"), rapid.Int64Range(0, 1_000).Draw(t, "allowance")
		i := rapid.Int64Range(0, bound).Draw(t, "i")
		r := rapid.Int64Range(0, bound-i).Draw(t, "r")
		w := rapid.Int64Range(0, bound-i-r).Draw(t, "w")
		o := rapid.Int64Range(0, allowance).Draw(t, "o")
		cost, err := ledger.Cost(llm.Usage{Input: &i, CacheRead: &r, CacheWrite: &w, Output: &o}, p)
		if err == nil {
			require.LessOrEqual(t, cost, ledger.HoldFor(bound, allowance, p))
		}
	})
}

// A price of a million dollars a token is far above anything that a configuration can say.
var anyPrice = rapid.Custom(func(t *rapid.T) config.Price {
	one := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000_000_000_000))
	p := config.Price{Input: one.Draw(t, "in"), CacheRead: one.Draw(t, "read"), CacheWrite: one.Draw(t, "write"),
		Output: one.Draw(t, "out")}
	above := int64(0)
	for range rapid.IntRange(0, 3).Draw(t, "tiers") {
		above += rapid.Int64Range(1, 1_500).Draw(t, "above")
		p.Tiers = append(p.Tiers, config.Tier{Above: above, Input: one.Draw(t, "in"), CacheRead: one.Draw(t, "read"),
			CacheWrite: one.Draw(t, "write"), Output: one.Draw(t, "out")})
	}
	return p
})

func TestCostAgainstBigIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tally ledger.Tally
		exact := new(big.Int)
		tokens := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, ledger.MaxTokens))
		for range rapid.IntRange(1, 5).Draw(t, "attempts") {
			p := anyPrice.Draw(t, "price")
			i, r, w, o := tokens.Draw(t, "i"), tokens.Draw(t, "r"), tokens.Draw(t, "w"), tokens.Draw(t, "o")
			part := new(big.Int)
			whole := p
			for _, tier := range p.Tiers {
				if i+r+w >= tier.Above {
					p.Input, p.CacheRead, p.CacheWrite, p.Output = tier.Input, tier.CacheRead, tier.CacheWrite, tier.Output
				}
			}
			for _, x := range [][2]int64{{i, p.Input}, {r, p.CacheRead}, {w, p.CacheWrite}, {o, p.Output}} {
				part.Add(part, new(big.Int).Mul(big.NewInt(x[0]), big.NewInt(x[1])))
			}
			err := tally.Add(llm.Usage{Input: &i, CacheRead: &r, CacheWrite: &w, Output: &o}, whole)
			if new(big.Int).Div(part, big.NewInt(1_000_000)).Cmp(big.NewInt(ledger.MaxCharge)) > 0 {
				require.ErrorIs(t, err, ledger.ErrUsage)
				continue
			}
			require.NoError(t, err)
			exact.Add(exact, part)
		}
		got, err := tally.Microcents()
		require.NoError(t, err)
		require.Equal(t, exact.Div(exact, big.NewInt(1_000_000)).Int64(), got)
	})
}

func TestHoldCoversEveryUsageWithinItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPrice.Draw(t, "price")
		bound, allowance := rapid.Int64Range(0, 1<<21).Draw(t, "bound"), rapid.Int64Range(0, 1<<17).Draw(t, "allowance")
		input := rapid.Int64Range(0, bound).Draw(t, "input")
		read := rapid.Int64Range(0, bound-input).Draw(t, "read")
		write := bound - input - read
		output := rapid.Int64Range(0, allowance).Draw(t, "output")
		cost, err := ledger.Cost(llm.Usage{Input: &input, CacheRead: &read, CacheWrite: &write, Output: &output}, p)
		hold := ledger.HoldFor(bound, allowance, p)
		if err != nil {
			require.Greater(t, hold, int64(ledger.MaxCharge))
			return
		}
		require.LessOrEqual(t, cost, hold)
	})
}

func TestHoldForPrices(t *testing.T) {
	t.Parallel()
	for _, p := range []config.Price{{Input: -1, CacheRead: -1, CacheWrite: -1}, {Output: -1}} {
		require.EqualValues(t, math.MaxInt64, ledger.HoldFor(1, 1, p), "%v", p)
	}
	require.EqualValues(t, 5, ledger.HoldFor(9, 5, config.Price{Output: 1_000_000}), "input may be free")
	require.EqualValues(t, 9, ledger.HoldFor(9, 5, config.Price{Input: 1_000_000}), "and so may output")
}

// A sum beyond what can be divided is an error, wherever exactly it ends.
func TestTallyTooLarge(t *testing.T) {
	t.Parallel()
	add := func(tally *ledger.Tally, tokens, price int64) error {
		require.NoError(t, tally.Add(llm.Usage{Output: &tokens}, config.Price{Output: price}))
		_, err := tally.Microcents()
		return err
	}
	const dearest = ledger.MaxCharge // for a million tokens: the most that an attempt can come to
	var tally ledger.Tally
	for range 9_223 { // 9.2e18 microcents, just below what an int64 holds
		require.NoError(t, add(&tally, 1_000_000, dearest))
	}
	for range 9_222 {
		require.ErrorIs(t, add(&tally, 1_000_000, dearest), ledger.ErrUsage)
	}
	for range 200 { // across 2^64 microcents, in steps below 2^64 of their millionths
		require.ErrorIs(t, add(&tally, 10_000, dearest), ledger.ErrUsage)
	}
}

// Each of these alone makes a usage that cannot be priced, also where it would cost nothing.
func TestUsageThatCannotBePriced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tokens, price int64 }{
		"a negative count": {-1, 0}, "too many": {ledger.MaxTokens + 1, 0}, "a negative price": {1, -1},
	} {
		_, err := ledger.Cost(llm.Usage{Output: &c.tokens}, config.Price{Output: c.price})
		require.ErrorIs(t, err, ledger.ErrUsage, name)
	}
	most := int64(ledger.MaxTokens)
	_, err := ledger.Cost(llm.Usage{Output: &most}, config.Price{})
	require.NoError(t, err)
}
