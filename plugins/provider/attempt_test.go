package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
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

// TestOwnSend: by it a Carried knows that nothing stands before an attempt.
func TestOwnSend(t *testing.T) {
	t.Parallel()
	for _, a := range []*attempt{{}, {provider: generator(nil)}} {
		require.True(t, isOwn(a.send))
		require.False(t, isOwn(func(ev llm.Event) error { return a.send(ev) }))
	}
}

// TestSendAfterTheEnd: it is refused, and no writer is started that nobody would close.
func TestSendAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, gathers := range []bool{true, false} {
		a := &attempt{running: t.Context(), write: func(any) error { panic("it is over") }}
		a.gather(gathers)
		require.NoError(t, a.end())
		require.ErrorIs(t, a.send(accepted), errOver)
		require.Nil(t, a.out)
		a.flush()
	}
}

// TestSendBesideTheEnd is a provider that returns while a goroutine of its own still calls a Carried's Generate.
func TestSendBesideTheEnd(t *testing.T) {
	t.Parallel()
	for _, gathers := range []bool{true, false} {
		writing := false
		a := &attempt{stream: t.Context(), write: func(any) error {
			require.False(t, writing, "one goroutine at a time")
			writing = true
			defer func() { writing = false }()
			return nil
		}}
		a.gather(gathers)
		begun, refused := make(chan struct{}), make(chan error, 1)
		go func() {
			err := a.put(t.Context(), wire.Said{}, 0)
			for close(begun); err == nil; err = a.put(t.Context(), wire.Said{}, 0) {
				a.flush()
			}
			refused <- err
		}()
		<-begun
		a.fail(errors.New("left"))
		require.NoError(t, a.end())
		require.ErrorIs(t, <-refused, errOver)
	}
}
