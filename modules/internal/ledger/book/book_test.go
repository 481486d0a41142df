package book_test

import (
	"testing"

	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// The rules over a store that is nothing but rows pass what every store passes.
func TestRules(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, ledgertest.OpenMemory)
}
