package book

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// However a request was tried and whatever it came to, the shares of its attempts are the whole, and none is further
// from its proportion than rounding.
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := Divider{worth: []int64{0}}
		amounts := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, ledger.MaxCharge))
		parts := rapid.SliceOfN(amounts, 1, 6).Draw(t, "attempts")
		u.payers = rapid.IntRange(1, len(parts)).Draw(t, "attempts that are the account's")
		for i, part := range parts {
			if i >= u.payers {
				parts[i], part = 0, 0
			}
			u.worth = append(u.worth, u.worth[i]+part)
		}
		amount := amounts.Draw(t, "amount")
		all, sum := u.worth[len(parts)], int64(0)
		for i, part := range parts {
			share := u.share(amount, i)
			if i >= u.payers {
				require.Zero(t, share)
			}
			sum += share
			if all == 0 {
				continue
			}
			exact := new(big.Rat).Mul(big.NewRat(amount, 1), big.NewRat(part, all))
			off := new(big.Rat).Sub(big.NewRat(share, 1), exact)
			require.Negative(t, off.Abs(off).Cmp(big.NewRat(1, 1)))
		}
		require.Equal(t, amount, sum)
	})
}

// TestAddUsage adds sums: what was never reported stays so, and nothing of the others is changed.
func TestAddUsage(t *testing.T) {
	t.Parallel()
	u := Usage{Charge: 1, Input: new(int64(2))}
	more := Usage{Charge: 10, Parts: 3, Input: new(int64(20)), Output: new(int64(5))}
	u.Add(&more)
	require.Equal(t, Usage{Charge: 11, Parts: 3, Input: new(int64(22)), Output: new(int64(5))}, u)
	u.Add(&more)
	require.EqualValues(t, 5, *more.Output)
	require.EqualValues(t, 10, *u.Output)
	require.Nil(t, u.CacheRead)
}
