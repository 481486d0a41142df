// Package ledgertest is the suite that every ledger.Store passes: the worked examples E01 to E05 and E07 as
// the store sees them, its idempotence, its behaviour under concurrency and over restarts, and a random test
// against a model. It is for the tests of stores.
package ledgertest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Options are what the suite decides about a store.
type Options struct {
	// Dir is the store's place: a store that is opened on the Dir of one that was closed continues it.
	Dir string
	// BootID differs each time.
	BootID string
}

// Open opens a store; the suite closes it.
type Open func(t testing.TB, o Options) ledger.Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"accounts", testAccounts},
		{"keys", testKeys},
		{"prices", testPrices},
		{"credits", testCredits},
		{"examples", testExamples},
		{"admission", testAdmission},
		{"charges", testCharges},
		{"unusable usage", testUnusableUsage},
		{"repetition", testRepetition},
		{"refusals", testRefusals},
		{"race for the last credits", testRace},
		{"settlements race", testSettlementRace},
		{"restart", testRestart},
		{"model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

// The routes of the fixture. Tokens of "unit" cost one microcent each, so that a test can charge any amount;
// "example" has the prices of the worked examples, "cached" four different ones; "fraction" has prices that never come out even.
var prices = map[string]config.Price{
	"unit":     {Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000},
	"example":  {Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000},
	"cached":   {Input: 300_000_000, CacheRead: 30_000_000, CacheWrite: 375_000_000, Output: 1_500_000_000},
	"fraction": {Input: 333_333, CacheRead: 33_333, CacheWrite: 416_666, Output: 1_666_667},
}

// fixture is a store with one account and its key.
type fixture struct {
	t       testing.TB
	open    Open
	dir     string
	store   ledger.Store
	account ledger.Account
	key     ledger.Key
	version map[string]int64
	n       atomic.Int64
}

// newFixture opens a store with an account of so many credits. When the test ends, the ledger is verified.
func newFixture(t testing.TB, open Open, credits int64) *fixture {
	f := &fixture{t: t, open: open, dir: t.TempDir(), version: map[string]int64{}}
	f.store = open(t, Options{Dir: f.dir, BootID: f.next("boot")})
	t.Cleanup(func() {
		f.verify()
		require.NoError(t, f.store.Close())
	})
	for route, p := range prices {
		v, err := f.store.PriceVersion(t.Context(), route, p)
		require.NoError(t, err)
		f.version[route] = v
	}
	f.newAccount(credits)
	return f
}

// newAccount makes the fixture work on a further account.
func (f *fixture) newAccount(credits int64) {
	var err error
	f.account, err = f.store.CreateAccount(context.Background(), f.next("account"), "starter")
	require.NoError(f.t, err)
	f.key, err = f.store.CreateKey(context.Background(), f.account.ID, "laptop", sha256.Sum256([]byte(f.account.ID)), "abcd")
	require.NoError(f.t, err)
	if credits > 0 {
		f.topUp(credits)
	}
}

func (f *fixture) next(what string) string { return fmt.Sprintf("%s-%d", what, f.n.Add(1)) }

// restart closes the store and opens it as another process would.
func (f *fixture) restart() {
	require.NoError(f.t, f.store.Close())
	f.store = f.open(f.t, Options{Dir: f.dir, BootID: f.next("boot")})
}

func (f *fixture) verify() ledger.Report {
	r, err := f.store.Verify(context.Background())
	require.NoError(f.t, err)
	require.True(f.t, r.OK, "%s: %s", r.Entry, r.Problem)
	return r
}

func (f *fixture) topUp(credits int64) ledger.Balance {
	b, applied, err := f.store.AddCredit(context.Background(), ledger.Credit{Account: f.account.ID, Credits: credits})
	require.NoError(f.t, err)
	require.True(f.t, applied)
	return b
}

func (f *fixture) balance() ledger.Balance {
	b, err := f.store.Balance(context.Background(), f.account.ID)
	require.NoError(f.t, err)
	return b
}

func (f *fixture) attempt(route string) ledger.Attempt {
	return ledger.Attempt{ID: f.next("attempt"), Route: route, Provider: "local", Model: "m", PriceVersion: f.version[route]}
}

func (f *fixture) newHold(route string, microcents int64) ledger.Hold {
	return ledger.Hold{
		Request:    f.next("request"),
		Account:    f.account.ID,
		Key:        f.key.ID,
		Endpoint:   "chat",
		Profile:    "balanced",
		Microcents: microcents,
		Attempt:    f.attempt(route),
	}
}

// hold expects to be admitted.
func (f *fixture) hold(route string, microcents int64) ledger.Hold {
	h := f.newHold(route, microcents)
	_, err := f.store.Hold(context.Background(), h)
	require.NoError(f.t, err)
	return h
}

func (f *fixture) settle(s ledger.Settlement) ledger.Charge {
	c, err := f.store.Settle(context.Background(), s)
	require.NoError(f.t, err)
	return c
}

// charge takes a request that is held and costs so many microcents through the ledger.
func (f *fixture) charge(microcents int64) ledger.Balance {
	h := f.hold("unit", microcents)
	c := f.settle(ok(h, usage(0, microcents)))
	require.Equal(f.t, microcents, c.Microcents)
	require.False(f.t, c.Pending)
	return c.Balance
}

func usage(input, output int64) *llm.Usage {
	return &llm.Usage{Input: llm.Count(input), Output: llm.Count(output)}
}

// ok settles a request whose only attempt finished.
func ok(h ledger.Hold, u *llm.Usage) ledger.Settlement {
	return ledger.Settlement{
		Request: h.Request,
		Status:  200,
		Reason:  "ok",
		Results: []ledger.Result{{Attempt: h.Attempt.ID, Outcome: ledger.Finished, Usage: u}},
	}
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
