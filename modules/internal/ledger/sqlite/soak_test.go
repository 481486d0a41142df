//go:build soak

package sqlite

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// TestSoakPowerLoss is TestPowerLoss with every loss at every point of longer runs, for several runs of the workload.
func TestSoakPowerLoss(t *testing.T) {
	t.Parallel()
	for range 3 {
		r := record(t, 8, 24)
		seed := rand.Uint64()
		times, err := r.fail(t, func(int) []loss { return losses }, seed)
		require.NoError(t, err, "seed %d", seed)
		t.Logf("the power failed %d times at %d points of %d events; %d answers", times, len(r.points()), len(r.events),
			len(r.told))
	}
}

// TestSoakKilled is TestKilledAtAnyMoment for as long as it takes to find what is rare.
func TestSoakKilled(t *testing.T) {
	t.Parallel()
	killed(t, 200)
}

// TestSoakSuite draws other random operations than the suite's own run of them did.
func TestSoakSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Soak(t, openSuite, 50)
}
