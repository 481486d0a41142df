package predict

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

// MarginFor is the mean of the pools' margins for a share, by their size: for routes that are of no pool. It is never
// less than none: what operators say of routes is not drawn together as predictions are.
func (m *Model) MarginFor(share float64) float64 {
	sum, rows := 0.0, 0
	for i := range m.Pools {
		p := &m.Pools[i]
		if len(p.Margins) > 0 {
			sum += float64(p.Rows) * p.MarginFor(share)
			rows += p.Rows
		}
	}
	if rows == 0 {
		return (&Pool{}).MarginFor(share)
	}
	return max(sum/float64(rows), 0)
}
