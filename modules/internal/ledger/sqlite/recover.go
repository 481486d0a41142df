package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// recoverBatch is how many requests one transaction of Recover settles.
const recoverBatch = 500

// signIn records that this process admits requests, and counts the processes that ever did, with this one.
func (d *database) signIn() (owners int64, err error) {
	err = run(d.conn, `INSERT INTO owners (boot_id, pid, started) VALUES (?, ?, ?)`, nil, d.opts.BootID, os.Getpid(),
		d.opts.Now())
	if err == nil {
		err = run(d.conn, `SELECT count(*) FROM owners`, func(row *sqlite.Stmt) error {
			owners = row.ColumnInt64(0)
			return nil
		})
	}
	return owners, failure(err)
}

// Recover implements ledger.Store. We have the lock, so every owner but ourselves is dead, or has handed it over.
func (s *Store) Recover(ctx context.Context, living ...string) (requests int64, err error) {
	var held int64
	for more := true; more; {
		var n, microcents int64
		err := s.write(ctx, "recover", func(t *tx) (err error) {
			n, microcents, err = t.releaseDead(living)
			return err
		})
		if err != nil {
			return requests, fmt.Errorf("recovering the ledger: %w", err)
		}
		requests, held = requests+n, held+microcents
		more = n == recoverBatch
	}
	if requests > 0 {
		s.opts.Logger.Warn("an earlier process ended without settling; its holds are released and its requests wait for "+
			"receipts",
			"requests", requests, "held_microcents", held)
	}
	return requests, nil
}

// releaseDead settles at nothing the next requests of owners that do not live, in the order in which they were
// admitted. Their attempts are unproven.
func (t *tx) releaseDead(living []string) (requests, held int64, err error) {
	var dead []*running
	for _, r := range t.live {
		if r.Owner != t.opts.BootID && !slices.Contains(living, r.Owner) {
			dead = append(dead, r)
		}
	}
	slices.SortFunc(dead, func(a, b *running) int { return cmp.Compare(a.first().Row.N, b.first().Row.N) })
	dead = dead[:min(len(dead), recoverBatch)]
	for _, r := range dead {
		if _, err := t.settle(book.SettleCrashed(&r.Running)); err != nil {
			return 0, 0, fmt.Errorf("releasing the hold of request %q: %w", r.ID, err)
		}
		held += r.Held
	}
	return int64(len(dead)), held, nil
}
