package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecades: 1, 2 and 5 of each power of ten are marked, the ends with them.
func TestDecades(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, high float64
		want      []string
	}{
		{1, 10, []string{"1", "2", "5", "10"}}, {0.2, 3, []string{"0.2", "0.5", "1", "2"}},
		{1, 1, []string{"1"}}, {2.5, 4, nil}, {5, 200, []string{"5", "10", "20", "50", "100", "200"}},
	} {
		var labels []string
		for _, tick := range (decades{}).Ticks(tt.low, tt.high) {
			labels = append(labels, tick.Label)
		}
		require.Equal(t, tt.want, labels)
	}
}
