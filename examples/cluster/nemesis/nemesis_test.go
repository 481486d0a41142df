//go:build linux && nemesis

package nemesis

import "testing"

// TestNemesis is what CI runs: the first of each kind that breaks something of its own.
func TestNemesis(t *testing.T) { //nolint:paralleltest // it is the only one, and measures time
	torment(t, 10)
}
