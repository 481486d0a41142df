package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestPeriodEnd(t *testing.T) {
	t.Parallel()
	for created, ends := range map[string][]string{
		"2026-01-31T10:00:00Z": {"2026-02-28T10:00:00Z", "2026-03-31T10:00:00Z", "2026-04-30T10:00:00Z",
			"2026-05-31T10:00:00Z"},
		"2027-11-30T10:00:00Z": {"2027-12-30T10:00:00Z", "2028-01-30T10:00:00Z", "2028-02-29T10:00:00Z",
			"2028-03-30T10:00:00Z"},
		"2028-02-29T00:00:00Z":           {"2028-03-29T00:00:00Z", "2028-04-29T00:00:00Z"},
		"2026-12-20T23:59:59.999999999Z": {"2027-01-20T23:59:59.999999999Z"},
		"2099-12-31T00:00:00Z":           {"2100-01-31T00:00:00Z", "2100-02-28T00:00:00Z", "2100-03-31T00:00:00Z"},
		"2026-07-01T01:30:00+03:00":      {"2026-07-30T22:30:00Z", "2026-08-30T22:30:00Z"}, // June the 30th in UTC
	} {
		t.Run("GAP-60 created "+created, func(t *testing.T) {
			t.Parallel()
			for n, end := range ends {
				require.Equal(t, end, ledger.PeriodEnd(moment(t, created), int64(n)).Format(time.RFC3339Nano))
			}
		})
	}
	t.Run("GAP-60 the 29th of February of a leap year is met again", func(t *testing.T) {
		t.Parallel()
		created := moment(t, "2028-02-29T12:00:00Z")
		require.Equal(t, "2029-02-28T12:00:00Z", ledger.PeriodEnd(created, 11).Format(time.RFC3339))
		require.Equal(t, "2029-03-29T12:00:00Z", ledger.PeriodEnd(created, 12).Format(time.RFC3339))
		require.Equal(t, "2032-02-29T12:00:00Z", ledger.PeriodEnd(created, 47).Format(time.RFC3339))
	})
}

func TestPeriodAt(t *testing.T) {
	t.Parallel()
	created := moment(t, "2026-01-31T10:00:00Z")
	for at, want := range map[string]int64{
		"1999-01-01T00:00:00Z": 0,
		"2026-01-31T09:59:59Z": 0,
		"2026-01-31T10:00:00Z": 0,
		"2026-02-28T09:59:59Z": 0,
		"2026-02-28T10:00:00Z": 1,
		"2026-03-01T00:00:00Z": 1,
		"2026-03-31T10:00:00Z": 2,
		"2027-01-31T10:00:00Z": 12,
		"2126-01-31T09:00:00Z": 1199,
	} {
		require.Equal(t, want, ledger.PeriodAt(created, moment(t, at)), at)
	}
}

// Periods cover all of time once, from the account's creation on, each of 28 to 31 days.
func TestPeriodsFollowOneAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := func(what string) time.Time {
			s := rapid.Int64Range(0, 200*365*24*3600).Draw(t, what)
			return time.Unix(s, rapid.Int64Range(0, 999_999_999).Draw(t, what+" nanoseconds"))
		}
		created, moment := at("created"), at("moment")
		n := ledger.PeriodAt(created, moment)
		end := ledger.PeriodEnd(created, n)
		require.True(t, moment.Before(end))
		begin := created
		if n > 0 {
			begin = ledger.PeriodEnd(created, n-1)
			require.False(t, moment.Before(begin))
		}
		days := end.Sub(begin).Hours() / 24
		require.True(t, days >= 28 && days <= 31, "%s to %s", begin, end)
		require.Equal(t, n+1, ledger.PeriodAt(created, end), "the end is the next period's beginning")
		require.Equal(t, n, ledger.PeriodAt(created, end.Add(-1)))
		lastDay := end.AddDate(0, 0, 1-end.Day()).AddDate(0, 1, -1).Day()
		require.Equal(t, min(created.UTC().Day(), lastDay), end.Day(), "the day is clamped, without drift")
	})
}

func moment(t testing.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// Credits that are added at the beginning of each period need periods, however few they are.
func TestTermsWithPeriods(t *testing.T) {
	t.Parallel()
	require.False(t, ledger.Terms{SpendCap: 1, TokenBudget: 1, FairUse: 1}.HasPeriods())
	require.True(t, ledger.Terms{MonthlyCredits: 1}.HasPeriods())
	require.True(t, ledger.Terms{Periods: true}.HasPeriods())
}
