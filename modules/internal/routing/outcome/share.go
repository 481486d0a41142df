package outcome

import "time"

const (
	// mostShares is among how many accounts a cell's weight is shared at most: each has so much of it, or less.
	mostShares = 4
	// present is how much an account must have seen of late to be one of them: an outcome.
	present = 1
)

// shared is what rows count together, a row for each cell, in order: each account at most its share (GAP-130). An
// account never counts more than it has seen, so that one outcome is no half of what is known, and a share is new with
// each account that comes or is forgotten. Rows are in order.
func shared(rows []Row, now time.Time) []Row {
	var all []Row
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].cell() == rows[0].cell() {
			n++
		}
		all = append(all, shareCell(rows[:n], now))
		rows = rows[n:]
	}
	return all
}

// shareCell is what the rows of one cell count together.
func shareCell(rows []Row, now time.Time) Row {
	sum := Row{Route: rows[0].Route, Model: rows[0].Model, Kind: rows[0].Kind, At: now}
	var of []Row
	accounts := 0
	for _, r := range rows {
		r = r.at(now)
		sum.Good, sum.Bad = sum.Good+r.Good, sum.Bad+r.Bad
		if r.seen() > 0 {
			of = append(of, r)
		}
		if r.seen() >= present {
			accounts++
		}
	}
	if accounts < 2 { // nobody else has met what one can bring about
		for i := range of {
			of[i].Own = 0
		}
	}
	shown := make([]float64, len(of))
	for i := range of {
		shown[i] = of[i].seen()
	}
	most := LargestShare(shown, MaxSeen)
	for _, r := range of {
		times := 1.0
		if seen := r.seen(); seen > most {
			times = most / seen
		}
		sum.Worked, sum.Failed = sum.Worked+times*r.Worked, sum.Failed+times*(r.Failed+r.Own)
	}
	if total := sum.Worked + sum.Failed; total > MaxSeen {
		sum.Worked, sum.Failed = sum.Worked*MaxSeen/total, sum.Failed*MaxSeen/total
	}
	return sum
}

// LargestShare is how much an account counts at most, so that it is its part of all that counts (GAP-130): a quarter
// among four and more, and an equal one among two or three. seen is how much each account has shown, of which those
// with an outcome are among them; at most is what counts in any case.
func LargestShare(seen []float64, atMost float64) float64 {
	accounts := 0
	for _, n := range seen {
		if n >= present {
			accounts++
		}
	}
	if accounts < 2 {
		return atMost
	}
	most, parts := atMost, float64(min(accounts, mostShares))
	for range 64 { // it falls to where it is its part: each round takes a quarter at least of what it is too much
		total := 0.0
		for _, n := range seen {
			total += min(n, most)
		}
		if most*parts <= total*(1+1e-9) {
			break
		}
		most = total / parts
	}
	return most
}
