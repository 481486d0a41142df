package exchange

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

// shared is a memory of a size.
type shared struct {
	mu        sync.Mutex
	used, max int64
}

func (s *shared) AcquireAhead(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.max {
		return false
	}
	s.used += n
	return true
}

func (s *shared) ReleaseAhead(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

func (s *shared) inUse() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// textOf is a batch with a text of n bytes, and one with a number that tells it apart.
func textOf(n, number int) batch {
	return batch{events: []llm.Event{{Kind: llm.EventText, Text: strings.Repeat("x", n), Index: number}}}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestQueue holds the queue against a slice: what is pushed is popped, in order, whatever is forced between; and what
// is counted of the memory is given back.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &shared{max: rapid.SampledFrom([]int64{0, 300 << 10, 4 << 20}).Draw(t, "memory")}
		q := newQueue(m)
		var model []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				next++
				full := q.used
				b := textOf(rapid.IntRange(0, 200<<10).Draw(t, "bytes"), next)
				added, goOn := q.push(b)
				require.Equal(t, !added || q.reading, goOn)
				if added {
					model = append(model, next)
					return
				}
				require.NotEmpty(t, model, "an empty queue takes any batch")
				require.True(t, full+b.size() > maxAhead || m.used+b.size() > m.max, "there was room")
			},
			"force": func(*rapid.T) {
				next++
				q.addBeyondBound(textOf(300<<10, next))
				model = append(model, next)
			},
			"pop": func(t *rapid.T) {
				b, more, ok := q.pop()
				require.Equal(t, len(model) > 0, ok)
				if !ok {
					return
				}
				require.Equal(t, model[0], b.events[0].Index)
				model = model[1:]
				require.Equal(t, len(model) > 0, more)
			},
			"begin": func(t *rapid.T) {
				reading := q.reading
				require.Equal(t, !reading, q.begin(), "one reads ahead")
			},
			"wait": func(t *rapid.T) {
				if len(model) > 0 {
					require.True(t, q.noteWaiting(), "there is something")
					require.False(t, q.idle)
					return
				}
				require.Equal(t, q.reading, q.noteWaiting(), "nobody waits where nobody reads")
				if !q.idle {
					return
				}
				next++
				added, goOn := q.push(textOf(1, next))
				require.True(t, added)
				require.False(t, goOn, "who waits reads on for himself")
				require.False(t, q.reading || q.idle)
				model = append(model, next)
			},
			"": func(t *rapid.T) {
				require.Len(t, q.waiting[q.head:], len(model))
				require.LessOrEqual(t, q.used, int64(maxAhead))
				require.Equal(t, q.used, m.used)
				if len(model) == 0 {
					require.Zero(t, m.used)
				}
			},
		})
		q.close()
		require.Zero(t, m.used)
		added, goOn := q.push(textOf(1, 0))
		require.True(t, added, "nobody waits for a queue that is closed")
		require.False(t, goOn)
		require.False(t, q.addBeyondBound(textOf(1, 0)))
		require.False(t, q.begin())
		require.Empty(t, q.waiting)
	})
}

func TestQueueSignals(t *testing.T) {
	t.Parallel()
	m := &shared{max: 100 << 10}
	q := newQueue(m)
	push := func(b batch) bool {
		added, _ := q.push(b)
		return added
	}
	require.True(t, push(textOf(1<<20, 1)), "the first batch counts for nothing")
	require.Zero(t, m.used)
	require.True(t, isClosed(q.ready))
	require.True(t, push(textOf(50<<10, 2)))
	require.Greater(t, m.used, int64(50<<10), "the text, and what is around it")
	require.Less(t, m.used, int64(51<<10))
	require.False(t, push(textOf(60<<10, 3)), "the memory is full")
	require.False(t, isClosed(q.room))
	require.True(t, isClosed(q.ready))
	_, more, _ := q.pop()
	require.True(t, more)
	require.True(t, isClosed(q.ready), "there is more")
	require.True(t, isClosed(q.room), "somebody wants room")
	_, more, _ = q.pop()
	require.False(t, more)
	require.False(t, isClosed(q.ready))
	require.False(t, isClosed(q.room), "nobody wants room")
	require.Zero(t, m.used)
}
