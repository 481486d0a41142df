package book_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/plugins/llm"
)

// The rules over a store that is nothing but rows pass what every store passes.
func TestRules(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.OpenMemory)
}

// The rules and the audit check one another, a hundred thousand steps long.
func TestWalkIsRight(t *testing.T) {
	t.Parallel()
	ledgertest.Walk(t, ledgertest.OpenMemory, ledgertest.WalkSteps/50)
}

var (
	moment  = time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	mary    = book.By{Actor: "mary", Now: moment}
	errLost = errors.New("a part of it is missing")
)

// rich is an account with a hundred credits.
func rich(t *testing.T) book.Account {
	t.Helper()
	c, err := book.CreateAccount("acct_1", "ann", "", false, mary)
	require.NoError(t, err)
	c, err = book.DecideTopUp(&ledger.Credit{Credits: 100}, c.Account, nil, nil, mary)
	require.NoError(t, err)
	return c.Account
}

func payer(a *book.Account, l book.Line) book.Payer { return book.Payer{Account: a, Line: &l} }

func attempt(n int64, worst int64) book.Attempt {
	return book.BeginAttempt(ledger.Attempt{ID: ledger.AttemptID("r", n), Route: "r", PriceVersion: n, Worst: worst},
		unit, unit, moment)
}

// running is a request with so many attempts that holds so much.
func running(held int64, attempts int) *book.Running {
	r := &book.Running{ID: "r", Account: "acct_1", Held: held, Created: moment}
	for n := range attempts {
		r.Attempts = append(r.Attempts, attempt(int64(n)+1, -1))
	}
	return r
}

func TestHoldSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	first := func(id string) ledger.Hold { return ledger.Hold{Request: "r", Attempt: ledger.Attempt{ID: id}} }
	for _, c := range []struct {
		name string
		hold ledger.Hold
		says string // "" for nothing
	}{
		{"nothing", ledger.Hold{}, "invalid: a hold needs a request id and amounts that are not negative"},
		{"microcents", ledger.Hold{Request: "r", Microcents: -1}, "not negative"},
		{"tokens", ledger.Hold{Request: "r", Tokens: -1}, "not negative"},
		{"headroom", ledger.Hold{Request: "r", Headroom: -1}, "not negative"},
		{"another request's attempt", first("s.1"), `attempt "s.1"; the first attempt of this request is "r.1"`},
		{"the second attempt", first("r.2"), `attempt "r.2"; the first attempt of this request is "r.1"`},
		{"no dot", first("r-1"), `attempt "r-1"; the first`},
		{"no id", ledger.Hold{Request: "r", Attempt: ledger.Attempt{Route: "a"}}, `attempt ""; the first`},
		{"the first attempt", first("r.1"), ""},
		{"no attempt", ledger.Hold{Request: "r"}, ""},
		{"GAP-133 of a microcent", ledger.Hold{Request: "r", Microcents: 1}, "a part of it is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := book.CheckHold(&c.hold, errLost)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRepeatedHold(t *testing.T) {
	t.Parallel()
	h := &ledger.Hold{Request: "r", Account: "acct_1"}
	repeated, err := book.RepeatsHold(h, running(1, 0), false)
	require.NoError(t, err)
	require.True(t, repeated)
	repeated, err = book.RepeatsHold(h, nil, false)
	require.NoError(t, err)
	require.False(t, repeated)
	_, err = book.RepeatsHold(h, nil, true)
	require.EqualError(t, err, "already exists: a request with this id, which is settled")
	_, err = book.RepeatsHold(&ledger.Hold{Request: "r", Account: "acct_2"}, running(1, 0), false)
	require.EqualError(t, err, "already exists: a request of another account with this id, which is running")
}

func TestFurtherAttempts(t *testing.T) {
	t.Parallel()
	for _, negative := range []ledger.Next{{Microcents: -1}, {Tokens: -1}} {
		_, err := book.RepeatsAttempt(&negative, running(1, 1))
		require.EqualError(t, err, "invalid: an attempt needs amounts that are not negative")
	}
	_, err := book.RepeatsAttempt(&ledger.Next{}, nil)
	require.EqualError(t, err, "not found: a running request with this id")
	for have := range 12 {
		r := running(1, have)
		for _, c := range []struct {
			id       string
			repeated bool
			err      error
		}{
			{ledger.AttemptID("r", int64(have)+1), false, nil},
			{ledger.AttemptID("r", int64(have)+2), false, ledger.ErrInvalid},
			{ledger.AttemptID("r", int64(have)), have > 0, nil},
			{ledger.AttemptID("s", int64(have)+1), false, ledger.ErrInvalid},
			{"r." + string(rune('1'+have)), false, nil}, // for more than nine it is no digit
		} {
			repeated, err := book.RepeatsAttempt(&ledger.Next{Attempt: ledger.Attempt{ID: c.id}}, r)
			if have == 0 && c.id == "r.0" || have >= 9 && len(c.id) == 3 && c.id > "r.9" {
				c.err = ledger.ErrInvalid
			}
			require.ErrorIs(t, err, c.err, c.id)
			require.Equal(t, c.repeated, repeated, c.id)
			if err != nil {
				require.EqualError(t, err, fmt.Sprintf("invalid: attempt %q; the next attempt of this request is %q", c.id,
					ledger.AttemptID("r", int64(have)+1)))
			}
		}
	}
	a := rich(t)
	r, next := running(10, 1), attempt(2, 5)
	c, err := book.DecideAttempt(&ledger.Next{Microcents: 12, Beside: true}, payer(&a, book.Line{}), r, &next)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 12, 2}, []int64{c.Raised, c.Running.Held, c.Balance.Held})
	require.Len(t, r.Attempts, 1, "what is given stays as it is")
	require.Equal(t, []bool{false, true}, []bool{c.Running.Attempts[0].Beside, c.Running.Attempts[1].Beside})
	a.Held = 100 * ledger.MicrocentsPerCredit
	c, err = book.DecideAttempt(&ledger.Next{Microcents: 10}, payer(&a, book.Line{}), r, &next)
	require.NoError(t, err, "GAP-137 what is held already needs nothing more")
	require.Zero(t, c.Raised)
	_, err = book.DecideAttempt(&ledger.Next{Microcents: 11}, payer(&a, book.Line{}), r, &next)
	require.ErrorIs(t, err, ledger.ErrHeld)
	p := payer(&a, book.Line{Cap: 12})
	p.Held = 10
	a.Held = 10
	_, err = book.DecideAttempt(&ledger.Next{Microcents: 12}, p, r, &next)
	require.NoError(t, err, "GAP-115 its own hold counts once")
	p.Held++
	_, err = book.DecideAttempt(&ledger.Next{Microcents: 12}, p, r, &next)
	require.ErrorIs(t, err, ledger.ErrKeyHeld)
}

func TestReferences(t *testing.T) {
	t.Parallel()
	r := running(1, 2)
	r.Attempts[1].Reference = "known"
	require.Same(t, &r.Attempts[0], book.FindReferred(r, "r.1", "fresh"))
	require.Same(t, &r.Attempts[1], book.FindReferred(r, "r.2", "fresh"))
	for _, id := range []string{"r.0", "r.3", "r", ""} {
		require.Nil(t, book.FindReferred(r, id, "fresh"), id)
	}
	require.Nil(t, book.FindReferred(r, "r.2", "known"))
	require.Nil(t, book.FindReferred(nil, "r.1", "fresh"))
}

// What no balance covers is refused however large it is (GAP-49, GAP-115).
func TestAmountsThatOverflow(t *testing.T) {
	t.Parallel()
	a := rich(t)
	a.Limits, _ = a.Limits.With(ledger.LimitTokenBudget, new(int64(math.MaxInt64-1)))
	p := payer(&a, book.Line{})
	p.Terms = a.Limits.Over(ledger.Terms{})
	hold := func(h ledger.Hold) error {
		_, err := book.DecideHold(&h, p, nil, "boot", moment)
		return err
	}
	require.NoError(t, hold(ledger.Hold{Microcents: 50, Tokens: 1, Headroom: 2}))
	require.ErrorIs(t, hold(ledger.Hold{Microcents: math.MaxInt64}), ledger.ErrInsufficient)
	require.ErrorIs(t, hold(ledger.Hold{Microcents: 50_000_001, Headroom: 2}), ledger.ErrInsufficient)
	require.NoError(t, hold(ledger.Hold{Microcents: 50_000_000, Headroom: 2}))
	require.NoError(t, hold(ledger.Hold{Microcents: 50_000_001, Headroom: 1}))
	require.ErrorIs(t, hold(ledger.Hold{Tokens: math.MaxInt64/2 + 1, Headroom: 2}), ledger.ErrTokenBudget)
	require.ErrorIs(t, hold(ledger.Hold{Tokens: math.MaxInt64/4 + 1, Headroom: 4}), ledger.ErrTokenBudget)
	p.Line, p.Held = &book.Line{Cap: math.MaxInt64}, math.MaxInt64
	require.NoError(t, hold(ledger.Hold{Microcents: 1}), "it comes to what the cap allows")
	p.Line = &book.Line{Cap: 20, Spent: 15, Before: 5}
	p.Held = 7
	require.NoError(t, hold(ledger.Hold{Microcents: 3}))
	require.ErrorIs(t, hold(ledger.Hold{Microcents: 4}), ledger.ErrKeyHeld)
	require.ErrorIs(t, hold(ledger.Hold{Microcents: 11}), ledger.ErrKeySpendCap)
	require.ErrorIs(t, book.CheckPayer(p, 4, 0), ledger.ErrKeyHeld)
	require.NoError(t, book.CheckPayer(p, 3, 0))
	require.ErrorIs(t, book.CheckPayer(p, -1, 0), ledger.ErrInvalid)
	require.ErrorIs(t, book.CheckPayer(p, 0, -1), ledger.ErrInvalid)
	refusal, ok := errors.AsType[*ledger.Refusal](hold(ledger.Hold{Microcents: 4}))
	require.True(t, ok)
	require.Equal(t, ledger.Refusal{Why: ledger.ErrKeyHeld, Left: 3,
		Room: ledger.Room{Microcents: 3, Tokens: math.MaxInt64 - 1},
		Sum:  ledger.Sum{Limit: 20, Used: 10, Held: 7}}, *refusal)
}

// TestRefusalsSayWhenThereIsMore: the end of the period where that helps, and nothing where only others' ends do, or a
// smaller request.
func TestRefusalsSayWhenThereIsMore(t *testing.T) {
	t.Parallel()
	ends := moment.AddDate(0, 1, 0)
	for name, c := range map[string]struct {
		why    error
		terms  ledger.Terms
		line   book.Line
		others int64 // of the key
		hold   ledger.Hold
		want   time.Time
	}{
		"a cap of which a part is spent": {ledger.ErrSpendCap, ledger.Terms{SpendCap: 100, MonthlyCredits: 1}, book.Line{}, 0,
			ledger.Hold{Microcents: 61}, ends},
		"more than all of the cap": {ledger.ErrSpendCap, ledger.Terms{SpendCap: 100, MonthlyCredits: 1}, book.Line{}, 0,
			ledger.Hold{Microcents: 101}, time.Time{}},
		"a budget": {ledger.ErrTokenBudget, ledger.Terms{TokenBudget: 100, MonthlyCredits: 1}, book.Line{}, 0,
			ledger.Hold{Microcents: 999, Tokens: 71}, ends},
		"more than all of a budget": {ledger.ErrTokenBudget, ledger.Terms{TokenBudget: 100, MonthlyCredits: 1}, book.Line{},
			0, ledger.Hold{Microcents: 1, Tokens: 101}, time.Time{}},
		"a key's cap": {ledger.ErrKeySpendCap, ledger.Terms{MonthlyCredits: 1}, book.Line{Cap: 20, Spent: 15}, 0,
			ledger.Hold{Microcents: 6}, ends},
		"what others hold of a key's cap": {ledger.ErrKeyHeld, ledger.Terms{MonthlyCredits: 1}, book.Line{Cap: 20}, 15,
			ledger.Hold{Microcents: 6}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := rich(t)
			a.Period.End, a.Ever = ends, book.Counters{Spent: 40, Tokens: 30}
			p := payer(&a, c.line)
			p.Terms, p.Held = c.terms, c.others
			_, err := book.DecideHold(&c.hold, p, nil, "boot", moment)
			require.ErrorIs(t, err, c.why)
			refusal, ok := errors.AsType[*ledger.Refusal](err)
			require.True(t, ok)
			require.Equal(t, c.want, refusal.Sum.Ends)
		})
	}
}

func TestHoldMakesTheRequest(t *testing.T) {
	t.Parallel()
	a := rich(t)
	first := attempt(1, 7)
	c, err := book.DecideHold(&ledger.Hold{Request: "r", Account: "acct_1", Key: "key_1", Endpoint: "chat",
		Profile: "max", Microcents: 9}, payer(&a, book.Line{}), &first, "boot", moment)
	require.NoError(t, err)
	require.Equal(t, book.Running{ID: "r", Account: "acct_1", Key: "key_1", Owner: "boot", Endpoint: "chat",
		Profile: "max", Held: 9, Created: moment, Attempts: []book.Attempt{first}}, c.Running)
	require.Zero(t, a.Held)
	require.EqualValues(t, 9, c.Balance.Held)
}

func TestSettlementSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	for says, st := range map[string]ledger.Settlement{
		"a surcharge of -1 microcents":     {Surcharge: -1},
		"a surcharge of 1000000000000001 ": {Surcharge: ledger.MaxCharge + 1},
		`outcome "odd" of attempt "r.1"`:   {Results: []ledger.Result{{Attempt: "r.1", Outcome: "odd"}}},
		`outcome "closed" of attempt`:      {Results: []ledger.Result{{Attempt: "r.1", Outcome: ledger.Closed}}},
		`two results of attempt "r.1"`: {Results: []ledger.Result{{Attempt: "r.1", Outcome: ledger.Failed},
			{Attempt: "r.2", Outcome: ledger.Finished}, {Attempt: "r.1", Outcome: ledger.Failed}}},
	} {
		err := book.CheckSettlement(&st)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, book.CheckSettlement(&ledger.Settlement{Surcharge: ledger.MaxCharge, Results: []ledger.Result{
		{Attempt: "r.1", Outcome: ledger.Unproven}, {Attempt: "r.2", Outcome: ledger.NotMade}}}))
}

func TestSettlement(t *testing.T) {
	t.Parallel()
	usage := func(n int64) *llm.Usage { return &llm.Usage{Output: llm.Count(n)} }
	finished := func(n int64, u *llm.Usage) ledger.Result {
		return ledger.Result{Attempt: ledger.AttemptID("r", n), Outcome: ledger.Finished, Usage: u}
	}
	settle := func(r *book.Running, results ...ledger.Result) (book.Settled, error) {
		a := rich(t)
		return book.DecideSettlement(&ledger.Settlement{Request: "r", Results: results}, payer(&a, book.Line{}), r,
			map[string]bool{"r.3": true}, moment)
	}

	t.Run("an entry names each price once, in order", func(t *testing.T) {
		t.Parallel()
		r := running(1_000, 12)
		r.Attempts[4].PriceVersion, r.Attempts[4].Route = 2, "s"
		r.Attempts[5].PriceVersion = 1
		r.Attempts[7].PriceVersion = 8
		c, err := settle(r, finished(1, usage(1)), finished(5, usage(2)), finished(6, usage(3)), finished(11, usage(4)),
			ledger.Result{Attempt: "r.8", Outcome: ledger.Failed, Usage: usage(5), Operator: true}, finished(12, usage(6)))
		require.NoError(t, err)
		require.Equal(t, "r@1 s@2 r@11 r@12", c.Entry.Prices)
		require.EqualValues(t, 16, c.Charge)
	})
	t.Run("one that the operator pays names no price for the account", func(t *testing.T) {
		t.Parallel()
		r := running(1_000, 2)
		r.Attempts[1].PriceVersion = 1
		own := finished(1, usage(5))
		own.Operator = true
		c, err := settle(r, own, finished(2, usage(1)))
		require.NoError(t, err)
		require.Equal(t, "r@1", c.Entry.Prices)
		c, err = settle(r, own, ledger.Result{Attempt: "r.2", Outcome: ledger.Failed})
		require.NoError(t, err)
		require.Empty(t, c.Entry.Prices)
	})
	t.Run("GAP-99 an attempt of which nobody said that it was not made was not", func(t *testing.T) {
		t.Parallel()
		r := running(10, 3)
		c, err := settle(r)
		require.NoError(t, err)
		require.True(t, c.Pending)
		require.Equal(t, []ledger.Outcome{ledger.Unproven, ledger.Unproven, ledger.NotMade},
			[]ledger.Outcome{r.Attempts[0].Outcome, r.Attempts[1].Outcome, r.Attempts[2].Outcome})
	})
	t.Run("what cannot be priced is left out, and said", func(t *testing.T) {
		t.Parallel()
		r := running(10, 2)
		bad := finished(2, usage(-1))
		bad.Estimate, bad.Key, bad.Reference = usage(-2), "eu", "job 7"
		c, err := settle(r, finished(1, usage(3)), bad)
		require.NoError(t, err)
		require.Len(t, c.LeftOut, 2)
		for i, left := range c.LeftOut {
			require.Equal(t, []any{"r.2", i == 1}, []any{left.Attempt, left.Estimate})
			require.ErrorIs(t, left.Err, ledger.ErrUsage)
		}
		require.Equal(t, []any{"eu", "job 7", (*llm.Usage)(nil)},
			[]any{r.Attempts[1].Key, r.Attempts[1].Reference, r.Attempts[1].Estimate})
		require.Equal(t, ledger.Charge{Microcents: 3, Pending: true, Balance: c.Account.Balance}, c.Answer())
	})
	t.Run("a reference that was known stays", func(t *testing.T) {
		t.Parallel()
		r := running(10, 1)
		r.Attempts[0].Reference = "job 1"
		_, err := settle(r, ledger.Result{Attempt: "r.1", Outcome: ledger.Unproven})
		require.NoError(t, err)
		require.Equal(t, "job 1", r.Attempts[0].Reference)
	})
	t.Run("a result of an attempt that there is not", func(t *testing.T) {
		t.Parallel()
		c, err := settle(running(10, 1), finished(1, usage(1)), finished(2, usage(1)))
		require.EqualError(t, err, `not found: attempt "r.2" of this request`)
		require.Empty(t, c)
	})
	t.Run("a settlement that was refused leaves nothing to the next", func(t *testing.T) {
		t.Parallel()
		r := running(10, 2)
		own := finished(1, nil)
		own.Operator, own.Key = true, "eu"
		_, err := settle(r, own, finished(9, nil))
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = settle(r)
		require.NoError(t, err)
		fresh := running(10, 2)
		_, err = settle(fresh)
		require.NoError(t, err)
		require.Equal(t, fresh, r)
	})
	t.Run("a balance that would leave its range", func(t *testing.T) {
		t.Parallel()
		a := rich(t)
		a.Credits = -ledger.MaxBalance
		c, err := book.DecideSettlement(&ledger.Settlement{Results: []ledger.Result{finished(1, usage(1))}},
			payer(&a, book.Line{}), running(10, 1), nil, moment)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.Empty(t, c)
	})
	t.Run("usage far beyond what is held", func(t *testing.T) {
		t.Parallel()
		a := rich(t)
		r := running(10, 2)
		var results []ledger.Result
		for i := range r.Attempts {
			r.Attempts[i].Price.Output = math.MaxInt64 / 2
			results = append(results, finished(int64(i)+1, usage(ledger.MaxCharge/(math.MaxInt64/2/1_000_000))))
		}
		c, err := book.DecideSettlement(&ledger.Settlement{Results: results}, payer(&a, book.Line{}), r, nil, moment)
		require.NoError(t, err)
		require.EqualValues(t, 10, c.Charge, "GAP-110")
		require.Positive(t, c.Over)
	})
	t.Run("more than any bill can sum", func(t *testing.T) {
		t.Parallel()
		r := running(10, math.MaxInt64/ledger.MaxCharge+1)
		var results []ledger.Result
		for i := range r.Attempts {
			r.Attempts[i].Price.Output = ledger.MaxCharge
			results = append(results, finished(int64(i)+1, usage(1_000_000)))
		}
		c, err := settle(r, results...)
		require.ErrorIs(t, err, ledger.ErrUsage)
		require.Empty(t, c)
	})
	t.Run("more attempts than are usual are all vouched for", func(t *testing.T) {
		t.Parallel()
		details := map[ledger.Digest]bool{}
		for n := range 6 {
			c, err := settle(running(10, n))
			require.NoError(t, err)
			details[c.Entry.Detail] = true
		}
		require.Len(t, details, 6)
	})
}

func TestSettlementsThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	require.Equal(t, &ledger.Settlement{Request: "r", Reason: "crashed"}, book.SettleCrashed(running(1, 1)))
	require.Equal(t, &ledger.Settlement{Request: "r", Reason: "hold_not_answered", Free: true},
		book.SettleUnanswered(running(1, 0)))
	require.Equal(t, &ledger.Settlement{Request: "r", Reason: "hold_not_answered", Free: true,
		Results: []ledger.Result{{Attempt: "r.1", Outcome: ledger.NotMade}}}, book.SettleUnanswered(running(1, 1)))
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	a := rich(t)
	attempts := func() []book.Attempt {
		all := running(10, 2).Attempts
		for i := range all {
			all[i].Outcome = ledger.Unproven
		}
		return all
	}
	r := &book.Request{ID: "r", Account: "acct_1", Held: 100, Pending: true}
	receive := func(r *book.Request, all []book.Attempt, seq int64, u llm.Usage) (book.Proven, bool, error) {
		return book.DecideReceipt(payer(&a, book.Line{}), r, all, seq, u, moment)
	}
	some := llm.Usage{Output: llm.Count(30)}
	_, _, err := receive(r, attempts(), 3, some)
	require.EqualError(t, err, "not found: no attempt has this id")
	_, taken, err := receive(r, attempts(), 2, llm.Usage{})
	require.EqualError(t, err, "usage cannot be charged: the receipt says nothing")
	require.False(t, taken)
	_, taken, err = receive(r, attempts(), 2, llm.Usage{Output: llm.Count(-1)})
	require.ErrorIs(t, err, ledger.ErrUsage)
	require.False(t, taken)
	settled := *r
	settled.Pending = false
	_, taken, err = receive(&settled, attempts(), 2, some)
	require.NoError(t, err)
	require.False(t, taken)

	all := attempts()
	c, taken, err := receive(r, all, 2, some)
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, attempts(), all, "what is given stays as it is")
	require.Equal(t, book.Part{Charge: 30, Tokens: 30}, c.Part)
	require.True(t, c.Request.Pending, "the other one waits")
	require.Equal(t, []any{moment, "r@2", ledger.Receipt, moment},
		[]any{c.Attempt.Receipt, c.Entry.Prices, c.Entry.Kind, c.Entry.Created})
	require.Equal(t, ledger.Charge{Microcents: 30, Pending: true, Balance: c.Account.Balance},
		c.Request.Answer(c.Account.Balance))

	poor := rich(t)
	poor.Credits = -ledger.MaxBalance
	p, taken, err := book.DecideReceipt(payer(&poor, book.Line{}), r, attempts(), 2, some, moment)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.False(t, taken)
	require.Empty(t, p)

	all = attempts()
	all[0].Estimate = &llm.Usage{Output: llm.Count(40), Estimated: true}
	all[0].Worst = 25
	c, err = book.DecideClosing(payer(&a, book.Line{}), r, all, 1, moment)
	require.NoError(t, err)
	require.Equal(t, book.Part{Charge: 25, Over: 15, Tokens: 40}, c.Part, "GAP-113 at most its worst")
	require.Equal(t, []any{ledger.Closed, time.Time{}, ledger.Closing, "r@1"},
		[]any{c.Attempt.Outcome, c.Attempt.Receipt, c.Entry.Kind, c.Entry.Prices})
	require.Equal(t, []int64{25, 15}, []int64{c.Request.Charge, c.Request.Over})
	c, err = book.DecideClosing(payer(&a, book.Line{}), r, attempts(), 1, moment)
	require.NoError(t, err)
	require.Equal(t, book.Part{}, c.Part, "nothing is known of it")
	require.Empty(t, c.Entry.Prices)
	all[0].Worst = 0
	c, err = book.DecideClosing(payer(&a, book.Line{}), r, all, 1, moment)
	require.NoError(t, err)
	require.Zero(t, c.Charge, "GAP-123 it could not cost anything")
}
