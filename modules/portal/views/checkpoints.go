package views

import (
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Checkpoints are what the ledger was at moments.
type Checkpoints struct {
	List   []ledger.Checkpoint // the newest first
	Before int64               // the next page has those before it; 0: there is none
	May    Powers
	Kept   string // a checkpoint that somebody pasted
	// OnlyAfter: what it is over was taken as it is.
	OnlyAfter bool
	Verified  *admin.Verified // nil: nothing was
	Took      time.Duration
}
