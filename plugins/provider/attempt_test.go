package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/wire"
)

// TestGatheredEvents: what comes together is one message, in the order of all that is sent.
func TestGatheredEvents(t *testing.T) {
	t.Parallel()
	var sizes, order []int
	a := &attempt{write: func(message any) error {
		list := message.(*wire.Events).List
		sizes = append(sizes, len(list))
		for _, said := range list {
			order = append(order, said.Index)
		}
		return nil
	}}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			said := wire.Said{}
			said.Index = i
			require.NoError(t, a.put(t.Context(), said, 0))
		}
	}
	a.gather(true)
	put(0, 3)
	require.Empty(t, sizes)
	a.flush()
	a.flush()
	put(3, 3+outboxEvents+1)
	require.Equal(t, []int{3, outboxEvents}, sizes, "so many are written without being asked to")
	a.gather(false)
	require.Equal(t, []int{3, outboxEvents, 1}, sizes)
	put(outboxEvents+4, outboxEvents+6)
	a.gather(true) // the outbox has the turn
	put(outboxEvents+6, outboxEvents+8)
	require.NoError(t, a.end())
	for i, index := range order {
		require.Equal(t, i, index)
	}
	require.Len(t, order, outboxEvents+8)
}

// TestNobodyListens: the provider hears of it by its context, and nothing more is written.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for _, gathers := range []bool{true, false} {
		running, cancel := context.WithCancelCause(t.Context())
		tries := 0
		a := &attempt{cancel: cancel, write: func(any) error { tries++; return gone }}
		a.gather(gathers)
		require.NoError(t, a.put(t.Context(), wire.Said{}, 0))
		if gathers {
			a.flush()
		}
		<-running.Done()
		require.ErrorIs(t, context.Cause(running), gone)
		require.NoError(t, a.put(t.Context(), wire.Said{}, 0))
		require.ErrorIs(t, a.end(), gone)
		require.Equal(t, 1, tries)
	}
}
