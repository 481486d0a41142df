package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// twoTasks is a trainer with two models on two tasks, and a word that tells which prompts the first model fails by
// more than its task.
func twoTasks(t *testing.T, n int, word bool) (*trainer, []sparse) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	d := &Dataset{Name: "two", Models: []string{"a", "b"}}
	for i := range n {
		hard := random.IntN(2) == 0
		row := Row{Task: "sums", Prompt: fmt.Sprintf("Add the numbers of line %d.", i), Score: []float64{1, 0}}
		if i%2 == 0 {
			row = Row{Task: "rivers", Prompt: fmt.Sprintf("Name a river of land %d.", i), Score: []float64{0.2, 0.8}}
		}
		if hard {
			row.Score[0] -= 0.2
			if word {
				row.Prompt += " Slowly, backwards!"
			}
		}
		row.Cost, row.Output = []float64{0.001, 0.002}, []float64{10, 20}
		d.Rows = append(d.Rows, row)
	}
	tr := &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{d})
	tr.vectors()
	var words []sparse
	for i := range tr.samples {
		words = append(words, tr.samples[i].text.below(2*predict.Buckets))
	}
	return tr, words
}

// TestRegress: what a model reaches on the task is told by its words, and what a prompt is beyond it is predicted
// apart from that.
func TestRegress(t *testing.T) {
	t.Parallel()
	tr, words := twoTasks(t, 200, true)
	for i := range words {
		for _, at := range words[i].at {
			require.Less(t, int(at), 2*predict.Buckets, "no statistic")
		}
	}
	ofTask, ofRest := tr.regress(0, words, tr.pools[0].rows)
	var gap, rest [2]float64 // sums over rivers: of tasks; hard ones: of what is beyond them
	out := make([]float64, 2)
	for i := range words {
		margins(&words[i], ofTask, 2, out)
		if tr.samples[i].row.Task == "rivers" {
			gap[0] += (out[1] - out[0]) / 100
		} else {
			gap[1] += (out[1] - out[0]) / 100
		}
		margins(&words[i], ofRest, 2, out)
		require.InDelta(t, 0, out[1], 0.04, "the second model's score is its task's")
		if s := tr.samples[i].row.Score[0]; s == 0 || s == 0.8 {
			rest[0] += out[0]
		} else {
			rest[1] += out[0]
		}
	}
	// b is better by 0.7 on rivers and worse by 0.9 on sums, and worse by 0.1 all in all.
	require.InDelta(t, 0.8, gap[0], 0.1)
	require.InDelta(t, -0.8, gap[1], 0.1)
	require.Less(t, rest[0], rest[1], "what makes it harder")
}

// TestBorneOut: of what words promise beyond the task, what held-out prompts do not bear out is left out.
func TestBorneOut(t *testing.T) {
	t.Parallel()
	tr, words := twoTasks(t, 200, true)
	rows := tr.pools[0].rows
	level := tr.level(0, rows)
	task, rest := make([][]float64, len(words)), make([][]float64, len(words))
	random := rand.New(rand.NewPCG(5, 5))
	fill := func(common, apart, noise float64) {
		for i := range words {
			y := tr.scores(i)
			task[i] = make([]float64, 2)
			both, half := (y[0]-level[0]+y[1]-level[1])/2, (y[0]-level[0]-y[1]+level[1])/2
			n := noise * random.NormFloat64()
			rest[i] = []float64{common*both + apart*half + n, common*both - apart*half - n}
		}
	}
	fill(2, 4, 0)
	s := tr.borneOut(0, task, rest)
	require.InDelta(t, 0.5, s.common, 1e-9)
	require.InDelta(t, 0.25, s.apart, 1e-9)
	fill(0.5, 0, 1)
	s = tr.borneOut(0, task, rest)
	require.InDelta(t, 1, s.common, 1e-9, "never more than was promised")
	require.Less(t, s.apart, 0.1, "chance")
	fill(-1, -1, 0)
	s = tr.borneOut(0, task, rest)
	require.Zero(t, s.common+s.apart)
	fill(0, 0, 0)
	s = tr.borneOut(0, task, rest)
	require.Zero(t, s.common+s.apart)

	to := []float64{1, 2}
	add(to, []float64{0.3, 0.1}, &shares{common: 0.5, apart: 0.25, matter: []float64{1, 1}})
	require.InDeltaSlice(t, []float64{1 + 0.1 + 0.025, 2 + 0.1 - 0.025}, to, 1e-12)
	require.InDelta(t, 0.25, common([]float64{0.1, 0.3}, []float64{1, 3}), 1e-12)
}

// TestEase: what pools say of how easy prompts are is stretched until scores bear it out.
func TestEase(t *testing.T) {
	t.Parallel()
	tr, _ := twoTasks(t, 200, true)
	tr.heads()
	tr.familiar()
	tr.regressions()
	var said, scored float64
	xs := tr.whole(tr.pools[0].rows)
	var all []float64
	for r := range xs {
		p := &tr.model.Pools[0]
		v := float64(p.Difficulty.Bias)
		for j, w := range p.Difficulty.Weights {
			v += float64(w * xs[r].value[j])
		}
		all = append(all, min(max(v, -2), 2))
	}
	level, centre := 0.0, mean(all)
	for i := range all {
		level += mean(tr.scores(i)) / float64(len(all))
	}
	// Where the scale is right, the slope of the likelihood is nothing.
	for i, v := range all {
		q := sigmoid(logit(level) + float64(tr.model.EaseScale)*(v-centre))
		said += q * (v - centre)
		scored += mean(tr.scores(i)) * (v - centre)
	}
	require.Positive(t, tr.model.EaseScale)
	if tr.model.EaseScale < mostEase {
		require.InDelta(t, scored, said, 1e-3*math.Abs(scored)+1e-6)
	} else {
		require.Greater(t, scored, said)
	}
}

// TestRanks: heads go to pools by the root of their rows, twice as many to where there are costs to choose by, and
// none beyond one for each model.
func TestRanks(t *testing.T) {
	t.Parallel()
	set := func(name string, models, rows int, cost float64) *Dataset {
		d := &Dataset{Name: name}
		row := Row{Task: name, Score: make([]float64, models), Cost: make([]float64, models)}
		for k := range models {
			d.Models = append(d.Models, fmt.Sprint(name, k))
			row.Cost[k] = cost
		}
		for i := range rows {
			row.Prompt = fmt.Sprint(name, " asks ", i)
			d.Rows = append(d.Rows, row)
		}
		return d
	}
	tr := &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{set("priced", 40, 25, 1), set("not", 40, 25, math.NaN()), set("pair", 2, 100, 1)})
	require.Equal(t, []int{20, 9, 2}, tr.ranks())
	tr = &trainer{seed: 1, model: &predict.Model{}}
	tr.gather([]*Dataset{set("small", 3, 25, 1), set("other", 2, 25, 1)})
	require.Equal(t, []int{3, 2}, tr.ranks(), "no more than there are models")
}
