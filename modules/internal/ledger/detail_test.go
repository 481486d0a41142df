package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func aRecord() ledger.RequestRecord {
	return ledger.RequestRecord{
		ID: "req_1", Account: "acct_1", Key: "key_1", Endpoint: "chat", Profile: "max", Owner: "boot", Held: 1,
		Created: time.Unix(2, 3), Settled: time.Unix(4, 5), Status: 200, Reason: "ok", Surcharge: 6,
		Attempts: []ledger.AttemptRecord{anAttempt(), {
			Attempt: ledger.Attempt{ID: "req_1.2"}, Outcome: ledger.Unproven,
			Estimate: &llm.Usage{Input: llm.Count(40), Output: llm.Count(41)},
		}},
	}
}

func anAttempt() ledger.AttemptRecord {
	return ledger.AttemptRecord{
		Attempt: ledger.Attempt{ID: "req_1.1", Route: "small", Provider: "up", Model: "m", PriceVersion: 7, Worst: 8},
		Outcome: ledger.Finished, Created: time.Unix(9, 10),
		Usage: llm.Usage{Input: llm.Count(11), CacheRead: llm.Count(12), CacheWrite: llm.Count(13), Output: llm.Count(14),
			Reasoning: llm.Count(15)},
		Price: config.Price{Input: 16, CacheRead: 17, CacheWrite: 18, Output: 19},
		Cost:  config.Price{Input: 20, CacheRead: 21, CacheWrite: 22, Output: 23},
	}
}

// attemptChanges are of one field each.
var attemptChanges = map[string]func(*ledger.AttemptRecord){
	"id":             func(a *ledger.AttemptRecord) { a.ID = "req_1.3" },
	"route":          func(a *ledger.AttemptRecord) { a.Route = "large" },
	"provider":       func(a *ledger.AttemptRecord) { a.Provider = "down" },
	"model":          func(a *ledger.AttemptRecord) { a.Model = "n" },
	"boundary":       func(a *ledger.AttemptRecord) { a.Provider, a.Model = "u", "pm" },
	"version":        func(a *ledger.AttemptRecord) { a.PriceVersion++ },
	"worst":          func(a *ledger.AttemptRecord) { a.Worst++ },
	"outcome":        func(a *ledger.AttemptRecord) { a.Outcome = ledger.Failed },
	"created":        func(a *ledger.AttemptRecord) { a.Created = a.Created.Add(1) },
	"input":          func(a *ledger.AttemptRecord) { a.Usage.Input = llm.Count(0) },
	"no input":       func(a *ledger.AttemptRecord) { a.Usage.Input = nil },
	"cache read":     func(a *ledger.AttemptRecord) { a.Usage.CacheRead = llm.Count(0) },
	"no cache read":  func(a *ledger.AttemptRecord) { a.Usage.CacheRead = nil },
	"cache write":    func(a *ledger.AttemptRecord) { a.Usage.CacheWrite = llm.Count(0) },
	"no cache write": func(a *ledger.AttemptRecord) { a.Usage.CacheWrite = nil },
	"output":         func(a *ledger.AttemptRecord) { a.Usage.Output = llm.Count(0) },
	"no output":      func(a *ledger.AttemptRecord) { a.Usage.Output = nil },
	"reasoning":      func(a *ledger.AttemptRecord) { a.Usage.Reasoning = llm.Count(0) },
	"no reasoning":   func(a *ledger.AttemptRecord) { a.Usage.Reasoning = nil },
	"estimated":      func(a *ledger.AttemptRecord) { a.Usage.Estimated = true },
	"an estimate":    func(a *ledger.AttemptRecord) { a.Estimate = &llm.Usage{} },
	"another":        func(a *ledger.AttemptRecord) { a.Estimate = &llm.Usage{Output: llm.Count(1)} },
	"price input":    func(a *ledger.AttemptRecord) { a.Price.Input++ },
	"price read":     func(a *ledger.AttemptRecord) { a.Price.CacheRead++ },
	"price write":    func(a *ledger.AttemptRecord) { a.Price.CacheWrite++ },
	"price output":   func(a *ledger.AttemptRecord) { a.Price.Output++ },
	"cost input":     func(a *ledger.AttemptRecord) { a.Cost.Input++ },
	"cost read":      func(a *ledger.AttemptRecord) { a.Cost.CacheRead++ },
	"cost write":     func(a *ledger.AttemptRecord) { a.Cost.CacheWrite++ },
	"cost output":    func(a *ledger.AttemptRecord) { a.Cost.Output++ },
}

// What an entry vouches for must be hashed in the same way for ever: every older ledger would fail its verification.
func TestRequestDetail(t *testing.T) {
	t.Parallel()
	first := aRecord()
	require.Equal(t, "f72c868cf943f75c4df0ec78b3e5e097849ebe778a138cf9bba27437ad318c5a", first.Detail().String())
	free := aRecord()
	free.Free = true
	require.Equal(t, "3bad1c397bfa86aa0e88d88a10f6c1627d1adc1bfdafe572a2922f1df47a47ad", free.Detail().String())
	seen := map[ledger.Digest]string{first.Detail(): "the record"}
	differs := func(name string, r ledger.RequestRecord) {
		d := r.Detail()
		require.NotContains(t, seen, d, "%s is like %s", name, seen[d])
		seen[d] = name
	}
	for name, change := range map[string]func(*ledger.RequestRecord){
		"id":             func(r *ledger.RequestRecord) { r.ID = "req_2" },
		"account":        func(r *ledger.RequestRecord) { r.Account = "acct_2" },
		"key":            func(r *ledger.RequestRecord) { r.Key = "key_2" },
		"endpoint":       func(r *ledger.RequestRecord) { r.Endpoint = "messages" },
		"profile":        func(r *ledger.RequestRecord) { r.Profile = "" },
		"owner":          func(r *ledger.RequestRecord) { r.Owner = "other" },
		"held":           func(r *ledger.RequestRecord) { r.Held++ },
		"created":        func(r *ledger.RequestRecord) { r.Created = r.Created.Add(1) },
		"settled":        func(r *ledger.RequestRecord) { r.Settled = r.Settled.Add(1) },
		"status":         func(r *ledger.RequestRecord) { r.Status = 499 },
		"reason":         func(r *ledger.RequestRecord) { r.Reason = "" },
		"free":           func(r *ledger.RequestRecord) { r.Free = true },
		"service limit":  func(r *ledger.RequestRecord) { r.ServiceLimit = true },
		"surcharge":      func(r *ledger.RequestRecord) { r.Surcharge = 0 },
		"fewer attempts": func(r *ledger.RequestRecord) { r.Attempts = r.Attempts[:1] },
		"no attempts":    func(r *ledger.RequestRecord) { r.Attempts = nil },
	} {
		r := aRecord()
		change(&r)
		differs(name, r)
	}
	for name, change := range attemptChanges {
		r := aRecord()
		change(&r.Attempts[0])
		differs("attempt: "+name, r)
	}
	// What came later is not in it.
	for name, change := range map[string]func(*ledger.RequestRecord){
		"a receipt": func(r *ledger.RequestRecord) {
			r.Attempts[1].Usage, r.Attempts[1].Receipt = *r.Attempts[1].Estimate, time.Unix(50, 0)
		},
		"a closing": func(r *ledger.RequestRecord) {
			r.Attempts[1].Usage, r.Attempts[1].Outcome = *r.Attempts[1].Estimate, ledger.Closed
		},
		"what they add": func(r *ledger.RequestRecord) {
			r.Microcents, r.Waived, r.Over, r.Refunded, r.Pending = 1, 2, 3, 4, true
		},
		"their entries":   func(r *ledger.RequestRecord) { r.Entries = []ledger.Entry{anEntry} },
		"the time's zone": func(r *ledger.RequestRecord) { r.Created = r.Created.In(time.FixedZone("elsewhere", 3600)) },
	} {
		r := aRecord()
		change(&r)
		require.Equal(t, first.Detail(), r.Detail(), name)
	}
}

func TestAttemptDetail(t *testing.T) {
	t.Parallel()
	first := anAttempt()
	require.Equal(t, "c09145668380c07b0bd6e27c87b3824c6e44d70b959325fe30713ba9c7ce983c", first.Detail().String())
	for name, change := range attemptChanges {
		a := anAttempt()
		change(&a)
		require.NotEqual(t, first.Detail(), a.Detail(), name)
	}
	proven := anAttempt()
	proven.Receipt = time.Unix(50, 0)
	require.NotEqual(t, first.Detail(), proven.Detail(), "by a receipt")
	again := proven
	again.Receipt = time.Unix(51, 0)
	require.Equal(t, proven.Detail(), again.Detail(), "its moment is the entry's")
}

// The provider's key that an attempt was made with is covered, and an attempt without one is as ever.
func TestDetailCoversTheProvidersKey(t *testing.T) {
	t.Parallel()
	seen := map[ledger.Digest]string{}
	for _, key := range []string{"", "a", "b", "ab"} {
		a := anAttempt()
		a.Key = key
		require.NotContains(t, seen, a.Detail())
		seen[a.Detail()] = key
	}
}

// That an attempt is the operator's is covered, and one that is the account's is as ever.
func TestDetailCoversWhoPays(t *testing.T) {
	t.Parallel()
	a := anAttempt()
	before := a.Detail()
	a.Operator = true
	require.NotEqual(t, before, a.Detail())
}

// A price with tiers is covered, too, and one without them as ever.
func TestDetailCoversTiers(t *testing.T) {
	t.Parallel()
	one := []config.Tier{{Above: 1, Input: 2, CacheRead: 3, CacheWrite: 4, Output: 5}}
	two := append(slices.Clone(one), config.Tier{Above: 6, Input: 7, CacheRead: 8, CacheWrite: 9, Output: 10})
	seen := map[ledger.Digest]string{}
	look := func(name string, price, cost []config.Tier) ledger.Digest {
		a := anAttempt()
		a.Price.Tiers, a.Cost.Tiers = price, cost
		d := a.Detail()
		require.NotContains(t, seen, d, "%s is like %s", name, seen[d])
		seen[d] = name
		return d
	}
	look("none", nil, nil)
	look("of the price", one, nil)
	look("of the cost", nil, one)
	look("of both", one, one)
	look("two of the price", two, nil)
	look("one and two", one, two)
	d := look("two and one", two, one)
	require.Equal(t, "85117d8d238fe69073b398b6ced1861f747a88028f6b05507991c9cb839d233a", d.String())
	for i, change := range []func(*config.Tier){
		func(t *config.Tier) { t.Above++ }, func(t *config.Tier) { t.Input++ }, func(t *config.Tier) { t.CacheRead++ },
		func(t *config.Tier) { t.CacheWrite++ }, func(t *config.Tier) { t.Output++ },
	} {
		changed := slices.Clone(one)
		change(&changed[0])
		look(fmt.Sprintf("changed %d", i), changed, nil)
	}
}
