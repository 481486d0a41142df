// Package ledgertest is the suite that every ledger.Store passes: the rules of its interface and of the contract's
// money clauses with their worked examples, its idempotence, its behaviour under concurrency, over restarts and with
// faults at its interface, and random interleavings of everything against a model. It is for the tests of stores.
package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Options are what the suite decides about a store.
type Options struct {
	// Dir is the store's place: a store that is opened on the Dir of one that was closed continues it.
	Dir string
	// BootID differs each time.
	BootID string
	// Now is the store's clock. It stands still until the test moves it, forwards and backwards.
	Now func() time.Time
	// Terms are the plans. They may change while the store is open.
	Terms func(plan string) ledger.Terms
}

// Open opens a store; the suite recovers and closes it.
type Open func(t testing.TB, o Options) ledger.Store

// Late is a store of several processes: a settlement that comes after its request was recovered is applied once, for
// the process may have been slow, and is not dead (book.DecideLate).
type Late interface{ AppliesLate() }

// Summer is a store that adds requests to sums of days by and by: SumSome adds what so many of an account's entries
// say.
type Summer interface {
	SumSome(ctx context.Context, account string, entries int64) error
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"accounts", testAccounts},
		{"keys", testKeys},
		{"paged", testPaged},
		{"key rotation", testRotation},
		{"prices", testPrices},
		{"top-ups", testTopUps},
		{"corrections", testCorrections},
		{"examples", testExamples},
		{"admission", testAdmission},
		{"caps", testCaps},
		{"key caps", testKeyCaps},
		{"charges", testCharges},
		{"ceilings", testCeilings},
		{"without an attempt", testAttemptless},
		{"unusable usage", testUnusableUsage},
		{"fair use", testFairUse},
		{"settings", testSettings},
		{"learned", testLearned},
		{"repetition", testRepetition},
		{"refusals", testRefusals},
		{"receipts", testReceipts},
		{"late receipts", testLateReceipts},
		{"waiting", testWaiting},
		{"references", testReferences},
		{"periods", testPeriods},
		{"periods and plans", testPlanChanges},
		{"restart", testRestart},
		{"audit", testAudit},
		{"journal", testJournal},
		{"checkpoints", testCheckpoints},
		{"usage", testUsage},
		{"records", testRecords},
		{"prune", testPrune},
		{"lists", testLists},
		{"latest", testLatest},
		{"race for the last credits", testRace},
		{"settlements race", testSettlementRace},
		{"receipts race", testReceiptRace},
		{"everything at once", testEverythingAtOnce},
		{"faults", testFaults},
		{"model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

// Soak runs the random tests so many times over.
func Soak(t *testing.T, open Open, times int) {
	for range times {
		testModel(t, open)
		testEverythingAtOnce(t, open)
	}
}

// SoakModel compares a store with the model of the rules for so many random operations, and logs how many it was a
// second.
func SoakModel(t *testing.T, open Open, operations int) {
	start, made := time.Now(), 0
	for made < operations && !t.Failed() {
		made += runModel(t, open, 20)
	}
	t.Logf("%d operations, %.0f a second", made, float64(made)/time.Since(start).Seconds())
}
