package book

import (
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Course is a request as the process that runs it has decided it, for a store that has not taken part in that: it is
// to keep the request as it is here, whatever it has of it. Taking up the same course again changes nothing, and
// neither does one that is older than what the store has.
type Course struct {
	Running      // its attempts have concluded, where it has ended
	End     *End // nil while it runs
	// Kept: the store had the request's hold before. Where it does not know the request then, it is not the store that
	// had it, but an older copy, perhaps.
	Kept bool
}

// Rows are what a hold of a key is decided on, as a store has them.
type Rows struct {
	Account Account // Held is what requests of other owners hold
	Line    Line
	Root    int64 // tells the line from others
	Others  int64 // microcents that requests of other owners hold by the line's keys
}

// TakenUp is what became of a course. Charge is what the request comes to on record, with its account's balance then.
type TakenUp struct {
	Charge ledger.Charge
	Before bool  // it was settled before, at Charge
	Err    error // why it cannot be taken up
	// Entries is how many movements the store has with it.
	Entries int64
}

// MayBePruned is why a request is not taken up that ended before the moment before which requests may have been pruned:
// it was most likely charged then, and nobody can tell any more.
func MayBePruned(ended, prunedBefore time.Time) error {
	return fmt.Errorf("%w: it ended at %s, and requests that were settled before %s are pruned: it was charged then, "+
		"unless it was never on record; look for it in an export of the journal", ledger.ErrInvalid,
		ended.UTC().Format(time.RFC3339), prunedBefore.UTC().Format(time.RFC3339))
}
