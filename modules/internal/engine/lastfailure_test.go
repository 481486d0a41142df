package engine

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

func TestFailuresInTheOperatorsWords(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	dir := t.TempDir()
	open := func() *Engine {
		log, err := requestlog.Open(requestlog.Options{Dir: dir, Now: func() time.Time { return now },
			Keep: func() time.Duration { return time.Hour }})
		require.NoError(t, err)
		return (&Engine{core: core{now: func() time.Time { return now }, log: newSwapLogger(slog.New(slog.DiscardHandler))},
			requests: requests{requestLog: log}}).connect()
	}
	e := open()
	attempt := ledger.AttemptID(fmt.Sprintf("req_%032x", 1), 12)
	e.NoteFailure(attempt, "", "refused connection")
	require.Equal(t, "refused connection", e.FailureOf(t.Context(), attempt))
	require.Zero(t, e.LastFailure("fast"))
	e.Served("fast")
	e.NoteFailure("a1", "fast", "no such host")
	e.NoteFailure("a2", "", "too long")
	require.Equal(t, Failure{now, "no such host"}, e.LastFailure("fast"))
	require.Equal(t, "no such host", e.FailureOf(t.Context(), "a1"))
	require.Equal(t, "too long", e.FailureOf(t.Context(), "a2"))
	require.Zero(t, e.LastFailure(""), "what says nothing of a route is none of a route's")
	e.Served("slow")
	require.NotZero(t, e.LastFailure("fast"), "another route has served")
	e.Served("fast")
	require.Zero(t, e.LastFailure("fast"))
	require.Equal(t, "no such host", e.FailureOf(t.Context(), "a1"), "of the request it stays true")
	for i := range 2 * keptFailures {
		e.NoteFailure(fmt.Sprint("b", i), "", "x")
	}
	require.Len(t, e.failures.attempts, keptFailures)
	require.Empty(t, e.FailureOf(t.Context(), "a1"))
	require.Empty(t, e.FailureOf(t.Context(), fmt.Sprint("b", keptFailures-1)))
	require.Equal(t, "x", e.FailureOf(t.Context(), fmt.Sprint("b", 2*keptFailures-1)))
	t.Run("GAP-122 what is no longer in memory is in the request log", func(t *testing.T) {
		require.Equal(t, "refused connection", e.FailureOf(t.Context(), attempt))
		e.requestLog.Close()
		e := open()
		require.Equal(t, "refused connection", e.FailureOf(t.Context(), attempt))
		require.Empty(t, e.FailureOf(t.Context(), attempt[:len(attempt)-1]))
		now = now.Add(time.Hour)
		require.Empty(t, e.FailureOf(t.Context(), attempt))
		e.requestLog.Close()
	})
}
