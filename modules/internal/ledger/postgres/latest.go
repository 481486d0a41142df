package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// latestBatch is how many entries are read before they are given.
const latestBatch = 100

// Latest implements ledger.Books.
func (s *Store) Latest(ctx context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	err := s.list(ctx, "latest", func(ctx context.Context, tx pgx.Tx) error {
		if err := checkAccount(ctx, tx, q.Account); err != nil {
			return err
		}
		before, err := latestStart(ctx, tx, &q)
		for err == nil && before > 1 {
			before, err = s.eachLatest(ctx, tx, before, &q, each)
		}
		return err
	})
	return wrap(listed(err), "listing the latest entries")
}

// latestStart is the number among the account's entries below which all that are wanted are.
func latestStart(ctx context.Context, tx reader, q *ledger.LatestQuery) (before int64, err error) {
	if before = q.Before; before != 0 {
		return before, nil
	}
	err = queryRows(ctx, tx, to(&before), `SELECT coalesce(max(seq), 0) + 1 FROM entries WHERE account = $1`, q.Account)
	if err != nil || q.Until.IsZero() {
		return before, err
	}
	// Entries of an account are numbered without gaps, and in the order of time where no clock was set back.
	low := int64(1)
	for until := ledger.Nanoseconds(q.Until); low < before; {
		middle, created := low+(before-low)/2, int64(0)
		if err := queryRows(ctx, tx, to(&created), `SELECT created FROM entries WHERE account = $1 AND seq = $2`, q.Account,
			middle); err != nil {
			return 0, err
		}
		if created < until {
			low = middle + 1
		} else {
			before = middle
		}
	}
	return before, nil
}

// eachLatest gives a batch of entries from below a number, and returns below which the next ones are.
func (s *Store) eachLatest(ctx context.Context, tx pgx.Tx, before int64, q *ledger.LatestQuery,
	each func(ledger.Movement) error) (next int64, err error) {
	var batch []ledger.Movement
	var requests []string
	since, until := ledger.Query{Since: q.Since, Until: q.Until}.Bounds()
	over := false // there are only older ones
	where, args := `AND e.seq >= $2 - $3::bigint ORDER BY e.seq DESC`, []any{q.Account, before, latestBatch}
	if q.Moved {
		where = `AND e.kind NOT IN ('charge', 'receipt', 'closing') ORDER BY e.seq DESC LIMIT $3`
	}
	err = eachRow(ctx, tx, scanMovement, func(e ledger.Entry) error {
		created := ledger.Nanoseconds(e.Created)
		over = over || created < since
		if next = e.Seq; over {
			next = 0
		} else if q.Before != 0 || created < until {
			batch = append(batch, ledger.Movement{Entry: e})
			if e.Kind == ledger.Charged {
				requests = append(requests, e.Request)
			}
		}
		return nil
	}, selectEntries+`WHERE e.account = $1 AND e.seq < $2 `+where, args...)
	if err != nil {
		return 0, err
	}
	settled := make(map[string]*ledger.RequestRecord, len(requests))
	err = s.eachDetail(ctx, tx, `WHERE r.account = $1 AND r.request = ANY($2)`, func(d *detail) error {
		r := d.RequestRecord
		r.Attempts = slices.Clone(d.Attempts)
		settled[d.ID] = &r
		return nil
	}, q.Account, requests)
	for i := range batch {
		if err != nil {
			return 0, err
		}
		if batch[i].Kind == ledger.Charged {
			batch[i].Settled = settled[batch[i].Request]
		}
		if q.Covered {
			if batch[i].Checkpoint, err = coveringCheckpoint(ctx, tx, &batch[i].Entry); err != nil {
				return 0, err
			}
		}
		if failed := each(batch[i]); failed != nil {
			err = givenError{failed}
		}
	}
	return next, err
}

// coveringCheckpoint is the first checkpoint that covers an entry, nil for none.
func coveringCheckpoint(ctx context.Context, tx pgx.Tx, e *ledger.Entry) (c *ledger.Checkpoint, err error) {
	err = eachRow(ctx, tx, scanCheckpoint, func(one ledger.Checkpoint) error {
		c = &one
		return nil
	}, `SELECT n, entries, created, prev, hash, format, acts, trail FROM checkpoints WHERE n = (SELECT h.checkpoint
		FROM heads AS h WHERE h.account = $1 AND NOT h.act AND h.seq >= $2 ORDER BY h.seq LIMIT 1)`, e.Account, e.Seq)
	return c, err
}
