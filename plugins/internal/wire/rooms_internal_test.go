package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargeRoomsAreNotKept: the memory of a large message is not that of the next one.
func TestLargeRoomsAreNotKept(t *testing.T) {
	t.Parallel()
	var r rooms
	large := r.Get(128<<10 + 1)
	require.Len(t, *large, 128<<10+1)
	r.Put(large)
	require.Equal(t, leastRoom, cap(*r.Get(1)))
}
