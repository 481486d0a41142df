package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestBalanceAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start ledger.Balance
		add   int64
		want  ledger.Balance
	}{
		{"BILL-02 lands on a credit", ledger.Balance{Credits: 9, Accrued: 587_584}, -412_416, ledger.Balance{Credits: 8}},
		{"BILL-04 debits what is filled", ledger.Balance{Credits: 10, Accrued: 250_000}, -1_800_000,
			ledger.Balance{Credits: 8, Accrued: 50_000}},
		{"BILL-06 does not round up", ledger.Balance{Credits: 9, Accrued: 586_350}, -1_234,
			ledger.Balance{Credits: 9, Accrued: 587_584}},
		{"goes below zero", ledger.Balance{Credits: 1}, -3_400_000, ledger.Balance{Credits: -2, Accrued: 400_000}},
		{"a top-up leaves what is accrued", ledger.Balance{Credits: -2, Accrued: 400_000}, 2_000_000,
			ledger.Balance{Accrued: 400_000}},
		{"nothing", ledger.Balance{Credits: 3, Accrued: 1}, 0, ledger.Balance{Credits: 3, Accrued: 1}},
		{"holds stay", ledger.Balance{Credits: 3, Held: 7}, -1, ledger.Balance{Credits: 3, Held: 7, Accrued: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.start.Add(c.add)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	full := ledger.Balance{Credits: ledger.MaxBalance}
	for _, add := range []int64{1, -3 * ledger.MaxBalance * ledger.MicrocentsPerCredit, 1<<63 - 1, -1 << 63} {
		got, err := full.Add(add)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.Equal(t, full, got)
	}
}

func TestBalanceCarriesTheRemainder(t *testing.T) {
	t.Parallel()
	t.Run("BILL-05 ten charges of 150,000", func(t *testing.T) {
		t.Parallel()
		b := ledger.Balance{Credits: 10}
		for range 10 {
			var err error
			b, err = b.Add(-150_000)
			require.NoError(t, err)
		}
		require.Equal(t, ledger.Balance{Credits: 9, Accrued: 500_000}, b)
	})
}

func TestBalanceProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := ledger.Balance{
			Credits: rapid.Int64Range(-1_000, 1_000).Draw(t, "credits"),
			Accrued: rapid.Int64Range(0, 999_999).Draw(t, "accrued"),
			Held:    rapid.Int64Range(0, 1_000_000_000).Draw(t, "held"),
		}
		move := rapid.Int64Range(-1_000_000_000, 1_000_000_000).Draw(t, "move")
		after, err := b.Add(move)
		require.NoError(t, err)
		require.Equal(t, b.Net()+move, after.Net())
		require.True(t, after.Accrued >= 0 && after.Accrued < 1_000_000, "ACCT-11")

		hold := rapid.Int64Range(0, 1_000_000_000).Draw(t, "hold")
		if b.Covers(hold) {
			b.Held += hold
			require.GreaterOrEqual(t, b.Net(), b.Held, "GAP-50: what is held is owned")
			require.GreaterOrEqual(t, b.Available(), int64(0), "GAP-49")
		}
		require.False(t, b.Covers(-1))
	})
}

func TestBalanceAvailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b                   ledger.Balance
		reserved, available int64
	}{
		"nothing":                           {ledger.Balance{}, 0, 0},
		"GAP-49 a hold is rounded up":       {ledger.Balance{Credits: 10, Held: 1}, 1, 9},
		"GAP-49 a whole credit is not":      {ledger.Balance{Credits: 10, Held: 1_000_000}, 1, 9},
		"GAP-49 a little more than that is": {ledger.Balance{Credits: 10, Held: 1_000_001}, 2, 8},
		"GAP-50 whatever is accrued":        {ledger.Balance{Credits: 10, Accrued: 1}, 0, 9},
		"GAP-51 below zero":                 {ledger.Balance{Credits: -2, Accrued: 400_000}, 0, -3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []int64{c.reserved, c.available}, []int64{c.b.Reserved(), c.b.Available()})
		})
	}
}

func TestBalanceRefuse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b               ledger.Balance
		microcents, own int64
		want            error
	}{
		"all of it":                     {ledger.Balance{Credits: 3}, 3_000_000, 0, nil},
		"the last credit":               {ledger.Balance{Credits: 1}, 1_000_000, 0, nil},
		"a microcent more":              {ledger.Balance{Credits: 3}, 3_000_001, 0, ledger.ErrInsufficient},
		"nothing, of nothing":           {ledger.Balance{}, 0, 0, ledger.ErrNothingLeft},
		"nothing left but what accrued": {ledger.Balance{Credits: 1, Accrued: 1}, 0, 0, ledger.ErrNothingLeft},
		"held by others":                {ledger.Balance{Credits: 3, Held: 1_000_000}, 2_000_001, 0, ledger.ErrHeld},
		"all held by others":            {ledger.Balance{Credits: 3, Held: 3_000_000}, 0, 0, ledger.ErrHeld},
		"too much whoever holds": {ledger.Balance{Credits: 3, Held: 1_000_000}, 3_000_001, 0,
			ledger.ErrInsufficient},
		"a raise, where its own hold counts": {ledger.Balance{Credits: 3, Held: 1_000_000}, 2_000_001, 1_000_000,
			ledger.ErrInsufficient},
		"a negative amount": {ledger.Balance{Credits: 3}, -1, 0, ledger.ErrInsufficient},
	} {
		t.Run("GAP-49 "+name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.b.Refuse(c.microcents, c.own))
		})
	}
}

func TestBalanceAddAtItsEnds(t *testing.T) {
	t.Parallel()
	const limit = ledger.MaxBalance * ledger.MicrocentsPerCredit
	for _, sign := range []int64{1, -1} {
		b, err := ledger.Balance{}.Add(sign * limit)
		require.NoError(t, err)
		require.Equal(t, sign*limit, b.Net())
		_, err = b.Add(sign)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		b, err = b.Add(-sign * limit)
		require.NoError(t, err)
		require.Zero(t, b.Net())
		_, err = b.Add(sign * (limit + 1))
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
}
