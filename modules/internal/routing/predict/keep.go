package predict

import "math"

// Margin is what is added to a share of the best predicted quality, so that the share is kept in truth.
type Margin struct{ Share, Margin float32 }

// Keep chooses the cheapest of routes whose predicted quality is at least a share of the best one's, and a margin. The
// best one always is.
func Keep(quality, cost []float64, share, margin float64) int {
	best := 0
	for k, q := range quality {
		if q > quality[best] {
			best = k
		}
	}
	at := best
	for k, q := range quality {
		if q >= share*quality[best]+margin && (cost[k] < cost[at] || cost[k] == cost[at] && q > quality[at]) {
			at = k
		}
	}
	return at
}

// MarginFor is the pool's margin for a share: that of the next larger share that was calibrated, and a careful one
// where none was.
func (p *Pool) MarginFor(share float64) float64 {
	const careful = 0.05
	margin, next := careful, 2.0
	for _, m := range p.Margins {
		if s := float64(m.Share); s >= share-1e-6 && s < next {
			margin, next = float64(m.Margin), s
		}
	}
	return margin
}

// MarginFor is the most careful of the pools' margins for a share: for routes that are of no pool.
func (m *Model) MarginFor(share float64) float64 {
	margin := math.Inf(-1)
	for i := range m.Pools {
		margin = max(margin, m.Pools[i].MarginFor(share))
	}
	return max(margin, 0)
}
