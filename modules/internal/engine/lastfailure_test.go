package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailuresInTheOperatorsWords(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	e := &Engine{keys: newKeyCache(time.Hour, func() time.Time { return now })}
	require.Zero(t, e.LastFailure("fast"))
	e.Served("fast")
	e.NoteFailure("a1", "fast", "no such host")
	e.NoteFailure("a2", "", "too long")
	require.Equal(t, Failure{now, "no such host"}, e.LastFailure("fast"))
	require.Equal(t, "no such host", e.FailureOf("a1"))
	require.Equal(t, "too long", e.FailureOf("a2"))
	require.Zero(t, e.LastFailure(""), "what says nothing of a route is none of a route's")
	e.Served("slow")
	require.NotZero(t, e.LastFailure("fast"), "another route has served")
	e.Served("fast")
	require.Zero(t, e.LastFailure("fast"))
	require.Equal(t, "no such host", e.FailureOf("a1"), "of the request it stays true")
	for i := range 2 * keptFailures {
		e.NoteFailure(fmt.Sprint("b", i), "", "x")
	}
	require.Len(t, e.failures.attempts, keptFailures)
	require.Empty(t, e.FailureOf("a1"))
	require.Empty(t, e.FailureOf(fmt.Sprint("b", keptFailures-1)))
	require.Equal(t, "x", e.FailureOf(fmt.Sprint("b", 2*keptFailures-1)))
}
