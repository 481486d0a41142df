package sqlite

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"
)

// verifyRunning checks the requests that run: that the rows of one agree, that what they name exists, and that
// there are as many as meta says, which hold as much.
func (v *verification) verifyRunning() error {
	var marks int64
	err := run(v.conn, `SELECT m.holds, m.held, count(h.n), coalesce(sum(h.hold), 0), m.marks
		FROM meta AS m LEFT JOIN holds AS h`,
		func(row *sqlite.Stmt) error {
			rows, held := row.ColumnInt64(0), row.ColumnInt64(1)
			if rows != row.ColumnInt64(2) || held != row.ColumnInt64(3) {
				return disagree("holds", "there are %d attempts of running requests that hold %d microcents, and there should "+
					"be %d that hold %d",
					row.ColumnInt64(2), row.ColumnInt64(3), rows, held)
			}
			marks = row.ColumnInt64(4)
			return nil
		})
	if err != nil {
		return err
	}
	var request, head string // of the row before
	var seq int64
	err = run(v.conn, `SELECT h.request, h.seq, h.hold, k.account IS h.account, p.version IS NULL, s.id IS NOT NULL, `+
		`h.owner,
		h.account || ' ' || h.key || ' ' || quote(h.owner) || ' ' || quote(h.endpoint) || ' ' || quote(h.profile)
		FROM holds AS h LEFT JOIN keys AS k ON k.n = h.key LEFT JOIN prices AS p ON p.route = h.route AND p.version = `+
		`h.price_version
		LEFT JOIN requests AS s ON s.id = h.request ORDER BY h.request, h.seq, h.n`, func(row *sqlite.Stmt) error {
		id, same := row.ColumnText(0), row.ColumnText(7)
		first := id != request
		if first {
			request, head, seq = id, same, min(row.ColumnInt64(1), 1)-1 // a hold may come before its first attempt
			v.report.Holds++
		}
		seq++
		switch {
		case row.ColumnInt64(1) != seq || seq < 0:
			return disagree(id, "attempt %d of the running request is missing, or there are two of it", seq)
		case same != head:
			return disagree(id, "its attempts do not agree on whose it is")
		case !first && row.ColumnInt64(2) != 0:
			return disagree(id, "its attempt %d holds something, which only the first one does", seq)
		case !row.ColumnBool(3):
			return disagree(id, "its key is none of its account's")
		case row.ColumnBool(4) && seq > 0:
			return disagree(id, "attempt %d began at a price that does not exist", seq)
		case row.ColumnBool(5):
			return disagree(id, "the request runs, and is settled, too")
		}
		return v.verifyOwner(id, row.ColumnText(6))
	})
	if err != nil {
		return err
	}
	m := newMemory()
	if err := m.loadLive(v.conn); err != nil {
		return err
	}
	for _, r := range m.live {
		for seq := r.from(); seq <= len(r.Attempts); seq++ {
			marks -= r.row(seq).Row.Mark
		}
	}
	if marks != 0 {
		return disagree("holds", "the running requests are not those that were recorded: one of them was changed, removed "+
			"or put in")
	}
	return nil
}

// verifyWaiting compares the list of attempts that wait for a receipt with the attempts. Each row has to be one of
// them, so that equal numbers mean the same attempts.
func (v *verification) verifyWaiting() error {
	err := run(v.conn, `SELECT w.request, w.seq, t.request IS NOT NULL
		FROM waiting AS w LEFT JOIN requests AS r ON r.id = w.request AND r.pending LEFT JOIN attempts AS t
		ON t.request = r.id AND t.seq = w.seq AND t.provider = w.provider AND t.created = w.created AND t.route = w.route
		AND t.outcome = 'unproven' AND t.receipt IS NULL`, func(row *sqlite.Stmt) error {
		v.report.Pending++
		if !row.ColumnBool(2) {
			return disagree(row.ColumnText(0), "attempt %d is listed as waiting for a receipt, and it is not as listed or "+
				"does not wait", row.ColumnInt64(1))
		}
		return nil
	})
	if err != nil || v.report.Pending == v.waiting {
		return err
	}
	return run(v.conn, `SELECT t.request, t.seq FROM requests AS r JOIN attempts AS t ON t.request = r.id
		LEFT JOIN waiting AS w ON w.provider = t.provider AND w.created = t.created AND w.request = t.request AND w.seq = `+
		`t.seq
		WHERE r.pending AND t.outcome = 'unproven' AND t.receipt IS NULL AND w.seq IS NULL ORDER BY r.id LIMIT 1`,
		func(row *sqlite.Stmt) error {
			return disagree(row.ColumnText(0), "attempt %d waits for a receipt, and is not listed", row.ColumnInt64(1))
		})
}

// verifyAttempts looks for attempts of no request, if there are more than the requests have.
func (v *verification) verifyAttempts() error {
	if v.from > 0 {
		return nil // not all were looked at
	}
	var attempts int64
	err := run(v.conn, `SELECT count(*) FROM attempts`, func(row *sqlite.Stmt) error {
		attempts = row.ColumnInt64(0)
		return nil
	})
	if err != nil || attempts == v.attempts {
		return err
	}
	return run(v.conn,
		`SELECT request FROM attempts WHERE request NOT IN (SELECT id FROM requests) ORDER BY request LIMIT 1`,
		func(row *sqlite.Stmt) error {
			return disagree(row.ColumnText(0), "there are attempts of it, and no request")
		})
}

// verifyPrices checks that each route's versions are there from the first one on, and that what is pruned has a date.
func (v *verification) verifyPrices() error {
	var route string
	var version int64
	err := run(v.conn, `SELECT route, version FROM prices ORDER BY route, version`, func(row *sqlite.Stmt) error {
		if r := row.ColumnText(0); r != route {
			route, version = r, 0
		}
		if version++; row.ColumnInt64(1) != version {
			return disagree(fmt.Sprintf("%s@%d", route, row.ColumnInt64(1)),
				"version %d of the route's price is missing before it", version)
		}
		return nil
	})
	if err != nil || v.pruned > 0 {
		return err
	}
	return run(v.conn, `SELECT 1 FROM pruned LIMIT 1`, func(*sqlite.Stmt) error {
		return disagree("pruned", "it says what pruned requests came to, and nothing was ever pruned")
	})
}

// verifyPages lets SQLite look for damage in the file and for rows that break what the schema demands.
func (v *verification) verifyPages() error {
	return run(v.conn, `PRAGMA integrity_check(1)`, func(row *sqlite.Stmt) error {
		if text := row.ColumnText(0); text != "ok" {
			return disagree("database", "%s", text)
		}
		return nil
	})
}

// verifyStructure says what verifyPages has found, and compares the schema with the one that this fareway
// makes: the journal's triggers and unique indexes keep what the other steps rely on.
func (v *verification) verifyStructure() error {
	if v.damage != nil {
		return v.damage
	}
	want, err := newestSchema()
	if err != nil {
		return err
	}
	is, err := schemaOf(v.conn)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if is[name] != want[name] {
			return disagree("database", "%s is missing, or not as this fareway makes it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := want[name]; !ok {
			return disagree("database", "%s is not of this fareway", name)
		}
	}
	return nil
}

// newestSchema is the schema of a ledger that is made now.
var newestSchema = sync.OnceValues(func() (map[string]string, error) {
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is kept
	if err := migrate(conn, 0); err != nil {
		return nil, err
	}
	return schemaOf(conn)
})

// schemaOf is what makes each table, index, trigger and view of a database, by kind and name. Statistics and the
// like, which SQLite keeps for itself, begin with sqlite_.
func schemaOf(conn *sqlite.Conn) (map[string]string, error) {
	objects := map[string]string{}
	err := run(conn,
		`SELECT type, name, coalesce(sql, '') FROM main.sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`,
		func(row *sqlite.Stmt) error {
			objects[row.ColumnText(0)+" "+row.ColumnText(1)] = row.ColumnText(2)
			return nil
		})
	return objects, err
}
