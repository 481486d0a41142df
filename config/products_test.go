package config

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAmount is exact at every border of an int64.
func TestAmount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Int64Range(0, maxPrice*microcentsPerDollar).Draw(t, "price")
		tokens := rapid.Int64Range(0, maxTokens).Draw(t, "tokens")
		if border := math.MaxInt64 / max(price, 1); border < maxTokens && rapid.Bool().Draw(t, "at the border") {
			tokens = border + rapid.Int64Range(-1, 1).Draw(t, "beside")
		}
		product := new(big.Int).Mul(big.NewInt(price), big.NewInt(tokens))
		got, ok := amount(price, tokens)
		require.Equal(t, product.IsInt64(), ok)
		if ok {
			require.Equal(t, product.Int64(), got)
		}
	})
}

// TestProductsOfSettings: whatever else of what is configured is multiplied or summed fits at its bounds, and needs no
// check where it is read.
func TestProductsOfSettings(t *testing.T) {
	t.Parallel()
	// What one request comes to at most at the prices of a route, and so each call of a strategy.
	call := big.NewInt(math.MaxInt64 / tokensPerPrice)
	for name, product := range map[string]*big.Int{
		"monthly credits of a century": big.NewInt(maxCredits * 12 * 100),
	} {
		product.Mul(product, big.NewInt(microcentsPerCredit))
		require.True(t, product.IsInt64(), name)
	}
	for _, l := range PlanLimits {
		require.True(t, new(big.Int).Mul(big.NewInt(l.Most), big.NewInt(l.Factor())).IsInt64(), l.Name)
	}
	require.True(t, new(big.Int).Mul(call, big.NewInt(maxParts)).IsInt64(), "all calls of a strategy")
	budget := PlanLimits[slices.IndexFunc(PlanLimits, func(l Limit) bool { return l.Name == "token_budget" })]
	require.Less(t, budget.Most, int64(math.MaxInt64)/maxParts, "a token budget, and as much of a request")
}
