package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWatch: memory is given back soon after the start, and once each time that the process becomes idle.
func TestWatch(t *testing.T) {
	t.Parallel()
	const busy, idle = idleBytes, idleBytes - 1
	var w watch
	var allocated uint64
	for i, look := range []struct {
		made uint64
		back bool
	}{
		{busy, true}, // the start
		{busy, false},
		{idle, false}, {idle, false}, {idle, false}, {idle, true}, {idle, false}, {idle, false},
		{busy, false},
		{idle, false}, {idle, false}, {idle, false}, {busy, false}, // not yet idle
		{idle, false}, {idle, false}, {idle, false}, {0, true}, {0, false},
	} {
		allocated += look.made
		require.Equal(t, look.back, w.look(allocated), "look %d", i)
	}
	require.NotZero(t, allocatedByProcess())
}
