package spool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEmptyAgain has a disk fail as released records are counted no more: whoever empties the spool behind that does
// it, so that a power cut brings none of them back.
func TestEmptyAgain(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(3))
	c.failing = 1
	require.Error(t, s.ReleaseBatch(s.Oldest(3)))
	require.NoError(t, s.Empty(), "the disk is well again")
	cut := c.files[where].after(func(int) bool { return false })
	require.Zero(t, begin(t, c.next(map[string][]byte{where: cut})).Len())
}

// TestLoadedUnsynced has a process killed within a write, so that a record is whole in the cache and not on the disk:
// the next process has it there before another record says that it is.
func TestLoadedUnsynced(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(2))
	r := recordOf(2)
	payload, err := r.encode(nil)
	require.NoError(t, err)
	b := appendSectors(nil, s.halves[0].end, 1, 3, 1, payload)
	f, err := c.Open(where)
	require.NoError(t, err)
	_, err = f.WriteAt(b, s.halves[0].end)
	require.NoError(t, err)
	again := begin(t, c)
	require.EqualValues(t, 3, again.Len())
	require.NoError(t, add(again, recordOf(3)))
	cut := c.files[where].after(func(int) bool { return false })
	last := begin(t, c.next(map[string][]byte{where: cut}))
	require.Empty(t, last.Aside().Items())
	require.EqualValues(t, 4, last.Len())
}
