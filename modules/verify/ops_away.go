package verify

import (
	"os"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/verify/testbed"
)

// opsAwayChecks take away what the gateway needs: its route's capacity, its provider, its ledger.
func opsAwayChecks() []opsCheck {
	once := func(o *ops, s shape, mode string) *answer { return o.send(call{Path: s.Path, Body: o.body(s, mode)}) }
	return []opsCheck{
		onEach("LIM-12", "the route is at capacity", singleGate, func(o *ops, s shape) {
			busy := o.customer(1_000_000)
			before := o.balance()
			c, b := busy.liveBlocked(s, busy.body(s))
			for _, mode := range modes {
				a := once(o, s, mode)
				o.Equal(429, a.Status, "the status")
				o.errorForm(s, a, "rate_limit_exceeded")
				for _, name := range []string{"Retry-After", "X-RateLimit-Reason", "X-Should-Retry"} {
					o.Equal("", a.Header.Get(name), name)
				}
			}
			o.Equal(1, len(o.calls()), "the number of calls to the route")
			o.Equal(before, o.balance(), "the account")
			busy.release(c, b)
			for _, mode := range modes {
				o.Equal(200, once(o, s, mode).Status, "the status when the capacity is free again")
			}
		}),
		{"ERR-28", "the only provider is away", singleGate, func(o *ops) {
			before := o.balance()
			for i := range 5 { // each restart waits twice as long as the one before, which leaves time to ask
				o.killProvider(i + 1)
			}
			for _, s := range shapes {
				for _, mode := range modes {
					a := once(o, s, mode)
					o.Equal(503, a.Status, "the status")
					o.errorForm(s, a, "upstream_error")
					o.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry")
				}
			}
			o.untouched(before)
			o.awaitProvider()
			for _, s := range shapes {
				o.Equal(200, once(o, s, modes[0]).Status, "the status when the provider is back")
			}
		}},
		onEach("ERR-24", "the ledger fails at the admission", singleGate, func(o *ops, s shape) {
			fresh := o.customer(1_000_000) // the gateway has not read it yet
			before := fresh.balance()
			fresh.whileConfused(func() {
				for _, mode := range modes {
					a := once(fresh, s, mode)
					o.requireStatus(s, a, 500, "internal_server_error")
					for _, detail := range []string{"key", "line", "not found", "sqlite", "ledger"} {
						o.True(!strings.Contains(strings.ToLower(string(a.Raw)), detail), "the error tells a detail: %s",
							brief(string(a.Raw)))
					}
					o.True(a.Header.Get("X-Request-Id") != "", "the error has no X-Request-Id")
					o.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry")
					r := o.record(a)
					o.Equal(any(500.0), r["status"], "the status of the record: what was sent")
					o.Equal(any(0.0), r["microcents"], "the charge of the record")
				}
			})
			fresh.untouched(before)
			for _, mode := range modes {
				o.Equal(200, once(fresh, s, mode).Status, "the status when the fault is gone")
			}
		}),
	}
}

// whileConfused does something while the account's key names another as its first one that there is not, which is an
// error that the gateway cannot have foreseen when it reads what the account's holds are decided on.
func (o *ops) whileConfused(do func()) {
	turn := func() {
		o.withLedger(func(run func(sql string, args ...any)) {
			run(`UPDATE keys SET root = -root WHERE id = ?`, o.account.KeyID)
		})
	}
	turn()
	defer turn() // and back
	do()
}

// killProvider ends the provider's process, the nth one, and waits until the gateway has noticed.
func (o *ops) killProvider(nth int) {
	o.awaitProvider()
	started := o.logged(`"provider started"`)
	o.Equal(nth, len(started), "the number of provider processes so far")
	pid, err := strconv.Atoi(str(started[nth-1]["pid"]))
	o.True(err == nil, "the provider's pid is %s", brief(started[nth-1]["pid"]))
	process, err := os.FindProcess(pid)
	o.True(err == nil, "finding the provider's process %d: %v", pid, err)
	err = process.Kill()
	o.True(err == nil, "ending the provider's process %d: %v", pid, err)
	o.await("the gateway to notice the end of its provider", func() bool {
		return len(o.logged(`"provider failed; starting it again"`)) >= nth
	})
}

// awaitProvider waits until all providers take requests.
func (o *ops) awaitProvider() {
	o.await("the provider to start", func() bool {
		var status struct{ Ready bool }
		return o.gate.Admin.Call(o.ctx, "GET", "/fareway/status", nil, &status) == nil && status.Ready
	})
}

// withLedger does what no request can to the gateway's ledger.
func (o *ops) withLedger(do func(run func(sql string, args ...any))) {
	err := o.gate.WithLedger(func(run testbed.Run) error {
		do(func(sql string, args ...any) {
			err := run(sql, args...)
			o.True(err == nil, "%v", err)
		})
		return nil
	})
	o.True(err == nil, "%v", err)
}
