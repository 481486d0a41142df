package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// The hash of an act must never change: every older audit trail would fail its verification.
func TestActHash(t *testing.T) {
	t.Parallel()
	act := ledger.Act{
		N: 7, Created: time.Date(2026, 11, 20, 10, 30, 0, 123_456_789, time.UTC), Actor: "mary", Action: "account.set_state",
		Account: "acct_1", AccountName: "main", Subject: "acct_1", Before: `{"state":"active"}`,
		After: `{"state":"suspended"}`,
		Prev:  ledger.Digest{1, 2, 3}, Format: 1,
	}
	require.Equal(t, "ba9ecbd5e1bdfe0c636fdee43d7aea18e6e2566c132c09556d5a22777ef6fc7c", act.Hash().String())
	for name, change := range map[string]func(*ledger.Act){
		"number":  func(a *ledger.Act) { a.N++ },
		"time":    func(a *ledger.Act) { a.Created = a.Created.Add(1) },
		"actor":   func(a *ledger.Act) { a.Actor = "" },
		"action":  func(a *ledger.Act) { a.Action += "d" },
		"account": func(a *ledger.Act) { a.Account = "acct_2" },
		"subject": func(a *ledger.Act) { a.Subject = "" },
		"before":  func(a *ledger.Act) { a.Before = "" },
		"after":   func(a *ledger.Act) { a.After, a.Before = a.Before, a.After },
		"link":    func(a *ledger.Act) { a.Prev[31]++ },
	} {
		other := act
		change(&other)
		require.NotEqual(t, act.Hash(), other.Hash(), name)
	}
	now := act
	now.Seq, now.Format = 5, ledger.ActFormat
	require.Equal(t, "671da88ecd96e937d67dfb1225300f7bbba50f333e19d4c3b5ee93edb278316b", now.Hash().String(),
		"nor this one")
	one := now
	one.Format, one.N = 1, one.Seq
	require.NotEqual(t, now.Hash(), one.Hash())
	other := now
	other.N++
	require.Equal(t, now.Hash(), other.Hash(), "no number across accounts")
	other.Seq++
	require.NotEqual(t, now.Hash(), other.Hash())
	renamed := act
	renamed.AccountName = "other"
	require.Equal(t, act.Hash(), renamed.Hash(), "the account's name is today's, and no part of what was done")
}
