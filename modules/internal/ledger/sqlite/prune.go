package sqlite

import (
	"context"
	"errors"
	"math"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// pruneBatch is how many requests one transaction removes: those of others wait for it.
	pruneBatch = 256
	// prunable is a condition on requests AS r.
	prunable       = `NOT r.pending AND r.settled < ?1`
	selectPrunable = `SELECT r.id FROM requests AS r WHERE r.id > ?2 AND ` + prunable + ` ORDER BY r.id LIMIT ?3`
)

// Prune implements ledger.Store. What the requests of a key came to is kept, so that Verify can still recompute the
// counters.
func (s *Store) Prune(ctx context.Context, before time.Time) (requests int64, err error) {
	bound := ledger.Nanoseconds(before)
	for after, more := "", true; more; {
		var ids []string
		if ids, err = s.prunable(ctx, bound, after); err != nil || len(ids) == 0 {
			break
		}
		after, more = ids[len(ids)-1], len(ids) == pruneBatch
		var removed int64
		err = s.write(ctx, "prune", func(t *tx) (err error) {
			removed, err = t.prune(ctx, bound, ids)
			return err
		})
		if err != nil {
			break
		}
		requests += removed
	}
	return requests, wrap(err, "removing the detail of old requests")
}

// prunable are the ids of the next requests after one that can be removed. Ids begin with the time, and yet nobody
// promises it, so each call reads on to where it finds as many as it looks for.
func (s *Store) prunable(ctx context.Context, before int64, after string) (ids []string, err error) {
	err = s.chore(ctx, "find_prunable", func(conn *sqlite.Conn) error {
		return run(conn, selectPrunable, appendTo(&ids, firstText), before, after, pruneBatch)
	})
	return ids, err
}

func (t *tx) prune(ctx context.Context, before int64, ids []string) (removed int64, err error) {
	if err := t.movePrunedBefore(ctx, before); err != nil {
		return 0, err
	}
	if err := t.flush(); err != nil {
		return 0, err
	}
	if err := t.rollUp(); err != nil {
		return 0, err
	}
	kept, err := newCells(t.conn, math.MaxInt)
	if err != nil {
		return 0, err
	}
	gone, err := newCells(t.conn, math.MaxInt)
	if err != nil {
		return 0, err
	}
	gone.unprofiled = audit.Unprofiled{} // nobody adds their profile later
	for _, id := range ids {
		// As the request is now: a refund may have come since it was found.
		err := t.exec(`INSERT INTO pruned (key, requests, tokens, charge, waived, refunded)
			SELECT r.key, 1, r.tokens, r.charge, r.waived, r.refunded FROM requests AS r WHERE r.id = ?2 AND `+prunable+`
			ON CONFLICT DO UPDATE SET requests = requests + 1, tokens = tokens + excluded.tokens, charge = charge + `+
			`excluded.charge,
			waived = waived + excluded.waived, refunded = refunded + excluded.refunded`, before, id)
		if err != nil {
			return 0, err
		}
		if t.conn.Changes() == 0 {
			continue
		}
		removed++
		if err := eachDetail(t.conn, `WHERE r.id = ?`, func(r *audit.Request) error {
			return errors.Join(kept.count(r), gone.count(r))
		}, id); err != nil {
			return 0, err
		}
		if err := t.exec(`DELETE FROM attempts WHERE request = ?`, id); err != nil {
			return 0, err
		}
		if err := t.exec(`DELETE FROM requests WHERE id = ?`, id); err != nil {
			return 0, err
		}
	}
	if err := addToDays(t.conn, kept, false, -1); err != nil {
		return 0, err
	}
	return removed, addToDays(t.conn, gone, true, 1)
}

// movePrunedBefore records since when every request has to be there.
func (t *tx) movePrunedBefore(ctx context.Context, before int64) error {
	var was time.Time
	err := t.query(`SELECT pruned_before FROM meta WHERE pruned_before <> 0`, to(&was))
	if err != nil {
		return err
	}
	trail, err := t.trail()
	if err != nil {
		return err
	}
	act, err := book.RecordPruning(trail, was, moment(before), t.by(ctx))
	if err != nil || act.Seq == 0 {
		return err
	}
	if err := t.exec(`UPDATE meta SET pruned_before = ?`, before); err != nil {
		return err
	}
	t.prunedBefore = before
	return t.recordActs(nil, act)
}
