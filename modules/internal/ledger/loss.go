package ledger

import "fmt"

// ErrLost: the ledger does not have what its witness has seen of it, and an operator has not decided yet (GAP-133).
// Nothing is charged until then.
var ErrLost = fmt.Errorf("%w: it is behind its witness", ErrUnavailable)

// LossAdvice is the next step for whoever can take it.
const LossAdvice = "put the newer files back (the database, what begins with its name, all of one moment) and start " +
	"again, or go on without: `fareway gateway ledger accept-loss --reason TEXT`"

// Loss is that a ledger does not have all that was seen of it: its newest part is gone, or it is another copy, which
// has gone on by itself (GAP-133).
type Loss struct {
	// How many movements of money and acts of operators it has, and how many were seen. Where it has no fewer, some of
	// them are others than those that were seen.
	HasEntries  int64 `json:"has_entries"`
	SeenEntries int64 `json:"seen_entries"`
	HasActs     int64 `json:"has_acts"`
	SeenActs    int64 `json:"seen_acts"`
}

// String says what is gone, as a sentence goes on.
func (l Loss) String() string {
	entries, acts := max(l.SeenEntries-l.HasEntries, 0), max(l.SeenActs-l.HasActs, 0)
	if entries == 0 && acts == 0 {
		return fmt.Sprintf("its movements are others than those that were acknowledged here (it has %d of them and %d "+
			"acts of operators): it is a copy of an older ledger that went on by itself", l.HasEntries, l.HasActs)
	}
	return fmt.Sprintf("at least %d movements of money and %d acts of operators that were acknowledged are not in it "+
		"(it has %d of %d and %d of %d)", entries, acts, l.HasEntries, l.SeenEntries, l.HasActs, l.SeenActs)
}
