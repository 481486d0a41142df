package ledgertest

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func testCharges(t *testing.T, open Open) {
	f := newFixture(t, open, 100, ledger.Terms{})

	t.Run("BILL-03 GAP-48 parts are summed before the one division", func(t *testing.T) {
		h := f.hold("fraction", 10)
		f.begin(h, 2, "fraction")
		s := ok(h, usage(1, 1)) // 2.0 microcents less a bit, twice
		s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(h.Request, 2), Outcome: ledger.Finished,
			Usage: usage(2, 1)})
		// (3 x 333,333 + 2 x 1,666,667) / 1,000,000 = 4.33; each part by itself would make 0 or 1 each.
		require.EqualValues(t, 4, f.settle(s).Microcents)
	})
	t.Run("what is the operator's is on record, and neither charged nor waited for", func(t *testing.T) {
		for _, outcome := range []ledger.Outcome{ledger.Finished, ledger.Failed, ledger.Unproven, ledger.NotMade} {
			for _, u := range []*llm.Usage{nil, usage(500, 500), usage(-1, 0)} {
				before := f.period().Tokens
				h := f.hold("unit", 10)
				f.begin(h, 2, "unit")
				s := ok(h, usage(1, 2))
				s.Results = append(s.Results, ledger.Result{Attempt: ledger.AttemptID(h.Request, 2), Outcome: outcome,
					Usage: u, Operator: true, Estimate: usage(1, 1)})
				c := f.settle(s)
				require.EqualValues(t, 3, c.Microcents)
				require.Zero(t, c.Over)
				require.False(t, c.Pending)
				require.EqualValues(t, 3, f.period().Tokens-before, "the token budget")
				r := f.record(h.Request)
				require.False(t, r.Pending)
				lost := r.Attempts[1]
				require.True(t, lost.Operator)
				require.Nil(t, lost.Estimate)
				require.Contains(t, []ledger.Outcome{ledger.Finished, ledger.Failed, ledger.NotMade}, lost.Outcome)
				if u != nil && *u.Input > 0 {
					require.Equal(t, *u, lost.Usage)
				} else {
					require.False(t, lost.Usage.Known())
				}
				_, applied, err := f.store.AddReceipt(soon(t), lost.ID, *usage(7, 7))
				require.NoError(t, err)
				require.False(t, applied)
			}
		}
	})
	t.Run("GAP-109 classes are priced apart and reasoning is part of the output", func(t *testing.T) {
		h := f.hold("cached", 10_000_000)
		c := f.settle(ok(h, &llm.Usage{
			Input: llm.Count(100), CacheRead: llm.Count(1_000), CacheWrite: llm.Count(10), Output: llm.Count(20),
			Reasoning: llm.Count(15),
		}))
		require.EqualValues(t, 100*300+1_000*30+10*375+20*1_500, c.Microcents)
	})
	t.Run("GAP-48 a class that is not reported counts 0", func(t *testing.T) {
		h := f.hold("example", 10_000_000)
		c := f.settle(ok(h, &llm.Usage{Output: llm.Count(2)}))
		require.EqualValues(t, 3_000, c.Microcents)
		require.False(t, c.Pending)
		require.Equal(t, llm.Usage{Output: llm.Count(2)}, f.record(h.Request).Attempts[0].Usage, "absent is absent (GAP-109)")
	})
	t.Run("GAP-109 an explicit zero is proof", func(t *testing.T) {
		h := f.hold("example", 10_000_000)
		c := f.settle(ok(h, usage(0, 0)))
		require.Zero(t, c.Microcents)
		require.False(t, c.Pending)
		require.Equal(t, *usage(0, 0), f.record(h.Request).Attempts[0].Usage)
	})
	t.Run("GAP-108 an estimate is charged and marked", func(t *testing.T) {
		h := f.hold("unit", 10)
		u := usage(1, 2)
		u.Estimated = true
		require.EqualValues(t, 3, f.settle(ok(h, u)).Microcents)
		require.True(t, f.record(h.Request).Attempts[0].Usage.Estimated)
	})
	t.Run("BILL-25 GAP-55 a failure of the service is free", func(t *testing.T) {
		before := f.balance()
		h := f.hold("example", 10_000_000)
		s := ok(h, usage(100, 100))
		s.Free, s.Surcharge = true, 1_350
		c := f.settle(s)
		require.Zero(t, c.Microcents)
		require.False(t, c.Pending, "nothing can be added later")
		require.Equal(t, before, f.balance())
		require.Equal(t, *usage(100, 100), f.record(h.Request).Attempts[0].Usage, "what was used is on record")
	})
	t.Run("BILL-21 GAP-97 proven usage is charged, however the attempt ended", func(t *testing.T) {
		for _, outcome := range []ledger.Outcome{ledger.Finished, ledger.Failed} {
			s := ok(f.hold("unit", 100), usage(30, 12))
			s.Results[0].Outcome, s.Reason, s.Status = outcome, "client_left", 499
			c := f.settle(s)
			require.EqualValues(t, 42, c.Microcents)
			require.False(t, c.Pending)
		}
	})
	t.Run("BILL-28 GAP-56 a failure without usage is a proven zero, a finish without usage is not", func(t *testing.T) {
		for outcome, pending := range map[ledger.Outcome]bool{
			ledger.Failed: false, ledger.NotMade: false, ledger.Finished: true, ledger.Unproven: true,
		} {
			s := ok(f.hold("unit", 5), nil)
			s.Results[0].Outcome = outcome
			c := f.settle(s)
			require.Zero(t, c.Microcents)
			require.Equal(t, pending, c.Pending, "%s", outcome)
			if outcome == ledger.Finished {
				require.Equal(t, ledger.Unproven, f.record(s.Request).Attempts[0].Outcome)
			}
		}
		h := f.hold("unit", 5)
		require.True(t, f.settle(ledger.Settlement{Request: h.Request}).Pending, "nobody reported on the attempt")
		f.closeWaiting(3)
	})
	t.Run("a settlement at nothing is on record, too", func(t *testing.T) {
		entries, before := len(f.entries(ledger.Query{})), f.balance()
		f.settle(ok(f.hold("unit", 5), usage(0, 0)))
		require.Len(t, f.entries(ledger.Query{}), entries+1)
		e := f.lastEntry()
		require.Zero(t, e.Microcents)
		require.NotZero(t, e.Detail)
		require.Equal(t, before, f.balance())
	})
	t.Run("GAP-110 a settlement charges at most what was held", func(t *testing.T) {
		h := f.hold("unit", 70)
		c := f.settle(ok(h, usage(40, 31)))
		require.Equal(t, ledger.Charge{Microcents: 70, Over: 1, Balance: f.balance()}, c)
		r := f.record(h.Request)
		require.Equal(t, *usage(40, 31), r.Attempts[0].Usage, "what the upstream said is on record")
		require.Equal(t, []int64{70, 70, 1}, []int64{r.Held, r.Microcents, r.Over})
		require.EqualValues(t, 1, r.Entries[0].Over)
		require.EqualValues(t, 71, r.Entries[0].Tokens)

		h = f.hold("unit", 70)
		s := ok(h, usage(40, 30))
		require.Zero(t, f.settle(s).Over, "and all of it")
		require.EqualValues(t, 70, f.settle(s).Microcents)

		h = f.hold("unit", 10)
		raised := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 25}
		require.NoError(t, f.store.Begin(soon(t), raised))
		s = ok(h, usage(0, 20))
		s.Surcharge = 3
		s.Results = append(s.Results, ledger.Result{Attempt: raised.Attempt.ID, Outcome: ledger.Finished, Usage: usage(0, 7)})
		c = f.settle(s)
		require.Equal(t, []int64{25, 5}, []int64{c.Microcents, c.Over}, "with its raise, and the surcharge in it")
		c = f.settle(s)
		require.Equal(t, []int64{25, 5}, []int64{c.Microcents, c.Over}, "repeated")

		s = ok(f.hold("unit", 10), usage(0, 20))
		s.Free = true
		c = f.settle(s)
		require.Zero(t, c.Microcents+c.Over, "what is free is not over anything")
	})
	t.Run("GAP-110 no settlement takes a balance below zero", func(t *testing.T) {
		mine, key := f.account, f.key
		f.newAccount(1)
		h := f.hold("unit", 1_000_000)
		c := f.settle(ok(h, usage(0, 200_000_000)))
		require.Zero(t, c.Balance.Net())
		require.EqualValues(t, 199_000_000, c.Over)
		f.account, f.key = mine, key
	})
	t.Run("nothing but a settlement charges", func(t *testing.T) {
		before := f.balance().Net()
		h := f.hold("unit", 1_000)
		f.begin(h, 2, "unit")
		require.NoError(t, f.store.Check(soon(t), f.account.ID, f.key.ID, 1_000, 0))
		require.Equal(t, before, f.balance().Net())
	})
}

func testUnusableUsage(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	bad := map[string]*llm.Usage{
		"negative":  usage(-5, 10),
		"absurd":    usage(0, math.MaxInt64),
		"expensive": usage(0, 1<<40),
		"ten times": {Input: llm.Count(1 << 39), CacheRead: llm.Count(1 << 39), Output: llm.Count(1 << 40)},
		"hidden":    {Input: llm.Count(1), Output: llm.Count(1), Reasoning: llm.Count(-1)},
	}
	for name, u := range bad {
		t.Run("GAP-56 "+name, func(t *testing.T) {
			h := f.hold("example", 100)
			c := f.settle(ok(h, u))
			require.Zero(t, c.Microcents)
			require.True(t, c.Pending)
			require.Equal(t, ledger.Balance{Credits: 10}, f.balance(), "the hold is released all the same")
			require.Equal(t, llm.Usage{}, f.record(h.Request).Attempts[0].Usage)

			_, applied, err := f.store.AddReceipt(soon(t), h.Attempt.ID, *u)
			require.ErrorIs(t, err, ledger.ErrUsage)
			require.False(t, applied)
			require.Equal(t, ledger.Balance{Credits: 10}, f.balance())
			require.True(t, f.record(h.Request).Pending, "the attempt goes on waiting")
			f.receipt(h.Attempt.ID, usage(0, 0))
			require.False(t, f.record(h.Request).Pending)
		})
	}
	t.Run("one bad attempt spoils no other", func(t *testing.T) {
		s := f.fallback(ledger.Finished, usage(-1, 0), usage(0, 1))
		c := f.settle(s)
		require.EqualValues(t, 1_500, c.Microcents)
		require.True(t, c.Pending)
		f.closeWaiting(1)
	})
	t.Run("a receipt with nothing in it proves nothing", func(t *testing.T) {
		h := f.unproven("unit", nil)
		_, _, err := f.store.AddReceipt(soon(t), h.Attempt.ID, llm.Usage{})
		require.ErrorIs(t, err, ledger.ErrUsage)
		require.True(t, f.record(h.Request).Pending)
		f.closeWaiting(1)
	})
}

func testRepetition(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)

	h := f.hold("unit", 3_000_000)
	repeated := h
	repeated.Microcents = 5_000_000
	b, err := f.store.Hold(ctx, repeated)
	require.NoError(t, err)
	require.EqualValues(t, 3_000_000, b.Held, "a hold that is repeated changes nothing")
	next := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 4_000_000}
	require.NoError(t, f.store.Begin(ctx, next))
	next.Microcents = 5_000_000
	require.NoError(t, f.store.Begin(ctx, next))
	require.EqualValues(t, 4_000_000, f.balance().Held)
	require.Len(t, f.record(h.Request).Attempts, 2)

	s := ok(h, usage(0, 2_000_000))
	s.Results = append(s.Results, ledger.Result{Attempt: next.Attempt.ID, Outcome: ledger.NotMade})
	first := f.settle(s)
	f.topUp(1)
	s.Results[0].Usage = usage(0, 9_999_999)
	s.Status, s.Reason, s.Free = 500, "other", true
	second := f.settle(s)
	require.Equal(t, first.Microcents, second.Microcents)
	require.Equal(t, first.Pending, second.Pending)
	require.EqualValues(t, 9, second.Balance.Credits, "the balance is today's")
	require.Equal(t, second.Balance, f.balance())
	require.Equal(t, "ok", f.record(h.Request).Reason)
	require.Equal(t, ledger.Period{Spent: 2_000_000, Tokens: 2_000_000}, f.period())

	_, err = f.store.Hold(ctx, h)
	require.ErrorIs(t, err, ledger.ErrExists, "a settled request must not run again unheld")
	next.Attempt = f.attempt(h.Request, 3, "unit")
	require.ErrorIs(t, f.store.Begin(ctx, next), ledger.ErrNotFound)
	require.Equal(t, second.Balance, f.balance())

	t.Run("what was admitted once is not refused when it is repeated", func(t *testing.T) {
		h := f.hold("unit", 8_000_000)
		b, err := f.store.Hold(ctx, h)
		require.NoError(t, err)
		require.EqualValues(t, 8_000_000, b.Held)
	})
	t.Run("nor is it forgotten over a restart", func(t *testing.T) {
		waiting := f.unproven("unit", func(s *ledger.Settlement) { s.Surcharge = 7 })
		f.waiting++
		f.restart()
		c := f.settle(ok(h, usage(0, 1)))
		require.EqualValues(t, 2_000_000, c.Microcents)
		require.False(t, c.Pending)
		c = f.settle(ok(waiting, usage(0, 1)))
		require.EqualValues(t, 7, c.Microcents)
		require.True(t, c.Pending)
		_, err := f.store.Hold(ctx, waiting)
		require.ErrorIs(t, err, ledger.ErrExists)
	})
}

func testRefusals(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)
	_, err := f.store.Settle(ctx, ledger.Settlement{Request: "unknown"})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.ErrorIs(t, f.store.Begin(ctx, ledger.Next{Request: "unknown", Attempt: f.attempt("unknown", 2, "unit")}),
		ledger.ErrNotFound)

	other := f.account
	f.newAccount(10)
	other, f.account = f.account, other
	otherKey := f.key
	f.key = f.keys(f.account.ID)[0]
	running := f.hold("unit", 1)
	for name, change := range map[string]struct {
		apply func(*ledger.Hold)
		want  error
	}{
		"no request id": {func(h *ledger.Hold) { h.Request, h.Attempt.ID = "", ".1" }, ledger.ErrInvalid},
		"no attempt id": {func(h *ledger.Hold) { h.Attempt.ID = "" }, ledger.ErrInvalid},
		"no request id, no attempt": {func(h *ledger.Hold) { h.Request, h.Attempt = "", ledger.Attempt{} },
			ledger.ErrInvalid},
		"another request's attempt": {func(h *ledger.Hold) { h.Attempt.ID = running.Attempt.ID }, ledger.ErrInvalid},
		"an attempt that is not first": {func(h *ledger.Hold) { h.Attempt.ID = ledger.AttemptID(h.Request, 2) },
			ledger.ErrInvalid},
		"negative microcents":    {func(h *ledger.Hold) { h.Microcents = -1 }, ledger.ErrInvalid},
		"negative tokens":        {func(h *ledger.Hold) { h.Tokens = -1 }, ledger.ErrInvalid},
		"unknown account":        {func(h *ledger.Hold) { h.Account = "acct_0" }, ledger.ErrNotFound},
		"unknown key":            {func(h *ledger.Hold) { h.Key = "key_0" }, ledger.ErrNotFound},
		"another account's key":  {func(h *ledger.Hold) { h.Key = otherKey.ID }, ledger.ErrNotFound},
		"unknown price version":  {func(h *ledger.Hold) { h.Attempt.PriceVersion = 99 }, ledger.ErrNotFound},
		"no price version":       {func(h *ledger.Hold) { h.Attempt.PriceVersion = 0 }, ledger.ErrNotFound},
		"a route without prices": {func(h *ledger.Hold) { h.Attempt.Route = "unknown" }, ledger.ErrNotFound},
		"saturated":              {func(h *ledger.Hold) { h.Microcents = math.MaxInt64 }, ledger.ErrInsufficient},
		"another account's running one": {func(h *ledger.Hold) { *h = running; h.Account, h.Key = other.ID, otherKey.ID },
			ledger.ErrExists},
	} {
		if errors.Is(change.want, ledger.ErrExists) && f.late() {
			continue // a process knows its own requests: whose ids are others' it could ask nobody without asking all
		}
		h := f.newHold("unit", 5)
		change.apply(&h)
		_, err := f.store.Hold(ctx, h)
		require.ErrorIs(t, err, change.want, name)
		require.EqualValues(t, 1, f.balance().Held, name)
	}
	require.Zero(t, f.verify().Requests, "what was refused is not on record")

	for name, change := range map[string]struct {
		apply func(*ledger.Next)
		want  error
	}{
		"no attempt id":             {func(n *ledger.Next) { n.Attempt.ID = "" }, ledger.ErrInvalid},
		"another request's attempt": {func(n *ledger.Next) { n.Attempt.ID = "request-0.2" }, ledger.ErrInvalid},
		"a gap": {func(n *ledger.Next) { n.Attempt.ID = ledger.AttemptID(running.Request, 3) },
			ledger.ErrInvalid},
		"negative microcents":   {func(n *ledger.Next) { n.Microcents = -1 }, ledger.ErrInvalid},
		"negative tokens":       {func(n *ledger.Next) { n.Tokens = -1 }, ledger.ErrInvalid},
		"unknown price version": {func(n *ledger.Next) { n.Attempt.PriceVersion = 99 }, ledger.ErrNotFound},
		"saturated":             {func(n *ledger.Next) { n.Microcents = math.MaxInt64 }, ledger.ErrInsufficient},
	} {
		n := ledger.Next{Request: running.Request, Attempt: f.attempt(running.Request, 2, "unit"), Microcents: 5}
		change.apply(&n)
		require.ErrorIs(t, f.store.Begin(ctx, n), change.want, name)
		require.EqualValues(t, 1, f.balance().Held, name)
		require.Len(t, f.record(running.Request).Attempts, 1, name)
	}

	for name, change := range map[string]struct {
		apply func(*ledger.Settlement)
		want  error
	}{
		"unknown attempt": {func(s *ledger.Settlement) { s.Results[0].Attempt = ledger.AttemptID(s.Request, 2) },
			ledger.ErrNotFound},
		"two results":        {func(s *ledger.Settlement) { s.Results = append(s.Results, s.Results[0]) }, ledger.ErrInvalid},
		"unknown outcome":    {func(s *ledger.Settlement) { s.Results[0].Outcome = "lost" }, ledger.ErrInvalid},
		"closed":             {func(s *ledger.Settlement) { s.Results[0].Outcome = ledger.Closed }, ledger.ErrInvalid},
		"negative surcharge": {func(s *ledger.Settlement) { s.Surcharge = -1 }, ledger.ErrInvalid},
		"endless surcharge":  {func(s *ledger.Settlement) { s.Surcharge = math.MaxInt64 }, ledger.ErrInvalid},
	} {
		s := ok(running, usage(0, 1))
		change.apply(&s)
		_, err := f.store.Settle(ctx, s)
		require.ErrorIs(t, err, change.want, name)
		require.EqualValues(t, 1, f.balance().Held, name)
	}
	_, applied, err := f.store.AddReceipt(ctx, running.Attempt.ID, *usage(0, 1))
	require.NoError(t, err)
	require.False(t, applied, "an attempt that runs does not wait")
	for _, id := range []string{"", "request-0.1", "nothing", ledger.AttemptID(running.Request, 2)} {
		_, applied, err := f.store.AddReceipt(ctx, id, *usage(0, 1))
		require.False(t, applied)
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrNotFound, "%q", id)
		}
	}
	_, err = f.store.Request(ctx, "request-0")
	require.ErrorIs(t, err, ledger.ErrNotFound)
}
