//go:build soak

package host_test

import "testing"

// TestSoakReplacements is TestReplacementsBreakNoStream with as many streams as issue 11 asks for.
func TestSoakReplacements(t *testing.T) {
	t.Parallel()
	replacements(t, 1000)
}
