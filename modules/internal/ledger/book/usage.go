package book

import (
	"math/bits"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Usage is what settled requests come to, in a group of them. Those of routes are in Requests and Pending once for
// each route that they were tried on, and in the wholes on one of them only.
type Usage struct {
	Parts, Settled               int64 // like Requests and Wholes, with calls for comparison
	Requests, Pending            int64
	Wholes, WholesPending        int64
	Attempts                     int64
	Charge, Waived, Over         int64
	Refunded, Cost               int64
	Input, CacheRead, CacheWrite *int64 // tokens; nil where none was ever reported
	Output, Reasoning            *int64
	Estimated                    int64 // attempts
}

// Columns are the numbers of the sums, in their order; 0 for what was never reported.
func (u *Usage) Columns() [18]int64 {
	return [...]int64{u.Parts, u.Settled, u.Requests, u.Pending, u.Wholes, u.WholesPending, u.Attempts, u.Charge,
		u.Waived, u.Over, u.Refunded, u.Cost, llm.Tokens(u.Input), llm.Tokens(u.CacheRead), llm.Tokens(u.CacheWrite),
		llm.Tokens(u.Output), llm.Tokens(u.Reasoning), u.Estimated}
}

// Add adds the sums of others.
func (u *Usage) Add(more *Usage) {
	for _, n := range [...]struct{ to, more *int64 }{
		{&u.Parts, &more.Parts}, {&u.Settled, &more.Settled}, {&u.Requests, &more.Requests}, {&u.Pending, &more.Pending},
		{&u.Wholes, &more.Wholes}, {&u.WholesPending, &more.WholesPending}, {&u.Attempts, &more.Attempts},
		{&u.Charge, &more.Charge}, {&u.Waived, &more.Waived}, {&u.Over, &more.Over}, {&u.Refunded, &more.Refunded},
		{&u.Cost, &more.Cost}, {&u.Estimated, &more.Estimated},
	} {
		*n.to += *n.more
	}
	for _, n := range [...]struct {
		to   **int64
		more *int64
	}{
		{&u.Input, more.Input}, {&u.CacheRead, more.CacheRead}, {&u.CacheWrite, more.CacheWrite}, {&u.Output,
			more.Output},
		{&u.Reasoning, more.Reasoning},
	} {
		switch {
		case n.more == nil:
		case *n.to == nil:
			*n.to = new(*n.more)
		default:
			*n.to = new(**n.to + *n.more)
		}
	}
}

// DayOf is the day of a time, since 1970 in UTC.
func DayOf(t time.Time) int64 {
	const day = int64(24 * time.Hour)
	n := t.UnixNano() / day
	if t.UnixNano()%day < 0 {
		n--
	}
	return n
}

// Undated is the day of what was pruned before there were sums by day. No time has it.
const Undated = -200_000

// DateOf writes a day, "2026-11-20"; "" for Undated.
func DateOf(day int64) string {
	if day == Undated {
		return ""
	}
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(day)).Format(time.DateOnly)
}

// Count adds a whole request.
func (u *Usage) Count(r *ledger.RequestRecord) {
	u.countPart(r)
	u.countWhole(r)
	u.Charge += r.Microcents
	u.Waived += r.Waived
	u.Over += r.Over
	u.Refunded += r.Refunded
	for i := range r.Attempts {
		u.countAttempt(&r.Attempts[i])
	}
}

// countPart counts a request on a route, or where there are none.
func (u *Usage) countPart(r *ledger.RequestRecord) {
	u.Parts++
	u.Requests += asked(r)
	if r.Pending {
		u.Pending++
	}
}

// countWhole counts a request once.
func (u *Usage) countWhole(r *ledger.RequestRecord) {
	u.Settled++
	u.Wholes += asked(r)
	if r.Pending {
		u.WholesPending++
	}
}

// asked is how many requests of a client it is: a call for comparison is none.
func asked(r *ledger.RequestRecord) int64 {
	if r.Endpoint == ledger.Shadow {
		return 0
	}
	return 1
}

// countAttempt adds what an attempt used and what it cost the operator.
func (u *Usage) countAttempt(a *ledger.AttemptRecord) {
	cost, _ := ledger.Cost(a.Usage, a.Cost) // usage that cannot be priced cost nothing
	u.Attempts++
	u.Cost += cost
	for _, c := range [...]struct {
		sum **int64
		n   *int64
	}{
		{&u.Input, a.Usage.Input}, {&u.CacheRead, a.Usage.CacheRead}, {&u.CacheWrite, a.Usage.CacheWrite},
		{&u.Output, a.Usage.Output}, {&u.Reasoning, a.Usage.Reasoning},
	} {
		if c.n == nil {
			continue
		}
		if *c.sum == nil {
			*c.sum = new(int64)
		}
		**c.sum += *c.n
	}
	if a.Usage.Estimated {
		u.Estimated++
	}
}

// Divider divides requests over the routes of their attempts. It keeps nothing but memory from one to the next.
type Divider struct {
	routes []string // of the request at hand, to count it once for each
	worth  []int64  // see weigh
	payers int      // how many attempts there are up to the last one that is the account's
}

// Count adds each attempt of a request, with its share of what the request came to, to the row of its route, and the
// request once to each; one without attempts to that of "". of gives the row of a route, nil where that is not asked
// for, and it is added to before the next is asked for.
func (d *Divider) Count(r *ledger.RequestRecord, of func(route string) (*Usage, error)) error {
	if len(r.Attempts) == 0 {
		row, err := of("")
		if row != nil {
			row.Count(r)
		}
		return err
	}
	d.weigh(r)
	d.routes = d.routes[:0]
	for i := range r.Attempts {
		a := &r.Attempts[i]
		row, err := of(a.Route)
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		if !slices.Contains(d.routes, a.Route) {
			d.routes = append(d.routes, a.Route)
			row.countPart(r)
		}
		if i == d.payers-1 {
			row.countWhole(r)
		}
		row.countAttempt(a)
		row.Charge += d.share(r.Microcents, i)
		row.Waived += d.share(r.Waived, i)
		row.Over += d.share(r.Over, i)
		row.Refunded += d.share(r.Refunded, i)
	}
	return nil
}

// weigh notes what the first attempts of a request come to by themselves: worth[n] is that of the first n. Those that
// are the operator's come to nothing.
func (d *Divider) weigh(r *ledger.RequestRecord) {
	d.worth, d.payers = append(d.worth[:0], 0), len(r.Attempts)
	for d.payers > 1 && r.Attempts[d.payers-1].Operator {
		d.payers--
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		m, _ := ledger.Cost(a.Usage, a.Price) // usage that cannot be priced was charged nothing
		if a.Operator {
			m = 0
		}
		d.worth = append(d.worth, d.worth[i]+m)
	}
}

// share is what falls to an attempt, the first is 0, of an amount of the request that was weighed: in proportion to
// what the attempts come to by themselves. All shares together are the amount, for each is the difference of two sums.
func (d *Divider) share(amount int64, attempt int) int64 {
	return d.upTo(amount, attempt+1) - d.upTo(amount, attempt)
}

// upTo is the share of the first n attempts, rounded down. What no attempt accounts for falls to the last one that is
// the account's, which is the one that answered.
func (d *Divider) upTo(amount int64, n int) int64 {
	all := d.worth[len(d.worth)-1]
	switch {
	case n >= d.payers:
		return amount
	case all == 0:
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(d.worth[n]))
	q, _ := bits.Div64(hi, lo, uint64(all)) // at most the amount
	return int64(q)
}
