//go:build linux && soak

package nemesis

import "testing"

// TestSoakNemesis goes through all faults again and again, each time on other machines.
func TestSoakNemesis(t *testing.T) { //nolint:paralleltest // it is the only one, and measures time
	torment(t, 200)
}
