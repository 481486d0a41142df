package predict

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are models of different pools, three of one.
var known = []string{"gpt-4-1106-preview", "mistralai/mixtral-8x7b-chat", "claude-v2"}

func TestDefault_isSmallAndSane(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, len(builtIn), MaxFile)
	m := Default()
	pool, at, err := m.Pool(known)
	require.NoError(t, err)
	quality := make([]float64, len(pool.Models))
	f, s := NewFeatures(), &Signal{}
	ease := func(text string) float64 {
		f.Read(ask(text))
		m.Look(f, s)
		pool.Quality(s, quality)
		for _, q := range quality {
			require.True(t, q >= 0 && q <= 1)
		}
		sum := float32(0)
		for _, k := range s.Kinds {
			sum += k
		}
		require.InDelta(t, 1, sum, 1e-4)
		return quality[at[0]]
	}
	ease("Write a python function to reverse a list.")
	require.Greater(t, s.Kinds[Code], s.Kinds[Math])
	ease("Natalia sold clips to 48 of her friends in April, and then half as many in May. How many clips altogether?")
	require.Greater(t, s.Kinds[Math], s.Kinds[Code])
	ease(strings.Repeat("qzx vkj wqp ", 40))
	require.Less(t, s.Trust, float32(0.2))
	cost, ok := pool.CostOf(at[0], s)
	require.True(t, ok)
	require.Positive(t, cost)
}

// Routes of several pools are asked in turn: what is remembered of one pool's tasks is not taken for another's, nor
// one prompt's for the next one's.
func TestTasks_areOfOnePoolAndPrompt(t *testing.T) {
	t.Parallel()
	m := Default()
	texts := []string{"Write a python function to reverse a list.", "Which planet is the largest?\nA. Mars\nB. Jupiter"}
	f, s := NewFeatures(), &Signal{}
	var want []float64
	for _, text := range texts {
		for i := range m.Pools {
			f.Read(ask(text))
			fresh := &Signal{}
			m.Look(f, fresh)
			want = append(want, m.Pools[i].QualityOf(0, fresh))
		}
	}
	for range 2 {
		for n, text := range texts {
			f.Read(ask(text))
			m.Look(f, s)
			for i := range m.Pools {
				require.InDelta(t, want[n*len(m.Pools)+i], m.Pools[i].QualityOf(0, s), 0, m.Pools[i].Datasets)
			}
			other := &Signal{tasked: &m.Pools[0]}
			require.True(t, m.Unpack(m.Pack(nil, s), other))
			require.InDelta(t, m.Pools[0].QualityOf(0, s), m.Pools[0].QualityOf(0, other), 0.01)
		}
	}
}

func TestPool_unknown(t *testing.T) {
	t.Parallel()
	_, _, err := Default().Pool([]string{"claude-v2", "nobody/knows-this"})
	require.ErrorContains(t, err, `does not know ["nobody/knows-this"]`)
	_, _, err = Default().Pool([]string{"claude-v2", "ax31"})
	require.ErrorContains(t, err, "different data sets")
}

func TestPrior(t *testing.T) {
	t.Parallel()
	m := Default()
	p := Flat(0.6)
	p.Quality[Math], p.Weight = 0.1, 100
	s := &Signal{Kinds: [NumKinds]float32{Math: 1}}
	require.InDelta(t, 0.1, m.Of(&p, s), 1e-9, "new text tells nothing of difficulty")
	s.Kinds = [NumKinds]float32{Code: 1}
	require.InDelta(t, 0.6, m.Of(&p, s), 1e-9)

	pool := &m.Pools[0]
	f := NewFeatures()
	f.Read(ask(strings.Repeat("qzx vkj wqp ", 40)))
	m.Look(f, s)
	s.Trust = 0
	require.InDelta(t, m.Of(&p, s), m.Blend(pool, 0, &p, s), 1e-9, "of new text the operator knows more")
	require.InDelta(t, pool.QualityOf(0, s), m.Blend(pool, 0, &Prior{}, s), 1e-9)
	s.tasked, s.place.trust = pool, 1
	require.InDelta(t, (pool.QualityOf(0, s)+m.Of(&p, s))/2, m.Blend(pool, 0, &p, s), 1e-9)
}

// Words that are all known say nothing of a task that a pool's models were never put to: routes are then worth what is
// expected of them on any.
func TestQuality_ofAnotherTask(t *testing.T) {
	t.Parallel()
	m := Default()
	pool, at, err := m.Pool(known)
	require.NoError(t, err)
	f, s := NewFeatures(), &Signal{}
	trust := func(text string) float64 {
		f.Read(ask(text))
		m.Look(f, s)
		s.Trust = 1
		pool.QualityOf(at[0], s)
		return s.place.trust
	}
	require.Greater(t, trust("The cup would not fit on the shelf, because the _ was too low.\nA) cup\nB) shelf"), 0.5)
	const plain = "Which of these is a good conductor of heat?\nA) wood\nB) copper\nC) glass\nD) air"
	require.Zero(t, trust(plain), "it is rather like those that other models were asked")
	others, _, err := m.Pool([]string{"mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"})
	require.NoError(t, err)
	others.task(s)
	require.Greater(t, s.place.trust, 0.5)
	require.Greater(t, trust("Write a python function to find the largest number of a list."), 0.5)
	require.Zero(t, trust(strings.Repeat("SELECT name FROM users WHERE id = 7; -- {\"k\": [1, 2]}\n", 30)))
	for k := range pool.Routes {
		require.InDelta(t, shifted(float64(pool.Routes[k].Expected), s.easier()), pool.QualityOf(k, s), 1e-6)
	}
}

// at gives a pool one task at a place on a line, so that distances are the squares of differences.
func at(near float32, places ...float32) Pool {
	p := Pool{Near: near}
	for _, x := range places {
		centre := make([]float32, NumStats)
		centre[0] = x
		p.Tasks = append(p.Tasks, Task{Centre: centre})
	}
	return p
}

// standing is a signal that stands at a place on that line.
func standing(x float64, pools ...Pool) *Signal {
	s := &Signal{pools: pools, Trust: 1}
	s.x[0] = float32(x)
	for i := range NumStats {
		for j := range i + 1 {
			one := float32(0)
			if i == j {
				one = 1
			}
			s.whiten = append(s.whiten, one)
		}
	}
	return s
}

// Trust falls from 1.3 to 2.5 times what is near.
func TestPool_near(t *testing.T) {
	t.Parallel()
	for squared, want := range map[float64]float64{0: 1, 5.1: 1, 5.2: 1, 7.6: 0.5, 9.52: 0.1, 10: 0, 1000: 0} {
		s := standing(math.Sqrt(squared), at(4, -100, 0))
		require.InDelta(t, want, s.pools[0].near(s), 1e-5, "%g", squared)
	}
	s := standing(50, at(0, 0))
	require.InDelta(t, 1.0, s.pools[0].near(s), 0, "nothing is known of how near its own are")
}

// A prompt that is nearer to another pool's task is rather of that one: trust falls as the distance from there falls
// from 1.2 to 0.7 times that from here.
func TestPool_near_other(t *testing.T) {
	t.Parallel()
	for squared, want := range map[float64]float64{100: 1, 5: 1, 4.8: 1, 4.4: 0.8, 3.8: 0.5, 3: 0.1, 2.8: 0, 0: 0} {
		other := float32(2 + math.Sqrt(squared))
		for name, pools := range map[string][]Pool{
			"two":                  {at(4, 0), at(4, other)},
			"one of which is last": {at(4, other), at(4, 0)},
			"a third is farther":   {at(4, 1000), at(4, 0), at(4, other, -500)},
			"and a fourth":         {at(4, -60), at(4, other), at(4, 70), at(4, 0)},
		} {
			s := standing(2, pools...)
			for i := range s.pools {
				if p := &s.pools[i]; p.Tasks[0].Centre[0] == 0 {
					require.InDelta(t, want, p.near(s), 1e-4, "%s, %g", name, squared)
				}
			}
		}
	}
	s := standing(2, at(4, 0), at(4, 2.1), at(4, 2.1))
	require.Zero(t, s.pools[0].near(s), "nearer to two others")
	s = standing(0, at(4, 0), at(4, 0.001))
	require.InDelta(t, 1.0, s.pools[0].near(s), 0, "at its centre it is of the task, whatever else is near")
	s = standing(0, at(4, 0), at(4, 0))
	require.InDelta(t, 1.0, s.pools[1].near(s), 0, "two pools were put to the same task")
}

// How easy an unknown prompt is goes by the pools that know such a task: by one as far as it knows it, by two in the
// mean, by the root of their size; and by nobody where none knows it.
func TestSignal_easier(t *testing.T) {
	t.Parallel()
	knows := func(rows int, place, within float32) Pool {
		p := at(4, place)
		p.Rows, p.Within = rows, Linear{Bias: within}
		p.Tasks[0].Odds = Linear{}
		return p
	}
	for name, c := range map[string]struct {
		pools []Pool
		want  float64
	}{
		"one that knows it, one that does not": {[]Pool{knows(100, 0, 0.5), knows(900, 60, -1)}, 0.5},
		"half":                                 {[]Pool{knows(100, float32(math.Sqrt(7.6)), 0.5)}, 0.25},
		"nobody":                               {[]Pool{knows(100, 50, 0.5), knows(900, 60, -1)}, 0},
		"what is out of all proportion":        {[]Pool{knows(100, 0, 9)}, 2},
	} {
		s := standing(0, c.pools...)
		require.InDelta(t, c.want, s.easier(), 1e-5, name)
		s.pools = nil
		require.InDelta(t, c.want, s.easier(), 1e-5, "it is asked once: "+name)
	}
	// Both know it half: each is 0.95 of the other's distance away, or the other way round.
	both := standing(0, knows(100, 1, 0.8), knows(900, -1, -0.4))
	require.InDelta(t, (10*0.8-30*0.4)/40*0.6, both.easier(), 1e-5)

	s := standing(0, knows(100, 0, 0.5), knows(900, 60, -1))
	s.Trust = 0
	require.Zero(t, s.easier(), "of words that nobody knows nothing is known")

	// The pool that does not know the task has this of the one that does, and keeps what is certain.
	s = standing(0, knows(100, 0, 0.5), knows(900, 60, -1))
	stranger := &s.pools[1]
	for _, expected := range []float32{0.6, 1, 0} {
		stranger.Routes = append(stranger.Routes, Route{Expected: expected, ByTask: []float32{0.5}})
	}
	out := make([]float64, 3)
	stranger.Quality(s, out)
	require.InDeltaSlice(t, []float64{sigmoid(math.Log(0.6/0.4) + 0.5), 1, 0}, out, 1e-6)
}

// Sums of four at once are those of one after the other, whatever their number.
func TestDotAndApart(t *testing.T) {
	t.Parallel()
	var a, b []float32
	var product, square float32
	for i := range 23 {
		require.InDelta(t, product, dot(a, append(b, 9)), 1e-3, i)
		require.InDelta(t, square, apart(a, append(b, 9), 1e9), 1e-3, i)
		if square > 0 {
			require.Greater(t, apart(a, b, square/2), square/2, "or some of it that is more than most")
		}
		x, y := float32(i%7)-2.5, float32(i*i%5)+0.5
		a, b = append(a, x), append(b, y)
		product, square = product+x*y, square+(x-y)*(x-y)
	}
}

// Of a task that the pool knows, three predictions are put together: the regression, the pool's own heads and, twice,
// what the route is worth on the task.
func TestPool_quality(t *testing.T) {
	t.Parallel()
	p := at(4, 0)
	p.Rows, p.Difficulty, p.Within = 100, Linear{Bias: 0.2}, Linear{Bias: 0.3}
	p.Routes = []Route{{Mean: 0.5, Expected: 0.1, Quality: Linear{Bias: -0.6}, ByTask: []float32{0.6}, Shift: 0.1,
		Slope: 2}}
	s := standing(0, p)
	regression, task := sigmoid(0.2-0.6), sigmoid(math.Log(0.6/0.4)+0.1+2*0.3)
	require.InDelta(t, (regression+2*task)/3, s.pools[0].QualityOf(0, s), 1e-6)

	p.Own = []int{3}
	p.Routes[0].Components = []float32{0.5}
	s = standing(0, p)
	s.raw[3] = 0.4
	require.InDelta(t, (regression+0.7+2*task)/4, s.pools[0].QualityOf(0, s), 1e-6)

	s = standing(math.Sqrt(7.6), p) // it is half known
	s.raw[3] = 0.4
	want := (regression+0.7+2*task)/4/2 + sigmoid(math.Log(0.1/0.9)+0.5*0.3)/2
	require.InDelta(t, want, s.pools[0].QualityOf(0, s), 1e-6)
}

// What makes a prompt difficult is told by its likely tasks, as likely as they are.
func TestPool_find(t *testing.T) {
	t.Parallel()
	p := at(4, 0, 1, 2)
	p.Within = Linear{Bias: 0.1}
	zero := make([]float32, NumStats)
	for i, odds := range []float64{math.Log(0.75), math.Log(0.245), math.Log(0.005)} {
		p.Tasks[i].Odds = Linear{Bias: float32(odds), Weights: zero}
		p.Tasks[i].Within = Linear{Bias: float32(i + 1), Weights: zero}
	}
	s := standing(0, p)
	var where place
	p.find(s, &where)
	require.InDelta(t, 0.75, where.tasks[0], 1e-6)
	require.InDelta(t, 0.005, where.tasks[2], 1e-6)
	require.InDelta(t, 0.1+0.75*1+0.245*2, where.within, 1e-6, "an unlikely one is not asked")
	p.Tasks[0].Within = Linear{}
	p.find(s, &where)
	require.InDelta(t, 0.1+0.245*2, where.within, 1e-6, "one with few prompts has nothing to say")
}

func TestKeep(t *testing.T) {
	t.Parallel()
	quality, cost := []float64{0.9, 0.85, 0.6}, []float64{10, 3, 1}
	require.Equal(t, 0, Keep(quality, cost, 1, 0))
	require.Equal(t, 1, Keep(quality, cost, 0.9, 0))
	require.Equal(t, 0, Keep(quality, cost, 0.9, 0.05))
	require.Equal(t, 2, Keep(quality, cost, 0.5, 0))
	p := Pool{Margins: []Margin{{0.9, 0.01}, {0.98, 0.02}}}
	require.InDelta(t, 0.02, p.MarginFor(0.95), 1e-6)
	require.InDelta(t, 0.02, p.MarginFor(0.98), 1e-6)
	require.InDelta(t, 0.05, p.MarginFor(1), 1e-6)
}

func TestDecode_corrupt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"another file":     func(b []byte) []byte { return append([]byte("x"), b...) },
		"cut off":          func(b []byte) []byte { return b[:len(b)/2] },
		"cut off early":    func(b []byte) []byte { return b[:len(magic)+5] },
		"one bit":          func(b []byte) []byte { b[len(b)-7] ^= 1; return b },
		"something behind": func(b []byte) []byte { return append(b, 0) },
		"too large":        func(b []byte) []byte { return append(b, make([]byte, MaxFile)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode(change(bytes.Clone(builtIn)))
			require.ErrorIs(t, err, ErrModel)
		})
	}
	for name, change := range map[string]func(m *Model){
		"a table of another size":  func(m *Model) { m.Table = m.Table[1:] },
		"other statistics":         func(m *Model) { m.Mean = m.Mean[1:] },
		"a head that is not there": func(m *Model) { m.Pools[0].Own = []int{len(m.Heads)} },
		"a route without a model":  func(m *Model) { m.Pools[0].Models = m.Pools[0].Models[1:] },
		"a regression too short":   func(m *Model) { m.Pools[0].Difficulty.Weights = nil },
		"a cost that is too short": func(m *Model) { m.Pools[0].Routes[0].Cost = &Linear{} },
		"a number that is none":    func(m *Model) { m.Pools[0].Routes[0].Mean = float32(nan()) },
		"a head of few statistics": func(m *Model) { m.Heads[0].Stats = []float32{1} },
		"too few lanes":            func(m *Model) { m.Lanes = 8 },
		"too many tasks": func(m *Model) {
			for len(m.Pools[0].Tasks) <= MaxTasks {
				m.Pools[0].Tasks = append(m.Pools[0].Tasks, m.Pools[0].Tasks[0])
			}
			for j := range m.Pools[0].Routes {
				m.Pools[0].Routes[j].ByTask = make([]float32, MaxTasks+1)
			}
		},
		"a task that is too short": func(m *Model) { m.Pools[0].Tasks[0].Odds.Weights = nil },
		"a task's centre":          func(m *Model) { m.Pools[0].Tasks[0].Centre = nil },
		"within a task":            func(m *Model) { m.Pools[0].Tasks[0].Within.Weights = []float32{1} },
		"a route without a task":   func(m *Model) { m.Pools[0].Routes[0].ByTask = m.Pools[0].Routes[0].ByTask[1:] },
		"nothing within tasks":     func(m *Model) { m.Pools[0].Within = Linear{} },
		"a grader that is cut off": func(m *Model) { m.Grader.Table = m.Grader.Table[1:] },
		"a head of a grader's":     func(m *Model) { m.Grader.Heads[1].Weights = nil },
		"another list of words":    func(m *Model) { m.Grader.Vocabulary++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Decode(builtIn)
			require.NoError(t, err)
			change(m)
			file, err := m.Encode()
			require.NoError(t, err)
			_, err = Decode(file)
			require.ErrorIs(t, err, ErrModel)
		})
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// FuzzDecode gives Decode bodies with the right checksum, so that what is behind it is reached.
func FuzzDecode(f *testing.F) {
	var small bytes.Buffer
	require.NoError(f, gob.NewEncoder(&small).Encode(&Model{Lanes: 8, Heads: []Head{{}},
		Pools: []Pool{{Models: []string{"a"}}}}))
	f.Add(small.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		m, err := Decode(append(append([]byte(magic), sum[:]...), body...))
		if err != nil {
			require.ErrorIs(t, err, ErrModel)
			return
		}
		features, s := NewFeatures(), &Signal{}
		features.Read(ask(question))
		m.Look(features, s)
		for i := range m.Pools {
			m.Pools[i].Quality(s, make([]float64, len(m.Pools[i].Routes)))
		}
	})
}
