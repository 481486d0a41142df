package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// planTerms are those of a plan, none without Options.Terms.
func (o *Options) planTerms(plan string) ledger.Terms {
	if o.Terms == nil {
		return ledger.Terms{}
	}
	return o.Terms(plan)
}

// terms are those of an account: its plan's, but for what was set for the account itself.
func (o *Options) terms(a *account) ledger.Terms { return a.Limits.Over(o.planTerms(a.Plan)) }

// overdue reports whether the account's periods and credits are not what its plan and the clock say. Who does not know
// the plans ends no periods.
func (o *Options) overdue(a *account) bool { return o.Terms != nil && a.Overdue(o.terms(a), o.Now()) }

// endPeriods brings the account's periods up to date. It counts for itself: when the running operation is
// refused, it stays done.
func (t *tx) endPeriods(a *account) error {
	if !t.opts.overdue(a) {
		return nil
	}
	wrote := t.wrote
	if err := t.movePeriods(a); err != nil {
		return fmt.Errorf("ending a period of account %q: %w", a.ID, err)
	}
	t.wrote = wrote
	return nil
}

func (t *tx) movePeriods(a *account) error {
	c, err := book.EndPeriods(&a.Account, t.opts.terms(a), t.now(), func(name string) (seen bool, err error) {
		err = t.query(findReference, func(*sqlite.Stmt) error { seen = true; return nil }, a.n, true, name)
		return seen, err
	})
	if err != nil {
		return err
	}
	for _, err := range c.Refused {
		t.opts.Logger.Error("an account goes without its plan's credits", "account", a.ID, "error", err)
	}
	for _, e := range c.Entries {
		t.postEntry(a, c.Account, e)
	}
	t.markChanged(a)
	a.Account = c.Account
	if c.Began {
		if err := t.beginCounters(a); err != nil {
			return err
		}
	}
	return t.saveAccount(a)
}

// beginCounters lets the counters of the account's keys begin anew.
func (t *tx) beginCounters(a *account) error {
	if err := t.payOff(a); err != nil {
		return err
	}
	query := `UPDATE keys SET spent_before = 0 WHERE account = ? AND spent_before <> 0`
	if a.Period.Begun() {
		query = `UPDATE keys SET spent_before = spent WHERE account = ? AND spent_before <> spent`
	}
	for _, l := range a.lines {
		l.Line = l.BeginPeriod(a.Period)
	}
	return t.exec(query, a.n)
}

// payOff writes what the account's balance says of a line of keys into that line's own row.
func (t *tx) payOff(a *account) error {
	if a.payer == 0 {
		return nil
	}
	l, err := a.line(t.conn, a.payer)
	if err != nil {
		return err
	}
	t.markChanged(a)
	a.payer, a.owed = 0, 0
	t.changeLine(l)
	return t.flush()
}

// periodBatch is how many accounts one search of EndPeriods finds at most.
const periodBatch = 200

// EndPeriods implements ledger.Store.
func (s *Store) EndPeriods(ctx context.Context) (accounts int64, err error) {
	if s.opts.Terms == nil {
		return 0, nil
	}
	plans, err := s.Plans(ctx)
	if err != nil {
		return 0, fmt.Errorf("ending periods: %w", err)
	}
	for _, plan := range append(plans, "") {
		for {
			ended, err := s.endPeriodsOf(ctx, plan)
			if err != nil {
				return accounts, fmt.Errorf("ending periods: %w", err)
			}
			if ended == 0 {
				break
			}
			accounts += ended
		}
	}
	return accounts, nil
}

// endPeriodsOf brings the periods of a plan's next accounts up to date and returns how many there were. The
// writer is asked only when there are some.
func (s *Store) endPeriodsOf(ctx context.Context, plan string) (ended int64, err error) {
	var ids []string
	err = s.read(ctx, "find_periods", func(conn *sqlite.Conn) (err error) {
		ids, err = s.opts.overdueAccounts(conn, plan)
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.write(ctx, "end_periods", func(t *tx) error {
		ended = 0
		for _, id := range ids {
			a, ok := t.accounts.get(id)
			if !ok {
				if a, err = t.readAccount(t.conn, id); err != nil { // and not kept: nobody uses it
					return err
				}
			}
			if !t.opts.overdue(a) {
				continue
			}
			if err := t.endPeriods(a); err != nil {
				return err
			}
			ended++
		}
		return nil
	})
	return ended, err
}

func (o *Options) overdueAccounts(conn *sqlite.Conn, plan string) (ids []string, err error) {
	terms := o.planTerms(plan)
	type search struct {
		where string // finds its rows by an index
		args  []any
	}
	searches := []search{{where: `period_end IS NULL`}, {`period_end <= ?`, []any{o.Now()}}}
	if terms.MonthlyCredits > 0 {
		searches = append(searches, search{where: `allotted = 0`})
	}
	if !terms.HasPeriods() {
		searches = []search{{where: `period_end IS NOT NULL`}}
	}
	for _, s := range searches {
		err := run(conn, `SELECT id FROM accounts WHERE plan = ? AND `+s.where+` LIMIT ?`, appendTo(&ids, firstText),
			slices.Concat([]any{plan}, s.args, []any{periodBatch})...)
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
