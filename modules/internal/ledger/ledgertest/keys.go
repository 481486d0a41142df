package ledgertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// testPaged: whatever the list, what is behind any of it is the rest of it.
func testPaged(t *testing.T, open Open) {
	f := newFixture(t, open, 0, ledger.Terms{})
	ctx := soon(t)
	first := f.account
	for range 4 {
		f.newAccount(1)
	}
	second := f.account
	for i := range 5 { // of two accounts by turns
		for _, a := range []ledger.Account{first, second} {
			name := fmt.Sprintf("of-%d", i)
			_, err := f.store.CreateKey(ctx, a.ID, name, hashOf(a.ID+name), "1234", ledger.KeyChange{})
			require.NoError(t, err)
		}
	}
	accounts := f.accounts()
	require.Len(t, accounts, 5)
	for i, a := range accounts {
		behind := all(f, func(ctx context.Context, each func(ledger.Account) error) error {
			return f.store.Accounts(ctx, a.ID, each)
		})
		require.Equal(t, accounts[i+1:], append([]ledger.Account{}, behind...))
	}
	require.ErrorIs(t, f.store.Accounts(ctx, "acct_0", func(ledger.Account) error { return nil }), ledger.ErrNotFound)
	for account, n := range map[string]int{first.ID: 6, second.ID: 6, "": 15} {
		keys := f.keys(account)
		require.Len(t, keys, n)
		newest := f.keysOf(ledger.KeyQuery{Account: account, Newest: true})
		for i, k := range keys {
			require.Equal(t, k, newest[n-1-i])
			behind := f.keysOf(ledger.KeyQuery{Account: account, After: k.ID})
			require.Equal(t, keys[i+1:], append([]ledger.Key{}, behind...))
			before := f.keysOf(ledger.KeyQuery{Account: account, After: k.ID, Newest: true})
			require.Equal(t, newest[n-i:], append([]ledger.Key{}, before...))
			require.Equal(t, []ledger.Key{k}, f.keysOf(ledger.KeyQuery{Account: account, Named: k.ID}))
			if account != "" {
				require.Equal(t, []ledger.Key{k}, f.keysOf(ledger.KeyQuery{Account: account, Named: k.Name}))
			} else {
				require.Empty(t, f.keysOf(ledger.KeyQuery{Named: k.Name}), "a name says nothing without an account")
			}
		}
	}
	for _, newest := range []bool{false, true} {
		err := f.store.Keys(ctx, ledger.KeyQuery{After: "key_0", Newest: newest}, func(ledger.Key) error { return nil })
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}
}

func testKeys(t *testing.T, open Open) {
	f := newFixture(t, open, 0, ledger.Terms{})
	ctx := soon(t)
	hash := hashOf(f.account.ID + "laptop")

	require.Regexp(t, `^key_[0-9a-f]{24}$`, f.key.ID)
	p, err := f.store.Lookup(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, f.account.ID, p.Account.ID)
	require.Equal(t, f.account.Name, p.Account.Name)
	require.Equal(t, "starter", p.Account.Plan)
	require.Equal(t, f.key.ID, p.Key.ID)
	require.Equal(t, "laptop", p.Key.Name)
	require.Equal(t, "abcd", p.Key.Last4)
	require.False(t, p.Key.Revoked)
	require.True(t, p.Key.Expires.IsZero())
	require.True(t, p.Key.Usable(f.clock.now()))

	_, err = f.store.Lookup(ctx, hashOf("another"))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	var none ledger.KeyChange
	_, err = f.store.CreateKey(ctx, f.account.ID, "laptop", [32]byte{1}, "1234", none)
	require.ErrorIs(t, err, ledger.ErrExists, "a name is unique within its account")
	_, err = f.store.CreateKey(ctx, f.account.ID, "other", hash, "1234", none)
	require.ErrorIs(t, err, ledger.ErrExists, "a hash is unique")
	_, err = f.store.CreateKey(ctx, "acct_0", "laptop", [32]byte{1}, "1234", none)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = f.store.CreateKey(ctx, f.account.ID, "whole", [32]byte{1}, "fwk_secret", none)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	negative := int64(-1)
	_, err = f.store.CreateKey(ctx, f.account.ID, "negative", [32]byte{1}, "1234", ledger.KeyChange{SpendCap: &negative})
	require.ErrorIs(t, err, ledger.ErrInvalid)

	t.Run("GAP-14 a revoked key is found, and revoked for good", func(t *testing.T) {
		running := f.newHold("unit", 3)
		f.topUp(1)
		f.admit(running)
		revoked, err := f.store.RevokeKey(ctx, f.key.ID)
		require.NoError(t, err)
		require.True(t, revoked.Revoked)
		again, err := f.store.RevokeKey(ctx, f.key.ID)
		require.NoError(t, err)
		require.Equal(t, revoked, again)
		p, err := f.store.Lookup(ctx, hash)
		require.NoError(t, err)
		require.True(t, p.Key.Revoked)
		require.False(t, p.Key.Usable(f.clock.now()))
		require.EqualValues(t, 3, f.settle(ok(running, usage(0, 3))).Microcents, "what runs finishes (GAP-14)")
		_, err = f.store.RevokeKey(ctx, "key_0")
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})

	t.Run("keys change", func(t *testing.T) {
		expires, spendCap, name := f.clock.now().Add(time.Hour).UTC(), int64(500), "renamed"
		k := f.newKey("server", ledger.KeyChange{Expires: &expires, SpendCap: &spendCap})
		require.True(t, k.Expires.Equal(expires))
		require.EqualValues(t, 500, k.SpendCap)
		require.True(t, k.Usable(expires.Add(-1)))
		require.False(t, k.Usable(expires))

		k, err := f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Name: &name})
		require.NoError(t, err)
		require.Equal(t, "renamed", k.Name)
		require.True(t, k.Expires.Equal(expires), "what is nil stays")
		require.EqualValues(t, 500, k.SpendCap)
		var never time.Time
		var uncapped int64
		k, err = f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Expires: &never, SpendCap: &uncapped})
		require.NoError(t, err)
		require.True(t, k.Expires.IsZero())
		require.Zero(t, k.SpendCap)
		p, err := f.store.Lookup(ctx, hashOf(f.account.ID+"server"))
		require.NoError(t, err)
		require.Equal(t, "renamed", p.Key.Name)
		require.True(t, p.Key.Expires.IsZero())

		laptop, empty := "laptop", ""
		_, err = f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Name: &laptop})
		require.ErrorIs(t, err, ledger.ErrExists)
		_, err = f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Name: &empty})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{SpendCap: &negative})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.ChangeKey(ctx, "key_0", ledger.KeyChange{SpendCap: &uncapped})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		require.Equal(t, k.Name, f.keyNow(k.ID).Name)
	})

	t.Run("a key expires at a time that the ledger can keep, or never", func(t *testing.T) {
		last := ledger.MaxExpiry.Add(-1)
		k := f.newKey("lasting", ledger.KeyChange{Expires: &last})
		require.True(t, f.keyNow(k.ID).Expires.Equal(last))
		for _, at := range []time.Time{ledger.MaxExpiry, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(1026, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, err := f.store.CreateKey(ctx, f.account.ID, "endless", [32]byte{1}, "1234", ledger.KeyChange{Expires: &at})
			require.ErrorIs(t, err, ledger.ErrInvalid, "%s", at)
			_, err = f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Expires: &at})
			require.ErrorIs(t, err, ledger.ErrInvalid, "%s", at)
		}
		var never time.Time
		_, err := f.store.ChangeKey(ctx, k.ID, ledger.KeyChange{Expires: &never})
		require.NoError(t, err)
		_, _, err = f.store.RotateKey(ctx, k.ID, [32]byte{1}, "1234", 250*365*24*time.Hour)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.True(t, f.keyNow(k.ID).Expires.IsZero())
	})

	t.Run("keys are listed with their account's name", func(t *testing.T) {
		first := f.account
		f.newAccount(0)
		every := f.keys("")
		require.Len(t, every, 4)
		mine := f.keys(first.ID)
		require.Equal(t, every[:3], mine)
		for _, k := range mine {
			require.Equal(t, first.ID, k.Account)
			require.Equal(t, first.Name, k.AccountName)
		}
		require.Equal(t, f.account.Name, every[3].AccountName)
		err := f.store.Keys(ctx, ledger.KeyQuery{Account: "acct_0"}, func(ledger.Key) error { return nil })
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})
}

func testRotation(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)
	expires, spendCap := f.clock.now().AddDate(0, 0, 30).UTC(), int64(1_000)
	first := f.newKey("server", ledger.KeyChange{Expires: &expires, SpendCap: &spendCap})
	spend := func(k ledger.Key, microcents int64) error {
		h := f.newHold("unit", microcents)
		h.Key = k.ID
		if _, err := f.store.Hold(ctx, h); err != nil {
			return err
		}
		require.Equal(t, microcents, f.settle(ok(h, usage(0, microcents))).Microcents)
		return nil
	}
	require.NoError(t, spend(first, 300))

	second, old, err := f.store.RotateKey(ctx, first.ID, hashOf("second"), "wxyz", time.Hour)
	require.NoError(t, err)
	require.Equal(t, "server", second.Name)
	require.Equal(t, "server~1", old.Name)
	require.Equal(t, first.ID, old.ID)
	require.NotEqual(t, first.ID, second.ID)
	require.True(t, second.Expires.Equal(expires), "the fresh key takes the expiry")
	require.True(t, old.Expires.Equal(f.clock.now().Add(time.Hour)), "the old key goes on for the overlap")
	require.Equal(t, "wxyz", second.Last4)
	require.Equal(t, "abcd", old.Last4)
	for hash, id := range map[[32]byte]string{hashOf("second"): second.ID, hashOf(f.account.ID + "server"): first.ID} {
		p, err := f.store.Lookup(ctx, hash)
		require.NoError(t, err)
		require.Equal(t, id, p.Key.ID)
		require.True(t, p.Key.Usable(f.clock.now()), "both are open during the overlap")
	}

	// The line of keys has one cap and one sum, whichever of them spends.
	require.NoError(t, spend(second, 400))
	require.NoError(t, spend(old, 200))
	for _, id := range []string{first.ID, second.ID} {
		require.EqualValues(t, 900, f.keyNow(id).Spent)
		require.EqualValues(t, 1_000, f.keyNow(id).SpendCap)
	}
	require.ErrorIs(t, spend(old, 101), ledger.ErrKeySpendCap)
	require.ErrorIs(t, spend(second, 101), ledger.ErrKeySpendCap)
	require.NoError(t, spend(second, 100))
	higher := int64(2_000)
	_, err = f.store.ChangeKey(ctx, second.ID, ledger.KeyChange{SpendCap: &higher})
	require.NoError(t, err)
	require.EqualValues(t, 2_000, f.keyNow(first.ID).SpendCap, "a cap is the line's")
	require.NoError(t, spend(old, 500))
	require.EqualValues(t, 1_500, f.keyNow(second.ID).Spent)

	third, old2, err := f.store.RotateKey(ctx, second.ID, hashOf("third"), "", 0)
	require.NoError(t, err)
	require.Equal(t, "server", third.Name)
	require.Equal(t, "server~2", old2.Name)
	require.False(t, f.keyNow(second.ID).Usable(f.clock.now()), "no overlap ends the old key now")
	require.True(t, f.keyNow(third.ID).Usable(f.clock.now()))
	require.EqualValues(t, 1_500, f.keyNow(third.ID).Spent)
	require.ErrorIs(t, spend(third, 501), ledger.ErrKeySpendCap)

	_, _, err = f.store.RotateKey(ctx, second.ID, hashOf("fourth"), "", time.Hour)
	require.ErrorIs(t, err, ledger.ErrInvalid, "a key that has ended is not rotated")
	_, err = f.store.RevokeKey(ctx, third.ID)
	require.NoError(t, err)
	_, _, err = f.store.RotateKey(ctx, third.ID, hashOf("fourth"), "", time.Hour)
	require.ErrorIs(t, err, ledger.ErrInvalid, "nor is a revoked one")
	_, _, err = f.store.RotateKey(ctx, "key_0", hashOf("fourth"), "", time.Hour)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, _, err = f.store.RotateKey(ctx, f.key.ID, hashOf("third"), "", time.Hour)
	require.ErrorIs(t, err, ledger.ErrExists, "a hash is unique")
	_, _, err = f.store.RotateKey(ctx, f.key.ID, hashOf("fourth"), "", -time.Hour)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.Equal(t, "laptop", f.keyNow(f.key.ID).Name, "a refusal renames nothing")

	t.Run("an overlap does not prolong a key", func(t *testing.T) {
		soon := f.clock.now().Add(time.Minute).UTC()
		short := f.newKey("short", ledger.KeyChange{Expires: &soon})
		_, old, err := f.store.RotateKey(ctx, short.ID, hashOf("long"), "", time.Hour)
		require.NoError(t, err)
		require.True(t, old.Expires.Equal(soon), "%s", old.Expires)
	})
	t.Run("the old key ends by the clock", func(t *testing.T) {
		require.True(t, f.keyNow(first.ID).Usable(f.clock.now()))
		f.clock.add(time.Hour)
		require.False(t, f.keyNow(first.ID).Usable(f.clock.now()))
	})
}
