package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func TestAdminUsage(t *testing.T) {
	t.Parallel()
	const today = "2026-11-20"
	now := time.Date(2026, 11, 20, 23, 59, 59, 999_999_999, time.UTC)
	c, e := adminAt(t, func() time.Time { return now })
	ann, bob := newCustomer(t, c, "ann"), newCustomer(t, c, "bob")
	ann.settle(t, e, "req_1", ok(), proven())
	ann.settle(t, e, "req_2", ok(), proven(), proven())
	bob.settle(t, e, "req_3", ok(), proven())
	require.NoError(t, c.call(t.Context(), "POST", "/fareway/refunds", newRefund{Request: "req_3", Microcents: 35_000, Reason: "x"}, new(correctionView)))

	const cost = exampleCharge / 3
	all := listOf[usageView](t, c, "/fareway/usage")
	require.Len(t, all, 1, "one sum of everything")
	require.EqualValues(t, 3, all[0].Requests)
	require.EqualValues(t, 4, all[0].Attempts)
	require.EqualValues(t, 4*950, *all[0].Tokens.Input)
	require.EqualValues(t, 4*700, *all[0].Tokens.Output)
	require.Nil(t, all[0].Tokens.CacheRead, "never reported")
	require.EqualValues(t, 4*exampleCharge, all[0].Microcents)
	require.EqualValues(t, 35_000, all[0].Refunded)
	require.EqualValues(t, 4*cost, all[0].Cost)
	require.EqualValues(t, 4*(exampleCharge-cost)-35_000, all[0].Margin)

	by := listOf[usageView](t, c, "/fareway/usage?by=account,key,route,day")
	require.Len(t, by, 2)
	for _, u := range by {
		made := map[string]customer{"ann": ann, "bob": bob}[u.Account]
		require.Equal(t, made.account.ID, u.AccountID)
		require.Equal(t, made.key.ID, u.KeyID)
		require.Equal(t, "first", u.Key)
		require.Equal(t, "deep", u.Route)
		require.Equal(t, today, u.Day)
	}
	for query, charges := range map[string]int64{
		"?account=ann": 3, "?account=bob&by=key": 1, "?key=" + ann.key.ID: 3, "?account=ann&key=first": 3, "?route=deep": 4,
		"?since=" + today + "T00:00:00Z": 4, "?since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z": 0, "?route=other": 0,
	} {
		var sum int64
		for _, u := range listOf[usageView](t, c, "/fareway/usage"+query) {
			sum += u.Microcents
		}
		require.Equal(t, charges*exampleCharge, sum, query)
	}
}

func TestAdminRequest(t *testing.T) {
	t.Parallel()
	c, e := admin(t)
	ann := newCustomer(t, c, "ann")
	show := func(t *testing.T, id string) requestView {
		t.Helper()
		var v requestView
		require.NoError(t, c.call(t.Context(), "GET", "/fareway/usage/"+id, nil, &v))
		require.Equal(t, "ann", v.Account)
		require.Equal(t, "first", v.Key)
		require.Equal(t, ann.key.ID, v.KeyID)
		return v
	}

	ann.settle(t, e, "req_1", ok(), ledger.Result{Outcome: ledger.Failed, Usage: &llm.Usage{Input: llm.Count(100)}}, proven())
	v := show(t, "req_1")
	require.False(t, v.Running)
	require.Equal(t, 200, v.Status)
	require.Len(t, v.Attempts, 2)
	require.Equal(t, "30000000000", v.Attempts[0].Product)
	require.Equal(t, "1335000000000", v.Attempts[1].Product)
	require.Equal(t, examplePrice, v.Attempts[1].Price)
	require.Equal(t, exampleCost, v.Attempts[1].CostPrice)
	require.EqualValues(t, 1, v.Attempts[1].PriceVersion)
	require.Equal(t, "1365000000000", v.Sum)
	require.EqualValues(t, 1_365_000, v.Divided)
	require.EqualValues(t, 1_365_000, v.Microcents)
	require.EqualValues(t, 455_000, v.Cost)
	require.EqualValues(t, 910_000, v.Margin)
	require.Len(t, v.Entries, 1)
	require.EqualValues(t, -1_365_000, v.Entries[0].Microcents)

	t.Run("BILL-33 the record of a failed request has its charge", func(t *testing.T) {
		t.Parallel()
		ann.settle(t, e, "req_failed", ledger.Settlement{Status: 502, Reason: "upstream_error"},
			ledger.Result{Outcome: ledger.Failed, Usage: &llm.Usage{Input: llm.Count(100)}})
		v := show(t, "req_failed")
		require.Equal(t, 502, v.Status)
		require.EqualValues(t, 30_000, v.Microcents)
		require.False(t, v.Pending)

		ann.settle(t, e, "req_unproven", ledger.Settlement{Status: 502, Reason: "upstream_error"}, ledger.Result{Outcome: ledger.Unproven})
		v = show(t, "req_unproven")
		require.Zero(t, v.Microcents)
		require.True(t, v.Pending)

		ann.settle(t, e, "req_free", ledger.Settlement{Status: 500, Reason: "internal_error", Free: true}, proven())
		v = show(t, "req_free")
		require.True(t, v.Free)
		require.Zero(t, v.Microcents)
		require.EqualValues(t, exampleCharge, v.Divided, "what it would have been")
		require.Len(t, v.Entries, 1)
		require.Zero(t, v.Entries[0].Microcents)
	})
}

func TestPrintRequest(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Date(2026, 11, 20, 18, 0, seconds, 0, time.UTC) }
	settled := func() ledger.RequestRecord {
		return ledger.RequestRecord{
			ID: "req_01a1fa49b5b9590a75cf528f18293216", Account: "acct_22bf9658162f1afa939237ce", Key: "key_a9508fa3a018402648d86ca0",
			Endpoint: "messages", Profile: "balanced", Held: 5_000_000, Created: at(0), Settled: at(2), Status: 200, Reason: "ok",
			Attempts: []ledger.AttemptRecord{
				{Attempt: ledger.Attempt{Route: "small", Provider: "up", Model: "small-1", PriceVersion: 3}, Outcome: ledger.Failed,
					Usage: llm.Usage{Input: llm.Count(100)}, Price: examplePrice, Cost: exampleCost, Created: at(0)},
				{Attempt: ledger.Attempt{Route: "deep", Provider: "up", Model: "deep-1", PriceVersion: 1}, Outcome: ledger.Finished,
					Usage: exampleUsage, Price: examplePrice, Cost: exampleCost, Created: at(1)},
			},
			Surcharge: 1350, Microcents: 1_366_350, Refunded: 350,
			Entries: []ledger.Entry{
				{Seq: 17, Kind: ledger.Charged, Reason: "ok", Prices: "small@3 deep@1", Microcents: -1_366_350, Credits: 999, Accrued: 366_350, Created: at(2)},
				{Seq: 1018, Kind: ledger.Refund, Reason: "ticket 4711", Microcents: 350, Credits: 999, Accrued: 366_000, Created: at(59)},
			},
		}
	}
	for name, change := range map[string]func(*ledger.RequestRecord){
		"settled": func(*ledger.RequestRecord) {},
		"running": func(r *ledger.RequestRecord) {
			*r = ledger.RequestRecord{ID: r.ID, Account: r.Account, Key: r.Key, Endpoint: r.Endpoint, Running: true, Held: r.Held, Created: r.Created,
				Attempts: []ledger.AttemptRecord{{Attempt: r.Attempts[0].Attempt, Price: examplePrice, Created: r.Created}}}
		},
		"free": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.Free, r.Microcents, r.Refunded, r.Entries = 500, "internal_error", true, 0, 0, nil
		},
		"fair-use": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.ServiceLimit, r.Waived, r.Microcents, r.Refunded, r.Entries = 504, "timeout", true, 1_366_350, 0, 0, nil
		},
		"over": func(r *ledger.RequestRecord) {
			r.Held, r.Microcents, r.Over, r.Refunded, r.Entries = 1_000_000, 1_000_000, 366_350, 0, r.Entries[:1]
			r.Entries[0].Microcents, r.Entries[0].Over, r.Entries[0].Accrued = -1_000_000, 366_350, 0
		},
		"estimated": func(r *ledger.RequestRecord) {
			guess := &llm.Usage{Input: llm.Count(950), Output: llm.Count(700), Estimated: true}
			r.Attempts[0].Outcome, r.Attempts[0].Usage, r.Attempts[0].Estimate = ledger.Unproven, llm.Usage{}, guess
			r.Attempts[1].Outcome, r.Attempts[1].Usage, r.Attempts[1].Estimate = ledger.Closed, *guess, guess
			r.Surcharge, r.Microcents, r.Refunded, r.Pending, r.Entries = 0, 1_335_000, 0, true, r.Entries[:1]
			r.Entries[0].Kind, r.Entries[0].Microcents, r.Entries[0].Accrued = ledger.Closing, -1_335_000, 335_000
		},
		"pending": func(r *ledger.RequestRecord) {
			r.Attempts[0].Outcome, r.Attempts[0].Usage, r.Attempts[0].Receipt = ledger.Unproven, llm.Usage{Output: llm.Count(2), Estimated: true}, at(40)
			r.Attempts[1].Outcome, r.Attempts[1].Usage = ledger.Unproven, llm.Usage{}
			r.Surcharge, r.Microcents, r.Refunded, r.Pending, r.Entries = 0, 3000, 0, true, r.Entries[:1]
		},
		"wrong": func(r *ledger.RequestRecord) { r.Microcents++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := settled()
			change(&record)
			v := viewRequest(record)
			v.Account, v.Key = "ann", "laptop"
			var out goldenText
			require.NoError(t, printRequest(&out, v))
			golden(t, "testdata/request/"+name+".txt", out)
		})
	}
}

// goldenText collects what a golden file holds.
type goldenText []byte

func (g *goldenText) Write(p []byte) (int, error) {
	*g = append(*g, p...)
	return len(p), nil
}
