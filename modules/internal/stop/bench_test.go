package stop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/stop"
)

// deltas are pieces of about a token each.
func deltas() []string {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and ends its day.\nEnough. ", 64)
	var pieces []string
	for len(text) > 5 {
		pieces = append(pieces, text[:5])
		text = text[5:]
	}
	return pieces
}

// TestNoAllocationPerDelta is not parallel: AllocsPerRun counts the allocations of all goroutines.
func TestNoAllocationPerDelta(t *testing.T) {
	m := stop.New([]string{"END", "\n\nHuman:", "</answer>"}).Matcher()
	pieces := deltas()
	allocs := testing.AllocsPerRun(10, func() {
		for _, p := range pieces {
			m.Feed(p)
		}
	})
	// Only the deltas that release an earlier delta's fragment together with text of their own allocate.
	require.Less(t, allocs, float64(len(pieces))/10)

	allocs = testing.AllocsPerRun(10, func() { m.Feed("nothing here could match") })
	require.Zero(t, allocs)
}

func BenchmarkTypicalText(b *testing.B) {
	pieces := deltas()
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	for _, stops := range [][]string{{"END"}, {"\n\nHuman:", "</answer>", "STOP", "```\n"}} {
		b.Run(fmt.Sprintf("%d stops", len(stops)), func(b *testing.B) {
			set := stop.New(stops)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				m := set.Matcher()
				for _, p := range pieces {
					m.Feed(p)
				}
			}
		})
	}
}

// BenchmarkHostile is 16 sequences of 256 characters that fall back as often as possible.
func BenchmarkHostile(b *testing.B) {
	var stops []string
	for i := range 16 {
		stops = append(stops, strings.Repeat("a", 240+i)+"b")
	}
	text := strings.Repeat(strings.Repeat("a", 239)+"b", 4096)
	set := stop.New(stops)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m := set.Matcher()
		m.Feed(text)
	}
}

func BenchmarkNew(b *testing.B) {
	var stops []string
	for i := range 16 {
		stops = append(stops, strings.Repeat(string(rune('a'+i)), 256))
	}
	b.ReportAllocs()
	for b.Loop() {
		stop.New(stops)
	}
}
