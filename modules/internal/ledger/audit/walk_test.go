package audit_test

import (
	"testing"

	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// The rules and the audit check one another, a hundred thousand steps long.
func TestWalkIsRight(t *testing.T) {
	t.Parallel()
	ledgertest.Walk(t, ledgertest.OpenMemory, ledgertest.WalkSteps/50)
}
