package chart

import "math"

// linearTicks are multiples of 1, 2 or 5 times a power of ten between two values, at most so many.
func linearTicks(low, high float64, most int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	for _, times := range [...]float64{1, 2, 5, 10} {
		if (high-low)/(step*times) <= float64(most) {
			step *= times
			break
		}
	}
	var out []float64
	for n := math.Ceil(low/step - 1e-9); n*step <= high+1e-9*step; n++ {
		out = append(out, n*step+0) // and not -0
	}
	return out
}

// logTicks are 1, 2 and 5 times each power of ten between two values, the ends with them; of more than four powers
// the powers alone, and of more than eight some of them.
func logTicks(low, high float64) []float64 {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	times := []float64{1, 2, 5}
	if to-from > 4 {
		times = times[:1]
	}
	var out []float64
	for e := from; e <= to; e += math.Ceil((to - from + 1) / 9) {
		for _, m := range times {
			if v := m * math.Pow(10, e); v >= low && v <= high {
				out = append(out, v)
			}
		}
	}
	return out
}
