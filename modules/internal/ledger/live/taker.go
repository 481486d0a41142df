package live

import (
	"context"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Store is a store that takes up what was decided in its process's memory: what a Ledger, and the engine that has one,
// need of it beside the ledger's operations.
type Store interface {
	ledger.Store
	// BootID names this process as the owner of what it holds.
	BootID() string
	// Offer lets another process wait for the ledger: who has it admits nothing more. IsAwaited reports whether one
	// does; it is to be asked a few times a second, and the other gets the ledger once this store is closed.
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
	ReadPayer(ctx context.Context, account, key string) (book.Rows, error)
	// TakeUp brings requests to where they are in their courses, in one transaction and in their order. It returns what
	// each ended one comes to on record, with the account's balance then, or why it cannot be taken up, which hinders no
	// other. An error is that nothing was.
	TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error)
	// WitnessLog tells the store's witness how far the log has come that is before it (GAP-133): behind each commit of
	// the log, and when it was told that the store has taken something up. It waits for nobody.
	WitnessLog(m ledger.LogMark)
	// PowerCut reports whether the machine was started anew since the store was synced behind what it acknowledged
	// (durability "process"): what is missing then, and is booked, a power cut was free to take.
	PowerCut() bool
	// Sync has what was committed on the disk, where that is left behind (durability "process").
	Sync() error
}
