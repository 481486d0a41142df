package exchange

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// standard is the route of the worked examples: $3 in and $15 out per million tokens.
var standard = config.Route{Name: "standard", MaxOutput: 64_000, ContextWindow: 200_000,
	Price: config.Price{Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000}}

func TestWorst(t *testing.T) {
	t.Parallel()
	past := standard
	past.BillsPastAllowance = true
	raised := past
	raised.MaxOutput = 2_000 // less than what a special route was sent
	for name, tc := range map[string]struct {
		route  *config.Route
		output int64
	}{
		"BILL-09 the allowance":                  {&standard, 4_096},
		"BILL-11 the longest reply of the route": {&past, 64_000},
		"BILL-11 never less than the allowance":  {&raised, 4_096},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worstOf(1_000, &routing.Candidate{Route: tc.route, Allowance: 4_096})
			require.Equal(t, routing.Worst{Microcents: 1_000*300 + tc.output*1_500, Tokens: 1_000 + tc.output}, w)
		})
	}
	t.Run("GAP-49 one of several, and several", func(t *testing.T) {
		t.Parallel()
		a, b := routing.Worst{Microcents: 3, Tokens: 10}, routing.Worst{Microcents: 5, Tokens: 2}
		require.Equal(t, routing.Worst{Microcents: 5, Tokens: 10}, a.Or(b))
		require.Equal(t, routing.Worst{Microcents: 8, Tokens: 12}, a.And(b))
		require.Equal(t, a, a.And(routing.Worst{}))
	})
	t.Run("GAP-49 whichever candidate answers", func(t *testing.T) {
		t.Parallel()
		cheap := &routing.Candidate{Route: &standard, Allowance: 10}
		dear := &routing.Candidate{Route: &past, Allowance: 10}
		for _, steps := range [][]routing.Step{{cheap, dear}, {dear, cheap}} {
			x := (&exchange{prompt: prompt{input: input{bound: 1_000}},
				admission: admission{steps: &routing.First{Steps: steps}}}).connect()
			require.Equal(t, worstOf(1_000, dear), x.admission.steps.Worst(x.prompt.worst))
		}
	})
	t.Run("GAP-117 what an upstream gets back counts for its route alone", func(t *testing.T) {
		t.Parallel()
		other := standard
		other.Name = "other"
		x := (&exchange{scope: scope{call: &gateway.Call{}}, prompt: prompt{input: input{bound: 1_000},
			states: map[string]routeStates{"other": {bytes: 50}}}}).connect()
		require.EqualValues(t, 1_000, x.prompt.bound(&standard))
		require.EqualValues(t, 1_050, x.prompt.bound(&other))
		c := &routing.Candidate{Route: &other, Allowance: 10}
		x.admission.steps = &routing.First{Steps: []routing.Step{&routing.Candidate{Route: &standard, Allowance: 10}, c}}
		require.Equal(t, worstOf(1_050, c), x.admission.steps.Worst(x.prompt.worst))
		x.work.addAttempt(c, engine.RoutePermit{})
		require.Equal(t, worstOf(1_050, c).Microcents, x.work.current.worst)
		require.EqualValues(t, 1_050, x.books.sumSpent(x.work.attempts).Tokens-10, "an attempt that has not ended (GAP-49)")
		x.work.current.running = false
		require.Zero(t, x.books.sumSpent(x.work.attempts), "that was never accepted")
		x.work.current.accepted = true
		require.EqualValues(t, 1_050, x.books.sumSpent(x.work.attempts).Tokens-10,
			"an attempt that is not proven yet (GAP-110)")
	})
	t.Run("GAP-49 what no balance covers stays so", func(t *testing.T) {
		t.Parallel()
		endless := worstOf(math.MaxInt64, &routing.Candidate{Route: &standard, Allowance: math.MaxInt64})
		require.Equal(t, routing.Worst{Microcents: math.MaxInt64, Tokens: math.MaxInt64}, endless)
		require.Equal(t, endless, endless.And(endless))
		require.Equal(t, endless, endless.And(routing.Worst{Microcents: 1, Tokens: 1}))
	})
}

// TestWorstCovers: what is proven so far and the next call at its worst are never less than what both come to, though
// each part of the charge is a fraction of a microcent.
func TestWorstCovers(t *testing.T) {
	t.Parallel()
	odd := standard
	odd.Price = config.Price{Input: 333_333, CacheRead: 333_333, CacheWrite: 333_333, Output: 777_777}
	x := (&exchange{prompt: prompt{input: input{bound: 7}}}).connect()
	for range 5 {
		x.work.attempts = append(x.work.attempts, &attempt{route: &odd, worst: 5,
			usage: &llm.Usage{Input: llm.Count(7), Output: llm.Count(3)}})
		most := x.books.sumSpent(x.work.attempts).And(worstOf(7, &routing.Candidate{Route: &odd, Allowance: 3}))
		var tally ledger.Tally
		for range len(x.work.attempts) + 1 {
			require.NoError(t, tally.Add(llm.Usage{Input: llm.Count(7), Output: llm.Count(3)}, odd.Price))
		}
		total, err := tally.Microcents()
		require.NoError(t, err)
		require.GreaterOrEqual(t, most.Microcents, total)
		require.LessOrEqual(t, most.Microcents, total+1)
		require.EqualValues(t, 10*(len(x.work.attempts)+1), most.Tokens)
	}
}

// TestSpent: before a fallback, an attempt that is not proven yet counts at its worst (GAP-110).
func TestSpent(t *testing.T) {
	t.Parallel()
	known := &llm.Usage{Input: llm.Count(2), Output: llm.Count(1)}
	x := (&exchange{scope: scope{call: &gateway.Call{}}, prompt: prompt{input: input{bound: 7}},
		work: work{attempts: []*attempt{
			{route: &standard, usage: known, accepted: true, allowance: 100, worst: 1 << 40},
			{route: &standard, accepted: true, allowance: 5, worst: 9_000}, // a receipt may prove it
			{route: &standard, allowance: 5, worst: 1 << 40},               // a proven zero
			{route: &standard, lost: true, allowance: 6, worst: 10_000},
		}}}).connect()
	require.Equal(t, routing.Worst{Microcents: 2*300 + 1_500 + 9_000 + 10_000, Tokens: 3 + 12 + 13},
		x.books.sumSpent(x.work.attempts))
	x.work.addAttempt(&routing.Candidate{Route: &standard, Allowance: 3}, engine.RoutePermit{})
	require.EqualValues(t, 7*300+3*1_500, x.work.current.worst)
	require.EqualValues(t, 7*300+3*1_500, x.work.current.ledgerAttempt(&engine.Tariff{}).Worst)
}

func TestDueIsAtMostTheHold(t *testing.T) {
	t.Parallel()
	known := &llm.Usage{Input: llm.Count(100), Output: llm.Count(10)}
	x := (&exchange{work: work{attempts: []*attempt{{route: &standard, accepted: true, outcome: ledger.Finished,
		usage: known,
		worst: 45_000}}}}).connect()
	for hold, over := range map[int64]int64{0: 45_000, 44_999: 1, 45_000: 0, 45_001: 0} {
		x.books.hold, x.books.surcharge = hold, 0
		require.Equal(t, ledger.Charge{Microcents: 45_000 - over, Over: over},
			x.books.computeDue(&ledger.Settlement{Results: x.work.results(false)}, x.work.attempts), "GAP-110")
		x.books.surcharge = 7
		require.Equal(t, over+7-min(7, max(0, hold-45_000)),
			x.books.computeDue(&ledger.Settlement{Results: x.work.results(false)}, x.work.attempts).Over)
	}
	x.books.hold, x.work.attempts[0].worst = 1_000_000, 44_000
	require.Equal(t, ledger.Charge{Microcents: 44_007, Over: 1_000},
		x.books.computeDue(&ledger.Settlement{Results: x.work.results(false)},
			x.work.attempts), "GAP-123 nor than the attempt's own worst")
	x.work.attempts = append(x.work.attempts, &attempt{route: &standard, accepted: true, outcome: ledger.Failed,
		worst: 970_000})
	x.books.surcharge = 0
	require.Equal(t, ledger.Charge{Microcents: 30_000, Over: 15_000, Pending: true},
		x.books.computeDue(&ledger.Settlement{Results: x.work.results(false)},
			x.work.attempts), "GAP-123 and there is room for what waits")
	require.EqualValues(t, 44_000+970_000, x.books.sumSpent(x.work.attempts).Microcents, "GAP-123 before a fallback, too")
}

// TestDue is the arithmetic of a settlement; that the ledger comes to the same, every contract test of money shows.
func TestDue(t *testing.T) {
	t.Parallel()
	known := &llm.Usage{Input: llm.Count(100), Output: llm.Count(10)}
	absurd := &llm.Usage{Input: llm.Count(1), Output: llm.Count(ledger.MaxTokens + 1)}
	accepted := func(outcome ledger.Outcome, u *llm.Usage) *attempt {
		return &attempt{route: &standard, accepted: true, outcome: outcome, usage: u, worst: 50_000}
	}
	for name, tc := range map[string]struct {
		attempts []*attempt
		final    bool
		want     ledger.Charge
	}{
		"BILL-23 all attempts are charged": {attempts: []*attempt{accepted(ledger.Failed, known),
			accepted(ledger.Finished, known)},
			want: ledger.Charge{Microcents: 2 * (100*300 + 10*1500)}},
		"BILL-28 what is not proven is pending": {attempts: []*attempt{accepted(ledger.Failed, nil),
			accepted(ledger.Finished, known)},
			want: ledger.Charge{Microcents: 100*300 + 10*1500, Pending: true}},
		"GAP-57 and closed at 0 where the charge is final": {attempts: []*attempt{accepted(ledger.Failed, nil),
			accepted(ledger.Finished, known)},
			final: true, want: ledger.Charge{Microcents: 100*300 + 10*1500}},
		"GAP-57 an attempt that was not accepted is a proven zero": {attempts: []*attempt{{route: &standard,
			outcome: ledger.Failed}}},
		"BILL-28 nor is one whose provider died before it said so": {attempts: []*attempt{{route: &standard, lost: true,
			outcome: ledger.Failed}},
			want: ledger.Charge{Pending: true}},
		"usage that cannot be priced proves nothing": {attempts: []*attempt{accepted(ledger.Finished, absurd)},
			want: ledger.Charge{Pending: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := (&exchange{work: work{attempts: tc.attempts}, books: books{hold: 1_000_000}}).connect()
			require.Equal(t, tc.want, x.books.computeDue(&ledger.Settlement{Results: x.work.results(tc.final)}, x.work.attempts))
			free := ledger.Settlement{Results: x.work.results(tc.final), Free: true}
			require.Zero(t, x.books.computeDue(&free, x.work.attempts),
				"BILL-25")
			want := tc.want
			want.Microcents += 1_350
			x.books.surcharge = 1_350
			require.Equal(t, want, x.books.computeDue(&ledger.Settlement{Results: x.work.results(tc.final)}, x.work.attempts))
		})
	}
}
