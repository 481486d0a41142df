package entry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResetsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	var r resets
	now := time.Unix(1_800_000_000, 0)
	lines, silent := 0, 0
	for i := range 10_000 { // two seconds and a half
		n, ok := r.line(now.Add(time.Duration(i) * 250 * time.Microsecond))
		if ok {
			lines++
			silent += n
		}
	}
	require.Equal(t, 3, lines)
	require.Equal(t, 2*3999, silent, "each line tells of those before it")
	n, ok := r.line(now.Add(time.Minute))
	require.True(t, ok)
	require.Equal(t, 1999, n)
}
