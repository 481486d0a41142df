package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
)

// TestInfoOfAPool proves the "visible in plugin list" for a provider with keys: nothing of a key's plugin is
// lost.
func TestInfoOfAPool(t *testing.T) {
	t.Parallel()
	then := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	early, late := &host.Crash{At: then, Why: "first"}, &host.Crash{At: then.Add(time.Second), Why: "second"}
	about := host.About{Version: "1.0"}
	got := sumOf([]host.Info{
		{State: host.Starting, Problem: "no", PID: 1, Memory: 10, Streams: 1, Restarts: 2, Crash: late,
			Failures:   map[host.Cause]int{host.CauseCrash: 2, host.CauseHang: 1},
			Violations: map[host.Violation]int{"order": 3}, Violation: "the first"},
		{State: host.Ready, About: about, PID: 2, Started: then, Memory: 20, Streams: 4, Restarts: 1, Crash: early,
			MaxMemory: 99, Failures: map[host.Cause]int{host.CauseCrash: 1}, Violations: map[host.Violation]int{"order": 1}},
		{State: host.Ready, PID: 3, Memory: 5},
	})
	require.Equal(t, host.Info{State: host.Ready, About: about, PID: 2, Started: then, Memory: 35, Streams: 5, Restarts: 3,
		Crash: late, MaxMemory: 99, Failures: map[host.Cause]int{host.CauseCrash: 3, host.CauseHang: 1},
		Violations: map[host.Violation]int{"order": 4}, Violation: "the first"}, got)
}
