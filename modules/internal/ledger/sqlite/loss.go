package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// machineBoot names a start of the machine; the zero one is not known.
type machineBoot [2]uint64

// bootOfMachine is the one that this process runs in.
var bootOfMachine = sync.OnceValue(func() (b machineBoot) {
	id := strings.TrimSpace(files.ReadBootID())
	if id == "" {
		return b
	}
	sum := sha256.Sum256([]byte(id))
	return machineBoot{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
})

// isCut reports whether a power cut may have taken the end of what was acknowledged, and was free to.
func (t *testimony) isCut(now machineBoot) bool {
	return t.behind && t.machine != now && t.machine != (machineBoot{}) && now != (machineBoot{})
}

// traces are what tells of a loss beside a ledger. They are read before a moment of it is looked at: what is committed
// meanwhile is more than was seen.
type traces struct {
	seen   *testimony // nil: there is no witness
	log    spool.Content
	inUse  bool // a gateway runs, which writes to the log
	damage *ledger.LogDamage
}

func readTraces(database, log string) (t traces, err error) {
	t.seen, err = readWitness(database)
	if errors.Is(err, errNoWitness) {
		t.seen, err = nil, nil
	}
	if err == nil && t.seen != nil && t.seen.log != nil {
		t.log, err = spool.ReadContent(log)
		if errors.Is(err, spool.ErrForeign) {
			err = nil // there is nothing in it that can be read, and a gateway does not start on it
		}
		t.inUse = CheckUnlocked(database) != nil
	}
	if err == nil {
		t.damage, err = undecidedDamage(database)
	}
	return t, err
}

// lossOf is what a ledger, which has come as far as has, does not have of what was seen of it, with the log before it,
// and what tells so; nil for nothing.
func lossOf(conn *sqlite.Conn, has extent, t traces, machine machineBoot) (loss *ledger.Loss, where string, err error) {
	where = "write-ahead log"
	var settlements int64
	if t.seen != nil {
		if loss, err = missing(conn, has, t.seen.extent); err == nil {
			settlements, err = missingInLog(conn, t)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if loss != nil || settlements > 0 {
		where = "witness"
	}
	if loss = damaged(loss, has, t.damage); loss == nil && settlements > 0 {
		loss = noLoss(has)
	}
	if loss != nil {
		loss.Settlements, loss.PowerCut = settlements, t.seen != nil && t.seen.isCut(machine)
	}
	return loss, where, nil
}

// damaged is a loss with what is damaged of the write-ahead log; nil where there is neither.
func damaged(loss *ledger.Loss, has extent, damage *ledger.LogDamage) *ledger.Loss {
	if damage == nil {
		return loss
	}
	if loss == nil {
		loss = noLoss(has)
	}
	loss.Log = damage
	return loss
}

// noLoss is that a ledger has all movements and acts that were seen.
func noLoss(has extent) *ledger.Loss {
	return &ledger.Loss{HasEntries: has.entries, SeenEntries: has.entries, HasActs: has.acts, SeenActs: has.acts}
}

// missingInLog is how many settlements were acknowledged by the log and are neither on record nor in the log, nor named
// as damaged in it: 0 where it has come as far as was seen, and is whole. Otherwise those that the store had not taken
// up when the witness was told are looked for among the settlements of since, and in the log.
func missingInLog(conn *sqlite.Conn, t traces) (int64, error) {
	seen, log := t.seen.log, t.log
	if seen == nil || seen.Waiting == 0 {
		return 0, nil
	}
	same := log.Mark.File == seen.File
	reaches := log.Mark.Number > seen.Number || log.Mark.Number == seen.Number && log.Mark.Tag == seen.Tag
	if same && reaches && (!log.Damaged || t.inUse) {
		return 0, nil
	}
	var there, prunedBefore int64
	err := run(conn, `SELECT (SELECT count(*) FROM entries WHERE n > ? AND kind = 'charge'), pruned_before FROM meta`,
		to(&there, &prunedBefore), seen.Covered)
	if err != nil {
		return 0, failure(err)
	}
	for _, k := range log.Records {
		if same && k.Number > seen.Number || k.Time.UnixNano() < prunedBefore {
			continue
		}
		settled := false
		found := func(*sqlite.Stmt) error { settled = true; return nil }
		err := run(conn, `SELECT 1 FROM requests WHERE id = ?`, found, k.Request)
		if err != nil {
			return 0, failure(err)
		}
		if !settled {
			there++
		}
	}
	return max(0, seen.Waiting-there-log.Lost), nil
}
