package ledgertest

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testRecords(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})
	ctx := soon(t)
	h := f.newHold("cached", 700_000)
	h.Endpoint, h.Profile, h.Attempt.Provider, h.Attempt.Model = "messages", "max", "acme", "large-1"
	f.admit(h)
	created := f.clock.now().UTC()
	f.clock.add(time.Second)
	require.NoError(t, f.store.Begin(ctx, ledger.Next{
		Request: h.Request, Attempt: f.attempt(h.Request, 2, "fraction"), Microcents: 900_000,
	}))

	t.Run("a running request has no end yet", func(t *testing.T) {
		require.Equal(t, ledger.RequestRecord{
			ID: h.Request, Account: f.account.ID, Key: f.key.ID, Endpoint: "messages", Profile: "max",
			Owner: f.options.BootID, Running: true, Held: 900_000, Created: created,
			Attempts: []ledger.AttemptRecord{
				{Attempt: h.Attempt, Price: prices["cached"], Cost: half(prices["cached"]), Created: created},
				{
					Attempt: f.attempt(h.Request, 2, "fraction"), Price: prices["fraction"], Cost: half(prices["fraction"]),
					Created: created.Add(time.Second),
				},
			},
		}, f.record(h.Request))
	})

	f.clock.add(time.Second)
	u := &llm.Usage{Input: llm.Count(11), CacheRead: llm.Count(22), CacheWrite: llm.Count(33), Output: llm.Count(44),
		Reasoning: llm.Count(40)}
	s := ok(h, u)
	s.Status, s.Reason, s.ServiceLimit, s.Surcharge = 504, "time_limit", true, 1_350
	f.settle(s)
	f.clock.add(time.Hour)
	f.receipt(ledger.AttemptID(h.Request, 2), usage(1_000, 1))
	_, _, err := f.store.Correct(ctx, ledger.Correction{Request: h.Request, Microcents: 5, Reason: "sorry"})
	require.NoError(t, err)

	t.Run("BILL-33 GAP-62 a settled request has its whole arithmetic", func(t *testing.T) {
		r := f.record(h.Request)
		require.Equal(t, ledger.RequestRecord{
			ID: h.Request, Account: f.account.ID, Key: f.key.ID, Endpoint: "messages", Profile: "max",
			Owner: f.options.BootID, Held: 900_000, Created: created, Settled: created.Add(2 * time.Second),
			Status: 504, Reason: "time_limit", ServiceLimit: true, Surcharge: 1_350,
			Microcents: r.Microcents, Refunded: 5,
			Attempts: []ledger.AttemptRecord{
				{
					Attempt: h.Attempt, Outcome: ledger.Finished, Usage: *u, Price: prices["cached"], Cost: half(prices["cached"]),
					Created: created,
				},
				{
					Attempt: f.attempt(h.Request, 2, "fraction"), Outcome: ledger.Unproven, Usage: *usage(1_000, 1),
					Price: prices["fraction"], Cost: half(prices["fraction"]), Created: created.Add(time.Second),
					Receipt: created.Add(time.Hour + 2*time.Second),
				},
			},
			Entries: r.Entries,
		}, r)

		sum := new(big.Rat)
		for _, a := range r.Attempts {
			sum.Add(sum, exactly(a.Usage, a.Price))
		}
		require.Equal(t, floor(sum)+r.Surcharge, r.Microcents, "attempts x prices, divided once, and the surcharge")

		var kinds []ledger.EntryKind
		var moved int64
		for _, e := range r.Entries {
			require.Equal(t, h.Request, e.Request)
			kinds = append(kinds, e.Kind)
			moved += e.Microcents
		}
		require.Equal(t, []ledger.EntryKind{ledger.Charged, ledger.Receipt, ledger.Refund}, kinds)
		require.Equal(t, r.Refunded-r.Microcents, moved)
		require.Equal(t, "time_limit", r.Entries[0].Reason)
		require.Equal(t, f.entries(ledger.Query{})[1:], r.Entries)
	})

	t.Run("a request that was free has an entry of nothing", func(t *testing.T) {
		h := f.hold("unit", 10)
		s := ok(h, usage(1, 2))
		s.Free = true
		f.settle(s)
		r := f.record(h.Request)
		require.True(t, r.Free)
		require.Len(t, r.Entries, 1)
		require.Zero(t, r.Entries[0].Microcents)
	})
}
