package spool

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOpen writes any bytes anywhere into a spool of this format or of the one before, and cuts it anywhere. It
// opens or is foreign; what comes out was put in, in its order and once; and what was opened once is sound.
func FuzzOpen(f *testing.F) {
	_, c := with(f, records(5))
	today, old := c.files[where].now, unzipped(f, "testdata/spool1.gz")[:small]
	f.Add(false, uint32(0), []byte("x"), uint32(0))
	f.Add(false, uint32(firstRecord+4), []byte{0, 0, 0, 0}, uint32(0))
	f.Add(false, uint32(firstRecord+sectorSize), bytes.Repeat([]byte{0}, sectorSize), uint32(700))
	f.Add(true, uint32(firstRecord), []byte{255, 255, 255, 255}, uint32(0))
	f.Add(true, uint32(firstRecord+100), []byte{1}, uint32(small-firstRecord-300))
	f.Fuzz(func(t *testing.T, isOld bool, at uint32, b []byte, cut uint32) {
		content, put := bytes.Clone(today), records(5)
		if isOld {
			content, put = bytes.Clone(old), fixtures()
		}
		copy(content[at%small:], b)
		content = content[:small-cut%small]
		c := holding(map[string][]byte{where: content})
		s, err := open(c, where, small)
		if err != nil {
			require.ErrorIs(t, err, ErrForeign)
			return
		}
		got := waiting(t, s)
		next := 0
		for _, r := range got {
			for next < len(put) && put[next].Settlement.Request != r.Settlement.Request {
				next++
			}
			require.Less(t, next, len(put), "a record that was not put in, or twice")
			require.Equal(t, put[next], r)
			next++
		}
		require.True(t, len(got) == len(put) || s.Aside().Undecided() > 0, "what is missing is reported")
		f, err := scan(c.files[where].now, boot{1})
		require.NoError(t, err)
		require.True(t, f.isWhole())
		requireSame(t, got, f.records)
	})
}
