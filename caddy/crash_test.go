//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var crashSeed = flag.Uint64("crash.seed", 0, "the seed of the crash tests; 0: another one each time")

// TestCrash kills a gateway under load again and again; see crashes for what must hold.
func TestCrash(t *testing.T) {
	t.Parallel()
	cycles := 16  // `make soak` has 1,000
	if racing() { // a start takes several times as long
		cycles = 8
	}
	crashes(t, cycles)
}

// crash is a gateway's data folder that outlives its gateways, with what their clients saw.
type crash struct {
	dir     string
	up      *upstream.Server
	office  *office
	rng     *rand.Rand
	payers  []payer
	keys    []string  // of all payers
	config  [2]string // gateway.hcl, with two sets of prices
	reloads int
	locks   int
	last    book           // after the latest gateway
	end     string         // of the latest gateway: in the middle of what it was
	ends    map[string]int // how often there was each, and what it was found to have left
	watched int            // plugins of gateways that were killed
	spooled bool           // the latest gateway has left settlements in its log
	kills   int            // gateways that were killed
	opening time.Duration  // from when the latest one that started had the ledger until it served

	mu      sync.Mutex
	seen    map[string]int64  // what clients were told is final, in microcents, by X-Request-Id
	told    map[string]int    // how often clients were told each status, with what it says beside
	topUps  map[string]string // the account, by the top-up's reference
	unsure  map[string]string // of those, the ones that nobody has confirmed
	orphans sync.WaitGroup
	left    []int // plugins that were there three seconds after their gateway
}

// crashes kills a gateway with SIGKILL that many times, at any moment of its start, its work and its end, under
// clients of all shapes on several accounts and keys, and starts the next one on the same data. Prices change on the
// way, plugins are killed before their gateway, and sometimes another process keeps the database locked, so that
// settlements go to the spool. The fake service goes on all the time and writes down what it served; no two of its
// replies report the same usage, so that each charge is traced to its one reply. Of two of the three routes it says
// what was used in the reply; of the third one it tells later, when it is asked. After every end:
//
//   - what a client saw as final, whole reply or not, is in the ledger once, with that amount, or in the log, and in
//     the ledger when the next gateway has started;
//   - what an earlier gateway settled is as it was, but for what receipts have added;
//   - every account is worth its top-ups less its charges, and every charge is the price of what is proven;
//   - the verification finds nothing, before and after the next start, and that releases all holds and takes up the
//     log;
//   - no plugin is left after three seconds.
//
// In the end a gateway ends in the ordinary way, and another one asks for the receipts that are missing. Then see
// trace. It returns crash.ends.
func crashes(t *testing.T, cycles int) map[string]int {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to do this again: -crash.seed=%d", seed)
	c := newCrash(t, seed)
	g := c.open(t, payer{"anna", "trial", 1_000_000}, payer{"berta", "trial", 1_000_000},
		payer{"clara", "trial", 1_000_000})
	for cycle := range cycles {
		lock := cycle%15 == 7
		switch {
		case g != nil:
		case lock:
			g = c.start(t)
		default:
			g = c.next(t)
		}
		switch {
		case g == nil: // it was killed as it started
		case lock:
			c.work(t, g, func() { c.lockOut(t, g) })
		case c.rng.IntN(4) == 0:
			c.work(t, g, func() {
				c.reload(t, g)
				c.kill(t, g, "reload", 400*time.Millisecond)
			})
		case c.rng.IntN(6) == 0:
			c.work(t, g, func() {
				plugins := g.children(t)
				plugins[c.rng.IntN(len(plugins))].kill(t)
				c.kill(t, g, "work", 400*time.Millisecond)
			})
		case c.rng.IntN(6) == 0:
			c.work(t, g, func() {
				g.terminate(t)
				c.kill(t, g, "drain", 50*time.Millisecond)
			})
		default:
			c.work(t, g, func() { c.kill(t, g, "work", 400*time.Millisecond) })
		}
		c.check(t)
		g = nil
	}

	c.orphans.Wait()
	t.Logf("%v", c.ends)
	require.Empty(t, c.left, "plugins that were left after three seconds")
	require.Positive(t, c.watched)
	require.NoError(t, c.up.Idle(withTimeout(t)))
	served := len(c.up.Records())
	require.NotEmpty(t, c.seen, "gateways that were killed have answered too")
	require.Positive(t, c.ends["lock, with a spool in use"])
	require.Subset(t, []string{"200", "502", "503 ", "503 5"}, slices.Collect(maps.Keys(c.told)), "%v", c.told)
	g = c.start(t)
	c.work(t, g, func() { g.stop(t) })
	c.check(t)
	g = c.start(t)
	c.collect(t)
	g.stop(t)
	c.check(t)
	c.trace(t, served)
	return c.ends
}

func newCrash(t testing.TB, seed uint64) *crash {
	c := &crash{dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 0)), office: openOffice(t), ends: map[string]int{},
		seen: map[string]int64{},
		told: map[string]int{}, topUps: map[string]string{}, unsure: map[string]string{}}
	c.up = upstream.Start(t, upstream.Options{
		Script: func(req *upstream.Request) upstream.Reply { return moody(seed, req) },
		OnEnd:  c.office.file,
	})
	c.config = crashHCL(t, c.up, c.office)
	files{"gateway.hcl": c.config[0]}.write(t, c.dir)
	return c
}

// payer is an account that sends requests.
type payer struct {
	name, plan string
	credits    int64 // at first
}

const (
	crashKeys  = 2 // of each account
	crashTopUp = 7 // credits, now and then
)

// open starts the first gateway.
func (c *crash) open(t testing.TB, payers ...payer) *gateway {
	t.Helper()
	g := runGateway(t, c.dir)
	for _, p := range payers {
		c.payers = append(c.payers, p)
		g.call(t, "POST", "/fareway/accounts", map[string]any{"name": p.name, "plan": p.plan}, nil)
		g.call(t, "POST", "/fareway/credits", map[string]any{"account": p.name, "credits": p.credits}, nil)
		for range crashKeys {
			c.keys = append(c.keys, g.key(t, p.name))
		}
	}
	return g
}

// next starts a gateway, or kills it while it starts and returns nil: at any moment, or while it puts right what the
// one before has left.
func (c *crash) next(t testing.TB) *gateway {
	t.Helper()
	odds := 6
	if c.spooled {
		odds = 2
	}
	if c.rng.IntN(odds) > 0 {
		return c.start(t)
	}
	g := launchGateway(t, c.dir)
	if c.rng.IntN(3) == 0 {
		c.kill(t, g, "start", 400*time.Millisecond)
		return nil
	}
	c.awaitLock(t, g)
	c.kill(t, g, "recovery", max(c.opening, time.Millisecond))
	return nil
}

// awaitLock waits until a gateway that starts has the ledger.
func (c *crash) awaitLock(t testing.TB, g *gateway) {
	t.Helper()
	eventually(t, func() (bool, string) {
		b, err := os.ReadFile(filepath.Join(c.dir, "fareway.db.lock"))
		return strings.HasPrefix(string(b), strconv.Itoa(g.cmd.Process.Pid)+" "), fmt.Sprintf("%s %v", b, err)
	})
}

// start starts a gateway and sees what it has made of what it found.
func (c *crash) start(t testing.TB) *gateway {
	t.Helper()
	g := launchGateway(t, c.dir)
	c.awaitLock(t, g)
	locked := time.Now()
	g.awaitStart(t)
	c.opening = time.Since(locked)
	report := g.verify(t)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	require.Zero(t, report.Holds, "the holds of the dead are released")
	require.Zero(t, g.metrics(t)["fareway_spooled_settlements"], "the settlements of the dead are applied")
	c.end = "stop"
	c.requireSeen(t)
	for _, key := range c.keys {
		require.Zero(t, summary(t, g, key).Credits.Reserved)
	}
	// Nobody knows whether these top-ups were made. With their references they can be repeated.
	for reference, account := range c.unsure {
		g.call(t, "POST", "/fareway/credits", topUp(account, reference), nil)
	}
	clear(c.unsure)
	return g
}

// requireSeen: all that clients were told is final is on record once, when the next gateway has started.
func (c *crash) requireSeen(t testing.TB) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(c.dir, "fareway.db"), sqlite.OpenReadOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	charged, entries := map[string]int64{}, map[string]int{}
	rows(t, conn, `SELECT id, charge FROM requests WHERE NOT pending`, func(row *sqlite.Stmt) {
		charged[row.ColumnText(0)] = row.ColumnInt64(1)
	})
	rows(t, conn, `SELECT request FROM entries WHERE request IS NOT NULL`, func(row *sqlite.Stmt) {
		entries[row.ColumnText(0)]++
	})
	for id, amount := range c.seen {
		microcents, ok := charged[id]
		require.True(t, ok, "%s was final, and is not on record", id)
		require.Equal(t, amount, microcents, id)
		require.Equal(t, 1, entries[id], id)
	}
}

// kill ends a gateway within that time, in the middle of what it does.
func (c *crash) kill(t testing.TB, g *gateway, during string, most time.Duration) {
	t.Helper()
	c.pause(most)
	c.watch(t, g)
	g.kill()
	c.kills++
	c.end = during
}

// pause lets some time pass, at most that much.
func (c *crash) pause(most time.Duration) { <-time.After(time.Duration(c.rng.Int64N(int64(most)))) }

// watch follows the plugins of a gateway that is about to be killed.
func (c *crash) watch(t testing.TB, g *gateway) {
	t.Helper()
	for _, p := range g.children(t) {
		c.watched++
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

// reload gives the gateway other prices.
func (c *crash) reload(t testing.TB, g *gateway) {
	t.Helper()
	c.reloads++
	files{"gateway.hcl": c.config[c.reloads%2]}.write(t, c.dir)
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGUSR1))
}

// lockOut kills a gateway whose ledger is locked, as soon as there are settlements in its spool: by turns before the
// lock is free, and soon after that.
func (c *crash) lockOut(t testing.TB, g *gateway) {
	t.Helper()
	lock := lockLedger(t, c.dir)
	eventually(t, func() (bool, string) { return g.metrics(t)["fareway_spooled_settlements"] > 0, "the spool is empty" })
	c.locks++
	if c.locks%2 == 1 {
		c.kill(t, g, "lock", 400*time.Millisecond)
		lock.release(t)
		return
	}
	c.pause(400 * time.Millisecond)
	lock.release(t)
	c.pause(2 * time.Second) // it tries again in growing intervals
	c.kill(t, g, "unlock", 400*time.Millisecond)
}

// crashPrices are what the routes of crashHCL cost with one set of prices and the other, in microcents for a million
// tokens of input and of output.
var crashPrices = map[string][][2]int64{
	"first":  {{300_000_000, 1_500_000_000}, {300_000_000, 1_400_000_000}},
	"second": {{400_000_000, 1_700_000_000}, {400_000_000, 1_800_000_000}},
	"third":  {{2_000_000_000, 4_000_000_000}, {2_000_000_000, 5_000_000_000}},
}

// crashHCL has three routes: two of a provider that says at once what it used, the second of them never fails before
// it has said something, and the third of a provider that gives receipts later. It has two sets of prices.
func crashHCL(t testing.TB, up *upstream.Server, o *office) (config [2]string) {
	t.Helper()
	one := strings.ReplaceAll(hcl(up), `"standard"`, `"first"`)
	route := one[strings.Index(one, `route "first"`):]
	second := strings.NewReplacer(`"first"`, `"second"`, "0.5", "0.4", "= 3", "= 4", "= 15", "= 17").Replace(route)
	third := strings.NewReplacer(`"first"`, `"third"`, `"up"`, `"later"`, "0.5", "0.9", "= 3", "= 20", "= 15",
		"= 40").Replace(route)
	all := `gateway {
  plugin_dir = "` + pluginFolder(t) + `"
}

provider "later" {
  plugin = "later"
  start_timeout = "1m"
  config {
    base_url = "` + up.BaseURL() + `"
    desk     = "` + o.url + `"
  }
}
` + one + second + third
	return [2]string{all, strings.NewReplacer(`carry  = "host"`, `carry  = "process"`,
		"= 15\n", "= 14\n", "= 17\n", "= 18\n", "= 40\n", "= 50\n").Replace(all)}
}
