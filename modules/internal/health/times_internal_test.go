package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEarlyIsForgottenHalf: first tokens that come later than they did are taken for late for a while, and then for
// usual: what was early doubles in ten minutes, however many came in that time.
func TestEarlyIsForgottenHalf(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{10 * time.Minute, time.Minute, time.Second} {
		var p pace
		p.sample(0, time.Second)
		for at := every; at <= 10*time.Minute; at += every {
			p.sample(at, time.Minute)
		}
		require.InDelta(t, 2, p.early, 1e-6, "one every %s", every)
	}
}

// TestPastRemembersTheLatest: however many times came, the shares are of those that are remembered, and the latest
// count the most.
func TestPastRemembersTheLatest(t *testing.T) {
	t.Parallel()
	var p past
	for i := range 10 * rememberTokens {
		p.add(time.Second)
		var sum uint32
		for _, n := range p.counts {
			sum += n
		}
		require.Equal(t, sum, p.total, i)
		require.Less(t, p.total, uint32(2*rememberTokens))
	}
	for range 2 * rememberTokens {
		p.add(time.Minute)
	}
	usual, ok := p.quantile(0.5)
	require.True(t, ok)
	require.GreaterOrEqual(t, usual, time.Minute)
}
