//go:build race

package ledgertest

// modelRuns is few under the race detector, which makes a store some twenty times slower and finds nothing in
// what one goroutine does.
const modelRuns = 15
