//go:build soak

package redis_test

import "testing"

// TestNemesisSoak is TestNemesis, ten times, each as long as a minute has room for.
func TestNemesisSoak(t *testing.T) {
	t.Parallel()
	for range 10 {
		nemesis(t, 8)
	}
}
