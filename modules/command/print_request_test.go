package command

import (
	"testing"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/golden"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func TestPrintRequest(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Date(2026, 11, 20, 18, 0, seconds, 0, time.UTC) }
	settled := func() ledger.RequestRecord {
		return ledger.RequestRecord{
			ID: "req_01a1fa49b5b9590a75cf528f18293216", Account: "acct_22bf9658162f1afa939237ce",
			Key:      "key_a9508fa3a018402648d86ca0",
			Endpoint: "messages", Profile: "balanced", Held: 5_000_000, Created: at(0), Settled: at(2), Status: 200,
			Reason: "ok",
			Attempts: []ledger.AttemptRecord{
				{Attempt: ledger.Attempt{Route: "small", Provider: "up", Model: "small-1", PriceVersion: 3}, Outcome: ledger.Failed,
					Usage: llm.Usage{Input: llm.Count(100)}, Price: enginetest.ExamplePrice, Cost: enginetest.ExampleCost,
					Created: at(0)},
				{Attempt: ledger.Attempt{Route: "deep", Provider: "up", Model: "deep-1", PriceVersion: 1}, Outcome: ledger.Finished,
					Usage: enginetest.ExampleUsage, Price: enginetest.ExamplePrice, Cost: enginetest.ExampleCost, Created: at(1)},
			},
			Surcharge: 1350, Microcents: 1_366_350, Refunded: 350,
			Entries: []ledger.Entry{
				{Seq: 17, Kind: ledger.Charged, Reason: "ok", Prices: "small@3 deep@1", Microcents: -1_366_350, Credits: 999,
					Accrued: 366_350, Created: at(2)},
				{Seq: 1018, Kind: ledger.Refund, Reason: "ticket 4711", Microcents: 350, Credits: 999, Accrued: 366_000,
					Created: at(59)},
			},
		}
	}
	for name, change := range map[string]func(*ledger.RequestRecord){
		"settled": func(*ledger.RequestRecord) {},
		"running": func(r *ledger.RequestRecord) {
			*r = ledger.RequestRecord{ID: r.ID, Account: r.Account, Key: r.Key, Endpoint: r.Endpoint, Running: true,
				Held: r.Held, Created: r.Created,
				Attempts: []ledger.AttemptRecord{{Attempt: r.Attempts[0].Attempt, Price: enginetest.ExamplePrice,
					Created: r.Created}}}
		},
		"free": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.Free, r.Microcents, r.Refunded, r.Entries = 500, "internal_error", true, 0, 0, nil
		},
		"fair-use": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.ServiceLimit, r.Waived, r.Microcents, r.Refunded, r.Entries = 504, "timeout", true, 1_366_350,
				0, 0, nil
		},
		"fair-use-in-part": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.ServiceLimit, r.Waived, r.Microcents, r.Refunded, r.Entries = 504, "timeout", true, 1_000_000,
				366_350, 0, r.Entries[:1]
			r.Entries[0].Microcents, r.Entries[0].Waived, r.Entries[0].Accrued = -366_350, 1_000_000, 366_350
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
			r.Attempts[0].Outcome, r.Attempts[0].Usage, r.Attempts[0].Receipt = ledger.Unproven,
				llm.Usage{Output: llm.Count(2), Estimated: true}, at(40)
			r.Attempts[1].Outcome, r.Attempts[1].Usage = ledger.Unproven, llm.Usage{}
			r.Surcharge, r.Microcents, r.Refunded, r.Pending, r.Entries = 0, 3000, 0, true, r.Entries[:1]
		},
		"tiered": func(r *ledger.RequestRecord) {
			r.Microcents, r.Entries[0].Microcents = 1_651_350, -1_651_350
			a := &r.Attempts[1]
			a.Price.Tiers = []config.Tier{{Above: 500, Input: 2 * a.Price.Input, CacheRead: a.Price.CacheRead,
				CacheWrite: a.Price.CacheWrite, Output: a.Price.Output}, {Above: 1_000_000}}
			a.Cost.Tiers = []config.Tier{{Above: 900, Input: a.Cost.Input, CacheRead: a.Cost.CacheRead,
				CacheWrite: a.Cost.CacheWrite, Output: 2 * a.Cost.Output}}
		},
		"screened": func(r *ledger.RequestRecord) {
			r.Status, r.Reason, r.Attempts, r.Microcents, r.Refunded, r.Entries = 400, "screened", nil, 1_350, 0, r.Entries[:1]
			e := &r.Entries[0]
			e.Reason, e.Prices, e.Microcents, e.Accrued = "screened", "", -1_350, 1_350
		},
		"wrong": func(r *ledger.RequestRecord) { r.Microcents++ },
		"compared": func(r *ledger.RequestRecord) {
			r.ID, r.Endpoint, r.Reason, r.Held, r.Free = ledger.ShadowID(r.ID), ledger.Shadow, ledger.Shadow, 0, true
			r.Attempts, r.Surcharge, r.Microcents, r.Refunded, r.Entries = r.Attempts[1:], 0, 0, 0, nil
			r.Attempts[0].Operator = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := settled()
			change(&record)
			v := admin.ViewRequest(record)
			v.Account, v.Key = "ann", "laptop"
			if name == "settled" {
				other := settled()
				other.Attempts[1].Operator = true
				other.ID, other.Attempts = ledger.ShadowID(other.ID), other.Attempts[1:]
				v.Shadow = new(admin.ViewRequest(other))
			}
			var out goldenText
			require.NoError(t, printRequest(&out, v))
			golden.Equal(t, "testdata/request/"+name+".txt", out)
		})
	}
}

// goldenText collects what a golden file holds.
type goldenText []byte

func (g *goldenText) Write(p []byte) (int, error) {
	*g = append(*g, p...)
	return len(p), nil
}
