package predict

import "math"

const (
	// UsualOutput is how many tokens an answer has where nothing says more: about what chat replies have.
	UsualOutput = 500
	// Thinking is how many times as much a model writes that thinks before it answers: 2,867 tokens against 474 in the
	// one data set that has both kinds of one family (skt_challenge).
	Thinking = 6
)

// Output predicts how many tokens an answer has, whichever model gives it.
type Output struct {
	mean   Linear // of the logarithm
	known  bool
	graded bool // the signal has it
}

// Output is the mean, over all models whose data sets count tokens, of what is predicted for each.
func (m *Model) Output() Output {
	o := Output{mean: Linear{Weights: make([]float32, len(m.Heads)+NumStats)}}
	if o.graded = m.Grader != nil; o.graded {
		return o
	}
	n := float32(0)
	for i := range m.Pools {
		for _, r := range m.Pools[i].Routes {
			if r.Output == nil {
				continue
			}
			n++
			o.mean.Bias += r.Output.Bias
			for j, w := range r.Output.Weights {
				o.mean.Weights[j] += w
			}
		}
	}
	if n == 0 {
		return o
	}
	o.known = true
	o.mean.Bias /= n
	for j := range o.mean.Weights {
		o.mean.Weights[j] /= n
	}
	return o
}

// Of is the prediction, in tokens: nearer to what is usual the less familiar the text is. It allocates nothing.
func (o *Output) Of(s *Signal) float64 {
	const shortest, longest = 1, 30_000
	usual := math.Log(UsualOutput)
	if o.graded {
		known := max(2*float64(s.Understood)-1, 0) // of a text of which no word is known the length says nothing
		return min(max(math.Exp(known*float64(s.Length)+(1-known)*usual), shortest), longest)
	}
	if !o.known {
		return UsualOutput
	}
	predicted := min(max(o.mean.at(s), math.Log(shortest)), math.Log(longest))
	trust := float64(s.Trust)
	return math.Exp(trust*predicted + (1-trust)*usual)
}
