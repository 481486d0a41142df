package live_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// recordOf is the record of a request that ended at 12:00 and the second n, and came to 7 microcents.
func recordOf(n int) spool.Record {
	id := ledger.AttemptID("req_1", 1)
	return spool.Record{
		Settlement: ledger.Settlement{Request: "req_1", Status: 200, Reason: "ok", Results: []ledger.Result{{
			Attempt: id, Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(2), Output: llm.Count(5)}}}},
		Account: "acct_1", Key: "key_1", Charge: new(int64(7)), Time: time.Date(2026, 11, 26, 12, 0, n, 0, time.UTC),
		Attempts: []spool.Attempt{{ID: id, Route: "small", Provider: "echo", Model: "m", PriceVersion: 1, Worst: 100,
			Price: config.Price{Input: 1_000_000, Output: 1_000_000}}},
		Hold: &spool.Hold{Owner: "boot", Endpoint: "chat", Profile: "balanced", Microcents: 100, Tokens: 7},
	}
}

// TestMeasureBacklog: who reads a ledger's file is told what its log has beside that, from when on, and whether it
// comes to what it says (GAP-132).
func TestMeasureBacklog(t *testing.T) {
	t.Parallel()
	books := ledgertest.OpenMemory(t, ledgertest.Options{})
	w, err := live.MeasureBacklog(t.Context(), books, []spool.Record{recordOf(9), recordOf(3), recordOf(5)})
	require.NoError(t, err)
	require.Equal(t, live.Backlog{Settlements: 3, Since: recordOf(3).Time}, w)

	for name, change := range map[string]func(*spool.Record){
		"its charge":      func(r *spool.Record) { *r.Charge++ },
		"what was free":   func(r *spool.Record) { r.Hold.Waived = 1 },
		"what was over":   func(r *spool.Record) { r.Hold.Over = 1 },
		"its tokens":      func(r *spool.Record) { r.Hold.Tokens++ },
		"its usage":       func(r *spool.Record) { r.Settlement.Results[0].Usage.Output = llm.Count(6) },
		"its price":       func(r *spool.Record) { r.Attempts[0].Price.Input = 2_000_000 },
		"its surcharge":   func(r *spool.Record) { r.Settlement.Surcharge = 1 },
		"that it is free": func(r *spool.Record) { r.Settlement.Free = true },
		"its attempt":     func(r *spool.Record) { r.Attempts = nil },
	} {
		r := recordOf(1)
		change(&r)
		w, err := live.MeasureBacklog(t.Context(), books, []spool.Record{recordOf(0), r, recordOf(0)})
		require.NoError(t, err)
		require.Equal(t, int64(3), w.Settlements)
		require.ErrorContains(t, w.Wrong, `the settlement of request "req_1": `, name)
	}
	shifted := recordOf(1)
	shifted.Settlement.ServiceLimit, *shifted.Charge, shifted.Hold.Waived, shifted.Hold.Tokens = true, 3, 4, 3
	w, err = live.MeasureBacklog(t.Context(), books, []spool.Record{shifted})
	require.NoError(t, err)
	require.NoError(t, w.Wrong, "MET-14: how much of it was free depends on its account")
}
