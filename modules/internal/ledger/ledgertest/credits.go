package ledgertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testTopUps(t *testing.T, open Open) {
	f := newFixture(t, open, 0, ledger.Terms{})
	ctx := soon(t)
	first := f.account
	paid := ledger.Credit{Account: first.ID, Credits: 5, Reference: "invoice 1", Reason: "paid"}

	b, applied, err := f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, ledger.Balance{Credits: 5}, b)
	e := f.lastEntry()
	require.Equal(t, ledger.TopUp, e.Kind)
	require.Equal(t, ledger.Payments, e.Book)
	require.EqualValues(t, 5_000_000, e.Microcents)
	require.Equal(t, "invoice 1", e.Reference)
	require.Equal(t, "paid", e.Reason)

	b, applied, err = f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.False(t, applied, "a reference counts once")
	require.Equal(t, ledger.Balance{Credits: 5}, b)
	paid.Credits = 50
	_, applied, err = f.store.AddCredit(ctx, paid)
	require.ErrorIs(t, err, ledger.ErrReference)
	require.ErrorContains(t, err, `"invoice 1" is that of a movement (top_up) of 5.000000 credits on 2026-11-20, and not `+
		`of a movement (top_up) of 50.000000 credits`)
	require.False(t, applied)
	require.Equal(t, ledger.Balance{Credits: 5}, f.balance())
	f.topUp(1)
	require.Equal(t, ledger.Balance{Credits: 7}, f.topUp(1), "top-ups without a reference add up")

	f.newAccount(0)
	paid.Account, paid.Credits = f.account.ID, 3
	_, applied, err = f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.True(t, applied, "a reference belongs to its account")
	f.restart()
	_, applied, err = f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.False(t, applied, "and is known for ever")

	for _, c := range []ledger.Credit{
		{Account: first.ID},
		{Account: first.ID, Credits: -1},
		{Account: first.ID, Credits: ledger.MaxTopUp + 1},
		{Account: first.ID, Credits: 1, Reference: strings.Repeat("x", 300)},
		{Account: first.ID, Credits: 1, Reason: "two\nlines"},
	} {
		_, _, err := f.store.AddCredit(ctx, c)
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
	_, _, err = f.store.AddCredit(ctx, ledger.Credit{Account: "acct_0", Credits: 1})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.Equal(t, ledger.Balance{Credits: 3}, f.balance())

	t.Run("a balance stays in its range", func(t *testing.T) {
		const full = ledger.MaxBalance * ledger.MicrocentsPerCredit
		_, _, err := f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Microcents: full - 3_000_000,
			Reason: "the limit"})
		require.NoError(t, err)
		require.EqualValues(t, int64(ledger.MaxBalance), f.balance().Credits)
		_, _, err = f.store.AddCredit(ctx, ledger.Credit{Account: f.account.ID, Credits: 1})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.EqualValues(t, int64(ledger.MaxBalance), f.balance().Credits)
	})
}

func testCorrections(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)
	correct := func(c ledger.Correction) (ledger.Balance, bool) {
		b, applied, err := f.store.Correct(ctx, c)
		require.NoError(t, err)
		require.Equal(t, f.balance(), b)
		return b, applied
	}

	t.Run("an adjustment moves money up and down", func(t *testing.T) {
		b, applied := correct(ledger.Correction{Account: f.account.ID, Microcents: -10_000_001, Reason: "typed in twice"})
		require.True(t, applied)
		require.Equal(t, ledger.Balance{Credits: 0, Accrued: 1}, b)
		e := f.lastEntry()
		require.Equal(t, ledger.Adjustment, e.Kind)
		require.Equal(t, ledger.Adjustments, e.Book)
		require.EqualValues(t, -10_000_001, e.Microcents)
		require.Equal(t, "typed in twice", e.Reason)
		b, _ = correct(ledger.Correction{Account: f.account.ID, Microcents: 10_000_001, Reason: "it was not"})
		require.Equal(t, ledger.Balance{Credits: 10}, b)
		require.Zero(t, f.period().Spent, "a correction is nothing that was spent")
	})
	t.Run("a reference is seen once, of whatever kind its entry is", func(t *testing.T) {
		_, applied := correct(ledger.Correction{Account: f.account.ID, Microcents: 5, Reference: "case 1", Reason: "r"})
		require.True(t, applied)
		_, applied = correct(ledger.Correction{Account: f.account.ID, Microcents: 5, Reference: "case 1", Reason: "other"})
		require.False(t, applied)
		_, applied, err := f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Microcents: 7,
			Reference: "case 1", Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrReference)
		require.False(t, applied)
		_, applied, err = f.store.AddCredit(ctx, ledger.Credit{Account: f.account.ID, Credits: 1, Reference: "case 1"})
		require.ErrorIs(t, err, ledger.ErrReference)
		require.False(t, applied)
		correct(ledger.Correction{Account: f.account.ID, Microcents: -5, Reason: "undo"})
	})
	t.Run("a refund is at most what is left of the charge", func(t *testing.T) {
		h := f.hold("unit", 1_000)
		f.settle(ok(h, usage(0, 1_000)))
		spent := f.period().Spent
		refund := func(microcents int64, reference string) (bool, error) {
			_, applied, err := f.store.Correct(ctx, ledger.Correction{Request: h.Request, Microcents: microcents,
				Reference: reference, Reason: "sorry"})
			return applied, err
		}
		before := f.balance().Net()
		for _, tooMuch := range []int64{1_001, -1} {
			_, err := refund(tooMuch, "")
			require.ErrorIs(t, err, ledger.ErrInvalid)
		}
		applied, err := refund(300, "ticket 7")
		require.NoError(t, err)
		require.True(t, applied)
		e := f.lastEntry()
		require.Equal(t, ledger.Refund, e.Kind)
		require.Equal(t, ledger.Revenue, e.Book)
		require.Equal(t, h.Request, e.Request)
		require.Equal(t, "ticket 7", e.Reference)
		applied, err = refund(300, "ticket 7")
		require.NoError(t, err)
		require.False(t, applied)
		_, err = refund(301, "ticket 7")
		require.ErrorIs(t, err, ledger.ErrReference)
		_, err = refund(0, "ticket 7")
		require.ErrorIs(t, err, ledger.ErrReference, "it left something then, and is not a refund of all")
		require.ErrorContains(t, err, "0.000300 credits")
		require.ErrorContains(t, err, "not of a refund of all that is left of request "+h.Request)
		_, err = refund(701, "")
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.EqualValues(t, 300, f.record(h.Request).Refunded)
		applied, err = refund(0, "")
		require.NoError(t, err)
		require.True(t, applied)
		require.EqualValues(t, 700, f.lastEntry().Microcents, "0 is all that is left")
		require.Equal(t, before+1_000, f.balance().Net())
		require.EqualValues(t, 1_000, f.record(h.Request).Refunded)
		for _, more := range []int64{0, 1} {
			_, err = refund(more, "")
			require.ErrorIs(t, err, ledger.ErrInvalid, "nothing is left")
		}
		require.Equal(t, spent, f.period().Spent, "a refund gives money back, not room under a cap")
		require.EqualValues(t, 1_000, f.record(h.Request).Microcents)
		require.EqualValues(t, 1_000, f.settle(ok(h, usage(0, 1_000))).Microcents, "the charge stays what it was")
	})
	t.Run("a refund names its account or leaves it out", func(t *testing.T) {
		h := f.hold("unit", 10)
		f.settle(ok(h, usage(0, 10)))
		_, applied := correct(ledger.Correction{Account: f.account.ID, Request: h.Request, Microcents: 4, Reason: "r"})
		require.True(t, applied)
		mine, key := f.account, f.key
		f.newAccount(1)
		_, _, err := f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Request: h.Request, Microcents: 1,
			Reason: "r"})
		require.Error(t, err, "another account's request")
		require.Equal(t, ledger.Balance{Credits: 1}, f.balance())
		f.account, f.key = mine, key
	})
	t.Run("a receipt that comes after a refund can be refunded too", func(t *testing.T) {
		h := f.unproven("unit", func(s *ledger.Settlement) { s.Surcharge = 100 })
		_, applied := correct(ledger.Correction{Request: h.Request, Reason: "r"})
		require.True(t, applied)
		f.receipt(h.Attempt.ID, usage(0, 20))
		_, _, err := f.store.Correct(ctx, ledger.Correction{Request: h.Request, Microcents: 21, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, applied = correct(ledger.Correction{Request: h.Request, Microcents: 20, Reason: "r"})
		require.True(t, applied)
		require.EqualValues(t, 120, f.record(h.Request).Refunded)
	})
	t.Run("what makes no sense is refused", func(t *testing.T) {
		running := f.hold("unit", 10)
		before := f.balance()
		entries := len(f.entries(ledger.Query{}))
		for name, c := range map[string]ledger.Correction{
			"no reason":              {Account: f.account.ID, Microcents: 1},
			"an adjustment of zero":  {Account: f.account.ID, Reason: "r"},
			"more than any balance":  {Account: f.account.ID, Microcents: 1 << 62, Reason: "r"},
			"less than any balance":  {Account: f.account.ID, Microcents: -1 << 62, Reason: "r"},
			"a reason of two lines":  {Account: f.account.ID, Microcents: 1, Reason: "a\nb"},
			"an endless reference":   {Account: f.account.ID, Microcents: 1, Reason: "r", Reference: strings.Repeat("x", 300)},
			"a request that runs":    {Request: running.Request, Microcents: 1, Reason: "r"},
			"a request that is none": {Request: "request-0", Microcents: 1, Reason: "r"},
			"no account":             {Microcents: 1, Reason: "r"},
			"an unknown account":     {Account: "acct_0", Microcents: 1, Reason: "r"},
		} {
			_, _, err := f.store.Correct(ctx, c)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, ledger.ErrUnavailable, name)
			require.Equal(t, before, f.balance(), name)
		}
		require.Len(t, f.entries(ledger.Query{}), entries)
	})
}
