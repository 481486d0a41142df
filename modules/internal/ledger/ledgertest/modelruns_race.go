//go:build race

package ledgertest

// modelRuns and WalkSteps are few under the race detector, which makes everything some twenty times slower and finds
// nothing in what one goroutine does.
const (
	modelRuns = 15
	WalkSteps = 20_000
)
