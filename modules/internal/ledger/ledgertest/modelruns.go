//go:build !race

package ledgertest

// modelRuns is how many runs of the model there are at most.
const modelRuns = 1 << 30

// WalkSteps is how many steps a random walk through the rules takes.
const WalkSteps = 1_000_000
