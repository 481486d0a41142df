package ledger

import (
	"errors"
	"log/slog"
	"time"
)

// ErrLocked: another process admits requests on this ledger.
var ErrLocked = errors.New("ledger in use")

// Options say how a store is opened, whatever keeps it.
type Options struct {
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Terms are what a plan gives and allows now. It is asked at every operation, on the writer's goroutine, and
	// must not call the ledger. Default: nothing is limited, and periods stay as they are.
	Terms func(plan string) Terms
	// WaitTimeout is how long an operation may wait for the store before its caller is told ErrUnavailable. Lists and
	// verifications take their time. Default: 5 s.
	WaitTimeout time.Duration
	// Logger gets what happened without a caller: recovery, usage that could not be priced, a store that cannot
	// be written. Default: slog.Default.
	Logger *slog.Logger
	// Observe is told of each operation, by its name in snake case, how long its caller waited and how
	// many shared its commit (0 for a read). It is called on the caller's goroutine. Default: nobody.
	Observe func(operation string, d time.Duration, batch int)
	// Behind: what was acknowledged is on the disk only when somebody has called the store's Sync after it, so that a
	// power cut may take it, and the end of this process does not.
	Behind bool
}

// Extent is how much a ledger has: movements of money, and acts of operators.
type Extent struct {
	Entries int64 `json:"entries"`
	Acts    int64 `json:"acts"`
}
