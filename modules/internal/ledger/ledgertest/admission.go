package ledgertest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testAdmission(t *testing.T, open Open) {
	for _, row := range []struct {
		credits, reserved, accrued, available, hold int64
		refused                                     error
	}{
		{6, 0, 1, 5, 5_000_000, nil},
		{5, 0, 0, 5, 5_000_000, nil},
		{5, 0, 1, 4, 5_000_000, ledger.ErrInsufficient},
		{9, 4, 0, 5, 5_000_000, nil},
		{9, 4, 1, 4, 5_000_000, ledger.ErrHeld},
		{9, 4, 1, 4, 8_000_000, ledger.ErrHeld},
		{9, 4, 1, 4, 8_000_001, ledger.ErrInsufficient},
		{2, 1, 1, 0, 0, ledger.ErrHeld},
		{1, 0, 1, 0, 1, ledger.ErrNothingLeft},
		{1, 0, 1, 0, 0, ledger.ErrNothingLeft},
		{1, 0, 0, 1, 1_000_000, nil},
		{0, 0, 0, 0, 1, ledger.ErrNothingLeft},
		{0, 0, 0, 0, 0, ledger.ErrNothingLeft},
		{5, 0, 0, 5, 5_000_001, ledger.ErrInsufficient},
	} {
		name := fmt.Sprintf("E03 BILL-12 BILL-13 BILL-14 balance %d reserved %d accrued %d hold %d",
			row.credits, row.reserved, row.accrued, row.hold)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, row.credits, ledger.Terms{})
			if row.accrued > 0 {
				f.charge(row.accrued)
			}
			if row.reserved > 0 {
				f.hold("unit", row.reserved*ledger.MicrocentsPerCredit)
			}
			b := f.balance()
			require.Equal(t, row.credits, b.Credits)
			require.Equal(t, row.reserved, b.Reserved())
			require.Equal(t, row.accrued, b.Accrued)
			require.Equal(t, row.available, b.Available())
			if row.refused != nil {
				f.refused(row.hold, row.refused)
				return
			}
			require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, row.hold, 1<<40))
			require.Equal(t, b, f.balance(), "Check holds nothing")
			f.hold("unit", row.hold)
			require.Equal(t, b.Held+row.hold, f.balance().Held)
		})
	}

	t.Run("GAP-49 a hold grows for the next attempt", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 5, ledger.Terms{})
		ctx := soon(t)
		h := f.hold("unit", 1_500_000)
		begin := func(seq, total int64) error {
			return f.store.Begin(ctx, ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, seq, "unit"),
				Microcents: total})
		}
		require.NoError(t, begin(2, 1_000_000))
		require.EqualValues(t, 1_500_000, f.balance().Held, "a smaller total changes no hold")
		other := f.hold("unit", 1_000_000)
		refused, is := errors.AsType[*ledger.Refusal](begin(3, 4_500_000))
		require.True(t, is)
		require.ErrorIs(t, refused, ledger.ErrHeld)
		require.Equal(t, ledger.Sum{Limit: 5_000_000, Held: 2_500_000}, refused.Sum)
		require.EqualValues(t, 2_000_000, refused.Left, "2.5 credits, in whole ones")
		f.settle(ok(other, usage(0, 0)))
		require.NoError(t, begin(3, 4_500_000))
		require.EqualValues(t, 4_500_000, f.balance().Held)
		require.ErrorIs(t, begin(4, 4_500_001), ledger.ErrInsufficient)
		require.NotErrorIs(t, begin(4, 4_500_001), ledger.ErrHeld, "nobody but itself holds anything")
		require.NotErrorIs(t, begin(4, 4_500_001), ledger.ErrNothingLeft)
		require.EqualValues(t, 4_500_000, f.balance().Held)
		require.Len(t, f.record(h.Request).Attempts, 3, "what was refused is no attempt")
		require.NoError(t, begin(4, 4_500_000), "what is held already needs nothing")
		require.EqualValues(t, 4_500_000, f.record(h.Request).Held)
	})

	t.Run("GAP-51 available may fall below zero while requests run", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 2, ledger.Terms{})
		first := f.hold("unit", 500_000)
		f.hold("unit", 500_000)
		f.hold("unit", 1_000_000)
		c := f.settle(ok(first, usage(0, 500_000)))
		require.EqualValues(t, -1, c.Balance.Available())
		require.Zero(t, c.Balance.Net()-c.Balance.Held)
	})

	t.Run("GAP-49 a hold with headroom is refused where one so many times as large is", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 5, ledger.Terms{SpendCap: 4_000_000, TokenBudget: 300})
		place := func(microcents, tokens, headroom int64) error {
			h := f.newHold("unit", microcents)
			h.Tokens, h.Headroom = tokens, headroom
			_, err := f.store.Hold(soon(t), h)
			if err == nil {
				f.running[h.Request] = h
			}
			return err
		}
		require.ErrorIs(t, place(2_000_001, 1, 2), ledger.ErrSpendCap)
		require.ErrorIs(t, place(1_000_000, 151, 2), ledger.ErrTokenBudget)
		require.ErrorIs(t, place(60_000, 1, 100), ledger.ErrInsufficient)
		require.ErrorIs(t, place(math.MaxInt64/2, 1, 100), ledger.ErrInsufficient)
		require.ErrorIs(t, place(1, 1, -1), ledger.ErrInvalid)
		require.Zero(t, f.balance().Held, "what is refused holds nothing")
		require.NoError(t, place(2_000_000, 150, 2))
		require.EqualValues(t, 2_000_000, f.balance().Held, "it holds no more than it needs")
		require.NoError(t, place(1_000_000, 1, 1), "no headroom")
		require.NoError(t, place(1_000_000, 1, 0))
		cap := int64(4_000_050)
		_, err := f.store.ChangeKey(soon(t), f.key.ID, ledger.KeyChange{SpendCap: &cap})
		require.NoError(t, err)
		require.ErrorIs(t, place(1, 1, 51), ledger.ErrKeySpendCap)
		require.NoError(t, place(1, 1, 50))
	})

	t.Run("GAP-137 a refusal says what would be covered", func(t *testing.T) {
		t.Parallel()
		none := int64(math.MaxInt64)
		for name, row := range map[string]struct {
			terms  ledger.Terms
			keyCap int64
			hold   int64
			tokens int64
			want   ledger.Refusal
		}{
			"of the credits": {ledger.Terms{}, 0, 4_000_001, 1,
				ledger.Refusal{Why: ledger.ErrHeld, Left: 4_000_000, Room: ledger.Room{Microcents: 4_000_000, Tokens: none},
					Sum: ledger.Sum{Limit: 5_000_000, Held: 1_000_000}}},
			"of the credits, by a cap": {ledger.Terms{SpendCap: 3_000_000, TokenBudget: 50}, 0, 9_000_000, 1,
				ledger.Refusal{Why: ledger.ErrInsufficient, Left: 4_000_000,
					Room: ledger.Room{Microcents: 3_000_000, Tokens: 50},
					Sum:  ledger.Sum{Limit: 5_000_000, Held: 1_000_000}}},
			"of the spend cap": {ledger.Terms{SpendCap: 3_000_000}, 0, 3_000_001, 1,
				ledger.Refusal{Why: ledger.ErrSpendCap, Left: 3_000_000,
					Room: ledger.Room{Microcents: 3_000_000, Tokens: none}, Sum: ledger.Sum{Limit: 3_000_000}}},
			"of the budget": {ledger.Terms{TokenBudget: 50}, 0, 1, 51,
				ledger.Refusal{Why: ledger.ErrTokenBudget, Left: 50, Room: ledger.Room{Microcents: 4_000_000, Tokens: 50},
					Sum: ledger.Sum{Limit: 50}}},
			"of the key's cap, where others hold of it": {ledger.Terms{}, 1_500_000, 1_000_000, 1,
				ledger.Refusal{Why: ledger.ErrKeyHeld, Left: 500_000, Room: ledger.Room{Microcents: 500_000, Tokens: none},
					Sum: ledger.Sum{Limit: 1_500_000, Held: 1_000_000}}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, open, 5, row.terms)
				_, err := f.store.ChangeKey(soon(t), f.key.ID, ledger.KeyChange{SpendCap: &row.keyCap})
				require.NoError(t, err)
				f.hold("unit", 1_000_000)
				h := f.newHold("unit", row.hold)
				h.Tokens = row.tokens
				_, err = f.store.Hold(soon(t), h)
				got, ok := errors.AsType[*ledger.Refusal](err)
				require.True(t, ok, "%v", err)
				require.ErrorIs(t, got, row.want.Why)
				require.Equal(t, row.want.Left, got.Left)
				require.Equal(t, row.want.Room, got.Room)
				require.Equal(t, row.want.Sum, got.Sum)
				h.Microcents, h.Tokens = got.Room.Microcents, min(h.Tokens, got.Room.Tokens)
				f.admit(h)
			})
		}
	})

	t.Run("Check refuses what it does not know", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 2, ledger.Terms{})
		ctx := soon(t)
		require.ErrorIs(t, f.store.Check(ctx, "acct_0", f.key.ID, 0, 0), ledger.ErrNotFound)
		require.ErrorIs(t, f.store.Check(ctx, f.account.ID, "key_0", 0, 0), ledger.ErrNotFound)
		require.ErrorIs(t, f.store.Check(ctx, f.account.ID, f.key.ID, -1, 0), ledger.ErrInvalid)
		require.ErrorIs(t, f.store.Check(ctx, f.account.ID, f.key.ID, 0, -1), ledger.ErrInvalid)
	})
}
