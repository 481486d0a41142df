//go:build !race

package sqlite

// powerLossStep says at which of the points the power fails: at each.
const powerLossStep = 1
