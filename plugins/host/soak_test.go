//go:build soak

package host_test

import "testing"

// TestSoakReplacements is TestReplacementsBreakNoStream with 1,000 streams.
func TestSoakReplacements(t *testing.T) {
	t.Parallel()
	replacements(t, 1000)
}
