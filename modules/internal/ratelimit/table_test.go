package ratelimit

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// known is a subject of a simple table: a list with the subject that was asked about last at its end.
type known struct {
	key     uint16
	moments []int64
}

type simpleTable []known

func (s *simpleTable) find(key uint16) int {
	return slices.IndexFunc(*s, func(k known) bool { return k.key == key })
}

// touch puts a subject at the end, without what is over.
func (s *simpleTable) touch(key uint16, now int64) *known {
	k := known{key: key}
	if i := s.find(key); i >= 0 {
		k = (*s)[i]
		*s = slices.Delete(*s, i, i+1)
	}
	k.moments = slices.DeleteFunc(slices.Clone(k.moments), func(m int64) bool { return now-m >= windowTicks })
	*s = append(*s, k)
	return &(*s)[len(*s)-1]
}

// check fails when the table's parts do not fit together.
func (t *table[K]) check(tb rapid.TB) {
	linked, chained := 0, 0
	if len(t.windows) > 0 {
		for i, last := t.oldest(), uint32(0); i != 0; last, i = i, t.windows[i].newer {
			w := &t.windows[i]
			require.Equal(tb, last, w.older)
			require.Equal(tb, i, t.index[w.key])
			blocks := 0
			for b := w.head; b != 0; b = t.blocks.all[b].next {
				blocks++
			}
			require.Equal(tb, w.size(), blocks)
			linked++
			chained += blocks
		}
	}
	require.Len(tb, t.index, linked)
	require.Equal(tb, t.blocks.used, chained)
	unused := 0
	for i := t.blocks.free; i != 0; i = t.blocks.all[i].next {
		unused++
	}
	require.Equal(tb, max(0, len(t.blocks.all)-1), chained+unused, "a block is lost")
	unused = 0
	for i := t.free; i != 0; i = t.windows[i].newer {
		unused++
	}
	require.Equal(tb, max(0, len(t.windows)-1), linked+unused, "a window is lost")
}

// TestTable compares a small table with a list: what each subject has used, and which of them give way.
func TestTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.SampledFrom([]int{0, 12 * (windowCost + blockCost)}).Draw(rt, "bytes")
		table, simple := &table[uint16]{most: most}, new(simpleTable)
		var now int64
		for range rapid.IntRange(1, 300).Draw(rt, "questions") {
			now += rapid.SampledFrom([]int64{0, 1, 1000, windowTicks / 20, windowTicks / 3, windowTicks - 1}).Draw(rt, "pause")
			key := rapid.Uint16Range(0, 30).Draw(rt, "key")
			limit := rapid.Int64Range(1, 9).Draw(rt, "limit")

			at := table.room(key, limit, now)
			was := simple.find(key) >= 0
			k := simple.touch(key, now)
			want := now
			if over := int64(len(k.moments)) - limit; over >= 0 {
				want = k.moments[over] + windowTicks
			}
			require.Equal(rt, want, at)
			if want > now {
				continue
			}
			if !was && rapid.IntRange(0, 4).Draw(rt, "add") == 0 { // another limit refused it
				*simple = (*simple)[:len(*simple)-1]
				continue
			}
			table.add(key, now)
			k.moments = append(k.moments, now)
			table.check(rt)
			// Both forget what is empty, at different times; what gives way before it is empty is the same.
			for len(*simple) > 0 && most > 0 {
				first := (*simple)[0]
				_, there := table.index[first.key]
				if !there || slices.Max(append(first.moments, now-windowTicks)) <= now-windowTicks {
					*simple = (*simple)[1:]
					continue
				}
				break
			}
			for _, k := range *simple {
				i, there := table.index[k.key]
				full := slices.DeleteFunc(slices.Clone(k.moments), func(m int64) bool { return now-m >= windowTicks })
				require.True(rt, there || len(full) == 0, "%d gave way before one that was idle longer", k.key)
				if there {
					table.windows[i].expire(&table.blocks, now)
					require.Len(rt, full, int(table.windows[i].count))
				}
			}
			if most > 0 && len(table.index) > MaxAsks {
				require.LessOrEqual(rt, table.bytes(), most)
			}
		}
	})
}

// TestTableShrinks shows that a table that was large keeps what counts when it is made anew.
func TestTableShrinks(t *testing.T) {
	t.Parallel()
	var table table[int]
	for key := range 10 * smallest {
		table.add(key, 0)
	}
	for n := range int64(7) { // more than two blocks
		table.add(-1, 1+n)
	}
	table.add(-2, 5)
	for range 10 * smallest {
		require.Equal(t, windowTicks+1, table.room(-1, 7, windowTicks), "each is over in its turn")
	}
	require.LessOrEqual(t, len(table.windows), smallest)
	require.Len(t, table.index, 2)
	require.Equal(t, windowTicks+3, table.room(-1, 5, windowTicks+1))
	require.Equal(t, windowTicks+5, table.room(-2, 1, windowTicks+1))
	table.check(t)
}

// TestTableFillsItsMemory shows that nobody gives way while all fit, to the byte, and that one does when they don't.
func TestTableFillsItsMemory(t *testing.T) {
	t.Parallel()
	const subjects = MaxAsks + 3
	for missing, evicted := range map[int]int64{0: 0, 1: 1} {
		full := table[int]{most: subjects*(windowCost+blockCost) - missing}
		for key := range subjects {
			full.add(key, int64(key))
		}
		require.Equal(t, evicted, full.evicted)
		require.Len(t, full.index, subjects-int(evicted))
		full.check(t)
	}
}
