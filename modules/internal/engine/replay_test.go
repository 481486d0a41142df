package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestReplay: requests of the past are planned by what a file would say, and nothing changes.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	serving := w.Current()
	const requests = replayStep + 2
	for i := range requests {
		w.Decisions().Add(&decisions.Record{Profile: "balanced", Begun: w.Now(), Ended: w.Now(), InputTokens: 100,
			Choice: "only", Allowance: int64(1 + 800*(i%2))})
		if i%1000 == 0 {
			require.NoError(t, w.Decisions().Flush(t.Context()))
		}
	}
	replay := func(text string, since time.Time) (*decisions.Comparison, *config.Diagnostics, []int64) {
		t.Helper()
		var told []int64
		c, diags, err := w.Replay(t.Context(), config.Overlay{w.path: &text}, since, func(done, of int64) error {
			require.LessOrEqual(t, done, of)
			told = append(told, done)
			return nil
		})
		require.NoError(t, err)
		return c, diags, told
	}
	since := w.Now().Add(-time.Hour)
	c, diags, told := replay(liveHCL("2"), since)
	require.Nil(t, diags)
	require.Equal(t, []int64{0, replayStep, requests}, told)
	require.Equal(t, []any{int64(requests), since}, []any{c.Requests, c.Since})
	require.Equal(t, int64(requests), c.After.Routes[0].Requests)
	require.Greater(t, c.After.Charged, c.Before.Charged)
	require.Empty(t, c.Shifts)

	_, diags, told = replay("rout {}", since)
	require.True(t, diags.HasErrors())
	require.Empty(t, told)
	c, _, _ = replay(liveHCL("2"), w.Now().Add(time.Hour))
	require.Zero(t, c.Requests)
	require.Same(t, serving, w.Current())

	stop := errors.New("nobody listens")
	_, _, err := w.Replay(t.Context(), nil, since, func(int64, int64) error { return stop })
	require.ErrorIs(t, err, stop)
}

// TestReplayOfAccounts: what an account requires now holds for its requests of the past, too.
func TestReplayOfAccounts(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	var ids []string
	for _, name := range []string{"ann", "bob"} {
		a, err := w.Store().CreateAccount(t.Context(), name, "")
		require.NoError(t, err)
		ids = append(ids, a.ID)
	}
	_, err := w.Store().SetRequires(t.Context(), ids[0], ledger.RequiresChange{Regions: &[]string{"mars"}})
	require.NoError(t, err)
	for i := range 5 {
		w.Decisions().Add(&decisions.Record{Profile: "balanced", Begun: w.Now(), Ended: w.Now(), InputTokens: 100,
			Choice: "only", Account: ids[min(i/2, 1)]})
	}
	text := liveHCL("2")
	c, diags, err := w.Replay(t.Context(), config.Overlay{w.path: &text}, w.Now().Add(-time.Hour),
		func(int64, int64) error { return nil })
	require.NoError(t, err)
	require.Nil(t, diags)
	for _, side := range []decisions.Side{c.Before, c.After} {
		require.Equal(t, []decisions.RefusedHere{{Reason: routing.ErrRequired.Error(), Requests: 2}}, side.Refused)
		require.EqualValues(t, 3, side.Routes[0].Requests)
	}
}
