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
	cost, ok := pool.Routes[at[0]].CostOf(s)
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
	s.tasked, s.trust = pool, 1
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
		return s.trust
	}
	require.Greater(t, trust("Which of these is a good conductor of heat?\nA) wood\nB) copper\nC) glass\nD) air"), 0.5)
	require.Greater(t, trust("Write a python function to find the largest number of a list."), 0.5)
	require.Zero(t, trust(strings.Repeat("SELECT name FROM users WHERE id = 7; -- {\"k\": [1, 2]}\n", 30)))
	for k := range pool.Routes {
		require.InDelta(t, pool.Routes[k].Expected, pool.QualityOf(k, s), 1e-6)
	}
}

// Trust falls from 1.3 to 2.5 times what is near.
func TestPool_near(t *testing.T) {
	t.Parallel()
	p := &Pool{Near: 4, Centres: [][]float32{make([]float32, NumStats), make([]float32, NumStats)}}
	p.Centres[0][NumStats-1], p.Centres[1][0] = 100, 1
	s := &Signal{whitened: true}
	for squared, want := range map[float64]float64{0: 1, 5.1: 1, 5.2: 1, 7.6: 0.5, 9.52: 0.1, 10: 0, 1000: 0} {
		s.white[0], s.white[NumStats-1] = 1, float32(math.Sqrt(squared))
		if squared == 1000 {
			s.white[0], s.white[NumStats-1] = 32, 0
		}
		require.InDelta(t, want, p.near(s), 1e-5, "%g", squared)
	}
	p.Near = 0
	require.InDelta(t, 1.0, p.near(s), 0, "nothing is known of how near its own are")
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
			m.Pools[0].Tasks = make([]Linear, MaxTasks+1)
			for j := range m.Pools[0].Tasks {
				m.Pools[0].Tasks[j] = m.Pools[0].Within
			}
			for j := range m.Pools[0].Routes {
				m.Pools[0].Routes[j].ByTask = make([]float32, MaxTasks+1)
			}
		},
		"a task that is too short": func(m *Model) { m.Pools[0].Tasks[0].Weights = nil },
		"a route without a task":   func(m *Model) { m.Pools[0].Routes[0].ByTask = m.Pools[0].Routes[0].ByTask[1:] },
		"nothing within tasks":     func(m *Model) { m.Pools[0].Within = Linear{} },
		"another number of kinds":  func(m *Model) { m.Kinds = m.Kinds[1:] },
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
