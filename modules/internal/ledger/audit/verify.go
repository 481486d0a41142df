package audit

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// finding is something that disagrees. As an error it ends the step that met it.
type finding struct {
	n     int64 // the place of the entry that it is about; 0 when it is about none
	where string
	what  string
}

func (f *finding) Error() string { return f.where + ": " + f.what }

// Disagree is a finding: where is what of the ledger disagrees, "acct_.../5", "holds" or "database", and the rest what
// is wrong with it.
func Disagree(where, format string, args ...any) error {
	return &finding{where: where, what: fmt.Sprintf(format, args...)}
}

// TooLarge is a finding: a sum of something has more than 63 bits.
func TooLarge(where, what string) error {
	return Disagree(where, "what %s came to is more than any ledger can hold", what)
}

// disagree is a finding about an entry.
func (e *Entry) disagree(format string, args ...any) error {
	return &finding{n: e.N, where: e.where(), what: fmt.Sprintf(format, args...)}
}

func (e *Entry) where() string { return e.Account + "/" + strconv.FormatInt(e.Seq, 10) }

// verification is one run of Verify, or of a part of it.
type verification struct {
	Rows
	of     *Ledger
	how    ledger.Verification
	from   int64    // the last entry that is taken as it is
	looked []uint64 // a bit for each account that an entry was looked at of, by its number
	done   *atomic.Int64
	all    int64 // how much there is to be done, about
	report ledger.Report
	first  *finding // of those that were met so far
	head   Head
	pruned int64 // requests that were settled before this moment may be missing
	prices map[version]terms
	owners map[string]bool

	counted  map[ledger.EntryKind]tally // entries that are about requests
	found    map[ledger.EntryKind]tally // those of them that a request accounts for
	waiting  int64                      // attempts that should wait for a receipt
	attempts int64                      // of settled requests
	days     *days                      // of the requests that are in the sums of days
	storage  error                      // that Ledger.Storage has found
	gap      error                      // in the versions of prices
	books    accountFindings
	// lastPruning is what the last act says of what was pruned, "" for none.
	lastPruning string
}

// version names a version of a route's price.
type version struct {
	route string
	n     int64
}

// tally counts entries, and those of them that no pruned request can have.
type tally struct{ all, young int64 }

// Verify recomputes a ledger. What it finds is in the report; an error is the store's, and the report says then how
// far it came.
//
// It goes on after a finding in the journal: an earlier entry may disagree with its request. What rests on sums is
// looked at only when everything that is summed is right.
func Verify(l Ledger, how ledger.Verification) (ledger.Report, error) {
	v := newVerification(l.Rows)
	v.of, v.how, v.done, v.days = &l, how, new(atomic.Int64), newDays()
	if how.From != nil {
		v.from, v.report.From = how.From.Entries, how.From.N
		v.how.Kept = append(slices.Clone(how.Kept), *how.From)
	}
	err := v.run()
	if v.report.OK = err == nil && v.first == nil; !v.report.OK && v.report.Accounts == 0 {
		for _, accounts := range v.looked {
			v.report.Accounts += int64(bits.OnesCount64(accounts))
		}
	}
	if v.first != nil {
		v.report.Problem, v.report.Entry = v.first.what, v.first.where
	}
	return v.report, err
}

func newVerification(rows Rows) *verification {
	return &verification{
		Rows: rows, report: ledger.Report{Sums: map[string]int64{}},
		counted: map[ledger.EntryKind]tally{}, found: map[ledger.EntryKind]tally{},
	}
}

func (v *verification) run() error {
	for _, step := range []func() error{v.prepare, v.of.check(v.of.Form), v.verifyParts} {
		if err := v.note(step()); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		v.verifyLoss, v.verifyPairs, v.verifyAttempts, v.verifyCheckpoints, v.readAccounts, v.told(&v.books.overflow),
		v.verifyDays, v.told(&v.books.accounts), v.told(&v.books.strangers),
		v.told(&v.books.keys),
		v.verifyRunning, v.verifyWaiting, v.told(&v.gap), v.verifyPruned, v.verifyTrail,
		v.told(&v.books.trail), v.told(&v.books.made), v.told(&v.books.lines), v.told(&v.books.said),
		v.told(&v.books.unsaid), v.told(&v.books.caps), v.verifyPrunedAct, v.verifyMoved, v.told(&v.storage),
		v.of.check(v.of.Schema),
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

// check is a look of the store's own.
func (l *Ledger) check(look func() error) func() error {
	if look == nil {
		return func() error { return nil }
	}
	return look
}

// told is a step that says what was found before its turn: by readAccounts, in prices, or in the storage.
func (v *verification) told(found *error) func() error { return func() error { return *found } }

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

// keep notes the first finding of a step that is told later. It returns every other error.
func keep(first *error, err error) error {
	var f *finding
	if !errors.As(err, &f) {
		return err
	}
	if *first == nil {
		*first = err
	}
	return nil
}

// prepare reads what everything else needs: there are few of each.
func (v *verification) prepare() (err error) {
	if v.head, err = v.Head(); err != nil {
		return err
	}
	if !v.head.Pruned.IsZero() {
		v.pruned = v.head.Pruned.UnixNano()
	}
	v.owners, v.prices = map[string]bool{}, map[version]terms{}
	err = each(v.Owners(), func(owner string) error {
		v.owners[owner] = true
		return nil
	})
	if err != nil {
		return err
	}
	var last Price
	return each(v.Prices(), func(p Price) error {
		if p.Route != last.Route {
			last.Version = 0
		}
		if p.Version != last.Version+1 && v.gap == nil {
			v.gap = Disagree(PriceName(p.Route, p.Version),
				"version %d of the route's price is missing before it", last.Version+1)
		}
		last = p
		v.prices[version{p.Route, p.Version}] = terms{p.Price.Price, p.Cost}
		return nil
	})
}

// PriceName is a version of a route's price as findings and entries name it.
func PriceName(route string, version int64) string {
	return route + "@" + strconv.FormatInt(version, 10)
}

// verifyLoss checks that the ledger has all that was seen of it (GAP-133).
func (v *verification) verifyLoss() error {
	if v.of.Loss == nil {
		return nil
	}
	loss, where, err := v.of.Loss()
	if v.report.Loss = loss; err != nil || loss == nil || loss.PowerCut {
		return err
	}
	return Disagree(where, "a part of the ledger is missing: %s; %s", loss, ledger.LossAdvice)
}

// count adds an entry to those of its kind.
func (v *verification) count(to map[ledger.EntryKind]tally, e *Entry) {
	t := to[e.Kind]
	t.all++
	if e.Created.UnixNano() >= v.pruned {
		t.young++
	}
	to[e.Kind] = t
}

func (v *verification) verifyOwner(request, owner string) error {
	if !v.owners[owner] {
		return Disagree(request, "it was admitted by the process %q, which never opened this ledger", owner)
	}
	return nil
}

// each does something for each row.
func each[T any](rows iter.Seq2[T, error], do func(T) error) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return nil
}

// cursor reads rows beside others.
type cursor[T any] struct {
	row  T
	has  bool
	next func() (T, error, bool)
	stop func()
	last int64 // the account of the row before, for upTo
}

// open is a cursor on the first of the rows, which is to be stopped. It adds an error to err.
func open[T any](rows iter.Seq2[T, error], err *error) *cursor[T] {
	c := &cursor[T]{last: math.MinInt64}
	c.next, c.stop = iter.Pull2(rows)
	*err = errors.Join(*err, c.advance())
	return c
}

func (c *cursor[T]) advance() (err error) {
	c.row, err, c.has = c.next()
	return err
}

// take does something for each of the next rows that belong to something, and goes on.
func (c *cursor[T]) take(belongs func(T) bool, do func(T) error) error {
	for c.has && belongs(c.row) {
		if err := do(c.row); err != nil {
			return err
		}
		if err := c.advance(); err != nil {
			return err
		}
	}
	return nil
}

// nano writes a time as the audit trail has it.
func nano(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
