//go:build soak

package live_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

var modelOperations = flag.Int("model.operations", 1_000_000, "how many operations TestSoakModel makes")

// TestSoakModel compares a ledger in memory over SQLite with the model of the rules for a million random operations
// (GAP-132): make test has some thousands of them.
func TestSoakModel(t *testing.T) {
	t.Parallel()
	const atOnce = 2
	for n := range atOnce {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			ledgertest.SoakModel(t, openLive(true), *modelOperations/atOnce)
		})
	}
}
