package ledger

import (
	"math"
	"time"
)

// Nanoseconds are those since 1970 in UTC, as stores keep times; a time that has no such number is before or after all
// that have.
func Nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Bounds are a query's times in Nanoseconds: from the first on and before the second.
func (q Query) Bounds() (since, until int64) {
	since, until = math.MinInt64, math.MaxInt64
	if !q.Since.IsZero() {
		since = Nanoseconds(q.Since)
	}
	if !q.Until.IsZero() {
		until = Nanoseconds(q.Until)
	}
	return since, until
}
