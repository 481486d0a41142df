package exchange

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// TestPace: the mean between tokens is of those that were seen to come, and the longest pause is between two of them.
func TestPace(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var p pace
	for _, after := range []time.Duration{500 * time.Millisecond, 510 * time.Millisecond, 510 * time.Millisecond,
		600 * time.Millisecond} {
		p.now = began.Add(after)
		p.note(false)
	}
	require.Equal(t, 90*time.Millisecond, p.longest)
	require.Equal(t, 10*time.Millisecond, p.mean(&llm.Usage{Output: llm.Count(11)}))
	require.Equal(t, 10*time.Millisecond, p.mean(&llm.Usage{Output: llm.Count(111), Reasoning: llm.Count(100)}),
		"what the upstream kept to itself came before")
	p.reasoning = true
	require.Equal(t, time.Millisecond, p.mean(&llm.Usage{Output: llm.Count(101), Reasoning: llm.Count(90)}), "it came")
	require.Zero(t, p.mean(&llm.Usage{Output: llm.Count(1)}))
	require.Zero(t, p.mean(nil), "nobody counted")
	require.Zero(t, new(pace).mean(&llm.Usage{Output: llm.Count(11)}), "nothing came")
}
