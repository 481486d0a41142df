package ledger_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestEntryHash(t *testing.T) {
	t.Parallel()
	e := ledger.Entry{
		Account: "acct_1", Seq: 2, Kind: ledger.TopUp, Request: "r", Reference: "ref", Reason: "why",
		Microcents: 3, Credits: 4, Accrued: 5, Created: time.Unix(6, 7), Prev: [32]byte{8},
	}
	first := e.Hash()
	for name, change := range map[string]func(*ledger.Entry){
		"account":    func(e *ledger.Entry) { e.Account = "acct_2" },
		"seq":        func(e *ledger.Entry) { e.Seq++ },
		"kind":       func(e *ledger.Entry) { e.Kind = ledger.Charged },
		"request":    func(e *ledger.Entry) { e.Request = "" },
		"reference":  func(e *ledger.Entry) { e.Reference = "re" },
		"reason":     func(e *ledger.Entry) { e.Reason = "Why" },
		"microcents": func(e *ledger.Entry) { e.Microcents = -3 },
		"credits":    func(e *ledger.Entry) { e.Credits-- },
		"accrued":    func(e *ledger.Entry) { e.Accrued = 0 },
		"created":    func(e *ledger.Entry) { e.Created = e.Created.Add(1) },
		"prev":       func(e *ledger.Entry) { e.Prev[31] = 1 },
		"boundary":   func(e *ledger.Entry) { e.Reference, e.Reason = "refw", "hy" },
	} {
		changed := e
		change(&changed)
		require.NotEqual(t, first, changed.Hash(), name)
	}
	e.Created = e.Created.In(time.FixedZone("elsewhere", 3600))
	require.Equal(t, first, e.Hash(), "a time zone is no part of the moment")
	sum := e.Hash()
	require.Equal(t, "0ed8a877c3ece1e42ccd96f93dc79dd3ef7248ee44285bc00942be5ca6c18e56", hex.EncodeToString(sum[:]), "the encoding is for ever: old ledgers are verified with it")
}
