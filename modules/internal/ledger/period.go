package ledger

import "time"

// Period is an account's current period and what was settled in it. Periods are calendar months in UTC that are
// counted from the account's creation; the day is clamped to the length of the month, without drift (GAP-60). When a
// period begins, the counters begin anew, and the plan's credits are added: once for each period, whatever plans the
// account has in it, by the first of them that adds any (GAP-118). An account whose plan has no periods counts for
// ever.
//
// A clock that jumps ahead ends the periods that it passes; when it jumps back, nothing ends until the current
// end is reached again. So each period's credits are added once, whatever the clock does.
type Period struct {
	End    time.Time // zero when there are no periods
	Spent  int64     // microcents charged; a refund leaves it
	Tokens int64     // input and output tokens of what was neither free nor waived, or of that part of it
	Waived int64     // microcents that fair use left free
}

// PeriodEnd is the end of the n-th period of an account, 0 being the one that began with its creation.
func PeriodEnd(created time.Time, n int64) time.Time {
	created = created.UTC()
	year, month, day := created.Date()
	first := time.Date(year, month+time.Month(n)+1, 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	sinceMidnight := created.Sub(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
	return first.AddDate(0, 0, min(day, last)-1).Add(sinceMidnight)
}

// PeriodBegin is the beginning of the n-th period of an account.
func PeriodBegin(created time.Time, n int64) time.Time {
	if n == 0 {
		return created.UTC()
	}
	return PeriodEnd(created, n-1)
}

// PeriodAt is the number of the period that holds the moment, at least 0.
func PeriodAt(created, moment time.Time) int64 {
	created, moment = created.UTC(), moment.UTC()
	n := int64(moment.Year()-created.Year())*12 + int64(moment.Month()) - int64(created.Month())
	for n = max(n-1, 0); !moment.Before(PeriodEnd(created, n)); n++ {
	}
	return n
}
