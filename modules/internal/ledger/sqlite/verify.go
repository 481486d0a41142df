package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// maxVerifiers bounds the connections of a verification, each with a cache of its own.
	maxVerifiers = 8
	// oneMoment is how often connections are begun anew until all see the same moment.
	oneMoment = 100
)

// verifiers is how many connections verify.
func verifiers() int { return min(runtime.GOMAXPROCS(0), maxVerifiers) }

// Verify implements ledger.Books. It reads one snapshot, beside the running operations, on all processors; package
// audit says in which order what is looked at. Each large table is read from end to end twice, once of these times for
// sums by account and key, which SQLite sorts on the disk.
func (b *books) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return b.VerifyAs(ctx, ledger.Verification{Kept: kept})
}

// VerifyAs implements ledger.Books.
func (b *books) VerifyAs(ctx context.Context, how ledger.Verification) (ledger.Report, error) {
	var r ledger.Report
	t, err := readTraces(b.path, b.log)
	if err == nil {
		until, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.ctx, cancel)()
		err = b.list(ctx, "verify", func(conn *sqlite.Conn) (err error) {
			readers, err := b.openReaders(until, conn, verifiers())
			if err == nil {
				r, err = verifyAs(conn, readers, t, how)
			}
			for _, reader := range readers {
				err = errors.Join(err, reader.Close())
			}
			return err
		})
	}
	if err != nil {
		return ledger.Report{}, fmt.Errorf("verifying the ledger: %w", err)
	}
	return r, nil
}

// verifyAs verifies what connections see, readers the same as conn, and the file.
func verifyAs(conn *sqlite.Conn, readers []*sqlite.Conn, t traces, how ledger.Verification) (ledger.Report, error) {
	l := audit.Ledger{
		Rows: newAuditRows(conn), Form: func() error { return verifyVersion(conn) },
		Loss:    func() (*ledger.Loss, string, error) { return findLoss(conn, t) },
		Storage: verifyStorage, Schema: func() error { return verifySchema(conn) },
	}
	for _, reader := range readers {
		l.Beside = append(l.Beside, newAuditRows(reader))
	}
	r, err := audit.Verify(l, how)
	r.Witnessed = t.seen != nil
	if err == nil {
		r.PowerCut, err = readPowerCuts(conn)
	}
	if damaged := sqlite.ErrCode(err).ToPrimary(); damaged == sqlite.ResultCorrupt || damaged == sqlite.ResultNotADB {
		r.OK, r.Entry, r.Problem = false, "database", "the file is damaged: "+err.Error()
		return r, nil
	}
	if err != nil {
		return ledger.Report{}, err
	}
	return r, nil
}

// selectMoment is the moment of a ledger, as far as its parts are read: what they look at changes with an entry or a
// pruning only. The sum has no more than 32 bits of each number, so that it never overflows.
const selectMoment = `SELECT (SELECT coalesce(max(n), 0) FROM entries) || ' ' || pruned_before || ' '
	|| (SELECT coalesce(sum(requests & 0xffffffff), 0) FROM pruned) || ' ' || (SELECT count(*) FROM owners) FROM meta`

// openReaders opens up to n connections that see what conn sees; fewer, or none, where the ledger never stands still.
// conn and they are begun anew until they do.
func (b *books) openReaders(ctx context.Context, conn *sqlite.Conn, n int) (readers []*sqlite.Conn, err error) {
	same := false
	defer func() {
		if err != nil || !same {
			for _, reader := range readers {
				err = errors.Join(err, reader.Close())
			}
			readers = nil
		}
	}()
	for range n {
		reader, err := openReader(b.path, b.busy)
		if err != nil {
			return readers, err
		}
		reader.SetInterrupt(ctx.Done())
		readers = append(readers, reader)
		if err := run(reader, `BEGIN`, nil); err != nil {
			return readers, err
		}
	}
	all := append([]*sqlite.Conn{conn}, readers...)
	for range oneMoment {
		moments := map[string]bool{}
		for _, c := range all {
			var at string
			if err := run(c, selectMoment, to(&at)); err != nil {
				return readers, err
			}
			moments[at] = true
		}
		if same = len(moments) == 1; same {
			return readers, nil
		}
		for _, c := range all {
			for _, again := range []string{`ROLLBACK`, `BEGIN`} {
				if err := run(c, again, nil); err != nil {
					return readers, err
				}
			}
		}
	}
	return readers, nil
}

// verifyVersion checks that the ledger says once that it is of this version.
func verifyVersion(conn *sqlite.Conn) error {
	var version, rows int
	err := run(conn, `SELECT version, count(*) FROM meta`, to(&version, &rows))
	if err == nil && (version != len(migrations) || rows != 1) {
		err = audit.Disagree("meta", "it has %d rows and says version %d; one row with version %d is what it should have",
			rows, version, len(migrations))
	}
	return err
}

// readPowerCuts reads what the audit trail says of power cuts; nil for none.
func readPowerCuts(conn *sqlite.Conn) (cuts *ledger.PowerCuts, err error) {
	var c ledger.PowerCuts
	err = run(conn, `SELECT count(*) OVER (), created, coalesce(after ->> 'lost', '') FROM audit WHERE action = ?
		ORDER BY n DESC LIMIT 1`, func(row *sqlite.Stmt) error {
		readColumns(row, 0, &c.Times, &c.Last, &c.Lost)
		cuts = &c
		return nil
	}, book.PowerCutAction)
	return cuts, err
}

// findLoss is lossOf for whoever has not read yet how far the ledger has come.
func findLoss(conn *sqlite.Conn, t traces) (*ledger.Loss, string, error) {
	if t.seen == nil && t.damage == nil {
		return nil, "", nil
	}
	has, err := readExtent(conn)
	if err != nil {
		return nil, "", err
	}
	return lossOf(conn, has, t, bootOfMachine())
}

// FindLoss finds what is missing of the ledger at a path and was not accepted; nil: nothing is known to be. A gateway
// may be running on it.
func FindLoss(ctx context.Context, database string) (loss *ledger.Loss, err error) {
	books, err := OpenBooks(ctx, database)
	if err != nil {
		return nil, err
	}
	t, err := readTraces(books.path, books.log)
	if err == nil {
		err = books.list(ctx, "find_loss", func(conn *sqlite.Conn) (err error) {
			loss, _, err = findLoss(conn, t)
			return err
		})
	}
	if err := errors.Join(err, books.Close()); err != nil {
		return nil, fmt.Errorf("looking for what the ledger has lost: %w", err)
	}
	if loss != nil && loss.PowerCut {
		return nil, nil // nobody has to decide about that
	}
	return loss, nil
}

// verifyStorage looks at the file's pages, and at the sums of days that are sums of others.
func verifyStorage(rows audit.Rows) error {
	of, _ := rows.(auditRows)
	if err := verifyPages(of.conn); err != nil {
		return err
	}
	return verifyDayTotals(of.conn)
}

// verifyPages lets SQLite look for damage in the file and for rows that break what the schema demands.
func verifyPages(conn *sqlite.Conn) error {
	var text string
	err := run(conn, `PRAGMA integrity_check(1)`, to(&text))
	if err == nil && text != "ok" {
		err = audit.Disagree("database", "%s", text)
	}
	return err
}

// verifySchema compares the schema with the one that this fareway makes: the journal's triggers and unique indexes
// keep what is relied on.
func verifySchema(conn *sqlite.Conn) error {
	want, err := newestSchema()
	if err != nil {
		return err
	}
	is, err := schemaOf(conn)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if is[name] != want[name] {
			return audit.Disagree("database", "%s is missing, or not as this fareway makes it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := want[name]; !ok {
			return audit.Disagree("database", "%s is not of this fareway", name)
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
