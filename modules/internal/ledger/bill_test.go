package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

func TestConclude(t *testing.T) {
	t.Parallel()
	price := config.Price{Input: 300, Output: 1_500}
	known := &llm.Usage{Input: llm.Count(100), Output: llm.Count(10)}
	for name, tc := range map[string]struct {
		said    Outcome
		usage   *llm.Usage
		want    Outcome
		refused bool
	}{
		"a reply with usage is finished":             {said: Finished, usage: known, want: Finished},
		"BILL-28 a reply without is not proven":      {said: Finished, want: Unproven},
		"nor is one whose usage says nothing":        {said: Finished, usage: &llm.Usage{}, want: Unproven},
		"GAP-56 what is proven waits for no receipt": {said: Unproven, usage: known, want: Failed},
		"BILL-23 a failure may be proven":            {said: Failed, usage: known, want: Failed},
		"a call that was not made proves nothing":    {said: NotMade, want: NotMade},
		"what cannot be priced is left out": {said: Failed, usage: &llm.Usage{Input: llm.Count(-1)}, want: Unproven,
			refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Result{Outcome: tc.said, Usage: tc.usage}
			outcome, usage, err := r.Conclude(price)
			require.Equal(t, tc.want, outcome)
			require.Equal(t, tc.usage == known, usage.Known())
			if tc.refused {
				require.ErrorIs(t, err, ErrUsage)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	// Each attempt alone would be rounded down to 0: a request is rounded once (GAP-48).
	half := &llm.Usage{Output: llm.Count(1)}
	prices := []config.Price{{Output: 500_000}, {Output: 500_000}, {Output: 1}}
	s := Settlement{Results: []Result{
		{Outcome: Failed, Usage: half}, {Outcome: Finished, Usage: half}, {Outcome: NotMade},
	}}
	worst := []int64{-1, 1, 3}
	terms := func(i int) (config.Price, int64) { return prices[i], worst[i] }
	require.Equal(t, Charge{Microcents: 1}, s.Due(1, terms), "GAP-48")
	require.Equal(t, Charge{Over: 1}, s.Due(0, terms), "GAP-110")
	s.Surcharge = 7
	require.Equal(t, Charge{Microcents: 5, Over: 3}, s.Due(5, terms), "GAP-59")
	s.Results[2] = Result{Outcome: Finished}
	require.Equal(t, Charge{Microcents: 8, Pending: true}, s.Due(100, terms), "BILL-28")
	s.Free = true
	require.Zero(t, s.Due(100, terms), "BILL-25")
}

func TestBill(t *testing.T) {
	t.Parallel()
	var b Bill
	price := config.Price{Input: 1_000_000, Output: 2_000_000}
	require.NoError(t, b.Add(false, llm.Usage{Input: llm.Count(2), CacheRead: llm.Count(4), Output: llm.Count(3)},
		price, -1))
	require.ErrorIs(t, b.Add(true, llm.Usage{Output: llm.Count(-1)}, price, -1), ErrUsage)
	require.False(t, b.Pending, "it is as it was")
	require.EqualValues(t, 9, b.Tokens)
	sum, err := b.Microcents(1)
	require.NoError(t, err)
	require.EqualValues(t, 2+6+1, sum)
}
