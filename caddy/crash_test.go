//go:build linux

package main_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var crashSeed = flag.Uint64("crash.seed", 0, "the seed of the crash tests; 0: another one each time")

// TestCrash kills a gateway under load again and again; see crashes for what must hold.
func TestCrash(t *testing.T) {
	t.Parallel()
	cycles := 30
	if racing() { // a start takes several times as long
		cycles = 8
	}
	crashes(t, cycles)
}

// crash is a gateway's data folder that outlives its gateways, with what their clients saw.
type crash struct {
	dir  string
	up   *upstream.Server
	rng  *rand.Rand
	key  string
	seen map[string]int64 // what clients were told is final, in microcents, by X-Request-Id
	last book             // after the latest gateway

	mu      sync.Mutex
	orphans sync.WaitGroup
	left    []int // plugins that were there three seconds after their gateway
}

// crashes kills a gateway with SIGKILL that many times, at any moment of its start and of its work, under clients
// of all shapes, and starts the next one on the same data. The fake service goes on all the time and writes down
// what it served; no two of its replies report the same usage, so that each charge is traced to its one reply.
// After every end:
//
//   - what a client saw as final, whole reply or not, is in the ledger once, with that amount;
//   - what an earlier gateway settled is as it was;
//   - every account is worth its top-ups less its charges;
//   - the verification finds nothing, before and after the next start, and that releases all holds;
//   - no plugin is left after three seconds.
//
// In the end a gateway ends in the ordinary way. Then every charge is the price of what the service reported with
// replies that it served whole, each charged once at most; and of those that reached the last gateway, each was.
// (What a killed gateway did not settle stays unbilled: that may be a reply that was served whole.)
func crashes(t *testing.T, cycles int) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to do this again: -crash.seed=%d", seed)
	c := &crash{dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 0)), seen: map[string]int64{}}
	c.up = upstream.Start(t, upstream.Options{Script: func(req *upstream.Request) upstream.Reply { return moody(seed, req) }})
	files{"gateway.hcl": crashHCL(c.up)}.write(t, c.dir)

	g := runGateway(t, c.dir)
	c.key = g.account(t, 1_000_000)
	for range cycles {
		if g == nil {
			g = c.next(t)
		}
		if g != nil {
			c.work(t, g, func() { g.kill() })
		}
		c.check(t)
		g = nil
	}

	c.orphans.Wait()
	require.Empty(t, c.left, "plugins that were left after three seconds")
	require.NoError(t, c.up.Idle(patient(t)))
	served := len(c.up.Records())
	require.NotEmpty(t, c.seen, "gateways that were killed have answered too")
	for g == nil {
		g = c.next(t)
	}
	c.work(t, g, func() { g.stop(t) })
	c.check(t)
	c.trace(t, served)
}

// next starts a gateway and sees what it has found, or kills it while it starts and returns nil.
func (c *crash) next(t testing.TB) *gateway {
	t.Helper()
	if c.rng.IntN(6) == 0 {
		g := launchGateway(t, c.dir)
		<-time.After(time.Duration(c.rng.IntN(400)) * time.Millisecond)
		c.watch(t, g)
		g.kill()
		return nil
	}
	g := runGateway(t, c.dir)
	report := g.verify(t)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	require.Zero(t, report.Holds, "the holds of the dead are released")
	a := summary(t, g, c.key)
	require.Zero(t, a.Credits.Reserved)
	require.Equal(t, c.last.accounts[a.Tenant.ID].net(), a.Credits.Balance*1_000_000-a.Credits.Accrued)
	return g
}

// watch follows the plugins of a gateway that is about to be killed.
func (c *crash) watch(t testing.TB, g *gateway) {
	t.Helper()
	for _, p := range g.children(t) {
		c.orphans.Go(func() {
			<-g.ended
			if !p.hasEnded(3 * time.Second) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.left = append(c.left, p.pid)
			}
		})
	}
}

// clients is how many there are at once.
const clients = 12

// work lets the clients loose on a gateway and ends it in the middle of their requests.
func (c *crash) work(t testing.TB, g *gateway, end func()) {
	t.Helper()
	arrived := int64(len(c.up.Records()))
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	ctx, stop := context.WithCancel(patient(t))
	var wg sync.WaitGroup
	for range clients {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		wg.Go(func() {
			for c.ask(ctx, &http.Client{Transport: transport}, g.URL, rng) {
			}
		})
	}
	require.NoError(t, c.up.Arrived(ctx, arrived+1))
	<-time.After(time.Duration(c.rng.IntN(400)) * time.Millisecond)
	c.watch(t, g)
	end()
	stop()
	wg.Wait()
}

// ask does one request and notes what is final of it. It returns false when nobody answers any more.
func (c *crash) ask(ctx context.Context, client *http.Client, url string, rng *rand.Rand) bool {
	s := shapes[rng.IntN(len(shapes))]
	req, err := s.newRequest(ctx, url, c.key, strings.Repeat("word ", 1+rng.IntN(50)), rng.IntN(2) == 0)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if rng.IntN(10) == 0 { // it does not want the rest
		_, err := io.CopyN(io.Discard, resp.Body, 100)
		return err == nil || errors.Is(err, io.EOF)
	}
	reply, err := io.ReadAll(resp.Body)
	// What was read before an error was seen as well.
	if bill, ok := billIn(string(reply)); ok && !bill.Pending {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[resp.Header.Get("X-Request-Id")] = bill.Microcents
	}
	return err == nil
}

// check compares the ledger that a gateway has left with what is known.
func (c *crash) check(t testing.TB) {
	t.Helper()
	b := readBook(t, c.dir)
	for id, amount := range c.seen {
		r := b.requests[id]
		require.Equal(t, "settled", r.state, id)
		require.False(t, r.pending, id)
		require.Equal(t, amount, r.charge, id)
		require.Equal(t, []int64{-amount}, r.entries, id)
	}
	for id, before := range c.last.requests {
		now, ok := b.requests[id]
		require.True(t, ok, "%s is gone", id)
		if before.state == "settled" {
			require.Equal(t, before.charge, now.charge, id)
			require.Equal(t, before.entries, now.entries, id)
		} else if now.state == "settled" {
			require.Zero(t, now.charge, "%s was settled by another gateway than its own", id)
		}
	}
	for id, r := range b.requests {
		var posted int64
		for _, e := range r.entries {
			posted -= e
		}
		require.LessOrEqual(t, len(r.entries), 1, id)
		require.Equal(t, r.charge, posted, id)
	}
	for _, p := range b.accounts {
		require.Equal(t, p.topUps-p.charges, p.net())
	}
	c.last = b
	// Not always: it may leave the files in another state than a crash does.
	if c.rng.IntN(4) == 0 {
		report := verifyOffline(t, c.dir)
		require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	}
}

// trace finds the reply behind every charge, and a charge for every reply that was served whole after the first
// so many.
func (c *crash) trace(t testing.TB, first int) {
	t.Helper()
	require.True(t, verifyOffline(t, c.dir).OK)
	require.NoError(t, c.up.Idle(patient(t)))
	records := map[int64]upstream.Record{}
	for _, rec := range c.up.Records() {
		records[rec.N] = rec
	}
	charged := map[int64]string{}
	for id, r := range c.last.requests {
		require.Equal(t, "settled", r.state, id)
		var due int64
		for _, a := range r.attempts {
			if a.input == nil {
				require.NotEqual(t, "finished", a.outcome, a.id)
				continue
			}
			n := *a.input
			rec, ok := records[n]
			require.True(t, ok, "%s used %d tokens of input that nobody reported", a.id, n)
			require.Empty(t, charged[n], "%s and %s are charged for the same reply", charged[n], a.id)
			charged[n] = a.id
			require.Equal(t, upstream.OutcomeWhole, rec.Outcome, a.id)
			require.Equal(t, &upstream.Usage{Prompt: n, Completion: *a.output}, rec.Reported, a.id)
			require.Equal(t, rec.Model, a.model, a.id)
			due += n*a.priceIn + *a.output*a.priceOut
		}
		require.Equal(t, due/1_000_000, r.charge, id)
	}
	last := 0
	for n, rec := range records {
		if int(n) > first && rec.Outcome == upstream.OutcomeWhole {
			last++
			require.NotEmpty(t, charged[n], "reply %d was served whole, and its gateway ended well", n)
		}
	}
	t.Logf("%d requests, %d replies charged, %d seen as final, %d of %d by the last gateway",
		len(c.last.requests), len(charged), len(c.seen), last, len(records))
	require.Positive(t, last)
	require.Greater(t, len(c.last.requests), len(charged), "some requests were caught in the middle")
}

// moody answers in many ways and tempos. Its usage has the request's number as its input.
func moody(seed uint64, req *upstream.Request) upstream.Reply {
	rng := rand.New(rand.NewPCG(seed, uint64(req.N)))
	var steps []upstream.Step
	for range 1 + rng.IntN(30) {
		steps = append(steps, upstream.Text("word "))
		if rng.IntN(4) == 0 {
			steps = append(steps, upstream.Sleep(time.Duration(rng.IntN(5000))*time.Microsecond))
		}
	}
	switch {
	case rng.IntN(12) == 0 && req.Model == "first": // the other route takes it
		return upstream.Refuse(upstream.ServerError())
	case rng.IntN(20) == 0:
		return upstream.Reply{Steps: append(steps, upstream.Cut())}
	}
	return upstream.Reply{Steps: append(steps, upstream.Finish("stop"),
		upstream.ReportTokens(upstream.Usage{Prompt: req.N, Completion: 1 + rng.Int64N(100)}), upstream.Done())}
}

// crashHCL has a second route for what the first refuses, at another price.
func crashHCL(up *upstream.Server) string {
	first := strings.ReplaceAll(hcl(up), `"standard"`, `"first"`)
	route := first[strings.Index(first, `route "first"`):]
	return first + strings.NewReplacer(`"first"`, `"second"`, "0.5", "0.4", "= 3", "= 4", "= 15", "= 17").Replace(route)
}
