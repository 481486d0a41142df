package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestChoreIsDoneByWhoeverHasIt: a chore of all nodes runs where it is claimed, for longer than until it is due again.
func TestChoreIsDoneByWhoeverHasIt(t *testing.T) {
	t.Parallel()
	done := 0
	of := func() *chore {
		return &chore{name: "work", every: time.Minute, do: func(context.Context) error { done++; return nil }}
	}
	ours, failed := true, error(nil)
	claim := claimer(func(_ context.Context, name string, d time.Duration) (bool, error) {
		require.Equal(t, "work", name)
		require.Greater(t, d, time.Minute)
		return ours, failed
	})
	require.NoError(t, claim.once(of()).do(t.Context()))
	require.Equal(t, 1, done)
	ours = false
	require.NoError(t, claim.once(of()).do(t.Context()))
	require.Equal(t, 1, done, "another node does it")
	failed = errors.New("away")
	require.ErrorIs(t, claim.once(of()).do(t.Context()), failed)
	require.Equal(t, 1, done)
	require.NoError(t, claimer(nil).once(of()).do(t.Context()))
	require.Equal(t, 2, done, "without other nodes each is ours")
}
