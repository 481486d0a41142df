package audit

import (
	"cmp"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// What an entry of each kind can be, and what it cannot, at the bounds.
func TestKindsOfEntries(t *testing.T) {
	t.Parallel()
	const credit = ledger.MicrocentsPerCredit
	type entry = ledger.Entry
	created := time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC)
	for name, c := range map[string]struct {
		e    entry
		says string // "": nothing
	}{
		"top-up": {entry{Kind: ledger.TopUp, Microcents: credit},
			""},
		"largest top-up": {entry{Kind: ledger.TopUp, Microcents: ledger.MaxTopUp * credit},
			""},
		"larger top-up": {entry{Kind: ledger.TopUp, Microcents: (ledger.MaxTopUp + 1) * credit},
			"is a top-up of"},
		"top-up of a part": {entry{Kind: ledger.TopUp, Microcents: credit + 1},
			"whole credits"},
		"top-up of nothing": {entry{Kind: ledger.TopUp},
			"whole credits"},
		"top-up of a request": {entry{Kind: ledger.TopUp, Microcents: credit, Request: "r"},
			"about no request"},
		"allotment": {entry{Kind: ledger.Allotment, Microcents: credit, Reference: "2026-02-28T12:00:00Z"},
			""},
		"first allotment": {entry{Kind: ledger.Allotment, Microcents: credit, Reference: "2026-01-31T12:00:00Z"},
			""},
		"allotment of a request": {entry{Kind: ledger.Allotment, Microcents: credit, Request: "r"},
			"about no request"},
		"allotment of a part": {entry{Kind: ledger.Allotment, Microcents: credit - 1},
			"is of whole credits"},
		"allotment of another time": {entry{Kind: ledger.Allotment, Microcents: credit, Reference: "2026-02-28T12:00:01Z"},
			"when no period"},
		"allotment of no time": {entry{Kind: ledger.Allotment, Microcents: credit, Reference: "x"},
			"when no period"},
		"charge": {entry{Kind: ledger.Charged, Microcents: -1, Request: "r"},
			""},
		"charge of nothing": {entry{Kind: ledger.Charged, Request: "r"},
			""},
		"old charge of nothing": {entry{Kind: ledger.Charged, Request: "r", Format: 2},
			"it takes something"},
		"charge that gives": {entry{Kind: ledger.Charged, Microcents: 1, Request: "r"},
			"it takes something"},
		"charge of no request": {entry{Kind: ledger.Charged, Microcents: -1},
			"for a request"},
		"old closing": {entry{Kind: ledger.Closing, Microcents: -1, Request: "r", Format: 2},
			"before format 3"},
		"old tokens": {entry{Kind: ledger.Charged, Microcents: -1, Request: "r", Format: 2, Tokens: 1},
			"before format 3"},
		"first prices": {entry{Kind: ledger.Charged, Microcents: -1, Request: "r", Format: 1, Prices: "p"},
			"it names prices"},
		"refund": {entry{Kind: ledger.Refund, Microcents: 1, Request: "r"},
			""},
		"refund of nothing": {entry{Kind: ledger.Refund, Request: "r"},
			"it gives something back"},
		"refund of no request": {entry{Kind: ledger.Refund, Microcents: 1},
			"it gives something back"},
		"refund of tokens": {entry{Kind: ledger.Refund, Microcents: 1, Request: "r", Tokens: 1},
			"only its charge"},
		"top-up that is over": {entry{Kind: ledger.TopUp, Microcents: credit, Over: 1},
			"only its charge"},
		"adjustment": {entry{Kind: ledger.Adjustment, Microcents: -1, Reason: "r"},
			""},
		"adjustment of nothing": {entry{Kind: ledger.Adjustment, Reason: "r"},
			"it moves something"},
		"adjustment of no reason": {entry{Kind: ledger.Adjustment, Microcents: -1},
			"for a reason"},
		"adjustment of a request": {entry{Kind: ledger.Adjustment, Microcents: -1, Reason: "r", Request: "r"},
			"about no request"},
		"another kind": {entry{Kind: "gift", Microcents: 1},
			"there is no kind"},
		"a later format": {entry{Kind: ledger.TopUp, Microcents: credit, Format: ledger.EntryFormat + 1},
			"there are 1 to 5"},
		"no format": {entry{Kind: ledger.TopUp, Microcents: credit, Format: -1},
			"has format -1"},
	} {
		e := Entry{Entry: c.e, Since: created}
		e.Book = e.Kind.Book()
		if e.Format == 0 {
			e.Format = ledger.EntryFormat
		}
		if c.says == "" {
			require.Empty(t, e.nonsense(), name)
			continue
		}
		require.Contains(t, e.nonsense(), c.says, name)
		e.Book = "other"
		require.NotEmpty(t, e.nonsense(), name)
	}
}

// Which entries a request knows of.
func TestRequestAccountsForItsEntries(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC)
	is := &Request{Entry: 5, RequestRecord: ledger.RequestRecord{Refunded: 1, Attempts: []ledger.AttemptRecord{
		{Outcome: ledger.Failed}, {Outcome: ledger.Closed}, {Outcome: ledger.Unproven, Receipt: at},
	}}}
	other := &Request{Entry: 6, RequestRecord: ledger.RequestRecord{Attempts: []ledger.AttemptRecord{
		{Outcome: ledger.Failed}, {Outcome: ledger.Unproven}, {Outcome: ledger.Unproven, Receipt: at.Add(1)},
	}}}
	for _, kind := range []ledger.EntryKind{ledger.Charged, ledger.Refund, ledger.Closing, ledger.Receipt} {
		e := &Entry{Entry: ledger.Entry{N: 5, Kind: kind, Created: at}}
		require.True(t, accountsFor(is, e), kind)
		require.False(t, accountsFor(other, e), kind)
	}
}

// A sum says whether it fits.
func TestSumsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sum, n int64
		fits   bool
	}{
		{1, 2, true}, {1, -2, true}, {0, 0, true}, {1<<63 - 2, 1, true}, {1<<63 - 1, 1, false}, {-1 << 63, 0, true},
		{-1 << 63, -1, false},
	} {
		sum := c.sum
		require.Equal(t, c.fits, add(&sum, c.n), "%d + %d", c.sum, c.n)
		require.Equal(t, c.sum+c.n, sum)
	}
}

// A request whose attempts say what they may cost has an entry.
func TestRequestsOfOldFormats(t *testing.T) {
	t.Parallel()
	r := &Request{RequestRecord: ledger.RequestRecord{ID: "r"}}
	c, err := claimOf(r)
	require.NoError(t, err)
	require.EqualError(t, c.settlement(nil), "r: the request has no attempt")
	r.Attempts = []ledger.AttemptRecord{{Attempt: ledger.Attempt{ID: "r.1", Worst: 0}}}
	c, err = claimOf(r)
	require.NoError(t, err)
	require.ErrorContains(t, c.settlement(nil), "r: it has no entry of its settlement")
	require.ErrorContains(t, c.settlement(&Entry{Entry: ledger.Entry{Format: 2}}), "r: it has no entry of its settlement")
	require.NoError(t, c.settlement(&Entry{Entry: ledger.Entry{Format: 4, Detail: r.Detail(), Created: r.Settled}}))
}

// Receipts of before format 3 say only what they moved: each is found by its cost, within the microcent of rounding,
// and those that moved nothing have no entry.
func TestOldReceipts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC)
	receipt := func(route string, tokens int64) ledger.AttemptRecord {
		return ledger.AttemptRecord{
			Attempt: ledger.Attempt{ID: "r." + route, Route: route, PriceVersion: 1, Worst: -1}, Outcome: ledger.Unproven,
			Usage: llm.Usage{Output: llm.Count(tokens)}, Price: config.Price{Output: 300_000}, Receipt: at,
		}
	}
	entry := func(route string, microcents int64) *Entry {
		return &Entry{Entry: ledger.Entry{Kind: ledger.Receipt, Format: 2, Microcents: -microcents, Prices: route + "@1",
			Created: at}}
	}
	for name, c := range map[string]struct {
		attempts []ledger.AttemptRecord
		limit    bool // it ended at a limit of the service
		entries  []*Entry
		says     string // "": nothing
		counted  int64
		unsure   int64
		many     bool
	}{
		"one": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			[]*Entry{entry("a", 3)}, "", 10, 0, false},
		"one more by rounding": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			[]*Entry{entry("a", 4)}, "", 10, 0, false},
		"two more": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			[]*Entry{entry("a", 5)}, "no attempt has", 0, 0, false},
		"of another price": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			[]*Entry{entry("b", 3)}, "no attempt has", 0, 0, false},
		"twice": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			[]*Entry{entry("a", 3), entry("a", 3)}, "no attempt has", 10, 0, false},
		"none": {[]ledger.AttemptRecord{receipt("a", 10)}, false,
			nil, "came to 3 microcents, and no entry", 0, 0, false},
		"none, at a limit": {[]ledger.AttemptRecord{receipt("a", 10)}, true,
			nil, "", 0, 0, false},
		"of nothing": {[]ledger.AttemptRecord{receipt("a", 3)}, false,
			nil, "", 3, 0, false},
		"of nothing, at a limit": {[]ledger.AttemptRecord{receipt("a", 3)}, true,
			nil, "", 0, 3, false},
		"the right one of two": {[]ledger.AttemptRecord{receipt("a", 10), receipt("a", 13)}, false,
			[]*Entry{entry("a", 4), entry("a", 3)}, "", 23, 0, false},
		"two at a limit": {[]ledger.AttemptRecord{receipt("a", 10), receipt("b", 10)}, true,
			[]*Entry{entry("a", 3)}, "", 10, 0, true},
	} {
		r := &Request{RequestRecord: ledger.RequestRecord{ID: "r", ServiceLimit: c.limit, Attempts: c.attempts}}
		claim, err := claimOf(r)
		require.NoError(t, err)
		err = claim.oldReceipts(c.entries)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
		require.Equal(t, []int64{c.counted, c.unsure}, []int64{claim.counted, claim.unsure}, name)
		require.Equal(t, c.many, claim.many, name)
	}
}

// A part that panics is an error, and shares of places do not overflow.
func TestPartsThatPanic(t *testing.T) {
	t.Parallel()
	p := piece{look: func(v *verification) error { return v.verifyJournal(1, 2) }} // of nothing
	p.run()
	require.ErrorContains(t, p.err, "verifying a part of the ledger: runtime error")
	require.EqualValues(t, math.MaxInt64, share(math.MaxInt64, 7, 7))
	require.EqualValues(t, math.MaxInt64/2, share(math.MaxInt64, 1, 2))
	for i := range int64(6) {
		require.Equal(t, 17*i/5, share(17, i, 5))
	}
}

// Each column of a day's sums has a multiplier of its own, whatever routes and profiles are called.
func TestColumnsOfDays(t *testing.T) {
	t.Parallel()
	d := newDays()
	seen := map[wide]string{}
	names := []string{"", "\x00", "a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00\x01\x02", "aa"}
	for i, u := range []book.Usage{{Parts: 1}, {Settled: 1}, {Requests: 1}, {Pending: 1}, {Wholes: 1}} {
		for _, route := range names {
			for _, profile := range names {
				one, what := d.part(), fmt.Sprintf("%q, %q, column %d", route, profile, i)
				one.row(1, 1, route, profile, &u)
				require.Empty(t, seen[one.sums[1]], what)
				seen[one.sums[1]] = what
			}
		}
	}
}

// A store that gives rows of accounts in another order is told so, wherever the order breaks.
func TestRowsOutOfOrder(t *testing.T) {
	t.Parallel()
	none := func(EntrySum) error { return nil }
	for _, c := range []struct {
		rows []int64
		says string // "": nothing
	}{
		{[]int64{-1, 0, 1, 2, 2, 3, 9}, ""},
		{[]int64{1, 3, 2}, "the store gives a row of account 2 behind one of account 3"},
		{[]int64{2, 1}, "the store gives a row of account 1 behind one of account 2"},
		{[]int64{-1, -2, 3}, "the store gives a row of account -2 behind one of account -1"},
		{[]int64{8, 7}, "the store gives a row of account 7 behind one of account 8"},
	} {
		var err error
		rows := open(func(yield func(EntrySum, error) bool) {
			for _, n := range c.rows {
				if !yield(EntrySum{Account: n}, nil) {
					return
				}
			}
		}, &err)
		for _, account := range []int64{1, 2, 3, math.MaxInt64} {
			err = cmp.Or(err, upTo(rows, account, none, none))
		}
		rows.stop()
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
	}
}
