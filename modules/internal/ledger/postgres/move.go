package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
)

// Target is a database into which a ledger is moved. It is no node, and the database is served by nobody until the
// move is done.
type Target struct {
	store *Store
	types map[string]map[string]string // of columns, by table
}

var _ move.Target = (*Target)(nil)

// OpenTarget connects to a database, which gets its tables when a move begins.
func OpenTarget(ctx context.Context, o Options) (*Target, error) {
	o.fill()
	t := &Target{store: newStore(o), types: map[string]map[string]string{}}
	if err := t.open(ctx); err != nil {
		return nil, fmt.Errorf("opening the database that the ledger is moved to: %w", errors.Join(err, t.Close()))
	}
	return t, nil
}

func (t *Target) open(ctx context.Context) error {
	if err := t.store.connect(ctx, toPrimary); err != nil {
		return err
	}
	if err := t.store.checkServer(ctx); err != nil {
		return err
	}
	// One that is newer by one has columns that this program does not fill.
	is, newest := int64(0), newestSchema()
	has, err := t.hasTable(ctx, "goose_db_version")
	if err == nil && has {
		err = queryRows(ctx, t.store.pool, to(&is),
			`SELECT version_id FROM goose_db_version WHERE is_applied ORDER BY id DESC LIMIT 1`)
	}
	if err == nil && is > newest {
		return newerSchema(is, newest)
	}
	return unavailable(err)
}

func (t *Target) hasTable(ctx context.Context, name string) (has bool, err error) {
	err = queryRows(ctx, t.store.pool, to(&has), `SELECT to_regclass($1) IS NOT NULL`, name)
	return has, err
}

// WaitsForStandby reports whether commits of the database waited for a standby when it was opened.
func (t *Target) WaitsForStandby() bool { return t.store.Server().Standbys != "" }

// writeStage writes how far a move is. Its commit is durable, on the standby where there is a synchronous one, whatever
// the database or the user is set to, as those of lanes are (beginUnit), and nothing cancels it. Where the server
// cannot say whether its standby has the commit, it is an error: the same again waits for that.
func (t *Target) writeStage(ctx context.Context, id string, stage move.Stage, check func(tx pgx.Tx) error) error {
	c := t.store.pool.Config().ConnConfig
	prepare(c)
	conn, err := pgx.ConnectConfig(context.WithValue(ctx, connecting{}, true), c)
	if err != nil {
		return unavailable(err)
	}
	defer hangUp(conn)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), `+commitsDurably)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE moves SET state = $2,
			done = CASE WHEN $2 = 'done' THEN clock_timestamp() ELSE done END WHERE move = $1`, id, string(stage))
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: the database does not have this move", ledger.ErrNotFound)
		}
		if err == nil {
			err = check(tx)
		}
		return err
	})
	if err != nil {
		return unavailable(err)
	}
	if n := noticeOf(conn).Load(); n != nil {
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, (*pgconn.PgError)(n))
	}
	return nil
}

// Close ends the connections.
func (t *Target) Close() error { return t.store.Close() }

// Verify implements move.Target.
func (t *Target) Verify(ctx context.Context, how ledger.Verification) (ledger.Report, error) {
	return t.store.VerifyAs(ctx, how)
}

// filled are the tables that a ledger's rows lie in.
var filled = []string{"ledger", "nodes", "prices", "names", "hashes", "accounts", "balances", "keys", "lines", "holds",
	"requests", "attempts", "waiting", "entries", "acts", "checkpoints", "heads", "pruned", "learned", "chores"}

// FindMove implements move.Target.
func (t *Target) FindMove(ctx context.Context, id string) (stage move.Stage, err error) {
	has, err := t.hasTable(ctx, "moves")
	if err == nil && has {
		err = queryRows(ctx, t.store.pool, to((*string)(&stage)), `SELECT state FROM moves WHERE move = $1`, id)
	}
	return stage, wrap(unavailable(err), "looking for the move")
}

// BeginMove implements move.Target.
func (t *Target) BeginMove(ctx context.Context, id, source string, anew bool) (had map[string]move.Progress,
	err error) {
	if err := migrate(ctx, t.store.pool, t.store.o); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, t.store.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE moves IN EXCLUSIVE MODE`); err != nil { // another move waits
			return err
		}
		var other, from, state string
		if err := queryRows(ctx, tx, to(&other, &from, &state), `SELECT move, source, state FROM moves LIMIT 1`); err != nil {
			return err
		}
		switch {
		case other == "":
			if err := refuseFilled(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO moves (move, source, state) VALUES ($1, $2, 'copying')`, id, source)
			return err
		case state == "done":
			return fmt.Errorf("%w: the database has the ledger of %s, which was moved here: use another, empty database",
				ledger.ErrExists, from)
		case state == string(move.Undone):
			return fmt.Errorf("%w: the ledger of %s was moved into this database and brought back: use another, empty database",
				ledger.ErrExists, from)
		case other != id:
			return fmt.Errorf("%w: a move of the ledger of %s into this database has begun and is not finished: go on with "+
				"that one, or use another, empty database", ledger.ErrExists, from)
		}
		// What was whole may be so no more from here on.
		if _, err := tx.Exec(ctx, `UPDATE moves SET state = 'copying'`); err != nil {
			return err
		}
		if anew {
			return clearMoved(ctx, tx)
		}
		had, err = readProgress(ctx, tx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("beginning the move: %w", unavailable(err))
	}
	// Behind the commit: a node that has signed in meanwhile is seen here, or sees the move and leaves.
	live := int64(0)
	err = queryRows(ctx, t.store.pool, to(&live), `SELECT count(*) FROM nodes WHERE ended IS NULL`)
	if err == nil && live > 0 {
		return nil, fmt.Errorf("%w: a gateway has just been started on this database; stop it, and start the move again",
			ledger.ErrExists)
	}
	return had, unavailable(err)
}

// refuseFilled is an error where the database has a row of a ledger already.
func refuseFilled(ctx context.Context, tx pgx.Tx) error {
	for _, table := range filled {
		some := false
		if table == "ledger" {
			continue // it has a row from the beginning
		}
		err := queryRows(ctx, tx, to(&some), `SELECT true FROM `+table+` LIMIT 1`)
		if err == nil && some {
			err = fmt.Errorf("%w: the database is not empty: a gateway has been started on it (there are %s); a ledger is "+
				"moved into an empty database only: create one", ledger.ErrExists, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clearMoved removes what an earlier run of a move has brought, append-only or not: nobody was served by it.
func clearMoved(ctx context.Context, tx pgx.Tx) error {
	guarded := []string{"entries", "acts", "prices", "checkpoints"}
	for _, table := range guarded {
		if _, err := tx.Exec(ctx, `ALTER TABLE `+table+` DISABLE TRIGGER USER`); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `TRUNCATE moved, `+strings.Join(filled, ", ")); err != nil {
		return err
	}
	for _, table := range guarded {
		if _, err := tx.Exec(ctx, `ALTER TABLE `+table+` ENABLE TRIGGER USER`); err != nil {
			return err
		}
	}
	return nil
}

func readProgress(ctx context.Context, tx pgx.Tx, id string) (map[string]move.Progress, error) {
	had := map[string]move.Progress{}
	err := queryRows(ctx, tx, func(row pgx.Rows) error {
		var table, position string
		var p move.Progress
		if err := row.Scan(&table, &position, &p.Rows); err != nil {
			return err
		}
		d := json.NewDecoder(strings.NewReader(position))
		d.UseNumber()
		if err := d.Decode(&p.After); err != nil {
			return fmt.Errorf("reading how far %s is: %w", table, err)
		}
		for i, v := range p.After {
			if n, is := v.(json.Number); is {
				whole, err := n.Int64()
				if err != nil {
					return fmt.Errorf("reading how far %s is: %w", table, err)
				}
				p.After[i] = whole
			}
		}
		had[table] = p
		return nil
	}, `SELECT "table", position, rows FROM moved WHERE move = $1`, id)
	return had, err
}

// AddMoved implements move.Target.
func (t *Target) AddMoved(ctx context.Context, id string, table move.Table, rows [][]any, so move.Progress) error {
	position, err := json.Marshal(so.After)
	if err != nil {
		return fmt.Errorf("noting how far it is: %w", err)
	}
	err = pgx.BeginFunc(ctx, t.store.pool, func(tx pgx.Tx) error {
		if table.Keys == 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table.Name); err != nil {
				return err
			}
		}
		if table.Name == "requests" || table.Name == "attempts" {
			if err := addMonthsOf(ctx, tx, table, rows); err != nil {
				return err
			}
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{table.Name}, table.Columns, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO moved (move, "table", position, rows) VALUES ($1, $2, $3, $4)
			ON CONFLICT (move, "table") DO UPDATE SET position = excluded.position, rows = excluded.rows`, id, table.Name,
			string(position), so.Rows)
		return err
	})
	return unavailable(err)
}

// addMonthsOf makes the partitions that rows belong to, where they are missing. What has an id of another kind, or of a
// time that no request can have, lies in the rest.
func addMonthsOf(ctx context.Context, tx pgx.Tx, table move.Table, rows [][]any) error {
	last := ""
	for _, row := range rows {
		id, _ := row[1].(string) // behind the account
		month, is := monthOf(id)
		name := table.Name + month.Format("_2006_01")
		if !is || name == last {
			continue
		}
		last = name
		_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
			name, table.Name, firstID(month), firstID(month.AddDate(0, 1, 0))))
		if err != nil {
			return fmt.Errorf("making the partition %s: %w", name, err)
		}
	}
	return nil
}

// monthOf is the month that a request's id begins with, as firstID writes it.
func monthOf(id string) (month time.Time, is bool) {
	digits, named := strings.CutPrefix(id, "req_")
	if !named || len(digits) < 12 {
		return month, false
	}
	ms, err := strconv.ParseInt(digits[:12], 16, 64)
	at := time.UnixMilli(ms).UTC()
	if err != nil || digits[:12] != strings.ToLower(digits[:12]) || at.Year() < 2024 ||
		at.After(time.Now().AddDate(0, 2, 0)) {
		return month, false
	}
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC), true
}

// Convert implements move.Target.
func (t *Target) Convert(ctx context.Context, table move.Table, values []any) error {
	types, err := t.typesOf(ctx, table.Name)
	if err != nil {
		return err
	}
	for i, v := range values {
		column := table.Columns[i]
		switch v := v.(type) {
		case int64:
			switch types[column] {
			case "bool":
				values[i] = v != 0
			case "timestamptz":
				values[i] = time.UnixMicro(v / int64(time.Microsecond)).UTC()
			}
		case string:
			if !utf8.ValidString(v) || strings.Contains(v, "\x00") {
				return fmt.Errorf("%w: its %s is %q, which PostgreSQL cannot keep, and which cannot be changed without breaking "+
					"what vouches for it; this ledger stays where it is", ledger.ErrInvalid, column, v)
			}
		}
	}
	return nil
}

func (t *Target) typesOf(ctx context.Context, table string) (types map[string]string, err error) {
	if types = t.types[table]; types != nil {
		return types, nil
	}
	types = map[string]string{}
	err = queryRows(ctx, t.store.pool, func(row pgx.Rows) error {
		var column, of string
		err := row.Scan(&column, &of)
		types[column] = of
		return err
	}, `SELECT a.attname, t.typname FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0`, table)
	t.types[table] = types
	return types, unavailable(err)
}

// ReadAdded implements move.Target.
func (t *Target) ReadAdded(ctx context.Context, table move.Table, each func(values []any) error) error {
	err := t.store.list(ctx, "read_added", func(ctx context.Context, tx pgx.Tx) error {
		return eachRow(ctx, tx, func(row pgx.Rows) ([]any, error) { return row.Values() }, each,
			`SELECT `+strings.Join(table.Columns, ", ")+` FROM `+table.Name)
	})
	return listed(err)
}

// SettleMove implements move.Target: the server knows nothing of what the tables have yet, and would read all of them
// where it should find a row.
func (t *Target) SettleMove(ctx context.Context) error {
	t.store.addMonths(ctx)
	_, err := t.store.pool.Exec(ctx, `ANALYZE `+strings.Join(filled, ", "))
	return wrap(unavailable(err), "looking at what was moved")
}

// MarkWhole implements move.Target. What was committed before it is durable with it.
func (t *Target) MarkWhole(ctx context.Context, id string) error {
	return t.writeStage(ctx, id, move.Whole, func(pgx.Tx) error { return nil })
}

// EndMove implements move.Target.
func (t *Target) EndMove(ctx context.Context, id string) error {
	return t.writeStage(ctx, id, move.Ended, func(pgx.Tx) error { return nil })
}

// UndoMove has the database served by nobody from now on, as the old ledger is served again. It is ledger.ErrInvalid
// where that would lose something: a gateway lives here, or there is more here than was moved.
func (t *Target) UndoMove(ctx context.Context, id string) error {
	err := t.writeStage(ctx, id, move.Undone, func(tx pgx.Tx) error {
		// A node that signs in waits for this lock, and finds then that it may not.
		if _, err := tx.Exec(ctx, `LOCK TABLE moves IN EXCLUSIVE MODE; LOCK TABLE nodes IN SHARE MODE`); err != nil {
			return err
		}
		node, newer := "", ""
		err := queryRows(ctx, tx, to(&node), `SELECT name || '/' || node FROM nodes WHERE ended IS NULL LIMIT 1`)
		if err == nil && node != "" {
			return fmt.Errorf("%w: a gateway was started on the database and has not ended, %s: stop it; if it was killed, "+
				"start it once more, and stop it", ledger.ErrInvalid, node)
		}
		if err != nil {
			return err
		}
		err = queryRows(ctx, tx, to(&newer), `
			SELECT h.name || ': ' || h.has || ', and ' || coalesce(m.rows, 0) || ' were moved'
			FROM (SELECT 'entries' AS name, count(*) AS has FROM entries UNION ALL SELECT 'acts', count(*) FROM acts
				UNION ALL SELECT 'accounts', count(*) FROM accounts UNION ALL SELECT 'keys', count(*) FROM keys
				UNION ALL SELECT 'requests', count(*) FROM requests UNION ALL SELECT 'holds', count(*) FROM holds) AS h
			LEFT JOIN moved AS m ON m.move = $1 AND m."table" = h.name WHERE h.has > coalesce(m.rows, 0) LIMIT 1`, id)
		if err == nil && newer != "" {
			return fmt.Errorf("%w: the database has more than was moved there (%s), which the old ledger does not have",
				ledger.ErrInvalid, newer)
		}
		return err
	})
	return wrap(err, "ending the serving of the ledger that was moved")
}
