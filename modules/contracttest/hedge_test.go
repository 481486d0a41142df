package contracttest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The hedged second attempt. Nothing here waits for a time to pass: a first call that is to be late shows nothing
// before something has come of the second one.

// hedging is a profile whose requests are late at once, of which so many are called for twice.
func hedging(share float64) string {
	return fmt.Sprintf("profile \"balanced\" {\n  cost = 0.1\n  quality = 0.9\n  hedge = \"1ms\"\n  hedge_share = %g\n}\n",
		share)
}

// inOrder are routes that are called in this order.
var inOrder = []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.6}, {Name: "third", Quality: 0.3}}

// gate is opened once, by whoever comes first.
type gate struct {
	once sync.Once
	ch   chan struct{}
}

func newGate() *gate { return &gate{ch: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

// after waits at a gate before a reply, which is never a whole one before.
func after(g *gate, r upstream.Reply) upstream.Reply {
	r.Steps = append([]upstream.Step{upstream.WaitFor(g.ch)}, r.Steps...)
	return r
}

var silent = upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}}

// racing is what the routes of a race say. The second one says nothing before the first call has come.
type racing struct {
	first, second, third upstream.Reply
	came, arrived        *gate // the first call, and the second one
}

func newRacing() *racing { return &racing{came: newGate(), arrived: newGate()} }

func (r *racing) answer(req *upstream.Request) upstream.Reply {
	switch req.Model {
	case "first":
		r.came.open()
		return r.first
	case "second":
		r.arrived.open()
		return after(r.came, r.second)
	}
	return r.third
}

// callTo is the caller's call to a route.
func (c *caller) callTo(model string) *upstream.Request {
	seen := c.Seen()
	return seen[slices.IndexFunc(seen, func(r *upstream.Request) bool { return r.Model == model })]
}

// hedges counts what came of late calls.
func (s *service) hedges(t testing.TB, outcome string) (n float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	found, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range found {
		for _, m := range f.GetMetric() {
			if f.GetName() == "fareway_hedges_total" && m.GetLabel()[0].GetValue() == outcome {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// operators are the routes of attempts that are the operator's.
func operators(r ledger.RequestRecord) (names []string) {
	for _, a := range r.Attempts {
		if a.Operator {
			names = append(names, a.Route)
		}
	}
	return names
}

func TestHedge(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: inOrder, Extra: hedging(1)})
	other := script(used(20, 5), "stop", upstream.Text("Good"), upstream.Text("bye"))
	const otherCost = 20*300 + 5*1500
	for _, sh := range shapes {
		for _, mode := range modes {
			for _, tc := range []struct {
				name      string
				run       func(r *racing)
				text      string
				cost      int64
				called    []string
				operators []string
			}{
				{"the second one answers", func(r *racing) { r.first, r.second = silent, other }, "Goodbye", otherCost,
					[]string{"first", "second"}, []string{"first"}},
				{"the first one answers after all", func(r *racing) { r.first, r.second = after(r.arrived, other), silent },
					"Goodbye", otherCost, []string{"first", "second"}, []string{"second"}},
				{"the first one fails, and its work is the operator's", func(r *racing) {
					r.first, r.second = after(r.arrived, worked(used(100, 7))), other
				}, "Goodbye", otherCost, []string{"first", "second"}, []string{"first"}},
				{"the second one declines, which the client never hears", func(r *racing) {
					r.first, r.second = after(r.arrived, other), upstream.Refuse(upstream.ContentFilter())
				}, "Goodbye", otherCost, []string{"first", "second"}, []string{"second"}},
				{"both fail, and the third is fallen back on", func(r *racing) {
					r.first, r.second, r.third = after(r.arrived, failing), failing, other
				}, "Goodbye", otherCost, []string{"first", "second", "third"}, nil},
				{"tool calls are something to show", func(r *racing) {
					r.first = silent
					r.second = script(used(20, 5), "tool_calls", upstream.ToolCall(0, "c", "look"), upstream.Arguments(0, `{}`))
				}, "", otherCost, []string{"first", "second"}, []string{"first"}},
				{"the first one is too long for its route", func(r *racing) {
					r.first, r.second = after(r.arrived, upstream.Refuse(upstream.ContextLength())), other
				}, "Goodbye", otherCost, []string{"first", "second"}, []string{"first"}},
			} {
				t.Run("BILL-21 SSE-50 "+tc.name+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					r := newRacing()
					tc.run(r)
					c.AnswersBy(r.answer)
					before := c.Net()
					a := c.Ask(sh, mode.Field, askForCalls(sh))
					o := outcomeOf(t, sh, a)
					require.Equal(t, tc.text, o.Text)
					require.Equal(t, tc.cost, o.Billed(t))
					require.Equal(t, tc.cost, before-c.Net())
					require.Equal(t, tc.called, c.called())
					record := c.Record(t, a)
					require.False(t, record.Pending)
					require.Len(t, record.Attempts, len(tc.called))
					if tc.operators != nil {
						require.Equal(t, tc.operators, operators(record))
					} else {
						require.Len(t, operators(record), 1, "of the two, whichever failed first")
					}
					require.Zero(t, c.Balance().Held)
				})
			}
			t.Run("POL-02 a decline of the first one ends the request "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				r := newRacing()
				r.first, r.second = after(r.arrived, upstream.Refuse(upstream.ContentFilter())), silent
				c.AnswersBy(r.answer)
				before := c.Net()
				a := c.Ask(sh, mode.Field)
				requireError(t, sh, a, 400, "invalid_request_error")
				require.Zero(t, before-c.Net())
				require.Equal(t, []string{"first", "second"}, c.called())
				require.Equal(t, []string{"second"}, operators(c.Record(t, a)))
				left, err := c.Upstream.Ended(within(t), c.callTo("second").N)
				require.NoError(t, err)
				require.Equal(t, upstream.OutcomeLeft, left.Outcome)
			})
		}
	}
}

// A reply that is shown as it comes is not kept waiting by the other attempt, which is cancelled at once.
func TestHedgeIsLive(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("SSE-46 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Routes: inOrder, Extra: hedging(1)})
			c := g.rich(t)
			rest := newGate()
			t.Cleanup(rest.open)
			r := newRacing()
			r.first = silent
			r.second = script(used(10, 2), "stop", upstream.Text("Hel"), upstream.WaitFor(rest.ch), upstream.Text("lo"))
			c.AnswersBy(r.answer)
			l := c.Open(t, sh)
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			left, err := c.Upstream.Ended(within(t), c.callTo("first").N)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeLeft, left.Outcome, "cancelled, and not read to its end")
			rest.open()
			l.End()
			require.Nil(t, judge(t, sh, l).Error)
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, "second", line["route"])
			require.InDelta(t, helloCost, line["microcents"], 0)
			require.InDelta(t, 1, g.hedges(t, engine.HedgeStarted), 0)
			require.InDelta(t, 1, g.hedges(t, engine.HedgeWon), 0)
		})
	}
}

// What an attempt that lost is proven to have used is on record, and a cost of the operator's.
func TestHedgesLoserProvesItsWork(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("BILL-22 GAP-47 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Plugin: "prover", Routes: inOrder, Extra: hedging(1), Gateway: `keepalive = "1h"`})
			c := g.rich(t)
			accepted, rest := newGate(), newGate()
			t.Cleanup(func() { accepted.open(); rest.open() })
			r := newRacing()
			r.first = silent
			r.second = after(accepted, script(used(10, 2), "stop", upstream.Text("Hel"), upstream.WaitFor(rest.ch),
				upstream.Text("lo")))
			c.AnswersBy(r.answer)
			l := c.Open(t, sh) // by the first one's header
			accepted.open()
			l.Start(sh)
			require.Eventually(t, func() bool { _, attempts := g.Engine.InProgress(); return attempts == 1 }, time.Minute,
				time.Millisecond)
			rest.open()
			l.End()
			id := l.Header.Get("X-Request-Id")
			require.InDelta(t, helloCost, c.Access(id)["microcents"], 0)
			record := c.record(t, id, func(r ledger.RequestRecord) bool { return !r.Running })
			require.Equal(t, []string{"first"}, operators(record))
			lost := record.Attempts[0]
			cost, err := ledger.Cost(lost.Usage, lost.Cost)
			require.NoError(t, err)
			require.EqualValues(t, provenCost, cost)
			var sum ledger.UsageRow
			require.NoError(t, g.Engine.Store().Usage(within(t), ledger.UsageQuery{Query: ledger.Query{Account: c.Account.ID}},
				func(row ledger.UsageRow) error { sum = row; return nil }))
			require.EqualValues(t, helloCost, sum.Microcents)
			require.EqualValues(t, helloCost+provenCost, sum.Cost)
		})
	}
}

// accepted is a race whose stream is open: the first one was accepted, and says the rest when that is opened.
func accepted(t *testing.T) (r *racing, rest *gate) {
	rest = newGate()
	t.Cleanup(rest.open)
	r = newRacing()
	r.first, r.second = after(rest, hello), silent
	r.first.Steps = slices.Insert(r.first.Steps, 0, upstream.Headers())
	return r, rest
}

// A client that leaves leaves both. The first one goes on where its work cannot be proven otherwise, and is charged.
func TestHedgeAndAClientThatLeaves(t *testing.T) {
	t.Parallel()
	for plugin, cost := range map[string]int64{"openai": helloCost, "prover": provenCost} {
		t.Run("GAP-47 BILL-22 "+plugin, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Plugin: plugin, Routes: inOrder, Extra: hedging(1), Gateway: `keepalive = "1h"`})
			c := g.rich(t)
			r, rest := accepted(t)
			c.AnswersBy(r.answer)
			gone := c.Departure()
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, shapeOf("chat"), streamField).Live()
			requireClosed(t, r.arrived.ch)
			leave()
			requireClosed(t, gone)
			left := []string{"second"}
			if plugin == "prover" { // the first one too, and only then has it more to say
				left = append(left, "first")
			}
			for _, route := range left {
				ended, err := c.Upstream.Ended(within(t), c.callTo(route).N)
				require.NoError(t, err)
				require.Equal(t, upstream.OutcomeLeft, ended.Outcome)
			}
			rest.open()
			id := l.Header.Get("X-Request-Id")
			require.Equal(t, "client_left", c.Access(id)["reason"])
			record := c.record(t, id, func(r ledger.RequestRecord) bool { return !r.Running })
			require.Equal(t, []string{"second"}, operators(record))
			require.Equal(t, cost, record.Microcents)
		})
	}
}

// TestHedgeAndShadow has both in one profile: the reply is compared, once and whoever gave it, and the account pays
// for that alone.
func TestHedgeAndShadow(t *testing.T) {
	t.Parallel()
	profile := strings.TrimSuffix(hedging(1), "}\n") + "  shadow {\n    route = \"third\"\n    share = 1\n  }\n}\n"
	g := startScripted(t, setup{Routes: inOrder, Extra: profile})
	other := script(used(20, 5), "stop", upstream.Text("Goodbye"))
	const otherCost = 20*300 + 5*1500
	for _, sh := range shapes { // one after the other: each waits until nothing runs
		for _, mode := range modes {
			for _, tc := range []struct {
				name   string
				run    func(r *racing)
				status int
				cost   int64
				called []string // sorted
				lost   int      // attempts that are the operator's
				shadow bool
			}{
				{"the second one answers", func(r *racing) { r.first, r.second, r.third = silent, other, hello }, 200,
					otherCost, []string{"first", "second", "third"}, 1, true},
				{"the first one answers after all", func(r *racing) {
					r.first, r.second, r.third = after(r.arrived, other), silent, hello
				}, 200, otherCost, []string{"first", "second", "third"}, 1, true},
				{"the compared one fails", func(r *racing) { r.first, r.second, r.third = silent, other, failing }, 200,
					otherCost, []string{"first", "second", "third"}, 1, true},
				{"the compared one is what was fallen back on", func(r *racing) {
					r.first, r.second, r.third = after(r.arrived, failing), failing, other
				}, 200, otherCost, []string{"first", "second", "third"}, 1, false},
				{"all fail", func(r *racing) {
					r.first, r.second, r.third = after(r.arrived, failing), failing, failing
				}, 502, 0, []string{"first", "second", "third"}, 1, false},
			} {
				t.Run("BILL-21 "+tc.name+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					c := g.rich(t)
					r := newRacing()
					tc.run(r)
					c.AnswersBy(r.answer)
					before := c.Net()
					a := c.Ask(sh, mode.Field)
					compared, made := g.compared(t, a)
					require.Equal(t, tc.shadow, made)
					require.Equal(t, tc.called, slices.Sorted(slices.Values(c.called())))
					require.Equal(t, tc.cost, before-c.Net())
					record := c.Record(t, a)
					require.Equal(t, tc.status, record.Status)
					require.Equal(t, tc.cost, record.Microcents)
					require.False(t, record.Pending)
					require.Len(t, operators(record), tc.lost)
					require.Zero(t, c.Balance().Held)
					if made {
						require.Zero(t, compared.Microcents+compared.Held+compared.Over+compared.Waived)
						require.Equal(t, []string{"third"}, operators(compared))
					}
				})
			}
		}
	}
}

// After a crash nobody knows which of both the client has seen: a receipt of the second one charges nothing.
func TestHedgeAndACrash(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Store: config.SQLite, Routes: inOrder, Extra: hedging(1)})
	c := g.rich(t)
	r, rest := accepted(t)
	c.AnswersBy(r.answer)
	l := c.Open(t, shapeOf("chat"))
	requireClosed(t, r.arrived.ch)

	path := filepath.Join(t.TempDir(), "fareway.db") // as it would be left when both calls have come into it
	db := g.tamper(t)
	g.awaitHolds(t, db, 2)
	require.NoError(t, sqlitex.ExecuteTransient(db, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{path}}))
	left, err := zombie.OpenConn(path, zombie.OpenReadWrite, zombie.OpenWAL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, left.Close()) })
	store, err := sqlite.Open(sqlite.Options{Path: path})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	recovered, err := store.Recover(within(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, recovered)
	for seq, charged := range []bool{true, false} {
		_, applied, err := store.AddReceipt(within(t), ledger.AttemptID(l.Header.Get("X-Request-Id"), int64(seq)+1),
			llm.Usage{Input: llm.Count(10), Output: llm.Count(2)})
		require.NoError(t, err)
		require.Equal(t, charged, applied)
	}
	rest.open()
	l.End()
}

// No more requests than hedge_share says are called for twice, and those that are not are answered all the same.
func TestHedgeShare(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	g := startScripted(t, setup{Routes: inOrder, Extra: hedging(0.25)})
	c := g.rich(t)
	const requests = 8
	for n := range requests {
		limited := g.hedges(t, engine.HedgeLimited)
		released := newGate()
		t.Cleanup(released.open)
		r := newRacing()
		r.first, r.second = after(released, hello), hello
		c.AnswersBy(r.answer)
		done := make(chan answer, 1)
		go func() { done <- c.Ask(sh) }()
		if (n+1)%4 != 0 {
			require.Eventually(t, func() bool { return g.hedges(t, engine.HedgeLimited) == limited+1 }, time.Minute,
				time.Millisecond)
			released.open()
		}
		require.Equal(t, "Hello", outcomeOf(t, sh, <-done).Text)
		released.open()
	}
	require.InDelta(t, requests/4, g.hedges(t, engine.HedgeStarted), 0)
	require.InDelta(t, requests/4, g.hedges(t, engine.HedgeWon), 0)
}

// hooked is a limiter that does something before an attempt on a route takes its place.
type hooked struct {
	boundless
	route string
	do    func()
}

func (h *hooked) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	if asks[0].Subject == (ratelimit.Subject{Kind: ratelimit.Attempts, Name: h.route}) {
		h.do()
	}
	return h.boundless.Acquire(ctx, asks)
}

// Where there can be no second call, the first one goes on.
func TestHedgeThatCannotBe(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	goesOn := func(t *testing.T, g *scripted, c *caller, outcome string) {
		t.Helper()
		released := newGate()
		t.Cleanup(released.open)
		r := newRacing()
		r.first, r.second = after(released, hello), failing
		c.AnswersBy(r.answer)
		before := c.Net()
		done := make(chan answer, 1)
		go func() { done <- c.Ask(sh) }()
		require.Eventually(t, func() bool { return g.hedges(t, outcome) == 1 }, time.Minute, time.Millisecond)
		released.open()
		a := <-done
		require.EqualValues(t, helloCost, outcomeOf(t, sh, a).Billed(t))
		require.EqualValues(t, helloCost, before-c.Net())
		require.Equal(t, []string{"first"}, c.called())
		require.Len(t, c.Record(t, a).Attempts, 1)
		require.Zero(t, c.Balance().Held)
		require.Zero(t, g.hedges(t, engine.HedgeStarted))
	}
	t.Run("ERR-12 the other route is at capacity", func(t *testing.T) {
		t.Parallel()
		routes := slices.Clone(inOrder[:2])
		routes[1].More = "max_concurrent = 1"
		const apart = `strategy "apart" {
  when  = account.name == "caller-1-"
  kind  = "single"
  steps = ["second"]
}
`
		g := startScripted(t, setup{Routes: routes, Extra: hedging(1) + apart})
		busy, c := g.rich(t), g.rich(t)
		busy.Blocked(hello)
		busy.Start(t, sh)
		goesOn(t, g, c, engine.HedgeBusy)
	})
	t.Run("GAP-49 BILL-19 the account's limit is lowered meanwhile", func(t *testing.T) {
		t.Parallel()
		h := &hooked{boundless: boundless{ratelimit.NewMemory(ratelimit.Options{})}, route: "second"}
		g := startScripted(t, setup{Routes: inOrder, Extra: hedging(1), Limiter: h})
		c := g.rich(t)
		h.do = func() { c.setLimit(ledger.LimitTokenBudget, 1) }
		goesOn(t, g, c, engine.HedgeNotCovered)
	})
}
