//go:build !race

package ledgertest

// modelRuns is how many runs of the model there are at most.
const modelRuns = 1 << 30
