package ledgertest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// The routes of the fixture. Tokens of "unit" cost one microcent each, so that a test can charge any amount;
// "example" has the prices of the worked examples, "cached" four different ones; "fraction" has prices that never come
// out even, and "tiered" others for long prompts, the longest of which are cheaper.
var prices = map[string]config.Price{
	"unit":    {Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000},
	"example": {Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000},
	"cached":  {Input: 300_000_000, CacheRead: 30_000_000, CacheWrite: 375_000_000, Output: 1_500_000_000},
	"tiered": {Input: 2_000_000, CacheRead: 1_000_000, CacheWrite: 2_500_000, Output: 4_000_000, Tiers: []config.Tier{
		{Above: 5, Input: 4_000_000, CacheRead: 2_000_000, CacheWrite: 5_000_000, Output: 7_777_777},
		{Above: 20, Input: 1_000_001, CacheRead: 1_000_001, CacheWrite: 1_000_001, Output: 3_000_000},
	}},
	"fraction": {Input: 333_333, CacheRead: 33_333, CacheWrite: 416_666, Output: 1_666_667},
}

// unbound is what attempts may cost at most, unless a test says otherwise: whatever their request holds.
const unbound = -1

// half is what a price costs the operator in these tests.
func half(p config.Price) config.Price {
	h := config.Price{Input: p.Input / 2, CacheRead: p.CacheRead / 2, CacheWrite: p.CacheWrite / 2, Output: p.Output / 2}
	for _, t := range p.Tiers {
		h.Tiers = append(h.Tiers, config.Tier{Above: t.Above + 1, Input: t.Input / 2, CacheRead: t.CacheRead / 2,
			CacheWrite: t.CacheWrite / 2, Output: t.Output / 2})
	}
	return h
}

// start is when the clock of every fixture begins.
var start = time.Date(2026, 11, 20, 10, 30, 0, 123_456_789, time.UTC)

// clock stands still until it is moved.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) set(t time.Time)     { c.ns.Store(t.UnixNano()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

// plans are what the configuration says at the moment.
type plans struct {
	mu    sync.Mutex
	terms map[string]ledger.Terms
}

func (p *plans) of(plan string) ledger.Terms {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.terms[plan]
}

func (p *plans) set(plan string, terms ledger.Terms) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terms[plan] = terms
}

// fixture is a store with one account and its key. When the test ends, what still runs is settled at nothing, and
// then no hold may be left, no attempt may wait but those that the test expects, and the books have to be right.
type fixture struct {
	tb      testing.TB       // the test whose store it is
	t       require.TestingT // who is told what went wrong: tb, or a run of a random test
	open    Open
	options Options
	clock   *clock
	plans   *plans
	store   ledger.Store
	account ledger.Account
	key     ledger.Key
	version map[string]int64
	profile string // of new holds; "": balanced
	n       atomic.Int64

	closed  bool
	running map[string]ledger.Hold // held by the fixture and not settled by it
	waiting int64                  // attempts that may wait at the end
}

// newFixture opens a store with an account of so many credits, on a plan of these terms.
func newFixture(t testing.TB, open Open, credits int64, terms ledger.Terms) *fixture {
	f := &fixture{
		tb: t, t: t, open: open,
		clock:   &clock{},
		plans:   &plans{terms: map[string]ledger.Terms{"starter": terms}},
		version: map[string]int64{}, running: map[string]ledger.Hold{},
	}
	f.clock.set(start)
	f.options = Options{Dir: t.TempDir(), Now: f.clock.now, Terms: f.plans.of}
	f.start()
	t.Cleanup(f.finish)
	for route, p := range prices {
		v, err := f.store.PriceVersion(t.Context(), route, p, half(p))
		require.NoError(t, err)
		f.version[route] = v
	}
	f.newAccount(credits)
	return f
}

// start opens the store as a new process does, and returns how many requests it recovered.
func (f *fixture) start() (recovered int64) {
	f.options.BootID = f.next("boot")
	f.store = f.open(f.tb, f.options)
	recovered, err := f.store.Recover(context.Background())
	require.NoError(f.t, err)
	return recovered
}

// late reports whether the store applies settlements of requests that were recovered.
func (f *fixture) late() bool {
	_, late := f.store.(Late)
	return late
}

// restart closes the store and opens it as another process would: what runs is lost and waits for receipts.
func (f *fixture) restart() (recovered int64) {
	require.NoError(f.t, f.store.Close())
	for range f.running {
		f.waiting++
	}
	clear(f.running)
	return f.start()
}

func (f *fixture) finish() {
	f.t = f.tb
	if f.closed {
		return
	}
	defer f.close()
	if f.tb.Failed() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(f.running)) {
		f.settle(ledger.Settlement{Request: id, Free: true, Reason: "test_over"})
	}
	r := f.verify()
	require.Zero(f.t, r.Holds, "no hold is left")
	require.Equal(f.t, f.waiting, r.Pending, "no attempt waits that is not expected to")
	f.balanced()
}

// close closes the store before the test ends, and leaves it unchecked.
func (f *fixture) close() {
	f.closed = true
	require.NoError(f.t, f.store.Close())
}

// balanced checks that every account is the sum of its entries.
func (f *fixture) balanced() {
	accounts := f.accounts() // first, for it may end periods
	net := map[string]int64{}
	for _, e := range f.entries(ledger.Query{}) {
		net[e.Account] += e.Microcents
	}
	for _, a := range accounts {
		require.Equal(f.t, net[a.ID], a.Balance.Net(), "%s is the sum of its entries", a.Name)
		require.Zero(f.t, a.Balance.Held, "%s holds nothing", a.Name)
	}
}

// newAccount makes the fixture work on a further account.
func (f *fixture) newAccount(credits int64) {
	var err error
	f.account, err = f.store.CreateAccount(context.Background(), f.next("account"), "starter")
	require.NoError(f.t, err)
	f.key = f.newKey("laptop", ledger.KeyChange{})
	if credits > 0 {
		f.topUp(credits)
	}
}

func (f *fixture) newKey(name string, change ledger.KeyChange) ledger.Key {
	k, err := f.store.CreateKey(context.Background(), f.account.ID, name, hashOf(f.account.ID+name), "abcd", change)
	require.NoError(f.t, err)
	return k
}

// hashOf stands for the hash of a key's text.
func hashOf(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func (f *fixture) next(what string) string { return fmt.Sprintf("%s-%06d", what, f.n.Add(1)) }

func (f *fixture) verify(kept ...ledger.Checkpoint) ledger.Report {
	r, err := f.store.Verify(context.Background(), kept...)
	require.NoError(f.t, err)
	require.True(f.t, r.OK, "%s: %s", r.Entry, r.Problem)
	var sum int64
	for _, s := range r.Sums {
		sum += s
	}
	require.Zero(f.t, sum, "the trial balance is zero: %v", r.Sums)
	return r
}

func (f *fixture) topUp(credits int64) ledger.Balance {
	b, applied, err := f.store.AddCredit(context.Background(), ledger.Credit{Account: f.account.ID, Credits: credits})
	require.NoError(f.t, err)
	require.True(f.t, applied)
	return b
}

// now is the account as it is.
func (f *fixture) now() ledger.Account {
	a, err := f.store.Account(context.Background(), f.account.ID)
	require.NoError(f.t, err)
	return a
}

func (f *fixture) balance() ledger.Balance { return f.now().Balance }
func (f *fixture) period() ledger.Period   { return f.now().Period }

// keyNow is a key as it is.
func (f *fixture) keyNow(id string) ledger.Key {
	for _, k := range f.keys("") {
		if k.ID == id {
			return k
		}
	}
	require.FailNow(f.t, "no such key", id)
	return ledger.Key{}
}

func (f *fixture) newHold(route string, microcents int64) ledger.Hold {
	id := f.next("request")
	return ledger.Hold{
		Request:    id,
		Account:    f.account.ID,
		Key:        f.key.ID,
		Endpoint:   "chat",
		Profile:    cmp.Or(f.profile, "balanced"),
		Microcents: microcents,
		Attempt:    f.attempt(id, 1, route),
	}
}

func (f *fixture) attempt(request string, seq int64, route string) ledger.Attempt {
	return ledger.Attempt{
		ID: ledger.AttemptID(request, seq), Route: route, Provider: "local", Model: "m", PriceVersion: f.version[route],
		Worst: unbound,
	}
}

// admit expects a hold to be admitted.
func (f *fixture) admit(h ledger.Hold) ledger.Balance {
	b, err := f.store.Hold(context.Background(), h)
	require.NoError(f.t, err)
	f.running[h.Request] = h
	return b
}

// hold expects to be admitted.
func (f *fixture) hold(route string, microcents int64) ledger.Hold {
	h := f.newHold(route, microcents)
	f.admit(h)
	return h
}

// begin begins a further attempt of a request, whose total it adds nothing to.
func (f *fixture) begin(h ledger.Hold, seq int64, route string) {
	require.NoError(f.t, f.store.Begin(context.Background(),
		ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, seq, route)}))
}

func (f *fixture) settle(s ledger.Settlement) ledger.Charge {
	c, err := f.store.Settle(context.Background(), s)
	require.NoError(f.t, err)
	delete(f.running, s.Request)
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

// unproven leaves a settled request whose only attempt waits for a receipt.
func (f *fixture) unproven(route string, change func(*ledger.Settlement)) ledger.Hold {
	return f.unprovenOf(f.hold(route, 10_000), change)
}

// unprovenOf settles a request so.
func (f *fixture) unprovenOf(h ledger.Hold, change func(*ledger.Settlement)) ledger.Hold {
	s := ok(h, nil)
	s.Results[0].Outcome = ledger.Unproven
	if change != nil {
		change(&s)
	}
	f.settle(s)
	return h
}

// receipt expects a receipt to be taken.
func (f *fixture) receipt(attempt string, u *llm.Usage) ledger.Charge {
	c, applied, err := f.store.AddReceipt(context.Background(), attempt, *u)
	require.NoError(f.t, err)
	require.True(f.t, applied)
	return c
}

// closeWaiting closes every attempt that waits, and expects so many.
func (f *fixture) closeWaiting(attempts int64) {
	n, err := f.store.CloseUnproven(context.Background(), f.clock.now().AddDate(1, 0, 0))
	require.NoError(f.t, err)
	require.Equal(f.t, attempts, n.Attempts)
}

func (f *fixture) setPlan(plan string) ledger.Account {
	a, err := f.store.SetPlan(context.Background(), f.account.ID, plan)
	require.NoError(f.t, err)
	return a
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
