package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	require.InDeltaSlice(t, []float64{0.4, 0.6}, usualAt([]float64{1, 1.1}, []float64{0.4, 0.6}), 1e-12)
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

// A route that is better than usual at its price on many tasks alike is expected to be so on another; one on few
// tasks, or on tasks that differ, is not.
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
	for i := range pool.Tasks {
		require.Len(t, pool.Tasks[i].Centre, len(m.Heads)+predict.NumStats)
	}
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

// Two routes that differ by twice these on four tasks, beyond what is usual; a fifth task has too few prompts to tell.
func TestReliable(t *testing.T) {
	t.Parallel()
	d := &Dataset{Name: "pair", Models: []string{"a", "b"}}
	for task, half := range []float64{0.1, 0.2, 0.1, 0.2, -0.3} {
		n := fewest
		if half < 0 {
			n--
		}
		for i := range n {
			d.Rows = append(d.Rows, Row{Task: fmt.Sprint("task ", task), Prompt: fmt.Sprint(task, " and ", i),
				Score: []float64{0.3, 0.35 + 2*half}})
		}
	}
	tr := &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{d})
	// Between tasks 2 * 0.01/3, of which the upper limit is 9.144 times as much; between routes 2 * 0.15^2 less a quarter
	// of the former.
	tasks := 0.02 / 3
	routes := 0.045 - tasks/4
	require.InDelta(t, routes/(routes+9.1439*tasks/4), tr.reliable(&tr.pools[0], []int{0, 1}, []float64{0.3, 0.35}), 1e-4)
	for i := range d.Rows {
		d.Rows[i].Cost = []float64{1, math.E}
	}
	out := &predict.Pool{Routes: []predict.Route{{Expected: 0.4, Cost: &predict.Linear{}}, {Expected: 0.1,
		Cost: &predict.Linear{}}}}
	usual := []float64{0.25 - leastSlope/2, 0.25 + leastSlope/2}
	share := tr.reliable(&tr.pools[0], []int{0, 1}, usual)
	require.Positive(t, share)
	tr.expect(&tr.pools[0], out)
	require.InDelta(t, usual[0]+share*(0.4-usual[0]), out.Routes[0].Expected, 1e-6)
	require.InDelta(t, usual[1]+share*(0.1-usual[1]), out.Routes[1].Expected, 1e-6)

	d.Rows = d.Rows[:fewest]
	tr = &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{d})
	require.Zero(t, tr.reliable(&tr.pools[0], []int{0, 1}, []float64{0.3, 0.35}), "one task does not tell")

	require.InDelta(t, 9.1439, upper(1, 3), 1e-3)
	require.InDelta(t, 2*1.2832, upper(2, 100), 1e-3)
}

// Heads and statistics are independent of each other once they are whitened, and their variance within tasks and by
// other words is 1 with the penalty; Near is how far nearly all prompts are from the nearest centre, as they are and
// in other words.
func TestWhiten(t *testing.T) {
	t.Parallel()
	tr := &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{made(120, 1)})
	tr.vectors()
	tr.heads()
	tr.familiar()
	tr.regressions()
	dim := len(tr.model.Heads) + predict.NumStats
	white := func(x []float64) []float64 {
		out, row := make([]float64, dim), tr.model.Whiten
		for i := range out {
			for j := range i + 1 {
				out[i] += float64(row[j]) * x[j]
			}
			row = row[i+1:]
		}
		require.Empty(t, row)
		return out
	}
	samples, byTask := len(tr.samples), map[string][]int{}
	xs, moved := make([][]float64, samples), make([][]float64, samples)
	random := rand.New(rand.NewPCG(tr.seed, 9))
	f, s := predict.NewFeatures(), &predict.Signal{}
	look := func(row Row) (x []float64) {
		f.Read(row.Request())
		tr.model.Look(f, s)
		for _, v := range s.X() {
			x = append(x, float64(v))
		}
		return x
	}
	for i := range xs {
		row := *tr.samples[i].row
		byTask[row.Task] = append(byTask[row.Task], i)
		for _, v := range tr.whole([]int{i})[0].value {
			xs[i] = append(xs[i], float64(v))
		}
		as := look(row)
		row.Prompt = rephrase(shuffleOptions(row.Prompt, random))
		moved[i] = look(row)
		for j := range moved[i] {
			moved[i][j] += xs[i][j] - as[j]
		}
	}
	var deviations [][]float64
	minus := func(a, b []float64) []float64 {
		out := make([]float64, dim)
		for j := range out {
			out[j] = a[j] - b[j]
		}
		return out
	}
	centres := map[string][]float64{}
	for name, of := range byTask {
		mean := make([]float64, dim)
		for _, i := range of {
			for j, v := range xs[i] {
				mean[j] += v / float64(len(of))
			}
		}
		centres[name] = white(mean)
		for _, i := range of {
			deviations = append(deviations, white(minus(xs[i], mean)), white(minus(moved[i], xs[i])))
		}
	}
	penalty := make([][]float64, dim) // whitened, too
	for j := range penalty {
		unit := make([]float64, dim)
		unit[j] = math.Sqrt(nearPenalty)
		penalty[j] = white(unit)
	}
	for i := range dim {
		for j := range dim {
			sum := 0.0
			for _, d := range deviations {
				sum += d[i] * d[j] / float64(samples)
			}
			for _, d := range penalty {
				sum += d[i] * d[j]
			}
			want := 0.0
			if i == j {
				want = 1
			}
			require.InDelta(t, want, sum, 1e-4, "%d and %d", i, j)
		}
	}
	var far []float64
	for i := range xs {
		for _, x := range [][]float64{xs[i], moved[i]} {
			nearest := math.Inf(1)
			for _, c := range centres {
				d := 0.0
				for _, v := range minus(white(x), c) {
					d += v * v
				}
				nearest = min(nearest, d)
			}
			far = append(far, nearest)
		}
	}
	slices.Sort(far)
	want := max(far[int(nearShare*float64(len(far)-1))], leastNear*float64(dim))
	require.InDelta(t, want, tr.model.Pools[0].Near, 1e-4*want)
}
