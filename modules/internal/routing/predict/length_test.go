package predict

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func askedBy(text string) Asked {
	f := NewFeatures()
	f.Read(ask(text))
	return f.asked
}

// TestAsked is GAP-131: a length that is asked for bounds the reply from both sides, in many languages, by digits and
// by words; "at most" and "at least" bound it from one.
func TestAsked(t *testing.T) {
	t.Parallel()
	const low, high = 0.75, 1 / 0.75
	for text, want := range map[string]Asked{
		"an essay of 1500 words on bees":      {2100 * low, 2100 * high, false},
		"a 1,500 word essay on bees":          {2100 * low, 2100 * high, false},
		"in one word: the capital of Peru":    {},
		"no word twice, one line a day":       {},
		"写一首十四行的诗":                            {168 * low, 168 * high, false},
		"用三句话解释":                              {72 * low, 72 * high, false},
		"세 문장으로 설명해 줘":                        {72 * low, 72 * high, false},
		"два предложения о море":              {48 * low, 48 * high, false},
		"in at most three sentences: why":     {0, 72 * high, true},
		"Warum? In höchstens drei Sätzen":     {0, 72 * high, true},
		"300 words max, about bees":           {0, 420 * high, true},
		"500字以内の作文":                           {0, 700 * high, true},
		"at least 2000 words on bees":         {2800 * low, 0, true},
		"au moins 5 paragraphes sur la mer":   {450 * low, 0, true},
		"give me 10 ideas for a party":        {250 * itemLow, 250 * itemHigh, false},
		"600 people came":                     {},
		"a poem on the sea.\nUnder 50 words.": {0, 70 * high, true},
	} {
		have := askedBy(text)
		require.InDelta(t, want.low, have.low, 1, text)
		require.InDelta(t, want.high, have.high, 1, text)
		require.Equal(t, want.bounded, have.bounded, text)
	}
}

func TestAsked_bound(t *testing.T) {
	t.Parallel()
	of := func(tokens float64) float32 { return float32(math.Log(tokens)) }
	require.Equal(t, of(100), Asked{}.bound(of(100)))
	require.Equal(t, of(200), Asked{low: 200, high: 300}.bound(of(100)))
	require.Equal(t, of(50), Asked{high: 50}.bound(of(100)))
	require.Equal(t, Asked{low: 10, high: 50}, Asked{low: 10, high: 90}.or(Asked{high: 50}), "the narrower one")
	require.Equal(t, Asked{low: 10, high: 90}, Asked{low: 10, high: 20}.or(Asked{low: 60, high: 90}), "parts of a reply")
	require.InDelta(t, 30, Asked{low: 20, high: 45}.usual(), 1e-3)
}
