package ledgertest

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// The steps that operators and the gateway's own housekeeping take.

func (r *run) newOwner() {
	a, err := r.f.store.CreateAccount(r.ctx, r.f.next("account"), r.somePlan())
	require.NoError(r, err)
	o := &owner{Account: a, seen: map[string]fact{}, given: map[time.Time]bool{}}
	o.Balance, o.Period = ledger.Balance{}, ledger.Period{}
	r.owners = append(r.owners, o)
	r.look(o)
	require.Equal(r, r.balance(o), a.Balance, "with the first period's credits")
	require.Equal(r, r.period(o), a.Period)
	r.addKey(o)
	r.credit(o, rapid.Int64Range(1, 20).Draw(r.T, "credits"), "")
}

func (r *run) credit(o *owner, credits int64, reference string) {
	b, applied, err := r.f.store.AddCredit(r.ctx, ledger.Credit{Account: o.ID, Credits: credits, Reference: reference})
	f := fact{kind: ledger.TopUp, reference: reference, microcents: credits * 1_000_000}
	if r.moved(o, f, applied, err) {
		require.Equal(r, r.balance(o), b)
	}
}

// moved notes an operator's movement, unless the account has seen its reference before; false where that was of
// another one.
func (r *run) moved(o *owner, f fact, applied bool, err error) bool {
	was, seen := o.seen[f.reference]
	if seen && !repeats(f, was) {
		require.ErrorIs(r, err, ledger.ErrReference)
		require.False(r, applied)
		return false
	}
	require.NoError(r, err)
	require.Equal(r, !seen, applied)
	if applied {
		f.owner = o
		r.facts = append(r.facts, f)
		if f.reference != "" {
			o.seen[f.reference] = f
		}
	}
	return true
}

// repeats reports whether a movement is one that was made; of a refund 0 is all that is left.
func repeats(f, was fact) bool {
	return f.kind == was.kind && f.request == was.request &&
		(f.microcents == was.microcents || f.microcents == 0 && was.all)
}

func (r *run) reference(o *owner) string {
	references := []string{"", "", "a", "b", "c"}
	if !o.end.IsZero() { // as an allotment may be named
		references = append(references, o.end.Format(time.RFC3339), o.end.Format(time.RFC3339Nano))
	}
	return rapid.SampledFrom(references).Draw(r.T, "reference")
}

func (r *run) topUp() {
	o := r.owner()
	r.unlooked = false
	r.look(o)
	r.credit(o, rapid.Int64Range(1, 8).Draw(r.T, "credits"), r.reference(o))
}

func (r *run) adjust() {
	o := r.owner()
	r.unlooked = false
	r.look(o)
	n := rapid.OneOf(rapid.Int64Range(-3_000_000, -1), rapid.Int64Range(1, 3_000_000)).Draw(r.T, "microcents")
	reference := r.reference(o)
	b, applied, err := r.f.store.Correct(r.ctx, ledger.Correction{Account: o.ID, Microcents: n, Reference: reference,
		Reason: "r"})
	if r.moved(o, fact{kind: ledger.Adjustment, reference: reference, microcents: n}, applied, err) {
		require.Equal(r, r.balance(o), b)
	}
}

func (r *run) refund() {
	q := pick(r, "request", r.requests)
	r.unlooked = false
	r.look(q.owner)
	left := q.Microcents - q.Refunded
	c := ledger.Correction{Request: q.ID, Microcents: r.near("microcents", left, 0), Reference: r.reference(q.owner),
		Reason: "r"}
	if rapid.Bool().Draw(r.T, "name the account") {
		c.Account = q.Account
	}
	b, applied, err := r.f.store.Correct(r.ctx, c)
	amount := c.Microcents
	if amount == 0 {
		amount = left
	}
	f := fact{kind: ledger.Refund, request: q.ID, reference: c.Reference, microcents: c.Microcents}
	_, seen := q.owner.seen[c.Reference]
	if q.Running || !seen && (amount < 1 || amount > left) {
		require.ErrorIs(r, err, ledger.ErrInvalid)
		return
	}
	if !seen {
		f.microcents, f.all = amount, amount == left
	}
	if !r.moved(q.owner, f, applied, err) {
		return
	}
	if applied {
		q.Refunded += amount
	}
	require.Equal(r, r.balance(q.owner), b)
}

func (r *run) check() {
	k := r.key()
	r.unlooked = false
	r.look(k.owner)
	microcents, tokens := r.near("microcents", r.left(k)...), r.near("tokens", r.left(k)...)
	reasons := func(microcents, tokens int64) []error { return r.refusals(k, microcents, microcents, tokens) }
	r.refusedOr(r.f.store.Check(r.ctx, k.owner.ID, k.ID, microcents, tokens), reasons(microcents, tokens), reasons)
}

func (r *run) setPlan() {
	o := r.owner()
	r.unlooked = false
	r.look(o)
	o.Plan = rapid.SampledFrom([]string{"", "plan0", "plan1", "plan2", "plan3", "plan4", "unknown"}).Draw(r.T, "plan")
	a, err := r.f.store.SetPlan(r.ctx, o.ID, o.Plan)
	require.NoError(r, err)
	r.look(o)
	require.Equal(r, r.period(o), a.Period)
	require.Equal(r, r.balance(o), a.Balance)
}

// setLimit sets a limit of an account to what it has used, to some other value, or gives it back to the plan.
func (r *run) setLimit() {
	k := r.key()
	o := k.owner
	r.unlooked = false
	r.look(o)
	i := rapid.IntRange(0, len(ledger.AllLimits)-1).Draw(r.T, "limit")
	o.Limits[i] = nil
	if !r.sometimes("give it back", 3) {
		p := r.period(o)
		value := r.near("value", p.Spent, p.Tokens, p.Waived, 0, 700_000)
		if ledger.AllLimits[i] == ledger.LimitOwnSpendCap {
			value = max(value, 1) // that of the owner is none at 0, and not allowed
		}
		o.Limits[i] = &value
	}
	a, err := r.f.store.SetLimit(r.ctx, o.ID, ledger.AllLimits[i], o.Limits[i])
	require.NoError(r, err)
	require.Equal(r, o.Limits, a.Limits)
}

func (r *run) setProfile() {
	o := r.owner()
	r.unlooked = false
	o.Profile = rapid.SampledFrom([]string{"", "budget", "max"}).Draw(r.T, "profile")
	_, err := r.f.store.SetProfile(r.ctx, o.ID, o.Profile)
	require.NoError(r, err)
}

// setRequires changes what an account requires of routes: one of both, or both.
func (r *run) setRequires() {
	o := r.owner()
	r.unlooked = false
	var change ledger.RequiresChange
	regions := rapid.SampledFrom([][]string{nil, {"eu"}, {"ch", "eu"}}).Draw(r.T, "regions")
	retention := rapid.SampledFrom([]string{"", "none", "30d"}).Draw(r.T, "retention")
	if !r.sometimes("leave the regions", 3) {
		change.Regions, o.Requires.Regions = &regions, regions
	}
	if !r.sometimes("leave the retention", 3) {
		change.Retention = &retention
		o.Requires.Retention = map[string]*time.Duration{"none": new(time.Duration),
			"30d": new(720 * time.Hour)}[retention]
	}
	a, err := r.f.store.SetRequires(r.ctx, o.ID, change)
	require.NoError(r, err)
	require.Equal(r, o.Requires, a.Requires)
}

func (r *run) setMail() {
	o := r.owner()
	r.unlooked = false
	o.Mail = rapid.SampledFrom([][]string{nil, {"ann@example.com"}, {"ann@example.com", "b@c.d"}}).Draw(r.T, "mail")
	a, err := r.f.store.SetMail(r.ctx, o.ID, o.Mail)
	require.NoError(r, err)
	require.Equal(r, o.Mail, a.Mail)
}

// reload changes what a plan means. Accounts whose periods are over are looked at before.
func (r *run) reload() {
	r.unlooked = false
	r.compare()
	terms := rapid.SampledFrom(plansOfTheModel).Draw(r.T, "terms")
	r.f.plans.set(r.somePlan(), terms)
}

func (r *run) setState() {
	o := r.owner()
	r.unlooked = false
	o.State = rapid.SampledFrom([]ledger.State{ledger.Active, ledger.Suspended, ledger.Inactive}).Draw(r.T, "state")
	_, err := r.f.store.SetState(r.ctx, o.ID, o.State)
	require.NoError(r, err)
}

func (r *run) rename() {
	o := r.owner()
	r.unlooked = false
	o.Name = r.f.next("renamed")
	_, err := r.f.store.RenameAccount(r.ctx, o.ID, o.Name)
	require.NoError(r, err)
}

func (r *run) addKey(o *owner) {
	l := &line{}
	change := ledger.KeyChange{}
	if rapid.Bool().Draw(r.T, "capped") {
		l.spendCap = rapid.Int64Range(0, 400_000).Draw(r.T, "cap")
		change.SpendCap = &l.spendCap
	}
	name := r.f.next("key")
	k, err := r.f.store.CreateKey(r.ctx, o.ID, name, hashOf(name), "abcd", change)
	require.NoError(r, err)
	o.keys = append(o.keys, &key{Key: k, owner: o, line: l})
}

func (r *run) newKey() {
	r.unlooked = false
	r.addKey(r.owner())
}

func (r *run) changeKey() {
	k := r.key()
	r.unlooked = false
	r.look(k.owner)
	var change ledger.KeyChange
	if rapid.Bool().Draw(r.T, "cap it") {
		spendCap := r.near("cap", r.lineSpent(k.owner, k.line), 0, 400_000)
		change.SpendCap, k.line.spendCap = &spendCap, spendCap
	}
	if rapid.Bool().Draw(r.T, "let it expire") {
		k.Expires = r.now().Add(rapid.SampledFrom([]time.Duration{-time.Hour, 0, time.Hour}).Draw(r.T, "expires")).UTC()
		expires := k.Expires
		change.Expires = &expires
	}
	if rapid.Bool().Draw(r.T, "rename it") {
		k.Name = r.f.next("key")
		change.Name = &k.Name
	}
	_, err := r.f.store.ChangeKey(r.ctx, k.ID, change)
	require.NoError(r, err)
}

func (r *run) rotateKey() {
	k := r.key()
	r.unlooked = false
	r.look(k.owner)
	overlap := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r.T, "overlap")
	fresh, old, err := r.f.store.RotateKey(r.ctx, k.ID, hashOf(r.f.next("hash")), "wxyz", overlap)
	if k.Revoked || !k.Expires.IsZero() && !r.now().Before(k.Expires) {
		require.ErrorIs(r, err, ledger.ErrInvalid)
		return
	}
	require.NoError(r, err)
	require.Equal(r, []string{k.Name, k.owner.aside(k.Name)}, []string{fresh.Name, old.Name})
	require.True(r, fresh.Expires.Equal(k.Expires))
	k.Name = old.Name
	if ends := r.now().Add(overlap).UTC(); k.Expires.IsZero() || ends.Before(k.Expires) {
		k.Expires = ends
	}
	k.owner.keys = append(k.owner.keys, &key{Key: fresh, owner: k.owner, line: k.line})
}

func (r *run) revokeKey() {
	k := r.key()
	r.unlooked = false
	k.Revoked = true
	_, err := r.f.store.RevokeKey(r.ctx, k.ID)
	require.NoError(r, err)
}

// dearer is the other price of a route, that of its second version.
func dearer(route string) config.Price {
	p := prices[route]
	p.Input, p.Output = p.Input*2+1, p.Output*3+1
	return p
}

func (r *run) changePrice() {
	route := rapid.SampledFrom([]string{"unit", "fraction", "cached", "tiered"}).Draw(r.T, "route")
	price, next := prices[route], int64(1)
	if r.f.version[route] == 1 {
		price, next = dearer(route), 2
	}
	v, err := r.f.store.PriceVersion(r.ctx, route, price, half(prices[route]))
	require.NoError(r, err)
	require.Equal(r, next, v)
	r.f.version[route] = v
}

// moveClock moves the clock to the end of a period, or near it, or by so many days forward or back. Nobody looks at
// the accounts before the next step does.
func (r *run) moveClock() {
	var ends []time.Time
	for _, o := range r.owners {
		if !o.end.IsZero() {
			ends = append(ends, o.end, o.end.Add(-1), o.end.AddDate(0, 2, 0))
		}
	}
	to := r.now().Add(time.Duration(rapid.Int64Range(-40, 40).Draw(r.T, "days")) * 24 * time.Hour)
	if len(ends) > 0 && rapid.Bool().Draw(r.T, "to an end") {
		to = pick(r, "end", ends)
	}
	r.f.clock.set(to)
	r.unlooked = true
}

func (r *run) endPeriods() {
	over := 0
	for _, o := range r.owners {
		if !o.end.IsZero() && !r.now().Before(o.end) {
			over++
		}
	}
	n, err := r.f.store.EndPeriods(r.ctx)
	require.NoError(r, err)
	require.EqualValues(r, over, n)
	r.unlooked = false
	r.compare()
}

func (r *run) closeUnproven() {
	var begun []time.Time
	for _, q := range r.requests {
		for _, a := range q.Attempts {
			begun = append(begun, a.Created)
		}
	}
	before := pick(r, "attempt", begun).Add(time.Duration(rapid.IntRange(0, 1).Draw(r.T, "after")))
	n, err := r.f.store.CloseUnproven(r.ctx, before)
	require.NoError(r, err)
	require.EqualValues(r, r.close(before), n.Attempts)
}

// close closes the attempts that wait and began before then, those that began first before the others, and says how
// many.
func (r *run) close(before time.Time) (closed int) {
	type late struct {
		q   *request
		seq int
	}
	var all []late
	for _, q := range r.requests {
		for i, a := range q.Attempts {
			if q.Pending && waits(a) && a.Created.Before(before) {
				all = append(all, late{q, i})
			}
		}
	}
	slices.SortFunc(all, func(a, b late) int {
		return cmp.Or(a.q.Attempts[a.seq].Created.Compare(b.q.Attempts[b.seq].Created), cmp.Compare(a.q.ID, b.q.ID),
			cmp.Compare(a.seq, b.seq))
	})
	for _, l := range all {
		a := &l.q.Attempts[l.seq]
		a.Outcome = ledger.Closed
		var tokens int64
		if a.Estimate != nil {
			a.Usage = *a.Estimate
			tokens = *a.Usage.Input + *a.Usage.Output
		}
		r.look(l.q.owner)
		r.prove(l.q, ledger.Closing, a, tokens)
		l.q.Pending = l.q.waits()
	}
	return len(all)
}

// restart opens the store as another process does after a crash. Some settlements come from the spool of the dead
// process before what is left is recovered.
func (r *run) restart() {
	require.NoError(r, r.f.store.Close())
	r.f.options.BootID = r.f.next("boot")
	r.f.store = r.f.open(r.f.tb, r.f.options)
	for _, q := range r.those(true) {
		if r.sometimes("spooled", 3) {
			r.look(q.owner)
			s := r.settlement(q)
			c, err := r.f.store.Settle(r.ctx, s)
			require.NoError(r, err)
			r.settle(q, s)
			r.charged(q, c)
		}
	}
	if r.sometimes("hold before the rest is recovered", 2) {
		r.hold()
	}
	lost := slices.DeleteFunc(r.those(true), func(q *request) bool { return q.Owner == r.f.options.BootID })
	n, err := r.f.store.Recover(r.ctx)
	require.NoError(r, err)
	require.EqualValues(r, len(lost), n, "a process leaves its own requests")
	for _, q := range lost {
		r.look(q.owner)
		r.settle(q, ledger.Settlement{Request: q.ID, Reason: r.f.record(q.ID).Reason})
	}
	r.unlooked = false
}

func (r *run) checkpoint() {
	c, err := r.f.store.MakeCheckpoint(r.ctx)
	require.NoError(r, err)
	r.kept = append(r.kept, c)
}

func (r *run) prune() {
	var settled []time.Time
	for _, q := range r.those(false) {
		settled = append(settled, q.Settled)
	}
	before := pick(r, "request", settled).Add(time.Duration(rapid.IntRange(0, 1).Draw(r.T, "after")))
	n, err := r.f.store.Prune(r.ctx, before)
	require.NoError(r, err)
	kept := slices.DeleteFunc(slices.Clone(r.requests), func(q *request) bool {
		gone := !q.Running && !q.Pending && q.Settled.Before(before)
		if gone {
			r.pruned = append(r.pruned, q.RequestRecord)
		}
		return gone
	})
	require.EqualValues(r, len(r.requests)-len(kept), n)
	r.requests = kept
}
