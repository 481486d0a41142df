package human

import (
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
)

// ParseSpan reads a length of time: "90d", "2w", "12h", "1d12h30m". It is positive.
func ParseSpan(text string) (time.Duration, error) {
	switch d, ok := config.ParseDuration(text); {
	case !ok:
		return 0, fmt.Errorf("%q is no length of time: write a number with a unit, as in 90d, 12h or 30m", text)
	case d <= 0:
		return 0, fmt.Errorf("%q is no length of time: it has to be above 0", text)
	default:
		return d, nil
	}
}

// parseMoment reads a moment that is written out: RFC 3339, or a date, which begins at midnight UTC.
func parseMoment(text string) (time.Time, bool) {
	for _, layout := range [...]string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// ParsePast reads what --since, --until and --before take: a moment, or how long ago it was.
func ParsePast(text string, now time.Time) (time.Time, error) {
	if t, ok := parseMoment(text); ok {
		return t, nil
	}
	d, err := ParseSpan(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time: write a date (2026-11-20), a time (2026-11-20T18:00:00Z), or how "+
			"long ago (24h, 90d)", text)
	}
	return now.Add(-d).UTC(), nil
}

// ParseFuture reads what --expires takes: a moment, or how long from now.
func ParseFuture(text string, now time.Time) (time.Time, error) {
	if t, ok := parseMoment(text); ok {
		return t, nil
	}
	d, err := ParseSpan(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time: write a date (2026-11-20), a time (2026-11-20T18:00:00Z), or how "+
			"long from now (24h, 90d)", text)
	}
	return now.Add(d).UTC().Truncate(time.Second), nil
}

// Moment writes a time for people.
func Moment(t time.Time) string { return t.UTC().Format(time.DateTime + " MST") }

// Span writes a length of time in its largest unit, for people: "89 days", "23 hours", "4 minutes".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return Count(int64(d/day), "day")
	case d >= 2*time.Hour:
		return Count(int64(d/time.Hour), "hour")
	case d >= time.Minute:
		return Count(int64(d/time.Minute), "minute")
	default:
		return "less than a minute"
	}
}
