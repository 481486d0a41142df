package sqlite

import (
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// running is a request between its hold and its settlement: its rows of holds.
type running struct {
	book.Running
	key     keyRef
	opening *book.Attempt // the row of a hold that was placed before the first attempt, of no route; nil: with that
}

// request is the request as the rules know it, nil for none.
func (r *running) request() *book.Running {
	if r == nil {
		return nil
	}
	return &r.Running
}

// row is the row of the seq-th attempt; 0 is that of a hold that was placed before the first.
func (r *running) row(seq int) *book.Attempt {
	if seq == 0 {
		return r.opening
	}
	return &r.Attempts[seq-1]
}

// from is the seq of the first row, which has the hold.
func (r *running) from() int {
	if r.opening != nil {
		return 0
	}
	return 1
}

func (r *running) first() *book.Attempt { return r.row(r.from()) }

// holdSums are how many rows holds has, and what they hold. Like an account's counters they show that no row
// was lost.
//
// marks is the sum of the rows' marks.
type holdSums struct{ rows, microcents, marks int64 }

// raise counts what a key of an account holds more, or less.
func (m *memory) raise(k keyRef, microcents int64) {
	m.holds.microcents += microcents
	if m.held[k.account] += microcents; m.held[k.account] == 0 {
		delete(m.held, k.account)
	}
	if m.heldBy[k.root] += microcents; m.heldBy[k.root] == 0 {
		delete(m.heldBy, k.root)
	}
}

// mark is the mark of a row of holds.
func (m *memory) mark(r *running, seq int, hold int64) int64 {
	a := r.row(seq)
	row := book.Hold{Request: r.ID, Seq: int64(seq), AccountNumber: r.key.account, KeyNumber: r.key.n, Owner: r.Owner,
		Endpoint: r.Endpoint, Profile: r.Profile, Hold: hold, Attempt: a.Attempt, Created: a.Created, Beside: a.Beside}
	return row.Mark(&m.scratch)
}

const updateHolds = `UPDATE meta SET holds = ?, held = ?, marks = ?`

func (t *tx) flushHolds() error {
	if t.holds == t.saved {
		return nil
	}
	s := t.stmts.updateHolds
	s.BindInt64(1, t.holds.rows)
	s.BindInt64(2, t.holds.microcents)
	s.BindInt64(3, t.holds.marks)
	if err := execStatement(s); err != nil {
		return fmt.Errorf("writing the sum of holds: %w", err)
	}
	t.saved = t.holds
	return nil
}

// unwrittenAttempt is an attempt that has no row in holds yet.
type unwrittenAttempt struct {
	r    *running
	seq  int
	hold int64 // that its row says
}

const insertHold = `INSERT OR FAIL INTO holds
	(n, request, seq, account, key, owner, endpoint, profile, hold, route, provider, model, price_version, created, worst,
	beside, reference)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// beginAttempt is an attempt that begins now. Its price is known, or it cannot begin.
func (t *tx) beginAttempt(a ledger.Attempt, now time.Time) (book.Attempt, error) {
	p, err := t.price(t.conn, a.Route, a.PriceVersion)
	return book.BeginAttempt(a, p.price, p.cost, now), err
}

// addHold adds the row of a running request's seq-th attempt. hold is what it says: all of it for the request's first.
func (t *tx) addHold(r *running, seq int, hold int64) {
	t.wrote, t.op.made = true, true
	t.lastHold++
	t.holds.rows++
	t.raise(r.key, hold)
	a := r.row(seq)
	a.Row = book.Row{N: t.lastHold, Mark: t.mark(r, seq, hold)}
	t.holds.marks += a.Row.Mark
	t.begins = append(t.begins, unwrittenAttempt{r, seq, hold})
}

func bindHold(row *rows, b *unwrittenAttempt) {
	r, a := b.r, b.r.row(b.seq)
	row.number(a.Row.N)
	row.text(r.ID)
	row.number(int64(b.seq), r.key.account, r.key.n)
	row.usual(r.Owner, r.Endpoint, r.Profile)
	row.number(b.hold)
	row.usual(a.Route, a.Provider, a.Model)
	row.number(a.PriceVersion, a.Created.UnixNano())
	row.worst(a.Worst)
	row.truth(a.Beside)
	row.null() // refer writes it
}

// Refer implements ledger.Store.
func (s *Store) Refer(attempt, reference string) {
	s.writer.post(func(t *tx) error { return t.refer(attempt, reference) })
}

// refer notes the reference of an attempt that runs.
func (t *tx) refer(id, reference string) error {
	request, _, _ := ledger.ParseAttemptID(id)
	a := book.FindReferred(t.live[request].request(), id, reference)
	if a == nil {
		return nil
	}
	a.Reference = reference
	return t.exec(`UPDATE holds SET reference = ? WHERE n = ?`, reference, a.Row.N)
}

const deleteHolds = `DELETE FROM holds WHERE n BETWEEN ? AND ?`

// end removes a request from those that run.
func (t *tx) end(r *running) {
	t.wrote = true
	delete(t.live, r.ID)
	t.raise(r.key, -r.Held)
	for seq := r.from(); seq <= len(r.Attempts); seq++ {
		t.holds.rows--
		t.holds.marks -= r.row(seq).Row.Mark
	}
}

// deleteHolds removes rows by their numbers. Those that follow one another, as those of requests that began together
// do, are removed together.
func (t *tx) deleteHolds(numbers []int64) error {
	slices.Sort(numbers)
	s := t.stmts.deleteHolds
	for first := 0; first < len(numbers); {
		next := first + 1
		for next < len(numbers) && numbers[next] == numbers[next-1]+1 {
			next++
		}
		s.BindInt64(1, numbers[first])
		s.BindInt64(2, numbers[next-1])
		if err := execStatement(s); err != nil {
			return fmt.Errorf("deleting holds: %w", err)
		}
		first = next
	}
	return nil
}

// loadLive reads the running requests.
func (m *memory) loadLive(conn *sqlite.Conn) error {
	return run(conn, `SELECT h.n, h.request, h.account, a.id, h.key, k.root, h.owner, h.endpoint, h.profile, h.hold,
		h.seq, h.route, h.provider, h.model, h.price_version, h.created, h.worst, k.id, h.beside, h.reference
		FROM holds AS h JOIN accounts AS a ON a.n = h.account JOIN keys AS k ON k.n = h.key ORDER BY h.n`,
		func(row *sqlite.Stmt) error {
			var is running
			var hold int64
			var seq int
			var a book.Attempt
			readColumns(row, 0, &a.Row.N, &is.ID, &is.key.account, &is.Account, &is.key.n, &is.key.root, &is.Owner,
				&is.Endpoint, &is.Profile, &hold, &seq, &a.Route, &a.Provider, &a.Model, &a.PriceVersion, &a.Created)
			a.Worst = columnWorst(row, 16)
			readColumns(row, 17, &is.Key, &a.Beside, &a.Reference)
			r, ok := m.live[is.ID]
			if !ok {
				is.Created = a.Created
				r = &is
				m.live[is.ID] = r
			}
			r.Held += hold
			m.raise(r.key, hold)
			m.lastHold = a.Row.N
			if seq == 0 {
				r.opening = &a
			} else {
				p, err := m.price(conn, a.Route, a.PriceVersion)
				if err != nil {
					return err
				}
				a.ID, a.Price, a.Cost = ledger.AttemptID(r.ID, int64(seq)), p.price, p.cost
				r.Attempts = append(r.Attempts, a)
				seq = len(r.Attempts)
			}
			r.row(seq).Row.Mark = m.mark(r, seq, hold)
			return nil
		})
}
