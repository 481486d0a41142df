package ledger

import (
	"fmt"
	"strings"
)

// ErrLost: the ledger does not have what its witness has seen of it, or its write-ahead log is damaged, and an
// operator has not decided yet (GAP-133). Nothing is charged until then.
var ErrLost = fmt.Errorf("%w: a part of it is missing", ErrUnavailable)

// LossAdvice is the next step for whoever can take it.
const LossAdvice = "move all files that begin with its name away, put the newer ones back, all of one moment, and " +
	"start again, or go on without: `fareway gateway ledger accept-loss --reason TEXT`"

// Loss is that a ledger does not have all that was seen of it: its newest part is gone, or it is another copy, which
// has gone on by itself (GAP-133).
type Loss struct {
	// How many movements of money and acts of operators it has, and how many were seen. Where it has no fewer, some of
	// them are others than those that were seen.
	HasEntries  int64 `json:"has_entries"`
	SeenEntries int64 `json:"seen_entries"`
	HasActs     int64 `json:"has_acts"`
	SeenActs    int64 `json:"seen_acts"`
	// Settlements is how many were acknowledged and are neither on record nor in the log that they are written into
	// before (the spool).
	Settlements int64 `json:"settlements,omitempty"`
	// Log is what is damaged of its write-ahead log; nil: nothing is known to be.
	Log *LogDamage `json:"log,omitempty"`
	// PowerCut: a power cut has taken it, as an operator let it (durability "process"). It is booked, and nothing is to
	// be decided.
	PowerCut bool `json:"power_cut,omitempty"`
}

// LogMark is how far the log has come into which settlements are written before a store takes them up (the spool),
// as it is told to the store's witness (GAP-133).
type LogMark struct {
	File   [8]byte // the identity of its file
	Number uint64  // of the last record that was acknowledged, which no other ever has
	Tag    uint32  // the checksum of that record
	// Waiting is how many acknowledged ones the store has not taken up, which has Covered movements without them;
	// 0: not known.
	Waiting int64
	Covered int64
}

// LogDamage is that a write-ahead log cannot be read to its end, and what was behind that was on the disk (GAP-133).
type LogDamage struct {
	File    string `json:"file"`    // the log, or where the start has kept it
	Byte    int64  `json:"byte"`    // where the damage begins
	Commits int64  `json:"commits"` // at least so many cannot be read
}

func (d LogDamage) String() string {
	return fmt.Sprintf("its write-ahead log is damaged from byte %d on (%s), and at least %d commits that were on the "+
		"disk cannot be read", d.Byte, d.File, d.Commits)
}

// String says what is gone, as a sentence goes on.
func (l Loss) String() string {
	entries, acts := max(l.SeenEntries-l.HasEntries, 0), max(l.SeenActs-l.HasActs, 0)
	var parts []string
	if l.Settlements > 0 {
		parts = append(parts, fmt.Sprintf("at least %d settlements that were acknowledged are neither in it nor in the "+
			"spool beside it", l.Settlements))
	}
	if l.Log != nil {
		parts = append(parts, l.Log.String())
	}
	text := strings.Join(parts, "; ")
	if text != "" {
		if entries == 0 && acts == 0 {
			return fmt.Sprintf("%s (it has %d movements of money and %d acts of operators)", text, l.HasEntries, l.HasActs)
		}
		text += "; "
	}
	if entries == 0 && acts == 0 {
		return fmt.Sprintf("its movements are others than those that were acknowledged here (it has %d of them and %d "+
			"acts of operators): it is a copy of an older ledger that went on by itself", l.HasEntries, l.HasActs)
	}
	return fmt.Sprintf("%sat least %d movements of money and %d acts of operators that were acknowledged are not in it "+
		"(it has %d of %d and %d of %d)", text, entries, acts, l.HasEntries, l.SeenEntries, l.HasActs, l.SeenActs)
}

// Undecided is ErrLost, with what to do, nil where there is no loss (nil).
func (l *Loss) Undecided() error {
	if l == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; %s", ErrLost, l, LossAdvice)
}
