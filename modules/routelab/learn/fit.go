package learn

import (
	"math"
	"math/rand/v2"
)

// sparse is a vector: values at places.
type sparse struct {
	at    []int32
	value []float32
}

// below is the part of a vector at places below one; its places are in order of these.
func (x sparse) below(place int) sparse {
	n := len(x.at)
	for n > 0 && int(x.at[n-1]) >= place {
		n--
	}
	return sparse{x.at[:n], x.value[:n]}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// logistic fits one logistic regression for each of h targets, by dual coordinate ascent (Yu, Huang and Lin 2011,
// for targets between 0 and 1): weights w[place*h+target] minimise the log loss plus |w|^2/(2*c). y and the weight of
// each row are [row][target] and [row].
func logistic(rows []sparse, y [][]float64, pick []int, dim, h int, offset [][]float64,
	linear []bool, c float64, epochs int, seed uint64) []float32 {
	w := make([]float32, dim*h)
	alpha := make([]float64, len(rows)*h)
	square := make([]float64, len(rows))
	for _, i := range pick {
		for _, v := range rows[i].value {
			square[i] += float64(v) * float64(v)
		}
	}
	order := append([]int(nil), pick...)
	random := rand.New(rand.NewPCG(seed, 7))
	margin := make([]float64, h)
	delta := make([]float32, h)
	for range epochs {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			row := &rows[i]
			clear(margin)
			if offset != nil {
				copy(margin, offset[i])
			}
			for j, at := range row.at {
				v := float64(row.value[j])
				for t, x := range w[int(at)*h : int(at)*h+h] {
					margin[t] += v * float64(x)
				}
			}
			q := c * square[i]
			for t := range h {
				a := alpha[i*h+t]
				d := 0.0
				if linear != nil && linear[t] {
					d = (y[i][t] - margin[t] - a) / (1 + q)
					alpha[i*h+t] += d
					delta[t] = float32(d * c)
					continue
				}
				for range 4 {
					p := sigmoid(margin[t] + d*q)
					d -= (a + d - y[i][t] + p) / (1 + q*max(p*(1-p), 0.05))
				}
				// alpha ends between y-1 and y, whatever Newton's steps make of it.
				d = min(max(d, y[i][t]-1-a), y[i][t]-a)
				alpha[i*h+t] += d
				delta[t] = float32(d * c)
			}
			for j, at := range row.at {
				v := row.value[j]
				target := w[int(at)*h : int(at)*h+h]
				for t := range target {
					target[t] += delta[t] * v
				}
			}
		}
	}
	return w
}

func margins(row *sparse, w []float32, h int, out []float64) {
	clear(out)
	for j, at := range row.at {
		v := float64(row.value[j])
		for t, x := range w[int(at)*h : int(at)*h+h] {
			out[t] += v * float64(x)
		}
	}
}

// ridge fits y - mean by least squares with a penalty, for the rows that pick names (y is in the order of pick).
func ridge(xs []sparse, pick []int, y []float64, mean float64, dim int, penalty float64) []float64 {
	a := make([]float64, dim*dim) // lower triangle
	b := make([]float64, dim)
	for r, i := range pick {
		x := &xs[i]
		for j, at := range x.at {
			v := float64(x.value[j])
			if v == 0 {
				continue
			}
			b[at] += v * (y[r] - mean)
			row := a[int(at)*dim : int(at)*dim+dim]
			for l := 0; l <= j; l++ {
				row[x.at[l]] += v * float64(x.value[l])
			}
		}
	}
	for i := range dim {
		a[i*dim+i] += penalty
	}
	cholesky(a, dim)
	solve(a, b, dim)
	return b
}

// cholesky is the decomposition of a symmetric matrix whose lower triangle is given, in place.
func cholesky(a []float64, dim int) {
	for i := range dim {
		for j := 0; j <= i; j++ {
			s := a[i*dim+j]
			for k := range j {
				s -= a[i*dim+k] * a[j*dim+k]
			}
			if i == j {
				a[i*dim+i] = math.Sqrt(max(s, 1e-12))
			} else {
				a[i*dim+j] = s / a[j*dim+j]
			}
		}
	}
}

// solve solves by a decomposition (cholesky), in place of b.
func solve(a, b []float64, dim int) {
	for i := range dim {
		for k := range i {
			b[i] -= a[i*dim+k] * b[k]
		}
		b[i] /= a[i*dim+i]
	}
	for i := dim - 1; i >= 0; i-- {
		for k := i + 1; k < dim; k++ {
			b[i] -= a[k*dim+i] * b[k]
		}
		b[i] /= a[i*dim+i]
	}
}
