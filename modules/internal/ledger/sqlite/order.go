package sqlite

import (
	"sync"

	"zombiezen.com/go/sqlite"
)

// orderBatch is how many entries are looked at in one reading of the journal.
const orderBatch = 50_000

// order is how far the journal's entries are in the order of their days. A clock that was ahead, or was set back over a
// midnight, leaves some that are not, and then none may be passed over by their days. It is found out when it is asked
// for, beside what asks, and kept in memory: another process looks for itself.
type order struct {
	mu      sync.Mutex
	to      int64 // entries up to this number were looked at
	day     int64 // of that one
	broken  bool  // one of them is of an earlier day than the one before it
	looking bool
	ended   sync.WaitGroup // of who looks
}

// isOrdered reports whether the entries up to number n are known to be in the order of their days. Where nobody has
// looked that far yet, it is false until somebody has, who begins now.
func (b *books) isOrdered(n int64) bool {
	o := &b.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to < n && !o.broken && !o.looking {
		o.looking = true
		o.ended.Go(b.findOrder)
	}
	return o.to >= n && !o.broken
}

// findOrder looks at the entries that nobody has looked at. What keeps it from reading keeps others, too, who say so:
// the next who asks has it tried again.
func (b *books) findOrder() {
	o := &b.order
	for more := true; more; {
		looked, to, day, broken := 0, o.to, o.day, false // nobody else writes them
		err := b.chore(b.ctx, "order", func(conn *sqlite.Conn) error {
			return run(conn, `SELECT n, created FROM entries WHERE n > ? ORDER BY n LIMIT ?`, func(row *sqlite.Stmt) error {
				is := floorDiv(row.ColumnInt64(1), dayLength)
				looked, broken = looked+1, broken || to > 0 && is < day
				to, day = row.ColumnInt64(0), is
				return nil
			}, to, orderBatch)
		})
		more = err == nil && looked == orderBatch && !broken
		o.mu.Lock()
		if err == nil {
			o.to, o.day, o.broken = to, day, broken
		}
		o.looking = more
		o.mu.Unlock()
	}
}
