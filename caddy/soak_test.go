//go:build linux && soak

package main_test

import "testing"

// TestSoakCrash is TestCrash for as long as it takes to find what is rare.
func TestSoakCrash(t *testing.T) {
	t.Parallel()
	crashes(t, 200)
}
