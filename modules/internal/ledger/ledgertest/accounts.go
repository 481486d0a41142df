package ledgertest

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func testAccounts(t *testing.T, open Open) {
	f := newFixture(t, open, 7)
	ctx := soon(t)

	require.Regexp(t, `^acct_[0-9a-f]{24}$`, f.account.ID)
	require.Equal(t, ledger.Active, f.account.State)
	require.Equal(t, "starter", f.account.Plan)
	for _, name := range []string{f.account.ID, f.account.Name} {
		a, err := f.store.Account(ctx, name)
		require.NoError(t, err)
		require.Equal(t, ledger.Balance{Credits: 7}, a.Balance)
		require.Equal(t, f.account.ID, a.ID)
		require.True(t, f.account.Created.Equal(a.Created))
	}

	_, err := f.store.CreateAccount(ctx, f.account.Name, "")
	require.ErrorIs(t, err, ledger.ErrExists)
	for _, name := range []string{"", "acct_of_mine", "a\nb", "\xff", strings.Repeat("x", 300)} {
		_, err := f.store.CreateAccount(ctx, name, "")
		require.ErrorIs(t, err, ledger.ErrInvalid, "%q", name)
	}
	_, err = f.store.Account(ctx, "nobody")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = f.store.Balance(ctx, "acct_0")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	second, err := f.store.CreateAccount(ctx, "second", "")
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{}, second.Balance, "an account starts at 0 (GAP-60)")
	all, err := f.store.Accounts(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)

	for _, state := range []ledger.State{ledger.Suspended, ledger.Inactive, ledger.Active} {
		a, err := f.store.SetState(ctx, f.account.ID, state)
		require.NoError(t, err)
		require.Equal(t, state, a.State)
		p, err := f.store.Lookup(ctx, sha256.Sum256([]byte(f.account.ID)))
		require.NoError(t, err)
		require.Equal(t, state, p.Account.State, "the state acts on the next request (GAP-14)")
	}
	_, err = f.store.SetState(ctx, f.account.ID, "frozen")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	_, err = f.store.SetState(ctx, "acct_0", ledger.Active)
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

func testKeys(t *testing.T, open Open) {
	f := newFixture(t, open, 0)
	ctx := soon(t)
	hash := sha256.Sum256([]byte(f.account.ID))

	p, err := f.store.Lookup(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, f.account.ID, p.Account.ID)
	require.Equal(t, f.account.Name, p.Account.Name)
	require.Equal(t, f.key.ID, p.Key.ID)
	require.Equal(t, "laptop", p.Key.Name)
	require.Equal(t, "abcd", p.Key.Last4)
	require.False(t, p.Key.Revoked)

	_, err = f.store.Lookup(ctx, sha256.Sum256([]byte("another")))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = f.store.CreateKey(ctx, f.account.ID, "laptop", [32]byte{1}, "1234")
	require.ErrorIs(t, err, ledger.ErrExists, "a name is unique within its account")
	_, err = f.store.CreateKey(ctx, f.account.ID, "other", hash, "1234")
	require.ErrorIs(t, err, ledger.ErrExists, "a hash is unique")
	_, err = f.store.CreateKey(ctx, "acct_0", "laptop", [32]byte{1}, "1234")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = f.store.CreateKey(ctx, f.account.ID, "whole", [32]byte{1}, "fwk_secret")
	require.ErrorIs(t, err, ledger.ErrInvalid)

	revoked, err := f.store.RevokeKey(ctx, f.key.ID)
	require.NoError(t, err)
	require.True(t, revoked.Revoked)
	again, err := f.store.RevokeKey(ctx, f.key.ID)
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	p, err = f.store.Lookup(ctx, hash)
	require.NoError(t, err)
	require.True(t, p.Key.Revoked)
	_, err = f.store.RevokeKey(ctx, "key_0")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	first := f.account
	f.newAccount(0)
	all, err := f.store.Keys(ctx, "")
	require.NoError(t, err)
	require.Len(t, all, 2)
	mine, err := f.store.Keys(ctx, first.ID)
	require.NoError(t, err)
	require.Equal(t, []ledger.Key{revoked}, mine)
	_, err = f.store.Keys(ctx, "acct_0")
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

func testPrices(t *testing.T, open Open) {
	f := newFixture(t, open, 0)
	ctx := soon(t)
	a := config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}
	b := config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 5}
	for i, step := range []struct {
		price config.Price
		want  int64
	}{{a, 1}, {a, 1}, {b, 2}, {b, 2}, {a, 3}} {
		v, err := f.store.PriceVersion(ctx, "route", step.price)
		require.NoError(t, err)
		require.Equal(t, step.want, v, "step %d", i)
	}
	v, err := f.store.PriceVersion(ctx, "another", b)
	require.NoError(t, err)
	require.Equal(t, int64(1), v)
	_, err = f.store.PriceVersion(ctx, "route", config.Price{Output: -1})
	require.ErrorIs(t, err, ledger.ErrInvalid)
}

func testCredits(t *testing.T, open Open) {
	f := newFixture(t, open, 0)
	ctx := soon(t)
	first := f.account
	paid := ledger.Credit{Account: first.ID, Credits: 5, Reference: "invoice 1", Reason: "paid"}

	b, applied, err := f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, ledger.Balance{Credits: 5}, b)
	paid.Credits = 50
	b, applied, err = f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.False(t, applied, "a reference counts once, whatever comes with it")
	require.Equal(t, ledger.Balance{Credits: 5}, b)
	f.topUp(1)
	require.Equal(t, ledger.Balance{Credits: 7}, f.topUp(1), "top-ups without a reference add up")

	f.newAccount(0)
	paid.Account, paid.Credits = f.account.ID, 3
	_, applied, err = f.store.AddCredit(ctx, paid)
	require.NoError(t, err)
	require.True(t, applied, "a reference belongs to its account")

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
}
