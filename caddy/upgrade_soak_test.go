//go:build linux && soak

package main_test

import "testing"

// TestSoakUpgrade replaces a gateway that runs 1,000 streams, twice.
func TestSoakUpgrade(t *testing.T) { //nolint:paralleltest // what else runs would compete for the cores
	testUpgrade(t, 1000, 4)
}
