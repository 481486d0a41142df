package endpoint

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLife: it ends once, for the first reason, and outlives its caller, whose values it has.
func TestLife(t *testing.T) {
	t.Parallel()
	type key struct{}
	caller, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
	l := &life{caller: caller}
	leave(errors.New("left"))
	require.NoError(t, l.Err())
	require.NoError(t, l.why())
	require.Equal(t, "v", l.Value(key{}))
	_, bounded := l.Deadline()
	require.False(t, bounded)
	select {
	case <-l.Done():
		require.Fail(t, "it has ended with its caller")
	default:
	}

	var called [3]atomic.Int64
	stops := make([]func() bool, len(called))
	for i := range called {
		stops[i] = l.AfterFunc(func() { called[i].Add(1) })
	}
	require.True(t, stops[0]())
	require.False(t, stops[0](), "it was")
	child, cancel := context.WithCancel(l)
	defer cancel()
	l.end(errIdle)
	l.end(errStopped)
	<-l.Done()
	<-child.Done()
	require.ErrorIs(t, l.why(), errIdle)
	require.EqualError(t, context.Cause(l), "left", "its caller's, which is not asked for")
	require.ErrorIs(t, l.Err(), context.Canceled)
	require.False(t, stops[1](), "it has been called")
	for i, want := range []int64{0, 1, 1} {
		require.Equal(t, want, called[i].Load(), i)
	}

	ended := &life{caller: caller}
	ended.end(nil)
	require.ErrorIs(t, ended.why(), context.Canceled)
	<-ended.Done()
	late := make(chan struct{})
	require.False(t, ended.AfterFunc(func() { close(late) })())
	<-late
}
