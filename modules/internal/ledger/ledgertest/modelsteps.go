package ledgertest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// attempt draws a route of different prices, and what is to be on record of an attempt on it.
func (r *run) attempt(request string, seq int64) ledger.AttemptRecord {
	route := rapid.SampledFrom([]string{"unit", "unit", "fraction", "cached", "tiered"}).Draw(r.T, "route")
	a := r.f.attempt(request, seq, route)
	if !r.sometimes("unbound", 4) {
		a.Worst = r.near("worst", 300_000)
	}
	price := prices[route]
	if a.PriceVersion%2 == 0 {
		price = dearer(route)
	}
	return ledger.AttemptRecord{Attempt: a, Price: price, Cost: half(prices[route]), Created: r.now().UTC()}
}

func (r *run) hold() {
	k := r.key()
	r.look(k.owner)
	r.unlooked = false
	// Ids are not always in the order of their making.
	id := fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"req_4", "req_5", "req_6"}).Draw(r.T, "id"), r.f.n.Add(1))
	attempts, created := []ledger.AttemptRecord(nil), r.now().UTC()
	h := ledger.Hold{
		Request: id, Account: k.owner.ID, Key: k.ID, Endpoint: "chat",
		Profile:    rapid.SampledFrom(config.ProfileNames()).Draw(r.T, "profile"),
		Microcents: r.near("microcents", r.left(k)...), Tokens: r.near("tokens", r.left(k)...),
	}
	if !r.sometimes("without an attempt", 3) {
		attempts = append(attempts, r.attempt(id, 1))
		h.Attempt = attempts[0].Attempt
	}
	reasons := func(microcents, tokens int64) []error { return r.refusals(k, microcents, microcents, tokens) }
	why := reasons(h.Microcents, h.Tokens)
	if r.sometimes("check first", 4) {
		r.refusedOr(r.f.store.Check(r.ctx, h.Account, h.Key, h.Microcents, h.Tokens), why, reasons)
	}
	h.Headroom = int64(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 100}).Draw(r.T, "headroom"))
	if h.Headroom > 1 && len(why) == 0 {
		n := float64(h.Headroom)
		if float64(h.Microcents)*n < 1<<62 && float64(h.Tokens)*n < 1<<62 {
			all := h.Microcents * h.Headroom
			why = r.refusals(k, all, all, h.Tokens*h.Headroom)
		}
	}
	b, err := r.f.store.Hold(r.ctx, h)
	if !r.refusedOr(err, why, reasons) {
		return
	}
	q := &request{owner: k.owner, key: k, beside: map[string]bool{}, references: map[string]string{},
		RequestRecord: ledger.RequestRecord{
			ID: id, Account: k.owner.ID, Key: k.ID, Endpoint: "chat", Profile: h.Profile, Owner: r.f.options.BootID,
			Running: true,
			Held:    h.Microcents, Created: created, Attempts: attempts,
		}}
	r.requests = append(r.requests, q)
	require.Equal(r, r.balance(k.owner), b)
}

// holdAgain repeats a hold: of a request that runs it changes nothing, one that is settled does not run again.
func (r *run) holdAgain() {
	q := pick(r, "request", r.requests)
	r.look(q.owner)
	r.unlooked = false
	h := ledger.Hold{Request: q.ID, Account: q.Account, Key: q.Key, Microcents: r.near("microcents")}
	if len(q.Attempts) > 0 && r.sometimes("with its attempt", 2) {
		h.Attempt = q.Attempts[0].Attempt
	}
	b, err := r.f.store.Hold(r.ctx, h)
	if !q.Running {
		require.ErrorIs(r, err, ledger.ErrExists)
		return
	}
	require.NoError(r, err)
	require.Equal(r, r.balance(q.owner), b)
}

func (r *run) begin() {
	q := pick(r, "running request", r.those(true))
	r.look(q.owner)
	r.unlooked = false
	a := r.attempt(q.ID, int64(len(q.Attempts))+1)
	n := ledger.Next{
		Request: q.ID, Attempt: a.Attempt,
		Microcents: r.near("microcents", append(r.left(q.key), q.Held, q.Held+r.available(q.owner))...),
		Tokens:     r.near("tokens", r.left(q.key)...),
		Beside:     r.sometimes("beside another", 4),
	}
	reasons := func(microcents, tokens int64) []error {
		if more := microcents - q.Held; more > 0 {
			return r.refusals(q.key, more, microcents, tokens)
		}
		return r.limits(q.key, 0, q.Held, microcents, tokens)
	}
	if r.refusedOr(r.f.store.Begin(r.ctx, n), reasons(n.Microcents, n.Tokens), reasons) {
		q.Attempts = append(q.Attempts, a)
		q.beside[a.ID] = n.Beside
		q.Held = max(q.Held, n.Microcents)
	}
}

func (r *run) beginAgain() {
	q := pick(r, "request", r.requests)
	a := pick(r, "attempt", q.Attempts) // before the look: a step that is skipped has not looked
	r.look(q.owner)
	r.unlooked = false
	err := r.f.store.Begin(r.ctx, ledger.Next{Request: q.ID, Attempt: a.Attempt, Microcents: r.near("microcents"),
		Tokens: 1 << 40})
	if q.Running {
		require.NoError(r, err)
	} else {
		require.ErrorIs(r, err, ledger.ErrNotFound)
	}
}

// generation draws what an upstream is asked by.
func (r *run) generation() string {
	return rapid.SampledFrom([]string{"gen-1", "gen-2", "gen-'3'"}).Draw(r.T, "reference")
}

// refer notes a reference, also of an attempt that has ended, which says nothing then.
func (r *run) refer() {
	q := pick(r, "request", r.requests)
	a, reference := pick(r, "attempt", q.Attempts), r.generation()
	r.f.store.Refer(a.ID, reference)
	if q.Running {
		q.references[a.ID] = reference
	}
}

// settlement draws how a request ends.
func (r *run) settlement(q *request) ledger.Settlement {
	s := ledger.Settlement{Request: q.ID, Status: 200, Reason: "ok"}
	switch rapid.IntRange(0, 6).Draw(r.T, "ending") {
	case 0:
		s.Status, s.Reason, s.Free = 500, "panic", true
	case 1, 2:
		s.Status, s.Reason, s.ServiceLimit = 504, "time_limit", true
	}
	if r.sometimes("screened", 4) {
		s.Surcharge = rapid.Int64Range(0, 1_350).Draw(r.T, "surcharge")
	}
	for _, a := range q.Attempts {
		result := ledger.Result{Attempt: a.ID, Outcome: rapid.SampledFrom([]ledger.Outcome{
			ledger.Finished, ledger.Finished, ledger.Failed, ledger.Unproven, ledger.NotMade,
		}).Draw(r.T, "outcome")}
		result.Key = rapid.SampledFrom([]string{"", "", "main", "spare"}).Draw(r.T, "provider key")
		result.Operator = r.sometimes("the operator's", 6)
		if r.sometimes("with its reference", 3) {
			result.Reference = r.generation()
		}
		switch rapid.IntRange(0, 7).Draw(r.T, "usage") {
		case 0: // nothing is proven
		case 1:
			result.Usage = usage(3, -1)
		case 2:
			continue // nobody reported
		default:
			result.Usage = r.usage(q, a)
		}
		switch rapid.IntRange(0, 3).Draw(r.T, "estimate") {
		case 0:
			result.Estimate = r.usage(q, a)
		case 1:
			result.Estimate = usage(3, -1)
		}
		s.Results = append(s.Results, result)
	}
	return s
}

// usage draws tokens that come to what the account has left, in some respect, or to what is held, or to about that.
func (r *run) usage(q *request, a ledger.AttemptRecord) *llm.Usage {
	microcents := r.near("microcents", append(r.left(q.key), q.Held)...)
	u := usage(0, microcents*1_000_000/a.Price.Output)
	if r.sometimes("with input", 3) {
		u.Input = llm.Count(rapid.Int64Range(0, 5).Draw(r.T, "input"))
	}
	if r.sometimes("cached", 4) {
		u.CacheRead, u.Reasoning = llm.Count(0), llm.Count(*u.Output)
	}
	return u
}

func (r *run) settleOne() {
	q := pick(r, "running request", r.those(true))
	r.unlooked = false
	r.look(q.owner)
	s := r.settlement(q)
	c, err := r.f.store.Settle(r.ctx, s)
	require.NoError(r, err)
	r.settle(q, s)
	r.charged(q, c)
}

// charged compares what the store says about a settled request.
func (r *run) charged(q *request, c ledger.Charge) {
	require.Equal(r, ledger.Charge{Microcents: q.Microcents, Waived: q.Waived, Over: q.Over, Pending: q.Pending,
		Balance: r.balance(q.owner)}, c)
}

func (r *run) settleAgain() {
	q := pick(r, "settled request", r.those(false))
	r.unlooked = false
	r.look(q.owner)
	s := r.settlement(q)
	c, err := r.f.store.Settle(r.ctx, s)
	require.NoError(r, err)
	if r.f.late() && q.Reason == "crashed" {
		r.settleLate(q, &s)
	}
	r.charged(q, c)
}

// settleLate has a request that was recovered charged what its settlement proves of attempts that wait.
func (r *run) settleLate(q *request, s *ledger.Settlement) {
	for _, result := range s.Results {
		for i := range q.Attempts {
			a := &q.Attempts[i]
			if a.ID != result.Attempt || !q.Pending || !waits(*a) {
				continue
			}
			_, priced := ledger.Cost(llm.Usage{}, a.Price)
			if result.Usage != nil {
				_, priced = ledger.Cost(*result.Usage, a.Price)
			}
			proven := result.Usage != nil && result.Usage.Known() && priced == nil
			nothing := result.Usage == nil && (result.Outcome == ledger.Failed || result.Outcome == ledger.NotMade)
			switch {
			case s.Free || result.Operator || nothing:
				a.Outcome = ledger.Closed
				q.Pending = q.waits()
				r.prove(q, ledger.Closing, a, 0)
			case proven:
				a.Usage, a.Receipt = *result.Usage, r.now().UTC()
				q.Pending = q.waits()
				r.prove(q, ledger.Receipt, a, *a.Usage.Input+*a.Usage.Output)
			}
		}
	}
}

func (r *run) receipt() {
	var pending []*request
	for _, q := range r.requests {
		if q.Pending {
			pending = append(pending, q)
		}
	}
	q := pick(r, "request that waits", pending)
	var seqs []int
	for i, a := range q.Attempts {
		if waits(a) {
			seqs = append(seqs, i)
		}
	}
	r.addReceipt(q, &q.Attempts[pick(r, "attempt", seqs)])
}

func (r *run) receiptForAnything() {
	q := pick(r, "request", r.requests)
	r.addReceipt(q, &q.Attempts[pick(r, "attempt", indexes(q.Attempts))])
}

func indexes[T any](some []T) (all []int) {
	for i := range some {
		all = append(all, i)
	}
	return all
}

func (r *run) addReceipt(q *request, a *ledger.AttemptRecord) {
	r.unlooked = false
	r.look(q.owner)
	u := r.usage(q, *a)
	bad := r.sometimes("bad", 8)
	if bad {
		u.Input = llm.Count(-1)
	}
	c, applied, err := r.f.store.AddReceipt(r.ctx, a.ID, *u)
	switch {
	case !q.Pending || !waits(*a):
		if err != nil {
			require.True(r, bad && errors.Is(err, ledger.ErrUsage), "%v", err)
		}
		require.False(r, applied)
		if err == nil && !q.Running {
			r.charged(q, c)
		}
		return
	case bad:
		require.ErrorIs(r, err, ledger.ErrUsage)
		return
	}
	require.NoError(r, err)
	require.True(r, applied)
	a.Usage, a.Receipt = *u, r.now().UTC()
	q.Pending = q.waits()
	before, over := q.Microcents, q.Over
	r.prove(q, ledger.Receipt, a, *u.Input+*u.Output)
	require.Equal(r, []int64{q.Microcents - before, q.Over - over}, []int64{c.Added, c.OverAdded})
	c.Added, c.OverAdded = 0, 0
	r.charged(q, c)
}
