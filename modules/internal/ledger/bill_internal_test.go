package ledger

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// TestCeiling proves GAP-123 for what a settlement charges, by arithmetic of its own: of no attempt more than its
// worst, in all no more than the hold, and beside what it charges there is room for the worst of each attempt that
// waits.
func TestCeiling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			b              Bill
			within         = new(big.Rat)
			waiting, known int64
		)
		small := rapid.Int64Range(0, 40)
		for range rapid.IntRange(0, 4).Draw(t, "attempts") {
			p := config.Price{Input: small.Draw(t, "input price") * 100_000, Output: small.Draw(t, "output price") * 333_333}
			worst := small.Draw(t, "worst") - 1
			if rapid.Bool().Draw(t, "waits") {
				require.NoError(t, b.Add(true, llm.Usage{}, p, worst))
				waiting += max(0, worst)
				continue
			}
			in, out := small.Draw(t, "input"), small.Draw(t, "output")
			require.NoError(t, b.Add(false, llm.Usage{Input: &in, Output: &out}, p, worst))
			cost := big.NewRat(in*p.Input+out*p.Output, 1_000_000)
			if most := big.NewRat(worst, 1); worst >= 0 && cost.Cmp(most) > 0 {
				cost = most
				known += worst
			} else {
				known += new(big.Int).Div(new(big.Int).Add(cost.Num(), new(big.Int).Sub(cost.Denom(), big.NewInt(1))),
					cost.Denom()).Int64()
			}
			within.Add(within, cost)
		}
		surcharge, held := small.Draw(t, "surcharge"), rapid.Int64Range(0, 200).Draw(t, "held")
		want := new(big.Int).Div(within.Num(), within.Denom()).Int64() + surcharge
		require.Equal(t, max(0, min(want, held-waiting)), b.Ceiling(surcharge, held))
		require.LessOrEqual(t, b.Ceiling(surcharge, held), known+surcharge)
		whole, err := b.Microcents(surcharge)
		require.NoError(t, err)
		require.LessOrEqual(t, want, whole)
	})
}

// TestCeilingOfNonsense: sums beyond an int64 leave no room.
func TestCeilingOfNonsense(t *testing.T) {
	t.Parallel()
	var b Bill
	for range 3 {
		require.NoError(t, b.Add(true, llm.Usage{}, config.Price{}, 1<<62))
	}
	require.Zero(t, b.Ceiling(5, 1<<62))
	require.True(t, b.Pending)
	tokens := llm.Usage{Output: llm.Count(1)}
	var exact Bill
	require.NoError(t, exact.Add(false, tokens, config.Price{Output: 3_500_000}, 3))
	require.EqualValues(t, 3, exact.Ceiling(0, 100), "a fraction of a microcent beyond the worst is beyond it")
	require.NoError(t, exact.Add(false, tokens, config.Price{Output: 500_000}, 1))
	require.EqualValues(t, 3, exact.Ceiling(0, 100), "3.5 and 0.5 are 4 in all, of which 3 and 0.5 may be charged")
	whole, err := exact.Microcents(0)
	require.NoError(t, err)
	require.EqualValues(t, 4, whole)
}

// TestWaive proves GAP-135 by arithmetic of its own: in whatever order requests are settled, fair use leaves free as
// much as there is, and never more.
func TestWaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		allowance := rapid.Int64Range(0, 40).Draw(t, "allowance")
		var free, charged, all int64
		for _, due := range rapid.SliceOfN(rapid.Int64Range(0, 15), 0, 9).Draw(t, "due") {
			charge, waived := Waive(due, allowance-free)
			require.Equal(t, due, charge+waived)
			require.GreaterOrEqual(t, waived, int64(0))
			require.GreaterOrEqual(t, charge, int64(0))
			free, charged, all = free+waived, charged+charge, all+due
			require.Equal(t, min(all, allowance), free, "GAP-135 what fits is free")
		}
		require.Equal(t, max(0, all-allowance), charged)
	})
	charge, waived := Waive(5, -3)
	require.Equal(t, []int64{5, 0}, []int64{charge, waived}, "GAP-135 more was left free than there is now")
}

func TestCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		large := rapid.Int64Range(0, 1<<62)
		tokens, due := large.Draw(t, "tokens"), large.Draw(t, "due")
		charge := rapid.Int64Range(0, due).Draw(t, "charge")
		want := big.NewInt(tokens)
		if due > 0 {
			want.Div(want.Mul(want, big.NewInt(charge)), big.NewInt(due))
		}
		require.Equal(t, want.Int64(), Counted(tokens, charge, due))
	})
}
