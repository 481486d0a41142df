package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Checkpoints implements ledger.Books.
func (s *Store) Checkpoints(ctx context.Context, each func(ledger.Checkpoint) error) error {
	err := s.list(ctx, "checkpoints", func(ctx context.Context, tx pgx.Tx) error {
		return eachRow(ctx, tx, scanCheckpoint, each, selectCheckpoints)
	})
	return wrap(listed(err), "listing checkpoints")
}

// LatestCheckpoints implements ledger.Books.
func (s *Store) LatestCheckpoints(ctx context.Context, before int64, most int,
	each func(ledger.Checkpoint) error) error {
	err := s.list(ctx, "latest_checkpoints", func(ctx context.Context, tx pgx.Tx) error {
		return eachRow(ctx, tx, scanCheckpoint, each, latestCheckpoints, before, most)
	})
	return wrap(listed(err), "listing checkpoints")
}

// MakeCheckpoint implements ledger.Store. It hashes the heads of the chains that grew since the last one, as one
// moment has them, and keeps which these were: nothing else says which entries a checkpoint covers.
func (s *Store) MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	var c ledger.Checkpoint
	op := &operation{alone: true}
	op.run = func(u *unit) error {
		if _, err := u.exists(`SELECT 1 FROM ledger FOR UPDATE`); err != nil {
			return err
		}
		last := ledger.Checkpoint{}
		err := u.query(func(row pgx.Rows) (err error) {
			last, err = scanCheckpoint(row)
			return err
		}, selectCheckpoints+` DESC LIMIT 1`)
		if err != nil {
			return err
		}
		grown, more, err := u.grownHeads()
		if err != nil {
			return err
		}
		if c = last; len(grown.entries)+len(grown.acts) == 0 {
			return nil
		}
		next := ledger.Checkpoint{Format: ledger.CheckpointFormat, N: last.N + 1, Created: u.now, Prev: last.Hash,
			Entries: last.Entries + more.entries, Acts: last.Acts + more.acts}
		if next, err = book.SealCheckpoint(next, last, grown); err != nil {
			return err
		}
		u.write(`INSERT INTO checkpoints (n, entries, acts, trail, created, prev, hash, format)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, next.N, next.Entries, next.Acts, digest(next.Trail),
			next.Created.UnixNano(), digest(next.Prev), digest(next.Hash), next.Format)
		u.write(`UPDATE ledger SET checkpoints = $1, checkpoint = $2`, next.N, digest(next.Hash))
		for act, heads := range map[bool][]book.Head{false: grown.entries, true: grown.acts} {
			var accounts []string
			var seqs []int64
			var hashes [][]byte
			for _, h := range heads {
				accounts, seqs, hashes = append(accounts, h.Account), append(seqs, h.Seq), append(hashes, digest(h.Hash))
			}
			u.write(`INSERT INTO heads (account, checkpoint, act, seq, hash)
				SELECT a, $1, $2, s, h FROM unnest($3::text[], $4::int8[], $5::bytea[]) AS _ (a, s, h)`, next.N, act, accounts,
				seqs,
				hashes)
		}
		c = next
		return nil
	}
	if err := s.perform(ctx, "make_checkpoint", op); err != nil {
		return ledger.Checkpoint{}, wrap(err, "making a checkpoint")
	}
	return c, nil
}

// grownHeads are the heads of the chains that grew since the last checkpoint, and by how much in all.
type grownHeads struct{ entries, acts []book.Head }

func (g grownHeads) Heads(int64, int64) iter.Seq2[book.Head, error]      { return headsIn(g.entries) }
func (g grownHeads) TrailHeads(int64, int64) iter.Seq2[book.Head, error] { return headsIn(g.acts) }

func headsIn(heads []book.Head) iter.Seq2[book.Head, error] {
	return func(yield func(book.Head, error) bool) {
		for _, h := range heads {
			if !yield(h, nil) {
				return
			}
		}
	}
}

// grownHeads reads the heads as one statement sees them: balances have those of entries and of acts.
func (u *unit) grownHeads() (grown grownHeads, more struct{ entries, acts int64 }, err error) {
	err = u.query(func(row pgx.Rows) error {
		var account string
		var entries, acts, coveredEntries, coveredActs int64
		var head, trail []byte
		if err := row.Scan(&account, &entries, &head, &acts, &trail, &coveredEntries, &coveredActs); err != nil {
			return err
		}
		if entries > coveredEntries {
			grown.entries = append(grown.entries, book.Head{Account: account, Seq: entries, Hash: digestOf(head)})
			more.entries += entries - coveredEntries
		}
		if acts > coveredActs {
			grown.acts = append(grown.acts, book.Head{Account: account, Seq: acts, Hash: digestOf(trail)})
			more.acts += acts - coveredActs
		}
		return nil
	}, `SELECT b.account, b.entries, b.head, b.acts, b.trail,
		coalesce((SELECT max(h.seq) FROM heads AS h WHERE h.account = b.account AND NOT h.act), 0),
		coalesce((SELECT max(h.seq) FROM heads AS h WHERE h.account = b.account AND h.act), 0)
		FROM (SELECT account, entries, head, acts, trail FROM balances
			UNION ALL SELECT '', 0, decode(repeat('00', 32), 'hex'), acts, trail FROM ledger) AS b ORDER BY b.account`)
	return grown, more, err
}
