package ledger_test

import (
	"testing"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

func TestLeaseThatExpires(t *testing.T) {
	t.Parallel()
	ledgertest.RunLease(t, func(*testing.T) ledgertest.LeaseCase {
		now := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
		leases := &ledgertest.Leases{Now: func() time.Time { return now }, Length: time.Minute}
		return ledgertest.LeaseCase{
			Process: func() ledger.Lease { return leases },
			Wait:    func(d time.Duration) { now = now.Add(d) }, Length: time.Minute,
		}
	})
}
