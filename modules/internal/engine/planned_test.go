package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
)

// TestPlan: what would change is known before it does, and nothing changes by asking.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1", "plan \"used\" {}"))
	serving := w.Current()
	_, err := w.Store().CreateAccount(t.Context(), "acme", "used")
	require.NoError(t, err)
	plan := func(text string) *Planned {
		t.Helper()
		p, err := w.Plan(t.Context(), config.Overlay{w.path: &text})
		require.NoError(t, err)
		require.Same(t, serving.Config, p.Serving)
		return p
	}

	p, err := w.Plan(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, p.OK())
	require.Empty(t, p.Changes)

	p = plan(liveHCL("2", "plan \"used\" {\n  concurrent_requests = 1\n}\nplan \"new\" {}"))
	require.True(t, p.OK())
	require.Len(t, p.Changes, 3)
	one, none := int64(1), int64(0)
	require.Equal(t, &one, p.Changes[0].Accounts)
	require.Equal(t, &none, p.Changes[1].Accounts)
	require.Equal(t, "route", p.Changes[2].Type)
	require.Nil(t, p.Changes[2].Accounts)

	p = plan(liveHCL("1", "store \"sqlite\" {\n  path = \"other.db\"\n}"))
	require.False(t, p.OK())
	require.Len(t, p.Refused, 2, "every reason")
	require.Contains(t, p.Refused[0], w.path+`: Accounts are on plans that the configuration lacks ("used")`)
	require.Contains(t, p.Refused[1], w.path+":20:1: The store block has changed")

	p = plan(liveHCL("1", "rout \"x\" {}"))
	require.False(t, p.OK())
	require.True(t, p.Diagnostics.HasErrors())
	require.Empty(t, p.Changes)

	// Another process is started for a moment, to see that it does.
	p = plan(strings.Replace(liveHCL("1", "plan \"used\" {}"), "/nowhere", "/elsewhere", 1))
	require.True(t, p.OK())
	require.Equal(t, change.Restarts, p.Changes[0].Process)

	require.Same(t, serving, w.Current())
	require.Nil(t, w.FailedLoad())
	w.live.Retire()
	_, err = w.Plan(t.Context(), nil)
	require.ErrorIs(t, err, ErrReplaced)
	again, err := w.Engine.Live(t.Context(), serving.Config)
	require.NoError(t, err)
	w.live = again
	again.Start()
}

// TestTraffic: what a watched apply goes by.
func TestTraffic(t *testing.T) {
	t.Parallel()
	m := newMetrics("")
	for _, status := range []int{200, 400, 401, 402, 403, 404, 429, 499, 500, 503} {
		m.Request("chat", status, 0, 1)
	}
	m.UpstreamError("only", "upstream")
	all, accounts := m.Traffic()
	require.Zero(t, all, "anybody can bring them about")
	require.Empty(t, accounts)
	for _, status := range []int{200, 400, 429, 499, 500, 503} {
		m.Attended("ann", status, false)
	}
	m.Attended("ann", 503, true)
	m.FailedAttempt("bob")
	m.Attended("eve", 200, false)
	all, accounts = m.Traffic()
	require.Equal(t, Traffic{8, 2, 1}, all)
	require.Equal(t, map[string]Traffic{"ann": {3, 2, 0}, "bob": {0, 0, 1}}, accounts, "since the first failure")
	for n := range 2 * maxTroubled {
		m.FailedAttempt(fmt.Sprint(n))
	}
	_, accounts = m.Traffic()
	require.Len(t, accounts, maxTroubled)
	require.Contains(t, accounts, "ann", "those with the most")

	before, now := Traffic{2, 1, 3}, Traffic{9, 5, 4}
	require.Equal(t, Traffic{7, 4, 1}, now.Minus(before))
	require.Equal(t, now, before.Plus(now.Minus(before)))
	require.EqualValues(t, 3, before.Failures())
	require.EqualValues(t, 5, now.Failures())
}
