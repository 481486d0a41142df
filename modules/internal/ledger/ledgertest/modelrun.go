package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// testModel drives a store and the model with the same random operations and compares them after each. One store
// serves many runs, each of which cleans up after itself, for opening one takes longer than a run; after a run that
// failed the next one gets a store of its own.
func testModel(t *testing.T, open Open) { runModel(t, open, 2) }

// runModel does that in runs of so many times 30 operations on average, and returns how many operations there were.
func runModel(t *testing.T, open Open, length int) (steps int) {
	var f *fixture
	var before ledger.Report // what the runs that f has served left behind
	clean, runs, each := false, 0, 50
	rapid.Check(t, func(rt *rapid.T) {
		if runs >= modelRuns {
			return
		}
		if runs++; !clean || runs%each == 0 {
			if f != nil {
				f.t = rt
				f.close()
			}
			f = newFixture(t, open, 0, ledger.Terms{})
			f.setPlan("")
			before = f.verify()
			if _, quick := f.store.(*memory); quick {
				each = 5
			}
		}
		clean = false
		f.t = rt
		r := newRun(rt, f, before)
		for range length {
			rt.Repeat(r.steps())
		}
		before = r.finish()
		steps += r.taken
		clean = true
	})
	return steps
}

// run is a model beside the store that it describes.
type run struct {
	*rapid.T // of the step at hand
	*model
	f        *fixture
	ctx      context.Context
	before   ledger.Report // what the ledger had when the run began
	unlooked bool          // the clock was moved, and nobody looked at the accounts since
	kept     []ledger.Checkpoint
	pruned   []ledger.RequestRecord
	latest   time.Time // that the clock has shown
	taken    int       // steps
}

// plansOfTheModel give and limit little, so that runs come to their limits.
var plansOfTheModel = []ledger.Terms{
	{FairUse: 700_000},
	{SpendCap: 900_000, TokenBudget: 800_000, FairUse: 300_000},
	{MonthlyCredits: 3, FairUse: 500_000},
	{MonthlyCredits: 2, SpendCap: 500_000, TokenBudget: 700_000, FairUse: 300_000},
	{Periods: true, SpendCap: 600_000, FairUse: 200_000},
}

// somePlan is the name of one of them.
func (r *run) somePlan() string {
	return fmt.Sprint("plan", rapid.IntRange(0, len(plansOfTheModel)-1).Draw(r.T, "plan"))
}

func newRun(t *rapid.T, f *fixture, before ledger.Report) *run {
	r := &run{T: t, f: f, ctx: context.Background(), before: before}
	r.model = &model{now: f.clock.now, terms: f.plans.of}
	for i, terms := range plansOfTheModel {
		f.plans.set(fmt.Sprint("plan", i), terms)
	}
	// The account of one run was created at the last nanosecond of a 31st, that of another in the middle of a month.
	f.clock.set(rapid.SampledFrom([]time.Time{
		f.clock.now(), time.Date(f.clock.now().Year()+1, 1, 31, 23, 59, 59, 999_999_999, time.UTC),
	}).Draw(t, "start"))
	r.latest = f.clock.now()
	for range 2 {
		r.newOwner()
	}
	return r
}

// step makes an action of one that works on the run. Each takes a second.
func (r *run) step(do func()) func(*rapid.T) {
	return func(t *rapid.T) {
		r.T, r.f.t = t, t
		r.f.clock.add(time.Second)
		defer func() {
			if now := r.now(); now.After(r.latest) {
				r.latest = now
			}
		}()
		do()
		r.taken++
	}
}

func (r *run) steps() map[string]func(*rapid.T) {
	steps := map[string]func(*rapid.T){"": func(t *rapid.T) {
		r.T, r.f.t = t, t
		r.compare()
	}}
	for name, do := range map[string]func(){
		"hold": r.hold, "hold 2": r.hold, "hold 3": r.hold, "begin": r.begin, "check": r.check, "refer": r.refer,
		"settle": r.settleOne, "settle 2": r.settleOne, "settle 3": r.settleOne, "receipt": r.receipt, "receipt 2": r.receipt,
		"again": r.oneOf(r.holdAgain, r.beginAgain, r.settleAgain, r.receiptForAnything),
		"money": r.oneOf(r.topUp, r.topUp, r.adjust, r.refund), "plan": r.oneOf(r.setPlan, r.setPlan, r.reload, r.setLimit),
		"clock": r.moveClock, "keep house": r.oneOf(r.endPeriods, r.closeUnproven, r.prune, r.checkpoint, r.restart),
		"sum":  r.sumDays,
		"key":  r.oneOf(r.newKey, r.changeKey, r.changeKey, r.rotateKey, r.revokeKey),
		"rare": r.oneOf(r.setState, r.setProfile, r.setRequires, r.setMail, r.rename, r.changePrice, r.compareNowAndThen),
	} {
		steps[name] = r.step(do)
	}
	return steps
}

// oneOf is a step that is one of some.
func (r *run) oneOf(some ...func()) func() {
	return func() { some[rapid.IntRange(0, len(some)-1).Draw(r.T, "which")]() }
}

// compare compares what is quick to read, for every account.
func (r *run) compare() {
	if r.unlooked {
		return // the next operation is the first to look at the accounts
	}
	for _, o := range r.owners {
		r.look(o)
		a, err := r.f.store.Account(r.ctx, o.ID)
		require.NoError(r, err)
		want := o.Account
		want.Balance, want.Period = r.balance(o), r.period(o)
		require.Equal(r, want, a)
	}
}

func (r *run) compareNowAndThen() {
	if r.sometimes("compare everything", 5) {
		r.compareEverything()
	}
}

// compareEverything compares all that the books say.
func (r *run) compareEverything() {
	r.unlooked = false
	r.compare()
	report := r.f.verify(r.kept...)
	var holds, pending, settled, entries int64
	byID := map[string]string{}
	var records []ledger.RequestRecord
	wait := map[string]string{} // the references of attempts that do
	for _, want := range r.requests {
		got := r.f.record(want.ID)
		moved := int64(0)
		for _, e := range got.Entries {
			moved += e.Microcents
		}
		require.Equal(r, want.Refunded-want.Microcents, moved)
		got.Entries = nil
		require.Equal(r, want.RequestRecord, got)
		records = append(records, got)
		if want.Running {
			holds++
			continue
		}
		settled++
		for _, a := range want.Attempts {
			if !want.Free && waits(a) {
				pending++
				wait[a.ID] = want.references[a.ID]
			}
		}
	}
	rows, err := r.f.store.Waiting(r.ctx, "local", "", 1<<20)
	require.NoError(r, err)
	for _, w := range rows {
		if reference, ours := wait[w.Attempt]; ours {
			require.Equal(r, reference, w.Reference)
			delete(wait, w.Attempt)
		}
	}
	require.Empty(r, wait, "GAP-56 they are not listed")
	for _, o := range r.owners {
		byID[o.ID] = o.Name
		var want []fact
		for _, f := range r.facts {
			if f.owner == o {
				f.owner, f.line, f.spent, f.all = nil, nil, 0, false
				want = append(want, f)
			}
		}
		entries += int64(len(want))
		var got []fact
		allotted := map[string]bool{}
		for _, e := range r.f.entries(ledger.Query{Account: o.ID}) {
			if e.Kind == ledger.Allotment {
				require.False(r, allotted[e.Reference], "GAP-118 the credits of %s were added twice", e.Reference)
				allotted[e.Reference] = true
			}
			g := fact{
				kind: e.Kind, request: e.Request, reference: e.Reference, microcents: e.Microcents,
				tokens: e.Tokens, waived: e.Waived, over: e.Over,
			}
			if e.Kind == ledger.Allotment {
				g.reference = "" // names the period's end in a way of the store's
			}
			got = append(got, g)
		}
		if r.f.late() { // of several processes: what was held at one moment is released in any order
			require.ElementsMatch(r, want, got)
		} else {
			require.Equal(r, want, got)
		}
		keys := map[string]ledger.Key{}
		for _, k := range o.keys {
			byID[k.ID] = k.Name
			k.Spent, k.SpendCap, k.AccountName = r.lineSpent(o, k.line), k.line.spendCap, o.Name
			keys[k.ID] = k.Key
		}
		for _, k := range r.f.keys(o.ID) {
			require.Equal(r, keys[k.ID], k)
			delete(keys, k.ID)
		}
		require.Empty(r, keys)
	}
	require.Equal(r, r.before.Holds+holds, report.Holds)
	require.Equal(r, r.before.Pending+pending, report.Pending)
	require.Equal(r, r.before.Entries+entries, report.Entries)
	require.Equal(r, r.before.Requests+settled, report.Requests)
	require.Equal(r, r.before.Accounts+int64(len(r.owners)), report.Accounts)
	r.compareAnyUsage(records, byID)
	for _, q := range []ledger.UsageQuery{
		{By: []ledger.Dimension{ledger.ByAccount, ledger.ByDay}}, {By: []ledger.Dimension{ledger.ByKey}},
		{By: []ledger.Dimension{ledger.ByAccount, ledger.ByRoute}},
	} {
		all := append(slices.Clone(records), r.pruned...)
		var pruned int64
		got := slices.DeleteFunc(r.f.usage(q), func(u ledger.UsageRow) bool { return byID[u.Account] == "" })
		for i := range got { // of other runs the sums are left
			pruned += got[i].Pruned
			got[i].Pruned = 0
		}
		require.ElementsMatch(r, usageOf(all, byID, q), got)
		if !slices.Contains(q.By, ledger.ByRoute) {
			require.EqualValues(r, len(r.pruned), pruned)
		}
	}
}

// sumDays has some of what an account has settled added to the sums of days.
func (r *run) sumDays() {
	store, is := r.f.store.(Summer)
	if len(r.owners) > 0 && is {
		require.NoError(r, store.SumSome(r.ctx, r.owner().ID, rapid.Int64Range(1, 9).Draw(r.T, "entries")))
	}
}

// compareAnyUsage compares usage of an account or of some keys, by whatever it may be grouped and narrowed by.
func (r *run) compareAnyUsage(records []ledger.RequestRecord, names map[string]string) {
	if len(r.owners) == 0 {
		return
	}
	all := []ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay, ledger.ByProfile}
	q := ledger.UsageQuery{By: rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID).Draw(r.T, "by")}
	o := rapid.SampledFrom(r.owners).Draw(r.T, "usage of")
	if q.Account = o.ID; len(o.keys) > 0 && r.sometimes("by keys", 2) {
		for _, k := range rapid.SliceOfN(rapid.SampledFrom(o.keys), 1, 4).Draw(r.T, "keys") {
			q.Keys = append(q.Keys, k.ID)
		}
		if r.sometimes("keys alone", 2) {
			q.Account = ""
		}
	}
	if r.sometimes("of a route", 4) {
		q.Route = rapid.SampledFrom([]string{"unit", "fraction", "cached"}).Draw(r.T, "route")
	}
	if r.sometimes("of a profile", 4) {
		q.Profile = rapid.SampledFrom(config.ProfileNames()).Draw(r.T, "profile")
	}
	if len(r.pruned) > 0 && (q.Profile != "" || slices.Contains(q.By, ledger.ByProfile)) {
		return // a store need not know it of what was pruned
	}
	got := slices.DeleteFunc(r.f.usage(q), func(u ledger.UsageRow) bool { return len(q.By) == 0 && u.Attempts == 0 })
	for i := range got {
		got[i].Pruned = 0
	}
	want := slices.DeleteFunc(usageOf(append(slices.Clone(records), r.pruned...), names, q),
		func(u ledger.UsageRow) bool { return len(q.By) == 0 && u.Attempts == 0 })
	require.ElementsMatch(r, want, got, "%+v", q)
}

// finish settles what runs, closes what waits and removes what is on record, so that the next run finds nothing of
// this one, and returns what is left behind.
func (r *run) finish() ledger.Report {
	for _, q := range r.requests {
		if q.Running {
			s := ledger.Settlement{Request: q.ID, Free: true, Reason: "run_over"}
			_, err := r.f.store.Settle(r.ctx, s)
			require.NoError(r, err)
			r.look(q.owner)
			r.settle(q, s)
		}
	}
	_, err := r.f.store.CloseUnproven(r.ctx, r.latest.AddDate(1, 0, 0))
	require.NoError(r, err)
	r.close(r.latest.AddDate(1, 0, 0))
	for _, o := range r.owners {
		_, err := r.f.store.SetPlan(r.ctx, o.ID, "")
		require.NoError(r, err)
		r.look(o)
		o.Plan = ""
	}
	r.f.clock.set(r.latest.Add(time.Second)) // as late as anything in it, for the next run
	r.compareEverything()
	n, err := r.f.store.Prune(r.ctx, r.f.clock.now())
	require.NoError(r, err)
	require.EqualValues(r, len(r.requests), n)
	r.compare()
	return r.f.verify(r.kept...)
}

// pick draws one of some, and skips the step when there are none.
func pick[T any](r *run, what string, from []T) T {
	if len(from) == 0 {
		r.Skip("no " + what)
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(r.T, what)]
}

func (r *run) owner() *owner { return pick(r, "account", r.owners) }
func (r *run) key() *key     { return pick(r, "key", r.owner().keys) }

// those are the requests that are running, or that are not.
func (r *run) those(running bool) (some []*request) {
	for _, q := range r.requests {
		if q.Running == running {
			some = append(some, q)
		}
	}
	return some
}

func (r *run) sometimes(what string, onceIn int) bool {
	return rapid.IntRange(1, onceIn).Draw(r.T, what) == onceIn
}

// near draws an amount, every other time one of those given or next to it.
func (r *run) near(what string, borders ...int64) int64 {
	amounts := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 400_000), rapid.Int64Range(0, 400_000),
		rapid.Int64Range(0, 9_000_000))
	if len(borders) > 0 && rapid.Bool().Draw(r.T, "at a border") {
		return max(0, rapid.SampledFrom(borders).Draw(r.T, what)+rapid.Int64Range(-1, 1).Draw(r.T, "off"))
	}
	return amounts.Draw(r.T, what)
}

// left are the borders of what an account may use: credits, caps and budget.
func (r *run) left(k *key) []int64 {
	p, terms := r.period(k.owner), r.termsOf(k.owner)
	return []int64{
		r.available(k.owner), terms.SpendCap - p.Spent, terms.TokenBudget - p.Tokens, terms.FairUse - p.Waived,
		k.line.spendCap - r.lineSpent(k.owner, k.line),
	}
}

// refusedOr checks an operation that is refused exactly when there is a reason, and that what it says would be covered
// is just what the reasons leave room for: reasons tells them for a request that comes to so much.
func (r *run) refusedOr(err error, why []error, reasons func(microcents, tokens int64) []error) (admitted bool) {
	if len(why) == 0 {
		require.NoError(r, err)
		return true
	}
	require.True(r, anyOf(err, why), "%v, and not %v", why, err)
	for _, kind := range []error{ledger.ErrHeld, ledger.ErrNothingLeft, ledger.ErrKeyHeld} {
		require.False(r, errors.Is(err, kind) && !anyOf(kind, why), "%v, and not %v", why, err)
	}
	refused, ok := errors.AsType[*ledger.Refusal](err)
	require.True(r, ok, "%v", err)
	room := refused.Room
	require.GreaterOrEqual(r, min(room.Microcents, room.Tokens, refused.Left), int64(0))
	if room.Microcents > 0 && room.Tokens > 0 { // else a limit is reached, for a request of nothing as well
		require.Empty(r, reasons(room.Microcents, min(room.Tokens, 1<<60)), "GAP-137 what is said to be covered is")
	}
	require.NotEmpty(r, reasons(room.Microcents+1, 0), "GAP-137 and a microcent more is not")
	if room.Tokens < 1<<60 {
		require.NotEmpty(r, reasons(0, room.Tokens+1), "GAP-137 nor a token more")
	}
	return false
}
