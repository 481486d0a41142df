package learn

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// TestMessageRows is GAP-131: of a message each line is known to be the question's or not, through labels, tags and
// blank lines.
func TestMessageRows(t *testing.T) {
	t.Parallel()
	m := &predict.FrameModel{Weights: make([]int8, predict.NumFrame), Scale: 0.01}
	text := "<date>2026-03-01</date>\nNotes:\na\n\nQuestion: " + markLines("How far?\nIn miles.") + "\n\nBe brief."
	var framed []float64
	for _, r := range messageRows(m, text) {
		framed = append(framed, r.framed)
	}
	require.Equal(t, []float64{1, 1, 0, 0, 1}, framed)
	require.Empty(t, messageRows(m, strings.Repeat("a\n", 10_000)+markLines("b")), "too long to be told line by line")
}

// TestComposer is GAP-131: messages have the question whole, whatever is around it.
func TestComposer(t *testing.T) {
	t.Parallel()
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	o := composer{c: c.seen(), random: rand.New(rand.NewPCG(1, 2))}
	const question = "Is the sun a star?\nYes or no."
	framed := 0
	for range 300 {
		text := o.message(question)
		require.Contains(t, text, question)
		framed += int(truthOf(text != question))
	}
	require.Greater(t, framed, 200)
	require.NotEmpty(t, o.documents())
}

// TestParts is GAP-131: what weights are judged by in training, they have not seen.
func TestParts(t *testing.T) {
	t.Parallel()
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	seen := c.seen()
	for i := range seen.Prompts {
		require.False(t, seen.Prompts[i].Held())
	}
	whole := 0
	for fold := range folds {
		others, of := seen.parts(fold)
		whole += len(of.Prompts)
		makes := map[string]bool{}
		for _, d := range of.Dresses.Before {
			makes[d.Make] = true
		}
		for _, d := range others.Dresses.Before {
			require.False(t, makes[d.Make], d.Make)
		}
	}
	require.Len(t, seen.Prompts, whole)
}

// TestTrainCourse: the net learns what the sum of two facts does not tell.
func TestTrainCourse(t *testing.T) {
	t.Parallel()
	var rows []courseRow
	for i := range 4000 {
		r := courseRow{weight: 1}
		a, b := i&1, i>>1&1
		r.x[0], r.x[1], r.x[2], r.framed = 1, float32(a), float32(b), float64(a^b)
		rows = append(rows, r)
	}
	c := trainCourse(rows, 1)
	for _, r := range rows[:4] {
		require.InDelta(t, r.framed, sigmoid(c.Odds(&r.x)), 0.2)
	}
	require.Equal(t, c, trainCourse(rows, 1), "the same each time")
}
