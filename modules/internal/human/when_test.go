package human

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "2w": 14 * day, "1w1d": 8 * day, "12h": 12 * time.Hour, "1d12h30m": 36*time.Hour + 30*time.Minute,
		"90s": 90 * time.Second,
	} {
		d, err := ParseSpan(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "0d", "0s", "-1h", "1d-48h", "d", "1", "1y", "soon", "d1", "1h1d", "99999999d",
		"1.5d"} {
		_, err := ParseSpan(text)
		require.Error(t, err, text)
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 18, 30, 0, 5, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-01":                time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"2026-11-01T02:00:00+02:00": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"2026-11-01T00:00:00.5Z":    time.Date(2026, 11, 1, 0, 0, 0, 500_000_000, time.UTC),
	} {
		past, err := ParsePast(text, now)
		require.NoError(t, err)
		require.Equal(t, want, past)
		future, err := ParseFuture(text, now)
		require.NoError(t, err)
		require.Equal(t, want, future)
	}
	past, err := ParsePast("1d", now)
	require.NoError(t, err)
	require.Equal(t, now.Add(-24*time.Hour), past)
	future, err := ParseFuture("1d", now)
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 11, 21, 18, 30, 0, 0, time.UTC), future, "in whole seconds")

	for _, text := range []string{"yesterday", "2026-13-01", "2026-11-01 12:00", "20261101"} {
		_, err := ParsePast(text, now)
		require.ErrorContains(t, err, "how long ago")
		_, err = ParseFuture(text, now)
		require.ErrorContains(t, err, "how long from now")
	}
}

func TestSpanForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		90 * 24 * time.Hour: "90 days", 47 * time.Hour: "47 hours", 119 * time.Minute: "119 minutes", time.Minute: "1 minute",
		time.Second: "less than a minute",
	} {
		require.Equal(t, want, Span(d))
	}
}
