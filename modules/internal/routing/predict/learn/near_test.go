package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

func TestUsualAt(t *testing.T) {
	t.Parallel()
	require.InDeltaSlice(t, []float64{0.4, 0.5, 0.6}, usualAt([]float64{1, 2, 3}, []float64{0.4, 0.5, 0.6}), 1e-12)
	usual := usualAt([]float64{1, 2, 3}, []float64{0.9, 0.5, 0.1})
	require.InDeltaSlice(t, []float64{0.5 - leastSlope, 0.5, 0.5 + leastSlope}, usual, 1e-12, "never better for less")
	require.InDeltaSlice(t, []float64{0.5, 0.5}, usualAt([]float64{1, 1}, []float64{0.4, 0.6}), 1e-12)
}

// ranked is tasks on each of which routes of rising price are worth their qualities, and another number by chance.
func ranked(tasks int, quality []float64, chance float64) *Dataset {
	random := rand.New(rand.NewPCG(1, 1))
	d := &Dataset{Name: "ranked"}
	cost := make([]float64, len(quality))
	for k := range quality {
		d.Models = append(d.Models, fmt.Sprint("m", k))
		cost[k] = 0.001 * float64(k+1)
	}
	for g := range tasks {
		here := make([]float64, len(quality))
		for k, q := range quality {
			here[k] = min(max(q+chance*random.NormFloat64(), 0), 1)
		}
		for i := range 30 {
			d.Rows = append(d.Rows, Row{Task: fmt.Sprint("task ", g), Score: here, Cost: cost, Output: cost,
				Prompt: fmt.Sprintf("Say what word %d of list %d means in sentence %d.", g*7919, g, i*104729)})
		}
	}
	return d
}

// A route that is better than usual at its price on many tasks alike is expected to be so on another; one on few tasks,
// or on tasks that differ, is not.
func TestExpect(t *testing.T) {
	t.Parallel()
	quality := []float64{0.3, 0.7, 0.4, 0.5}
	better := func(tasks int, chance float64) float64 {
		m, err := Train([]*Dataset{ranked(tasks, quality, chance)}, 1)
		require.NoError(t, err)
		r := m.Pools[0].Routes
		return float64(r[1].Expected - (r[0].Expected+r[2].Expected)/2)
	}
	require.Greater(t, better(12, 0.02), 0.3)
	require.Less(t, better(2, 0.1), 0.05)
	require.Less(t, better(1, 0), 0.05, "nothing says how tasks differ")
	require.Less(t, better(4, 0.4), 0.1)
}

func TestNear(t *testing.T) {
	t.Parallel()
	d := made(300, 1)
	m, err := Train([]*Dataset{d}, 1)
	require.NoError(t, err)
	pool := &m.Pools[0]
	require.Len(t, pool.Centres, len(pool.Tasks))
	require.Positive(t, pool.Near)
	f, s := predict.NewFeatures(), &predict.Signal{}
	near := 0
	for _, row := range made(100, 2).Rows {
		f.Read(row.Request())
		m.Look(f, s)
		s.Trust = 1
		if math.Abs(pool.QualityOf(0, s)-float64(pool.Routes[0].Expected)) > 0.01 {
			near++
		}
	}
	require.Greater(t, near, 85, "of other prompts of its tasks")
	row := Row{Prompt: "if (a[i] == b[j]) { return \"<tag>\"; }\n\n\tfor x := range 9999 { sum += x * 3.5 }\n"}
	f.Read(row.Request())
	m.Look(f, s)
	s.Trust = 1
	require.InDelta(t, pool.Routes[0].Expected, pool.QualityOf(0, s), 1e-6)
}
