package predict

import (
	"errors"
	"math"
	"slices"
)

// The lanes of a Grader's table, and its heads.
const (
	GradeEase   = iota // log odds
	GradeLength        // logarithm of tokens
	GradeSort          // the first of NumSorts, in their order
	// GradeHeads is how many heads there are. The last lane has the norm.
	GradeHeads = GradeSort + NumSorts
	GradeLanes = 16
)

// NumSorts is how many sorts of work are told apart, of which kinds are made: what is no other kind has several that
// have little in common.
const NumSorts = 9

var (
	sortNames = [NumSorts]string{"facts", "extract", "reason", "chat", "code", "math", "tools", "writing", "translate"}
	sortKinds = [NumSorts]Kind{Knowledge, Knowledge, Knowledge, Knowledge, Code, Math, Tools, Writing, Writing}
)

// SortOf is the sort with a graded prompt's word for it, or else facts.
func SortOf(name string) int { return max(slices.Index(sortNames[:], name), 0) }

// KindOfSort is the kind that a sort of work is of.
func KindOfSort(sort int) Kind { return sortKinds[sort] }

// Grader tells from a question how difficult it is, of which sort and how long a good reply to it is. It was trained
// on graded prompts, in many languages, beside recorded answers.
type Grader struct {
	// Vocabulary is the sum of the lexicon that it was trained with: another one has other concepts.
	Vocabulary uint32
	Table      []byte    // a row of GradeLanes bytes a bucket, words before characters: the heads' weights, the norm's
	Scale      []float32 // of each lane
	Mean, Dev  []float32 // of each number that it reads beside words
	Heads      []Linear  // on these; the part of words is in the table
	// Slope and Shift make log odds of how easy the head says that a question is.
	Slope, Shift float32
}

// NumGraded is how many numbers a grader reads beside words: statistics, concepts in the whole question, in how it
// begins and in how it ends, and the length that is asked for.
func (m *Model) NumGraded() int { return NumStats + 4*len(concepts().names) + 1 }

// IsEdge reports whether the number at a place says of a concept that it is where the question begins or ends.
func IsEdge(at int) bool {
	n := 2 * len(concepts().names)
	return at >= NumStats+n && at < NumStats+2*n
}

const maxGraded = int(numStats) + 4*maxConcepts + 1

// Graded are these numbers, as they are. out has room for them.
func (m *Model) Graded(f *Features, s *Signal, out []float32) []float32 {
	out = append(out[:0], s.x[s.heads:s.heads+NumStats]...)
	for _, n := range f.concepts[:len(concepts().names)] {
		out = append(out, logs[n], min(float32(n), 1))
	}
	for e := range f.edges {
		for _, n := range f.edges[e][:len(concepts().names)] {
			out = append(out, float32(min(n, 1)))
		}
	}
	return append(out, float32(math.Log1p(float64(f.asked.usual()))))
}

// An ease settles from settlesFrom on, towards hardest.
const (
	settlesFrom = -1
	hardest     = -2
)

// Hardest is the difficulty that no request seems to go beyond (Model.Difficulty).
var Hardest = sigmoid(-hardest)

// settled is an ease that falls ever more slowly towards hardest: what seems harder than the hardest grade is where
// the best route is worth its price, and not where none is any good.
func settled(ease float32) float32 {
	const depth = settlesFrom - hardest
	if ease >= settlesFrom {
		return ease
	}
	return settlesFrom - depth*(1-float32(math.Exp(float64(ease-settlesFrom)/depth)))
}

// usualEase is that of a request of which nothing is known: the mean of the traffic that the reference workload is of.
const usualEase = 0.6

// understood is how far the question is understood, from 0.5 for one of which no word is known.
func (f *Features) understood() float32 {
	n := min(len(f.numbers), 2)
	for _, count := range f.concepts {
		n += int(count)
	}
	return min(0.5+0.5*float32(n), 1)
}

// VocabularySum tells lexicons apart.
func VocabularySum() uint32 { return concepts().sum }

func (m *Model) grade(f *Features, s *Signal) {
	g := m.Grader
	var buffer [maxGraded]float32
	x := m.Graded(f, s, buffer[:])
	for j, v := range x {
		x[j] = standard(v, g.Mean[j], g.Dev[j])
	}
	var sums [2][maxLanes + 8]float32
	sumRows(g.Table, g.Scale, f.words, 0, 32-bucketBits, &sums[0])
	sumRows(g.Table, g.Scale, f.chars, buckets, 0, &sums[1])
	norm := [2]float32{root(sums[0][GradeLanes-1]), CharWeight * root(sums[1][GradeLanes-1])}
	var z [GradeHeads]float32
	for h := range z {
		z[h] = sums[0][h]*norm[0] + sums[1][h]*norm[1] + g.Heads[h].Bias + dot(g.Heads[h].Weights, x)
	}
	s.Grade, s.Length = g.Slope*z[GradeEase]+g.Shift, f.asked.bound(z[GradeLength])
	s.Understood = f.understood()
	s.Grade = usualEase + s.Understood*(settled(s.Grade)-usualEase)
	odds := z[GradeSort:]
	top := float32(math.Inf(-1))
	for k, v := range odds {
		if sortKinds[k] != Tools || f.tools { // else there are none to be called
			top = max(top, v)
		}
	}
	s.Kinds = [NumKinds]float32{}
	sum := float32(0)
	for k, v := range odds {
		if sortKinds[k] != Tools || f.tools {
			share := float32(math.Exp(float64(v - top)))
			s.Kinds[sortKinds[k]] += share
			sum += share
		}
	}
	for k := range s.Kinds {
		s.Kinds[k] /= sum
	}
}

// check makes sure that no use of the grader can reach beyond its tables. It returns all its numbers.
func (m *Model) checkGrader() (numbers [][]float32, err error) {
	n, g := m.NumGraded(), m.Grader
	switch {
	case g.Vocabulary != concepts().sum:
		return nil, errors.New("it was made with another list of words")
	case len(g.Table) != 2*buckets*GradeLanes || len(g.Scale) != GradeLanes || len(g.Mean) != n || len(g.Dev) != n,
		len(g.Heads) != GradeHeads:
		return nil, errors.New("its grader is of another size")
	}
	numbers = [][]float32{g.Scale, g.Mean, g.Dev, {g.Slope, g.Shift}}
	for i := range g.Heads {
		if len(g.Heads[i].Weights) != n {
			return nil, errors.New("its grader has a head of another size")
		}
		numbers = append(numbers, g.Heads[i].Weights, []float32{g.Heads[i].Bias})
	}
	return numbers, nil
}
