package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// running is a request between its hold and its settlement: its rows of holds.
type running struct {
	id       string
	account  string // id
	key      keyRef
	owner    string // boot id
	endpoint string
	profile  string
	hold     int64     // microcents
	opening  *attempt  // the row of a hold that was placed before the first attempt, of no route; nil: it came with that
	attempts []attempt // in their order
}

// row is the row of the seq-th attempt; 0 is that of a hold that was placed before the first.
func (r *running) row(seq int) *attempt {
	if seq == 0 {
		return r.opening
	}
	return &r.attempts[seq-1]
}

// from is the seq of the first row, which has the hold.
func (r *running) from() int {
	if r.opening != nil {
		return 0
	}
	return 1
}

func (r *running) first() *attempt { return r.row(r.from()) }

// attempt is an attempt with its price. Its outcome is "" while it runs.
type attempt struct {
	ledger.Attempt
	n       int64 // its row of holds
	mark    int64 // of that row
	created time.Time
	tariff
	outcome ledger.Outcome
	usage   llm.Usage
	// estimate is what it is charged for if no receipt comes; nil: nothing.
	estimate *llm.Usage
	receipt  time.Time // when a later one came
	operator bool      // it is the operator's
	// reference is what its upstream is asked by for a receipt, "" for none that is known.
	reference string
	beside    bool // it is that unless its result says something else
}

// guess is what the attempt's row has of its estimate.
func (a *attempt) guess() llm.Usage {
	if a.estimate == nil {
		return llm.Usage{}
	}
	return *a.estimate
}

// record is the attempt as it is hashed and shown.
func (a *attempt) record() ledger.AttemptRecord {
	return ledger.AttemptRecord{
		Attempt: a.Attempt, Outcome: a.outcome, Usage: a.usage, Price: a.price, Cost: a.cost,
		Created: a.created, Receipt: a.receipt, Estimate: a.estimate, Operator: a.operator,
	}
}

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

// mark is a hash of a row of holds, as a number. Rows come and go with their requests, so that no
// chain can have them: the sum of their marks shows that none was changed, removed or put in. Those of an older
// ledger have none.
func (m *memory) mark(r *running, seq int, hold int64) int64 {
	a := r.row(seq)
	if a.Worst < 0 {
		return 0
	}
	b := m.scratch[:0]
	for _, s := range [...]string{r.id, r.owner, r.endpoint, r.profile, a.Route, a.Provider, a.Model} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	for _, n := range [...]int64{int64(seq), r.key.account, r.key.n, hold, a.PriceVersion, a.created.UnixNano(), a.Worst} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if a.beside { // rows of an older ledger are none
		b = append(b, 1)
	}
	m.scratch = b
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
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
	if err := done(s); err != nil {
		return fmt.Errorf("writing the sum of holds: %w", err)
	}
	t.saved = t.holds
	return nil
}

// begun is an attempt that has no row in holds yet.
type begun struct {
	r    *running
	seq  int
	hold int64 // that its row says
}

const insertHold = `INSERT OR FAIL INTO holds
	(n, request, seq, account, key, owner, endpoint, profile, hold, route, provider, model, price_version, created, worst,
	beside, reference)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// priced is an attempt that begins now. Its price is known, or it cannot begin.
func (t *tx) priced(a ledger.Attempt) (attempt, error) {
	p, err := t.price(t.conn, a.Route, a.PriceVersion)
	return attempt{Attempt: a, created: t.now(), tariff: p}, err
}

// open begins a request without an attempt.
func (t *tx) open(r *running, hold int64) {
	r.opening = &attempt{created: t.now()}
	t.add(r, 0, hold)
}

// begin adds an attempt to a running request. hold is what its row says: all of it for the request's first row.
func (t *tx) begin(r *running, a attempt, hold int64) {
	r.attempts = append(r.attempts, a)
	t.add(r, len(r.attempts), hold)
}

// add adds the row of the seq-th attempt.
func (t *tx) add(r *running, seq int, hold int64) {
	t.wrote, t.op.made = true, true
	t.lastHold++
	t.holds.rows++
	t.raise(r.key, hold)
	a := r.row(seq)
	a.n = t.lastHold
	a.mark = t.mark(r, seq, hold)
	t.holds.marks += a.mark
	t.begins = append(t.begins, begun{r, seq, hold})
}

func bindHold(row *rows, b *begun) {
	r, a := b.r, b.r.row(b.seq)
	row.number(a.n)
	row.text(r.id)
	row.number(int64(b.seq))
	row.number(r.key.account)
	row.number(r.key.n)
	row.usual(r.owner)
	row.usual(r.endpoint)
	row.usual(r.profile)
	row.number(b.hold)
	row.usual(a.Route)
	row.usual(a.Provider)
	row.usual(a.Model)
	row.number(a.PriceVersion)
	row.number(a.created.UnixNano())
	row.worst(a.Worst)
	row.truth(a.beside)
	row.null() // refer writes it
}

// Refer implements ledger.Store.
func (s *Store) Refer(attempt, reference string) {
	s.writer.post(func(t *tx) error { return t.refer(attempt, reference) })
}

// refer notes the reference of an attempt that runs: that of one that has ended was in its settlement.
func (t *tx) refer(id, reference string) error {
	request, seq, _ := ledger.ParseAttemptID(id)
	r, ok := t.live[request]
	if !ok || seq < 1 || seq > int64(len(r.attempts)) || r.attempts[seq-1].reference == reference {
		return nil
	}
	a := &r.attempts[seq-1]
	a.reference = reference
	return t.exec(`UPDATE holds SET reference = ? WHERE n = ?`, reference, a.n)
}

const deleteHolds = `DELETE FROM holds WHERE n BETWEEN ? AND ?`

// end removes a request from those that run.
func (t *tx) end(r *running) {
	t.wrote = true
	delete(t.live, r.id)
	t.raise(r.key, -r.hold)
	for seq := r.from(); seq <= len(r.attempts); seq++ {
		t.holds.rows--
		t.holds.marks -= r.row(seq).mark
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
		if err := done(s); err != nil {
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
			id := row.ColumnText(1)
			r, ok := m.live[id]
			if !ok {
				r = &running{
					id:      id,
					account: row.ColumnText(3),
					key: keyRef{
						n: row.ColumnInt64(4), id: row.ColumnText(17), account: row.ColumnInt64(2), root: row.ColumnInt64(5),
					},
					owner:    row.ColumnText(6),
					endpoint: row.ColumnText(7),
					profile:  row.ColumnText(8),
				}
				m.live[id] = r
			}
			r.hold += row.ColumnInt64(9)
			m.raise(r.key, row.ColumnInt64(9))
			m.lastHold = row.ColumnInt64(0)
			a := attempt{
				Attempt: ledger.Attempt{
					ID:           ledger.AttemptID(id, row.ColumnInt64(10)),
					Route:        row.ColumnText(11),
					Provider:     row.ColumnText(12),
					Model:        row.ColumnText(13),
					PriceVersion: row.ColumnInt64(14),
					Worst:        columnWorst(row, 16),
				},
				n:         row.ColumnInt64(0),
				created:   columnTime(row, 15),
				beside:    row.ColumnBool(18),
				reference: row.ColumnText(19),
			}
			var err error
			seq := row.ColumnInt(10)
			if seq == 0 {
				a.ID = ""
				r.opening = &a
			} else {
				a.tariff, err = m.price(conn, a.Route, a.PriceVersion)
				r.attempts = append(r.attempts, a)
				seq = len(r.attempts)
			}
			r.row(seq).mark = m.mark(r, seq, row.ColumnInt64(9))
			return err
		})
}
