package learn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// sums are tasks of arithmetic, the longer the harder, and of words, the longer the easier.
func sums(n int, words bool) *Dataset {
	d := &Dataset{Name: "sums", Models: []string{"small", "smaller"}}
	for i := range n {
		long := i * 7 % 10
		score := 1 - float64(long)/10
		row := Row{Task: "sums", Prompt: "Add " + strings.Repeat(fmt.Sprintf("%d and ", i%89+10), 3+3*long) + "3."}
		if words && i%2 == 0 {
			score = 1 - score
			row = Row{Task: "words", Prompt: "Spell " + strings.Repeat("river, lake, sea, ", 1+long) + "please!"}
		}
		row.Score, row.Output, row.Cost = []float64{score, score / 2}, []float64{9, 9}, []float64{0.002, 0.001}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// TestWithin: what makes a prompt difficult is another thing in each task that has prompts enough to tell.
func TestWithin(t *testing.T) {
	t.Parallel()
	m, err := Train([]*Dataset{sums(2*eachRows, true)}, 1)
	require.NoError(t, err)
	f, s := predict.NewFeatures(), &predict.Signal{}
	pool := &m.Pools[0]
	quality := func(prompt string) float64 {
		f.Read((&Row{Prompt: prompt}).Request())
		m.Look(f, s)
		return pool.QualityOf(0, s)
	}
	harder := func() float64 {
		return quality("Add "+strings.Repeat("17 and ", 5)+"3.") - quality("Add "+strings.Repeat("17 and ", 30)+"3.")
	}
	easier := func() float64 {
		return quality("Spell "+strings.Repeat("river, lake, sea, ", 9)+"please!") -
			quality("Spell "+strings.Repeat("river, lake, sea, ", 3)+"please!")
	}
	longSums, longWords := harder(), easier()
	require.Len(t, pool.Tasks, 2)
	for i := range pool.Tasks {
		require.NotEmpty(t, pool.Tasks[i].Within.Weights)
		pool.Tasks[i].Within = predict.Linear{}
	}
	require.Greater(t, longSums, harder()+0.02, "long sums are hard")
	require.Greater(t, longWords, easier()+0.02, "and long lists of words easy")

	m, err = Train([]*Dataset{sums(2*eachRows-2, true)}, 1)
	require.NoError(t, err)
	for i := range m.Pools[0].Tasks {
		require.Empty(t, m.Pools[0].Tasks[i].Within.Weights, "too few to tell by itself")
	}

	several := sums(4*eachRows-4, false)
	for i := range several.Rows {
		several.Rows[i].Task = fmt.Sprint("sums ", i%4)
	}
	m, err = Train([]*Dataset{several}, 1)
	require.NoError(t, err)
	pool = &m.Pools[0]
	for i := range pool.Tasks {
		require.Empty(t, pool.Tasks[i].Within.Weights)
	}
	longSums = harder()
	pool.Within = predict.Linear{}
	require.Greater(t, longSums, harder()+0.02, "where tasks are too small, what all of them have in common tells")
}

// TestEasierElsewhere: where a pool was never put to the task, which of its prompts are difficult is what another
// pool knows of them.
func TestEasierElsewhere(t *testing.T) {
	t.Parallel()
	alone := made(300, 1)
	both, err := Train([]*Dataset{alone, sums(200, false)}, 1)
	require.NoError(t, err)
	f, s := predict.NewFeatures(), &predict.Signal{}
	pool, _, err := both.Pool(alone.Models)
	require.NoError(t, err)
	quality := func(prompt string) float64 {
		f.Read((&Row{Prompt: prompt}).Request())
		both.Look(f, s)
		return pool.QualityOf(0, s)
	}
	short, long := quality("Add "+strings.Repeat("17 and ", 5)+"3."), quality("Add "+strings.Repeat("17 and ", 30)+"3.")
	require.Greater(t, short-long, 0.1)
	expected := float64(pool.Routes[0].Expected)
	require.Greater(t, short, expected)
	require.Less(t, long, expected)
}
