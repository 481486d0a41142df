// Package predict says, before a request is sent anywhere, how well each route is likely to serve it and how much it
// will write. It has learned that from recorded answers (package learn trains, package measure judges) and knows
// operators' own words about routes where nobody has recorded any. See README.md.
package predict

import (
	"encoding/binary"
	"math"
)

// Signal is what the model makes of one conversation, for all routes. The zero value is ready for use.
type Signal struct {
	// Trust is from 0, for text unlike all that was trained on, to 1.
	Trust float32
	// Kinds says how likely the conversation is of each kind of work; the sum is 1.
	Kinds [NumKinds]float32
	// Grade is how easy the question is, in log odds: a route whose quality is usually q serves it with the log odds of q
	// and these. Length is the logarithm of the tokens of a good reply. Both are of a model with a Grader.
	Grade, Length float32
	// Understood is how far that is more than what is usual, from 0 to 1.
	Understood float32

	x     [maxX]float32 // heads, then statistics, standardised
	heads int
	raw   [MaxHeads]float32

	pools  []Pool // of the model
	tasked *Pool  // whose tasks place is among
	place  place

	whiten   []float32 // of the model
	measured bool
	white    [maxX]float32 // x, whitened
	nearest  [2]distance   // pools

	asked bool
	ease  float64 // see easier
}

// X are the heads and statistics, standardised, for training.
func (s *Signal) X() []float32 { return s.x[:s.heads+NumStats] }

// begin forgets what is known of another conversation.
func (s *Signal) begin(m *Model) {
	s.heads, s.pools, s.whiten = len(m.Heads), m.Pools, m.Whiten
	s.tasked, s.measured, s.asked = nil, false, false
}

// Look fills a signal from features. It allocates nothing.
func (m *Model) Look(f *Features, s *Signal) {
	heads := len(m.Heads)
	s.begin(m)
	stats := s.x[heads : heads+NumStats]
	for j := range stats {
		stats[j] = standard(f.stats[j], m.Mean[j], m.Dev[j])
	}
	var sums [2][maxLanes + 8]float32
	sumRows(m.Table, m.Scale, f.words, 0, 32-bucketBits, &sums[0])
	sumRows(m.Table, m.Scale, f.chars, buckets, 0, &sums[1])
	norm := [2]float32{root(sums[0][m.Lanes-1]), CharWeight * root(sums[1][m.Lanes-1])}
	for h := range m.Heads {
		z := sums[0][h]*norm[0] + sums[1][h]*norm[1]
		for j, w := range m.Heads[h].Stats {
			z += w * stats[j]
		}
		s.raw[h] = z
		s.x[h] = standard(z, m.Heads[h].Mean, m.Heads[h].Dev)
	}
	s.Trust = m.trust(f)
	s.Kinds, s.Grade, s.Length, s.Understood = [NumKinds]float32{Knowledge: 1}, 0, 0, 0
	if m.Grader != nil {
		m.grade(f, s)
	}
}

// CharWeight is the weight of a text's character n-grams beside its word n-grams.
const CharWeight = 0.5

// root is 1/sqrt(v), 0 for nothing.
func root(v float32) float32 {
	if v <= 0 {
		return 0
	}
	return float32(1 / math.Sqrt(float64(v)))
}

func standard(v, mean, dev float32) float32 {
	if dev == 0 {
		return 0
	}
	return min(max((v-mean)/dev, -4), 4)
}

// trust is the weight that a prediction has beside what is expected of unknown text: it falls as the share of word
// n-grams that training has seen falls below what is usual.
func (m *Model) trust(f *Features) float32 {
	if len(f.words) == 0 || m.Familiar <= 0 {
		return 0
	}
	known := 0
	for _, h := range f.words {
		b := h >> (32 - knownBits)
		known += int(m.Known[b>>6] >> (b & 63) & 1)
	}
	t := min(max((share(known, len(f.words))/m.Familiar-0.3)/0.7, 0), 1)
	return t * t
}

// sumRows adds up the table's rows of buckets: what is in the list, shifted. Eight lanes at a time are added as four
// 16-bit numbers twice, which take 256 rows before they could overflow.
func sumRows[T uint16 | uint32](table []byte, scale []float32, list []T, first, shift int, out *[maxLanes + 8]float32) {
	const even = 0x00ff00ff00ff00ff
	lanes := len(scale)
	words := lanes / 8
	var totals [maxLanes + 8]int32
	for begin := 0; begin < len(list); begin += 256 {
		part := list[begin:min(begin+256, len(list))]
		var acc [(maxLanes + 8) / 8][2]uint64
		if words == 6 {
			add6(table, part, first, shift, &acc)
		} else {
			for _, b := range part {
				at := (first + int(b>>shift)) * lanes
				for w, row := 0, table[at:at+lanes]; w < words; w++ {
					v := binary.LittleEndian.Uint64(row[8*w:])
					acc[w][0] += v & even
					acc[w][1] += v >> 8 & even
				}
			}
		}
		for w := range words {
			for i := range 8 {
				lane := int32(acc[w][i&1] >> (i >> 1 * 16) & 0xffff)
				totals[8*w+i] += lane - 128*int32(len(part))
			}
		}
	}
	for i := range lanes {
		out[i] = float32(totals[i]) * scale[i]
	}
}

// add6 is the loop of sumRows for 48 lanes.
func add6[T uint16 | uint32](table []byte, list []T, first, shift int, acc *[(maxLanes + 8) / 8][2]uint64) {
	const even = 0x00ff00ff00ff00ff
	var a0, a1, b0, b1, c0, c1, d0, d1, e0, e1, f0, f1 uint64
	for _, b := range list {
		at := (first + int(b>>shift)) * 48
		row := table[at : at+48 : at+48]
		v := binary.LittleEndian.Uint64(row)
		a0, a1 = a0+v&even, a1+v>>8&even
		v = binary.LittleEndian.Uint64(row[8:])
		b0, b1 = b0+v&even, b1+v>>8&even
		v = binary.LittleEndian.Uint64(row[16:])
		c0, c1 = c0+v&even, c1+v>>8&even
		v = binary.LittleEndian.Uint64(row[24:])
		d0, d1 = d0+v&even, d1+v>>8&even
		v = binary.LittleEndian.Uint64(row[32:])
		e0, e1 = e0+v&even, e1+v>>8&even
		v = binary.LittleEndian.Uint64(row[40:])
		f0, f1 = f0+v&even, f1+v>>8&even
	}
	acc[0], acc[1], acc[2] = [2]uint64{a0, a1}, [2]uint64{b0, b1}, [2]uint64{c0, c1}
	acc[3], acc[4], acc[5] = [2]uint64{d0, d1}, [2]uint64{e0, e1}, [2]uint64{f0, f1}
}

func (l *Linear) at(s *Signal) float64 {
	x := s.x[:s.heads+NumStats]
	if len(l.Weights) != len(x) {
		return float64(l.Bias)
	}
	return float64(l.Bias + dot(l.Weights, x))
}

// dot is the sum of products, four at once, so that they do not wait for each other.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+3 < len(a); i += 4 {
		s0, s1, s2, s3 = s0+a[i]*b[i], s1+a[i+1]*b[i+1], s2+a[i+2]*b[i+2], s3+a[i+3]*b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// shifted is a probability with other log odds: what is certain stays so.
func shifted(p, by float64) float64 {
	if p <= 0 || p >= 1 {
		return min(max(p, 0), 1)
	}
	return sigmoid(math.Log(p/(1-p)) + by)
}

func logit(p float64) float64 {
	p = min(max(p, 0.01), 0.99)
	return math.Log(p / (1 - p))
}

// Quality predicts the score, from 0 to 1, that each of the pool's models would get. out has a place for each. It
// allocates nothing.
//
// Where the text is new, or of no task that the pool's models were put to, it is what is expected of the model on any
// task, corrected by how much easier than others of its task it is, if pools that know the task tell.
func (p *Pool) Quality(s *Signal, out []float64) {
	common := p.Difficulty.at(s)
	for k := range p.Routes {
		out[k] = p.quality(k, common, s)
	}
}

// QualityOf is Quality for one of the models.
func (p *Pool) QualityOf(k int, s *Signal) float64 { return p.quality(k, p.Difficulty.at(s), s) }

// quality is the mean of three predictions: a regression beside the difficulty that all routes share; the pool's own
// heads put together; and, twice, what the route is worth on the tasks that the prompt seems to be of, corrected by
// how much easier than its task it is.
func (p *Pool) quality(k int, common float64, s *Signal) float64 {
	p.task(s)
	r, at := &p.Routes[k], &s.place
	if at.trust <= 0 {
		return shifted(float64(r.Expected), s.easier())
	}
	q, n := sigmoid(r.Quality.at(s)+common), 1.0
	if len(p.Own) > 0 {
		direct := r.Mean
		for j, c := range r.Components {
			direct += c * s.raw[p.Own[j]]
		}
		q += min(max(float64(direct), 0), 1)
		n++
	}
	if len(p.Tasks) > 0 && !p.Outcomes {
		mean := float32(0)
		for t, share := range at.tasks[:len(p.Tasks)] {
			mean += share * r.ByTask[t]
		}
		q += 2 * sigmoid(logit(float64(mean))+float64(r.Shift)+float64(r.Slope)*at.within)
		n += 2
	}
	if at.trust >= 1 {
		return q / n
	}
	return at.trust*q/n + (1-at.trust)*shifted(float64(r.Expected), s.easier())
}

// CostOf predicts what an answer of the pool's k-th model costs, in US dollars at the prices of its data set; ok is
// false where no data set has costs. As far as the pool does not know such a task it is what the model's answers cost
// in the mean: what makes one dearer on some tasks says nothing of others.
func (p *Pool) CostOf(k int, s *Signal) (cost float64, ok bool) {
	by := p.Routes[k].Cost
	if by == nil {
		return 0, false
	}
	usual := float64(by.Bias)
	return math.Exp(usual + p.Trust(s)*(by.at(s)-usual)), true
}

// OutputOf predicts how many tokens an answer has; ok is false where no data set counts them.
func (r *Route) OutputOf(s *Signal) (tokens float64, ok bool) {
	if r.Output == nil {
		return 0, false
	}
	return min(math.Exp(r.Output.at(s)), 1e6), true
}

// Prior is what an operator says of a route: how good it is by kind of work, from 0 to 1, and for how many
// observations that counts beside what is learned.
type Prior struct {
	Quality [NumKinds]float64
	Weight  float64
}

// Flat is a prior that is the same for all kinds.
func Flat(quality float64) Prior {
	var p Prior
	for k := range p.Quality {
		p.Quality[k] = quality
	}
	return p
}

// Of is the quality that a prior gives for a conversation: that of its kinds, higher where the conversation is easier
// than the mean for all models that are known, as far as that can be told.
func (m *Model) Of(prior *Prior, s *Signal) float64 {
	w := m.Work(s)
	return w.Quality(prior)
}

// Work is what sort of work a conversation seems to be, and how much easier than the mean, in log odds, as far as that
// can be told.
type Work struct {
	Kinds [NumKinds]float32
	Ease  float32
}

// Work is what a signal says of that.
func (m *Model) Work(s *Signal) Work {
	if m.Grader != nil {
		return Work{s.Kinds, s.Grade}
	}
	return Work{s.Kinds, float32(float64(s.Trust) * m.Ease(s))}
}

// Quality is the quality that a prior gives for the work.
func (w *Work) Quality(prior *Prior) float64 {
	q := 0.0
	for k, share := range w.Kinds {
		q += float64(share) * prior.Quality[k]
	}
	return shifted(q, float64(w.Ease))
}

// Toward moves the work by a share of the way to another.
func (w *Work) Toward(other *Work, share float32) {
	for k := range w.Kinds {
		w.Kinds[k] += share * (other.Kinds[k] - w.Kinds[k])
	}
	w.Ease += share * (other.Ease - w.Ease)
}

// Ease is how much easier than the mean the conversation is, in log odds, for the models of all pools.
func (m *Model) Ease(s *Signal) float64 {
	return float64(m.EaseScale) * m.Easier(func(p *Pool) float64 { return p.Difficulty.at(s) })
}

// Easier is the mean of what pools say, each by the root of its size.
func (m *Model) Easier(by func(*Pool) float64) float64 {
	var sum, weights float64
	for i := range m.Pools {
		p := &m.Pools[i]
		if p.Outcomes {
			continue
		}
		w := math.Sqrt(float64(p.Rows))
		sum += w * min(max(by(p), -2), 2)
		weights += w
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// Difficulty is how hard the conversation seems, from 0 to 1: 0.5 for the mean, and for what is unlike anything known.
func (m *Model) Difficulty(s *Signal) float64 { return sigmoid(-float64(m.Work(s).Ease)) }

// LearnedWeight is as how many observations a prediction counts beside what an operator says, where the text and its
// task are known.
const LearnedWeight = 100

// Blend is the quality of the pool's k-th route, of which the operator says something as well: the prediction counts
// for as many observations as the data has tasks, the less the newer the text is, or its task to the pool.
func (m *Model) Blend(p *Pool, k int, prior *Prior, s *Signal) float64 {
	predicted := p.QualityOf(k, s)
	learned := LearnedWeight * s.place.trust
	if learned+prior.Weight == 0 {
		return predicted
	}
	return (learned*predicted + prior.Weight*m.Of(prior, s)) / (learned + prior.Weight)
}
