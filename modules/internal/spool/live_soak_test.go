//go:build soak

package spool_test

import (
	"fmt"
	"testing"
)

// TestSoakPowerLossUnderLive is TestPowerLossUnderLive over longer runs, which go through the halves of the log
// several times.
func TestSoakPowerLossUnderLive(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			losePower(t, 100)
		})
	}
}
