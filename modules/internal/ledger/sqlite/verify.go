package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Verify implements ledger.Books. It reads one snapshot, beside the running operations, and recomputes the journal by
// itself and every settled request with its entries, on all processors, and then in this order: the checkpoints, the
// accounts and keys as the sums of those, the running requests, what waits for receipts, prices and the audit trail,
// and the database's own structure. Each large table is read from end to end twice, once of these times for sums by
// account and key, which SQLite sorts on the disk.
func (b *books) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return b.VerifyAs(ctx, ledger.Verification{Kept: kept})
}

// VerifyAs implements ledger.Books.
func (b *books) VerifyAs(ctx context.Context, how ledger.Verification) (ledger.Report, error) {
	var r ledger.Report
	seen, damage, err := traces(b.path)
	if err == nil {
		until, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.ctx, cancel)()
		err = b.list(ctx, "verify", func(conn *sqlite.Conn) (err error) {
			readers, err := b.beside(until, conn, verifiers())
			if err == nil {
				r, err = verifyAs(conn, readers, seen, damage, how)
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

// finding is something that disagrees. As an error it ends the step that met it.
type finding struct {
	n     int64 // of the entry that it is about; 0 when it is about none
	where string
	what  string
}

func (f *finding) Error() string { return f.where + ": " + f.what }

func disagree(where, format string, args ...any) error {
	return &finding{where: where, what: fmt.Sprintf(format, args...)}
}

func entryDisagrees(n int64, where, format string, args ...any) error {
	return &finding{n: n, where: where, what: fmt.Sprintf(format, args...)}
}

// verification is one run of Verify.
type verification struct {
	conn    *sqlite.Conn
	readers []*sqlite.Conn // of the same moment, for the parts
	how     ledger.Verification
	from    int64             // the last entry that is taken as it is
	seen    *extent           // by the witness; nil: there is none
	log     *ledger.LogDamage // of the write-ahead log; nil: it is whole
	looked  []uint64          // a bit for each account that an entry was looked at of, by its number
	done    *atomic.Int64
	all     int64 // how much there is to be done, about
	report  ledger.Report
	first   *finding // of those that were met so far
	prices  *tariffs
	days    *usage // of the requests that are in the sums of days
	summed  int64  // the last settlement that is
	pruned  int64  // requests that were settled before this moment may be missing

	counted  map[ledger.EntryKind]tally // entries that are about requests
	found    map[ledger.EntryKind]tally // those of them that a request accounts for
	waiting  int64                      // attempts that should wait for a receipt
	attempts int64                      // of settled requests
	owners   map[string]bool
	names    map[[2]int64][2]string // ids of accounts and keys, by their numbers
	damage   error                  // that verifyPages has found
}

// tally counts entries, and those of them that no pruned request can have.
type tally struct{ all, young int64 }

func verify(conn *sqlite.Conn, seen *extent, kept []ledger.Checkpoint) (ledger.Report, error) {
	return verifyAs(conn, nil, seen, nil, ledger.Verification{Kept: kept})
}

func newVerification(conn *sqlite.Conn) *verification {
	return &verification{
		conn:    conn,
		report:  ledger.Report{Sums: map[string]int64{}},
		prices:  newTariffs(conn),
		counted: map[ledger.EntryKind]tally{},
		found:   map[ledger.EntryKind]tally{},
		owners:  map[string]bool{},
		names:   map[[2]int64][2]string{},
	}
}

func verifyAs(conn *sqlite.Conn, readers []*sqlite.Conn, seen *extent, damage *ledger.LogDamage,
	how ledger.Verification) (ledger.Report, error) {
	v := newVerification(conn)
	v.readers, v.seen, v.log, v.how, v.done = readers, seen, damage, how, new(atomic.Int64)
	if v.report.Witnessed = seen != nil; how.From != nil {
		v.from, v.report.From = how.From.Entries, how.From.N
		v.how.Kept = append(slices.Clone(how.Kept), *how.From)
	}
	err := v.run()
	damaged := sqlite.ErrCode(err).ToPrimary()
	switch {
	case damaged == sqlite.ResultCorrupt || damaged == sqlite.ResultNotADB:
		v.first = &finding{where: "database", what: "the file is damaged: " + err.Error()}
	case err != nil:
		return ledger.Report{}, err
	}
	if v.report.OK = v.first == nil; !v.report.OK {
		if v.report.Accounts == 0 {
			for _, accounts := range v.looked {
				v.report.Accounts += int64(bits.OnesCount64(accounts))
			}
		}
		v.report.Problem, v.report.Entry = v.first.what, v.first.where
	}
	return v.report, nil
}

// run goes on after a finding in the journal: an earlier entry may disagree with its request. What rests on sums is
// looked at only when everything that is summed is right.
func (v *verification) run() error {
	for _, step := range []func() error{v.prepare, v.verifyParts} {
		if err := v.note(step()); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		v.verifyWitness, v.verifyPairs, v.verifyAttempts, v.verifyCheckpoints, v.sum, v.verifyDays, v.verifyAccounts,
		v.verifyKeys, v.verifyRunning, v.verifyWaiting, v.verifyPrices, v.verifyTrail, v.verifyMade,
		v.verifyLines, v.verifySaid, v.verifyMoved, v.verifyStructure,
	} {
		if v.first != nil {
			v.report.Stopped = true
			return nil
		}
		if err := v.note(step()); err != nil {
			return err
		}
	}
	return nil
}

// note keeps a finding when it is the first: of entries the earliest in the journal, of everything else what was
// met first, and entries before everything else. It returns every other error.
func (v *verification) note(err error) error {
	var f *finding
	if !errors.As(err, &f) {
		return err
	}
	if v.first == nil || f.n > 0 && (v.first.n == 0 || f.n < v.first.n) {
		v.first = f
	}
	return nil
}

func (v *verification) prepare() error {
	var err error
	v.days, err = newUsage(v.conn,
		ledger.UsageQuery{By: []ledger.Dimension{ledger.ByKey, ledger.ByDay, ledger.ByRoute}})
	if err != nil {
		return err
	}
	return run(v.conn, `SELECT pruned_before, version, count(*), summed FROM meta`, func(row *sqlite.Stmt) error {
		v.pruned, v.summed = row.ColumnInt64(0), row.ColumnInt64(3)
		if row.ColumnInt(1) != len(migrations) || row.ColumnInt(2) != 1 {
			return disagree("meta", "it has %d rows and says version %d; one row with version %d is what it should have",
				row.ColumnInt(2), row.ColumnInt(1), len(migrations))
		}
		return nil
	})
}

// verifyWitness checks that the ledger has all that its witness has seen, and that its log is whole (GAP-133).
func (v *verification) verifyWitness() error {
	loss, where, err := lossOf(v.conn, v.seen, v.log)
	if v.report.Loss = loss; err != nil || loss == nil {
		return err
	}
	return disagree(where, "a part of the ledger is missing: %s; %s", loss, ledger.LossAdvice)
}

// lossOf is what a ledger does not have of what was seen of it, nil for no witness, or of its log, and what tells so.
func lossOf(conn *sqlite.Conn, seen *extent, log *ledger.LogDamage) (loss *ledger.Loss, where string, err error) {
	if seen == nil && log == nil {
		return nil, "", nil
	}
	has, err := readExtent(conn)
	if err != nil {
		return nil, "", err
	}
	where = "write-ahead log"
	if seen != nil {
		if loss, err = missing(conn, has, *seen); loss != nil {
			where = "witness"
		}
	}
	return damaged(loss, has, log), where, err
}

// traces are what tells of a loss beside a ledger. They are read before a moment of it is looked at: what is committed
// meanwhile is more than was seen. seen is nil where there is no witness.
func traces(database string) (seen *extent, log *ledger.LogDamage, err error) {
	seen, err = readWitness(database)
	if errors.Is(err, errNoWitness) {
		seen, err = nil, nil
	}
	if err == nil {
		log, err = undecidedDamage(database)
	}
	return seen, log, err
}

// FindLoss finds what is missing of the ledger at a path and was not accepted; nil: nothing is known to be. A gateway
// may be running on it.
func FindLoss(ctx context.Context, database string) (loss *ledger.Loss, err error) {
	books, err := OpenBooks(ctx, database)
	if err != nil {
		return nil, err
	}
	seen, log, err := traces(books.path)
	if err == nil {
		err = books.list(ctx, "find_loss", func(conn *sqlite.Conn) (err error) {
			loss, _, err = lossOf(conn, seen, log)
			return err
		})
	}
	if err := errors.Join(err, books.Close()); err != nil {
		return nil, fmt.Errorf("looking for what the ledger has lost: %w", err)
	}
	return loss, nil
}

// count adds an entry to those of its kind.
func (v *verification) count(to map[ledger.EntryKind]tally, kind ledger.EntryKind, created int64) {
	t := to[kind]
	t.all++
	if created >= v.pruned {
		t.young++
	}
	to[kind] = t
}
