//go:build linux && soak

package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// limitedPlans are plans with one limit each, low enough to be reached in a minute or two.
const limitedPlans = `
plan "rated" {
  requests_per_minute {
    key     = 60
    account = 0
    address = 0
  }
}

plan "shared" {
  requests_per_minute {
    key     = 0
    account = 90
    address = 0
  }
}

plan "few" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  concurrent_requests = 1
}

plan "capped" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  spend_cap_credits = 300
}

plan "budgeted" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  token_budget = 300000
}
`

// TestSoakLoad is two minutes of everything at once, limits that are reached and reloads among it. Afterwards the
// gateway and its plugins are as large as they were, and clients, metrics, ledger and service tell the same.
func TestSoakLoad(t *testing.T) { //nolint:paralleltest // what else runs would compete for the cores
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to do this again: -crash.seed=%d", seed)
	c := newCrash(t, seed)
	for i := range c.config {
		c.config[i] += limitedPlans
	}
	files{"gateway.hcl": c.config[0]}.write(t, c.dir)
	g := c.open(t, payer{"anna", "trial", 1_000_000}, payer{"berta", "trial", 1_000_000},
		payer{"clara", "trial", 1_000_000},
		payer{"rated", "rated", 1_000_000}, payer{"shared", "shared", 1_000_000}, payer{"few", "few", 1_000_000},
		payer{"capped", "capped", 1_000_000},
		payer{"budgeted", "budgeted", 1_000_000}, payer{"poor", "trial", 60})

	before := g.size(t)
	const long, period = 2 * time.Minute, 10 * time.Second
	var sizes []size
	c.press(t, g, func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for range long / period {
			<-tick.C
			c.reload(t, g)
			sizes = append(sizes, g.size(t))
			t.Logf("%s, %d requests", sizes[len(sizes)-1], len(c.up.Records()))
		}
	})
	g.settled(t)
	for what, value := range map[string]struct {
		of    func(size) int64
		slack int64
	}{
		"goroutines": {func(s size) int64 { return int64(s.goroutines) }, 50},
		"heap":       {func(s size) int64 { return s.heap }, 4 << 20},
		// SQLite's cache grows with the ledger, up to 64 MiB
		"resident": {func(s size) int64 { return s.resident }, 32 << 20},
		"files":    {func(s size) int64 { return int64(s.files) }, 50},
	} {
		var early, late int64
		for i, s := range sizes {
			if i < len(sizes)/2 {
				early = max(early, value.of(s))
			} else {
				late = max(late, value.of(s))
			}
		}
		require.LessOrEqual(t, late, early+early/4+value.slack, "%s: %v", what, sizes)
	}
	eventually(t, func() (bool, string) {
		now := g.size(t)
		// The plugins keep their connections to the service for a while.
		return now.goroutines <= before.goroutines+20 && now.files <= before.files+4*clients,
			fmt.Sprintf("%s, and before %s", now, before)
	})
	c.compare(t, g)

	g.stop(t)
	c.check(t)
	g = c.start(t)
	c.collect(t)
	g.stop(t)
	c.check(t)
	c.trace(t, 0)
	for _, limit := range []string{"402", "429 key_requests_per_minute", "429 tenant_requests_per_minute",
		"429 tenant_concurrent_requests"} {
		require.Positive(t, c.told[limit], "%v", c.told)
	}
	t.Logf("%v", c.told)
}

// press lets the clients loose until during returns, and waits for the ends of their requests.
func (c *crash) press(t *testing.T, g *gateway, during func()) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * clients}
	defer transport.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var asking, paying sync.WaitGroup
	for range 2 * clients {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		asking.Go(func() {
			for ctx.Err() == nil {
				c.ask(t.Context(), &http.Client{Transport: transport}, g.URL, rng)
			}
		})
	}
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	paying.Go(func() {
		for c.topUp(ctx, g, rng) {
		}
	})
	during()
	stop()
	asking.Wait()
	paying.Wait()
}

// compare holds the gateway's counters against what clients were told and what is in the ledger.
func (c *crash) compare(t *testing.T, g *gateway) {
	t.Helper()
	told := map[string]float64{}
	for said, n := range c.told {
		status, reason, _ := strings.Cut(said, " ")
		told["status "+status] += float64(n)
		if reason != "" {
			told["reason "+reason] += float64(n)
		}
	}
	conn, err := sqlite.OpenConn(filepath.Join(c.dir, "fareway.db"), sqlite.OpenReadOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	booked := func(query string) (n float64) {
		rows(t, conn, query, func(row *sqlite.Stmt) { n = row.ColumnFloat(0) })
		return n
	}
	// A request is counted after its reply has ended, and receipts come in all the time.
	eventually(t, func() (bool, string) {
		counted := map[string]float64{}
		var all, limited, charged, input, output float64
		for name, n := range g.metrics(t) {
			kind, labels, _ := strings.Cut(name, "{")
			switch kind {
			case "fareway_requests_total":
				_, status, _ := strings.Cut(labels, `status="`)
				counted["status "+strings.TrimSuffix(status, `"}`)] += n
				all += n
			case "fareway_limited_total":
				counted["reason "+strings.TrimSuffix(strings.TrimPrefix(labels, `reason="`), `"}`)] += n
				limited += n
			case "fareway_charged_microcents_total":
				charged += n
			case "fareway_tokens_total":
				if strings.Contains(labels, `class="input"`) {
					input += n
				} else {
					output += n
				}
			case "fareway_held_microcents", "fareway_running_attempts", "fareway_spooled_settlements":
				if n != 0 {
					return false, name
				}
			}
		}
		for name, n := range told {
			if counted[name] != n {
				return false, name + " was told " + strconv.FormatFloat(n, 'f', -1, 64) + " times, and counted " +
					strconv.FormatFloat(counted[name], 'f', -1, 64)
			}
		}
		for what, pair := range map[string][2]float64{
			"charges": {charged, booked(`SELECT -sum(microcents) FROM entries WHERE kind IN ('charge', 'receipt')`)},
			"input":   {input, booked(`SELECT sum(input) FROM attempts`)},
			"output":  {output, booked(`SELECT sum(output) FROM attempts`)},
		} {
			if pair[0] != pair[1] {
				return false, what + ": " + strconv.FormatFloat(pair[0], 'f', -1, 64) + " and in the ledger " +
					strconv.FormatFloat(pair[1], 'f', -1, 64)
			}
		}
		return all > 0 && limited > 0, "nothing was counted"
	})
}

// TestSoakLedgerFaults is TestLedgerFaults with many more who ask while the ledger is away.
func TestSoakLedgerFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range ledgerFaults(t) {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			takeAway(t, fault, 10)
		})
	}
}
