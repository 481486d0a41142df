package book

import (
	"errors"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Period is an account's current period (ledger.Period). The zero Period is none.
type Period struct {
	Number   int64
	End      time.Time
	Allotted bool // it has its plan's credits, or could not take them
}

// Begun reports whether there is a period.
func (p Period) Begun() bool { return !p.End.IsZero() }

// Overdue reports whether the account's periods and credits are not what its terms and the clock say.
func (a *Account) Overdue(terms ledger.Terms, now time.Time) bool {
	switch {
	case !terms.HasPeriods():
		return a.Period.Begun()
	case !a.Period.Begun() || !now.Before(a.Period.End):
		return true
	default:
		return !a.Period.Allotted && terms.MonthlyCredits > 0
	}
}

// Ended is what the end of periods changes.
type Ended struct {
	Account Account
	// Began: the counters begin anew, and each line of the account's keys is to be as BeginPeriod makes it.
	Began   bool
	Entries []Entry // allotments
	Refused []error // why the account goes without its plan's credits: its balance cannot take them
}

// BeginPeriod is the line when its account's counters begin anew; without periods they count for ever.
func (l Line) BeginPeriod(p Period) Line {
	l.Before = 0
	if p.Begun() {
		l.Before = l.Spent
	}
	return l
}

// EndPeriods brings the periods of an account that is Overdue up to date. allotted tells whether the account has an
// allotment of this reference (PeriodName) from before; it is asked once for each period that passes.
func EndPeriods(account *Account, terms ledger.Terms, now time.Time, allotted func(name string) (bool, error)) (
	Ended, error,
) {
	c := Ended{Account: *account}
	a := &c.Account
	switch {
	case !terms.HasPeriods():
		a.Period = Period{}
	case !a.Period.Begun():
		a.beginPeriod(ledger.PeriodAt(a.Created, now))
	}
	for a.Period.Begun() && !now.Before(a.Period.End) {
		a.beginPeriod(a.Period.Number + 1)
		if err := c.allot(terms.MonthlyCredits, now, allotted); err != nil {
			return Ended{}, err
		}
	}
	if err := c.allot(terms.MonthlyCredits, now, allotted); err != nil {
		return Ended{}, err
	}
	if was := account.Period; a.Period.Begun() != was.Begun() || a.Period.Number != was.Number {
		c.Began, a.Before = true, Counters{}
		if a.Period.Begun() {
			a.Before = a.Ever
		}
	}
	return c, nil
}

func (a *Account) beginPeriod(number int64) {
	a.Period = Period{Number: number, End: ledger.PeriodEnd(a.Created, number)}
}

// PeriodName names the account's period in its allotment: the moment at which it began.
func (a *Account) PeriodName() string {
	return ledger.PeriodBegin(a.Created, a.Period.Number).Format(time.RFC3339)
}

// allot adds the credits of the account's period, unless it has them. They may be there although the period does not
// know it: the account had the period before, and a plan without periods, or with fewer, in between. A balance that
// cannot take them goes without.
func (c *Ended) allot(credits int64, now time.Time, allotted func(name string) (bool, error)) error {
	a := &c.Account
	if !a.Period.Begun() || a.Period.Allotted {
		return nil
	}
	name := a.PeriodName()
	has, err := allotted(name)
	if err != nil {
		return err
	}
	a.Period.Allotted = has || credits > 0
	if has || credits == 0 {
		return nil
	}
	e, err := a.post(ledger.Entry{
		Kind: ledger.Allotment, Reference: name, Reason: a.Plan, Microcents: credits * ledger.MicrocentsPerCredit,
		Created: now,
	})
	switch {
	case err == nil:
		c.Entries = append(c.Entries, e)
	case errors.Is(err, ledger.ErrInvalid):
		c.Refused = append(c.Refused, err)
		err = nil
	}
	return err
}
