package sse

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestEachByteIsLookedAtOnce: whoever asks whether an event is there, of a line that comes byte by byte.
func TestEachByteIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.OneByteReader(strings.NewReader("data: "+strings.Repeat("x", 3000)+"\n: a comment\n\n")), 4096)
	for !r.Ready() {
		require.Equal(t, r.end-r.start, r.seen, "what was looked at is not looked at again")
		require.NoError(t, r.Fill())
		require.LessOrEqual(t, r.end-r.start-r.seen, 1)
	}
	require.Less(t, r.end-r.start, 1, "what an event has taken does not wait in the buffer")
	ev, err := r.Next()
	require.NoError(t, err)
	require.Len(t, ev.Data, 3000)
}

// TestMemoryIsBounded: what a stream without an end of an event may take.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, text := range map[string]string{
		"a line": "x", "a comment": ":", "comments": ": keep-alive\n", "blank lines": "\n\n", "names": "event: x\n",
		"names without data": "event: x\n\n", "empty data": "data:\n", "data": "data: xxxxxxxx\n",
		"other fields": "id: 7\r\n", "data and comments": "data: x\n: y\n",
	} {
		for _, ask := range []bool{false, true} {
			src := &same{text: []byte(text)}
			r := NewReader(src, limit)
			var err error
			if ask {
				for !r.Ready() {
					require.NoError(t, r.Fill())
				}
			}
			_, err = r.Next()
			require.ErrorIs(t, err, ErrTooLarge, name)
			_, err = r.Next()
			require.ErrorIs(t, err, ErrTooLarge, "it stays so")
			require.LessOrEqual(t, len(r.buf), limit+smallBuffer, name)
			require.LessOrEqual(t, cap(r.data), 2*limit, name)
			require.LessOrEqual(t, src.read, 9*limit, "the shortest line of data has seven bytes for one")
		}
	}
	t.Run("what a large event took is given back", func(t *testing.T) {
		t.Parallel()
		large := "data: " + strings.Repeat("x", 3*keptData) + "\n\n"
		r := NewReader(strings.NewReader(large+"data: a\n\ndata: b\n\n"), limit)
		for _, want := range []int{3 * keptData, 1, 1} {
			ev, err := r.Next()
			require.NoError(t, err)
			require.Len(t, ev.Data, want)
		}
		require.LessOrEqual(t, cap(r.data), keptData)
		_, err := r.Next()
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("events part the lines that say nothing", func(t *testing.T) {
		t.Parallel()
		between := strings.Repeat(": xxxx\n", limit/8)
		r := NewReader(bytes.NewReader(bytes.Repeat([]byte(between+"data: a\n\n"), 4)), limit)
		for range 4 {
			ev, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, "a", string(ev.Data))
		}
	})
}

// same repeats a text for ever, and counts what was read.
type same struct {
	text []byte
	read int
}

func (s *same) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], s.text[(s.read+n)%len(s.text):])
	}
	s.read += n
	return n, nil
}
