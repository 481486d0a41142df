package live

import (
	"sync"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/spool"
)

// SpoolLog is a Log in a spool.
type SpoolLog struct{ *spool.Spool }

// Append implements Log.
func (l SpoolLog) Append(c *book.Course) (uint64, error) {
	r, _ := records.Get().(*record)
	defer records.Put(r)
	r.fill(c)
	return l.Spool.Append(&r.Record)
}

// record is a record with what it points to.
type record struct {
	spool.Record
	hold   spool.Hold
	charge int64
}

var records = sync.Pool{New: func() any { return new(record) }}

// Release implements Log.
func (l SpoolLog) Release(covered int64, numbers ...uint64) { l.Spool.Release(covered, numbers...) }

// RecordOf is a course that has ended as the spool keeps it.
func RecordOf(c *book.Course) spool.Record {
	var r record
	r.fill(c)
	return r.Record
}

// fill makes it the record of a course that has ended.
func (r *record) fill(c *book.Course) {
	r.charge = c.End.Charge
	r.hold = spool.Hold{
		Owner: c.Owner, Endpoint: c.Endpoint, Profile: c.Profile, Microcents: c.Held, Created: c.Created, Kept: c.Kept,
		Waived: c.End.Waived, Over: c.End.Over, Tokens: c.End.Tokens,
	}
	r.Record = spool.Record{
		Settlement: c.End.Settlement, Account: c.Account, Key: c.Key, Attempts: r.Attempts[:0], Charge: &r.charge,
		Pending: c.End.Pending, Time: c.End.At, Hold: &r.hold,
	}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		r.Attempts = append(r.Attempts, spool.Attempt{
			ID: a.ID, Route: a.Route, Provider: a.Provider, Model: a.Model, PriceVersion: a.PriceVersion,
			Price: a.Price, Cost: a.Cost, Worst: a.Worst, Created: a.Created, Beside: a.Beside,
			Reference: a.Reference, NotMade: a.Outcome == ledger.NotMade,
		})
	}
}

// CourseOf is the course that a record keeps. ok is false for one that does not say what was held, of a fareway before.
func CourseOf(r *spool.Record) (c book.Course, ok bool, err error) {
	h := r.Hold
	if h == nil || r.Charge == nil {
		return c, false, nil
	}
	c.Running = book.Running{
		ID: r.Settlement.Request, Account: r.Account, Key: r.Key, Owner: h.Owner, Endpoint: h.Endpoint, Profile: h.Profile,
		Held: h.Microcents, Created: h.Created,
	}
	c.Kept = h.Kept
	unmade := map[string]bool{}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		begun := book.BeginAttempt(ledger.Attempt{ID: a.ID, Route: a.Route, Provider: a.Provider, Model: a.Model,
			PriceVersion: a.PriceVersion, Worst: a.Worst}, a.Price, a.Cost, a.Created)
		begun.Beside, begun.Reference = a.Beside, a.Reference
		c.Attempts = append(c.Attempts, begun)
		unmade[a.ID] = a.NotMade
	}
	part := book.Part{Charge: *r.Charge, Waived: h.Waived, Over: h.Over, Tokens: h.Tokens}
	c.End, err = book.RestoreEnd(&r.Settlement, &c.Running, unmade, part, r.Time)
	return c, true, err
}
