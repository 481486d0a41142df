package audit

import (
	"fmt"
	"math"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// The places of all entries.
const minPlace, maxPlace = math.MinInt64, math.MaxInt64

// verifyCheckpoints recomputes the checkpoints and compares those that were kept elsewhere.
func (v *verification) verifyCheckpoints() error {
	var last ledger.Checkpoint
	kept := map[int64][]ledger.Checkpoint{}
	for _, k := range v.how.Kept {
		kept[k.N] = append(kept[k.N], k)
	}
	err := each(v.Checkpoints(), func(c ledger.Checkpoint) error {
		v.report.Checkpoints++
		err := v.verifyCheckpoint(c, last, kept[c.N])
		delete(kept, c.N)
		last = c
		return err
	})
	if err != nil {
		return err
	}
	if n := v.head.Checkpoints; n != last.N || v.head.Checkpoint != last.Hash {
		return Disagree(CheckpointName(max(n, last.N)),
			"the ledger counts %d checkpoints, and has others: some were removed or put in", n)
	}
	for _, k := range v.how.Kept {
		if _, missing := kept[k.N]; missing {
			return Disagree(CheckpointName(k.N), "it was kept elsewhere and the ledger does not have it: what came after "+
				"checkpoint %d was cut off; it is over %d movements of money, and the ledger has %d", last.N, k.Entries,
				v.from+v.report.Entries)
		}
	}
	return nil
}

// verifyCheckpoint recomputes a checkpoint, unless it is before that which the verification begins at.
func (v *verification) verifyCheckpoint(c, last ledger.Checkpoint, kept []ledger.Checkpoint) error {
	where, entries := CheckpointName(c.N), v.from+v.report.Entries
	switch {
	case c.N != last.N+1:
		return Disagree(where, "checkpoint %d is missing before it", last.N+1)
	case c.Entries < last.Entries || c.Entries > entries:
		return Disagree(where, "it is over %d entries, the one before it over %d, and the journal has %d", c.Entries,
			last.Entries, entries)
	case c.Format < last.Format || c.Acts < last.Acts:
		return Disagree(where, "it is over %d acts in format %d, the one before it over %d in format %d", c.Acts, c.Format,
			last.Acts, last.Format)
	case c.Entries == last.Entries && c.Acts == last.Acts:
		return Disagree(where, "it is over nothing that the one before it is not over")
	case c.Prev != last.Hash:
		return Disagree(where, "its link to the checkpoint before it is broken")
	case v.how.From != nil && c.N < v.how.From.N:
		return nil
	}
	again, err := book.SealCheckpoint(c, last, v.Rows)
	switch {
	case err != nil:
		return err
	case again.Trail != c.Trail:
		return Disagree(where,
			"the audit trail, of which it is over the first %d acts, is not the one that it was made over", c.Acts)
	case again.Hash != c.Hash:
		return Disagree(where, "it is not what the heads of the accounts make after entry %d", c.Entries)
	}
	for _, k := range kept {
		if k.Hash != c.Hash || k.Prev != c.Prev || k.Entries != c.Entries || k.Acts != c.Acts || k.Trail != c.Trail ||
			!k.Created.Equal(c.Created) {
			return Disagree(where, "it is not the one that was kept: entries up to %d or acts up to %d were rewritten after "+
				"it was made", k.Entries, k.Acts)
		}
	}
	return nil
}

// CheckpointName is where a finding about a checkpoint is.
func CheckpointName(n int64) string { return fmt.Sprintf("checkpoint/%d", n) }

// verifyRunning checks the requests that run: that the rows of one agree, that what they name exists, and that there
// are as many as the ledger counts, which hold as much. That none was changed the sum of their marks shows.
func (v *verification) verifyRunning() error {
	var rows, held, marks int64
	var scratch []byte
	var first, last Hold
	var wrong error
	err := each(v.Holds(), func(h Hold) error {
		rows++
		held += h.Hold.Hold
		marks += h.Mark(&scratch)
		begins := h.Request != last.Request || rows == 1
		if begins {
			first, last = h, Hold{}
			last.Seq = min(h.Seq, 1) - 1 // a hold may come before its first attempt
			v.report.Holds++
		}
		seq := last.Seq + 1
		last = h
		last.Seq = seq
		return keep(&wrong, v.verifyHold(&h, &first, seq, begins))
	})
	switch {
	case err != nil:
		return err
	case rows != v.head.Rows || held != v.head.Held:
		return Disagree("holds", "there are %d attempts of running requests that hold %d microcents, and there should "+
			"be %d that hold %d", rows, held, v.head.Rows, v.head.Held)
	case wrong == nil && marks != v.head.Marks:
		return Disagree("holds", "the running requests are not those that were recorded: one of them was changed, removed "+
			"or put in")
	}
	return wrong
}

// verifyHold checks a row of a running request, which is to be of its seq-th attempt.
func (v *verification) verifyHold(h, first *Hold, seq int64, begins bool) error {
	_, priced := v.prices[version{h.Route, h.PriceVersion}]
	switch {
	case h.Seq != seq || seq < 0:
		return Disagree(h.Request, "attempt %d of the running request is missing, or there are two of it", seq)
	case h.AccountNumber != first.AccountNumber || h.KeyNumber != first.KeyNumber || h.Owner != first.Owner ||
		h.Endpoint != first.Endpoint || h.Profile != first.Profile:
		return Disagree(h.Request, "its attempts do not agree on whose it is")
	case !begins && h.Hold.Hold != 0:
		return Disagree(h.Request, "its attempt %d holds something, which only the first one does", seq)
	case h.AccountNumber < 1 || h.KeyAccount != h.AccountNumber:
		return Disagree(h.Request, "its key is none of its account's")
	case !priced && seq > 0:
		return Disagree(h.Request, "attempt %d began at a price that does not exist", seq)
	case h.Settled:
		return Disagree(h.Request, "the request runs, and is settled, too")
	}
	return v.verifyOwner(h.Request, h.Owner)
}

// verifyWaiting compares the list of attempts that wait for a receipt with the attempts. Each row has to be one of
// them, so that equal numbers mean the same attempts.
func (v *verification) verifyWaiting() error {
	err := each(v.Waiting(), func(w Waiting) error {
		v.report.Pending++
		r, err := v.FindRequest(w.Request)
		if err != nil || r != nil && r.Pending && w.isOf(r) {
			return err
		}
		return Disagree(w.Request, "attempt %d is listed as waiting for a receipt, and it is not as listed or does not wait",
			w.Seq)
	})
	if err != nil || v.report.Pending == v.waiting {
		return err
	}
	type attempt struct {
		request string
		seq     int64
	}
	listed := map[attempt]bool{} // each is a request that exists
	err = each(v.Waiting(), func(w Waiting) error {
		listed[attempt{w.Request, w.Seq}] = true
		return nil
	})
	if err != nil {
		return err
	}
	return each(v.Requests(Span{Pending: true}), func(r *Request) error {
		for i := range r.Attempts {
			if isWaiting(r, &r.Attempts[i]) && !listed[attempt{r.ID, int64(i) + 1}] {
				return Disagree(r.ID, "attempt %d waits for a receipt, and is not listed", i+1)
			}
		}
		return nil
	})
}

// isOf reports whether a request has the attempt that is listed.
func (w *Waiting) isOf(r *Request) bool {
	if w.Seq < 1 || w.Seq > int64(len(r.Attempts)) {
		return false
	}
	a := &r.Attempts[w.Seq-1]
	return isWaiting(r, a) && a.Provider == w.Provider && a.Route == w.Route && a.Created.Equal(w.Created)
}
