package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
)

// TestJump: what makes an apply that is watched go back.
func TestJump(t *testing.T) {
	t.Parallel()
	of := func(answered, failed, attempts int64) admin.Traffic {
		return admin.Traffic{Traffic: engine.Traffic{Answered: answered, Failed: failed, FailedAttempts: attempts}}
	}
	for name, c := range map[string]struct {
		before, now admin.Traffic
		want        string
	}{
		"nothing happens": {of(100, 1, 1), of(100, 1, 1), ""},
		"all goes well":   {of(100, 1, 1), of(900, 1, 1), ""},
		"four failures":   {of(100, 0, 0), of(104, 4, 4), ""},
		"five, all of them": {of(100, 1, 0), of(105, 6, 5),
			"Of 5 requests since then 5 failed, 100%; before it were 1%."},
		"attempts alone": {of(100, 0, 1), of(200, 0, 21),
			"Of 100 requests since then 20 failed, 20%; before it were 1%."},
		"attempts of no reply yet": {of(0, 0, 0), of(1, 0, 5), "Of 1 request since then 5 failed, 100%; before it were 0%."},
		"as before":                {of(100, 30, 0), of(200, 80, 0), ""},
		"twice as many": {of(100, 30, 0), of(200, 90, 0),
			"Of 100 requests since then 60 failed, 60%; before it were 30%."},
		"few of many": {of(1000, 0, 0), of(1200, 9, 0), ""},
		"5 in a hundred": {of(1000, 0, 0), of(1200, 10, 0),
			"Of 200 requests since then 10 failed, 5%; before it were 0%."},
	} {
		w := traffic{before: c.before, last: c.before}
		w.add(c.now)
		require.Equal(t, c.want, w.jump(), name)
	}
}

// TestJumpOfAccounts: one account alone undoes nothing, unless there is no other.
func TestJumpOfAccounts(t *testing.T) {
	t.Parallel()
	type by = map[string]engine.Traffic
	of := func(answered, failed, attempts int64) engine.Traffic {
		return engine.Traffic{Answered: answered, Failed: failed, FailedAttempts: attempts}
	}
	for name, c := range map[string]struct {
		all      engine.Traffic
		accounts by
		want     string
	}{
		"alone":         {of(9, 9, 0), by{"a": of(9, 9, 0)}, "Of 9 requests since then 9"},
		"one of two":    {of(1001, 1000, 0), by{"a": of(1000, 1000, 0)}, ""},
		"and a little":  {of(1009, 1004, 0), by{"a": of(1000, 1000, 0), "b": of(9, 4, 0)}, ""},
		"another waits": {of(9, 9, 10), by{"a": of(9, 9, 9)}, ""},
		"two of two": {of(14, 14, 0), by{"a": of(9, 9, 0), "b": of(5, 5, 0)},
			"Of 5 requests since then, without the account that most fail of, 5 failed, 100%"},
	} {
		w := traffic{}
		now := admin.Traffic{Traffic: c.all, Accounts: c.accounts}
		w.add(now)
		require.Equal(t, c.want == "", w.jump() == "", "%s: %s", name, w.jump())
		require.Contains(t, w.jump(), c.want, name)
		w.add(now)
		require.Equal(t, c.all, w.since, "nothing is new")
	}

	// An account whose first failure was counted long before it was among those that are told of.
	w := traffic{last: admin.Traffic{Traffic: of(500, 2, 0)}}
	w.add(admin.Traffic{Traffic: of(600, 30, 0), Accounts: by{"eve": of(400, 22, 0), "b": of(60, 6, 0)}})
	require.Contains(t, w.jump(), "Of 6 requests since then, without", "never less than none")
}

// TestJumpOverARestart: the gateway counts from its start, and may be started again while it is watched.
func TestJumpOverARestart(t *testing.T) {
	t.Parallel()
	at := func(start, answered, failed int64) admin.Traffic {
		return admin.Traffic{Since: time.Unix(start, 0), Traffic: engine.Traffic{Answered: answered, Failed: failed}}
	}
	w := traffic{before: at(1, 1000, 10), last: at(1, 1000, 10)}
	w.add(at(1, 1002, 12))
	require.Empty(t, w.jump())
	w.add(at(2, 1, 1))
	w.add(at(2, 2, 2))
	require.Empty(t, w.jump())
	w.add(at(3, 1000, 1)) // as many as before, by chance
	require.Equal(t, engine.Traffic{Answered: 1004, Failed: 5}, w.since)
	w.add(at(3, 1060, 61))
	require.Equal(t, "Of 1,064 requests since then 65 failed, 6%; before it were 1%.", w.jump())
}

func TestDollars(t *testing.T) {
	t.Parallel()
	for microcents, want := range map[int64]string{0: "0.00", 20_000_000: "0.20", 2_500_000: "0.025", 300_000_000: "3.00",
		12_345_678: "0.12345678"} {
		require.Equal(t, want, change.Dollars(microcents))
	}
}
