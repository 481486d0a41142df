package admin

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestForetold: pages are given what was computed within the last minute, and never wait for what is only old.
func TestForetold(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).Unix())
	e := enginetest.New(t, func() time.Time { return time.Unix(now.Load(), 0) })
	var m remembered[int]
	calls, let := 0, make(chan struct{}, 1)
	ask := func() int {
		v, err := m.of(t.Context(), e, e.Current(), func(context.Context) (int, error) {
			<-let
			calls++
			return calls, nil
		})
		require.NoError(t, err)
		return v
	}
	let <- struct{}{}
	require.Equal(t, 1, ask())
	now.Add(59)
	require.Equal(t, 1, ask())
	now.Add(2)
	require.Equal(t, 1, ask(), "the next one is made meanwhile")
	require.Equal(t, 1, ask(), "once")
	let <- struct{}{}
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.renewing
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, 2, ask())
}
