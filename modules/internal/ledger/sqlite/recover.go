package sqlite

import (
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// crashed is the reason of requests that recovery settled.
const crashed = "crashed"

// recover signs this process in and settles, at nothing and as pending, what dead owners left running
// (GAP-99). We have the lock, so every owner but ourselves is dead. It is one transaction, and a second run
// finds nothing to do.
func (s *Store) recover() (err error) {
	now := s.opts.Now()
	defer func() { err = failure(err) }()
	end, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	me := s.opts.BootID
	if err := run(s.conn, `INSERT INTO owners (boot_id, pid, started) VALUES (?, ?, ?)`, nil, me, os.Getpid(), now); err != nil {
		return err
	}
	var holds, held int64
	err = run(s.conn, `SELECT count(*), coalesce(sum(hold), 0) FROM requests WHERE state = 'held' AND owner <> ?`,
		func(row *sqlite.Stmt) error {
			holds, held = row.ColumnInt64(0), row.ColumnInt64(1)
			return nil
		}, me)
	if err != nil || holds == 0 {
		return err
	}
	err = run(s.conn, `UPDATE attempts SET outcome = 'unproven' WHERE outcome IS NULL AND request IN
		(SELECT id FROM requests WHERE state = 'held' AND owner <> ?)`, nil, me)
	if err != nil {
		return err
	}
	err = run(s.conn, `UPDATE accounts SET held = held - d.hold FROM
		(SELECT account, sum(hold) AS hold FROM requests WHERE state = 'held' AND owner <> ? GROUP BY account) AS d
		WHERE accounts.id = d.account`, nil, me)
	if err != nil {
		return err
	}
	err = run(s.conn, `UPDATE requests SET state = 'settled', reason = ?, pending = 1, settled = ?
		WHERE state = 'held' AND owner <> ?`, nil, crashed, now, me)
	if err != nil {
		return err
	}
	s.opts.Logger.Warn("an earlier process ended without settling; its holds are released and its requests wait for receipts",
		"requests", holds, "held_microcents", held)
	return nil
}
