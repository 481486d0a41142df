package learn

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

func folder(files map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestReadCorpus_errors(t *testing.T) {
	t.Parallel()
	const good = `{"id":"en-0001","grade":1,"kind":"chat","lang":"en","out":5,"prompt":"hi"}`
	for want, files := range map[string]map[string]string{
		"no *.jsonl file of graded prompts":    {"a.txt": "x"},
		"reading line 2 of a.jsonl":            {"a.jsonl": good + "\n{"},
		"no text, or no grade from 1 to 5":     {"a.jsonl": `{"grade":9,"prompt":"x"}`},
		"the field `grade` is of a wrong type": {"a.jsonl": `{"grade":"1","prompt":"x"}`},
		"line 1 of tools/b.jsonl":              {"a.jsonl": good, "tools/b.jsonl": "["},
		"dress/":                               {"a.jsonl": good, "dress/system.jsonl": "{}"},
	} {
		_, err := ReadCorpus(folder(files))
		require.ErrorContains(t, err, want)
	}
	c, err := ReadCorpus(folder(map[string]string{"a.jsonl": good + "\n\n" + good}))
	require.NoError(t, err, "dresses need not be")
	require.Len(t, c.Prompts, 2)
}

// TestHeld is GAP-131: a third is kept out of training, and what says the same is on one side.
func TestHeld(t *testing.T) {
	t.Parallel()
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	held, same := 0, map[string]bool{}
	for i := range c.Prompts {
		g := &c.Prompts[i]
		if g.Held() {
			held++
		}
		if g.Same != "" {
			side, ok := same[g.Same]
			require.True(t, !ok || side == g.Held(), g.ID)
			same[g.Same] = g.Held()
		}
	}
	require.InDelta(t, len(c.Prompts)/3, held, float64(len(c.Prompts))/12)
	rows := gradedRows(c, nil)
	require.Len(t, rows, len(c.Prompts)-held)
}

// TestDress is GAP-131: each outfit has the question in it, and goes by the seed.
func TestDress(t *testing.T) {
	t.Parallel()
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	const question = "Is the sun a star?"
	for _, held := range []bool{false, true} {
		for _, outfit := range Outfits {
			a, b := c.Dresses.Dresser(held, 3), c.Dresses.Dresser(held, 3)
			for range 20 {
				req := a.Dress(question, outfit)
				require.Equal(t, req, b.Dress(question, outfit))
				last := req.Messages[len(req.Messages)-1]
				require.Equal(t, llm.RoleUser, last.Role)
				require.True(t, slices.ContainsFunc(last.Parts, func(p llm.Part) bool {
					return strings.Contains(p.Text.String(), question)
				}), outfit)
				require.Equal(t, outfit == "tools" || outfit == "agent", len(req.Tools) > 0, outfit)
			}
		}
	}
}

// TestTraffic is GAP-131: what is drawn has the shares of the tables.
func TestTraffic(t *testing.T) {
	t.Parallel()
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	const n = 4000
	drawn := c.Traffic(n, false, 1)
	count := map[string]float64{}
	for i := range drawn {
		d := &drawn[i]
		count[d.Graded.Work().String()] += 1.0 / n
		count["grade "+string(rune('0'+d.Graded.Grade))] += 1.0 / n
		if d.Graded.Lang == "en" {
			count["en"] += 1.0 / n
		}
		if d.Tools {
			count["tools declared"] += 1.0 / n
		}
		require.Positive(t, d.Input)
		require.GreaterOrEqual(t, d.Turns, int32(0))
		require.Equal(t, d.Tools, len(d.Request.Tools) > 0)
	}
	for name, want := range map[string]float64{"code": .24, "writing": .19, "math": .02, "tools": .04, "default": .51,
		"grade 1": .195,
		"grade 2": .33, "grade 3": .30, "grade 4": .14, "grade 5": .035, "en": .70, "tools declared": .42} {
		require.InDelta(t, want, count[name], .05, name)
	}
	require.Equal(t, drawn[:10], c.Traffic(10, false, 1))
	for _, d := range c.Traffic(200, true, 1) {
		require.True(t, d.Graded.Held())
	}
}

// TestCells: kinds and grades have their shares.
func TestCells(t *testing.T) {
	t.Parallel()
	for i := range segments {
		cells := segments[i].cells()
		for g, share := range segments[i].grades {
			sum := 0.0
			for _, v := range cells[g] {
				sum += v
			}
			require.InDelta(t, share/100, sum, 1e-3)
		}
		for k, share := range segments[i].kinds {
			sum := 0.0
			for g := range cells {
				sum += cells[g][k]
			}
			require.InDelta(t, share/100, sum, 1e-3)
		}
	}
}

// TestCalibrate: what is said of a grade in the mean is made that grade's ease.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	slope, shift := calibrate([]float64{1.5, 0.5, 0.5, -0.5}, []float64{3, 3, -1, -1})
	require.InDelta(t, 3, slope, 1e-9, "no more than that")
	require.InDelta(t, 1-3*0.5, shift, 1e-9)
	slope, shift = calibrate([]float64{2, 0}, []float64{3, -1})
	require.InDelta(t, 2, slope, 1e-9)
	require.InDelta(t, -1, shift, 1e-9)
	slope, shift = calibrate([]float64{0, 1}, []float64{1, 0})
	require.InDelta(t, 1, slope, 1e-9, "what is said is no guide")
	require.Zero(t, shift)
}

// TestEase is the map from grades to how often routes serve them.
func TestEase_ofGrades(t *testing.T) {
	t.Parallel()
	for grade, want := range map[int][3]float64{1: {.97, .99, .998}, 3: {.57, .77, .95}, 5: {.08, .18, .58}} {
		for i, q := range []float64{.55, .75, .95} {
			prior := predict.Flat(q)
			w := predict.Work{Kinds: [predict.NumKinds]float32{1}, Ease: float32(Ease[grade])}
			require.InDelta(t, want[i], w.Quality(&prior), .01)
		}
	}
}
