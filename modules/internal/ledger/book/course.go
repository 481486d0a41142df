package book

import (
	"context"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
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

// Store is a store that takes up what was decided in its process's memory (package live).
type Store interface {
	ledger.Store
	Taker
}

// Taker is what package live needs of a store beside the ledger's operations.
type Taker interface {
	// BootID names this process as the owner of what it holds.
	BootID() string
	// Offer lets another process wait for the ledger: who has it admits nothing more. IsAwaited reports whether one
	// does; it gets the ledger once this store is closed.
	Offer() error
	IsAwaited() bool
	// HighestRequest is the largest id of a settled request, "" without one.
	HighestRequest(ctx context.Context) (string, error)
	// IsSettled reports whether a request is on record as settled.
	IsSettled(ctx context.Context, request string) (bool, error)
	// AccountOf is the id of the account of a request, an attempt or a key; "" without one.
	AccountOf(ctx context.Context, id string) (string, error)
	// ReadPrice finds a version of a route's price, and what it costs the operator.
	ReadPrice(ctx context.Context, route string, version int64) (price, cost config.Price, err error)
	// ReadPayer reads what the holds of a key are decided on, with the account's periods up to date.
	ReadPayer(ctx context.Context, account, key string) (Rows, error)
	// TakeUp brings requests to where they are in their courses, in one transaction and in their order. It returns what
	// each ended one comes to on record, with the account's balance then, or why it cannot be taken up, which hinders no
	// other. An error is that nothing was.
	TakeUp(ctx context.Context, courses []Course) ([]TakenUp, error)
	// WitnessLog tells the store's witness how far the log has come that is before it (GAP-133): behind each commit of
	// the log, and when it was told that the store has taken something up. It waits for nobody.
	WitnessLog(m ledger.LogMark)
	// PowerCut reports whether the machine was started anew since the store was synced behind what it acknowledged
	// (durability "process"): what is missing then, and is booked, a power cut was free to take.
	PowerCut() bool
	// Sync has what was committed on the disk, where that is left behind (durability "process").
	Sync() error
}
