package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// A quiet stream's batch is the call's own memory; that of a burst is borrowed until the next one begins, and given
// back without what was in it.
func TestBatchIsBorrowed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4, 5, roomyBatch, roomyBatch + 1, maxBatch} {
		c := &Call{}
		for range 2 {
			c.clear()
			require.Empty(t, c.batch)
			for i := range n {
				c.add(llm.Event{Kind: llm.EventText, Text: string(rune('a' + i))})
			}
			require.Len(t, c.batch, n)
			for i := range n {
				require.Equal(t, string(rune('a'+i)), c.batch[i].Text, "%d of %d", i, n)
			}
			if n <= len(c.first) {
				require.Nil(t, c.room)
				continue
			}
			for _, ev := range (*c.room)[min(n, roomyBatch):roomyBatch] {
				require.Equal(t, llm.Event{}, ev, "it has nothing of another's reply")
			}
		}
		c.clear()
		require.Nil(t, c.room)
	}
}
