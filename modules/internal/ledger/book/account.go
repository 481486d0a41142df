package book

import (
	"fmt"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Account is an account as the rules know it.
type Account struct {
	ID, Name, Plan string
	State          ledger.State
	Created        time.Time
	ledger.Balance // Held is the sum of what its running requests hold

	Head     ledger.Digest // the hash of its last entry, zero without one
	Entries  int64         // how many it has
	Requests int64         // settled ever
	Trail    Trail         // of the acts about it
	Settings

	Period Period
	Ever   Counters
	Before Counters // Ever, when the period began; zero without periods
}

// Settings are what was set for one account, over its plan.
type Settings struct {
	Limits   ledger.Limits
	Profile  string
	Requires config.Requires
	Mail     []string
}

// Counters are what was charged (microcents), used (tokens) and left free by fair use (microcents).
type Counters struct{ Spent, Tokens, Waived int64 }

// Line is what a key and those that replaced it share, in microcents.
type Line struct {
	Cap    int64 // a period; 0: none
	Spent  int64 // ever
	Before int64 // Spent, when the account's period began; 0 without periods
}

// Entry is an entry of an account's with its hash, which the account's head is then.
type Entry struct {
	ledger.Entry
	Hash ledger.Digest
}

// CountPeriod is what was counted in the current period.
func (a *Account) CountPeriod() Counters {
	return Counters{
		Spent:  a.Ever.Spent - a.Before.Spent,
		Tokens: a.Ever.Tokens - a.Before.Tokens,
		Waived: a.Ever.Waived - a.Before.Waived,
	}
}

// counted is what was spent in the current period.
func (l *Line) counted() int64 { return l.Spent - l.Before }

// Show is the account as its users see it.
func (a *Account) Show() ledger.Account {
	now := a.CountPeriod()
	return ledger.Account{
		ID: a.ID, Name: a.Name, Plan: a.Plan, State: a.State, Created: a.Created, Limits: a.Limits, Profile: a.Profile,
		Requires: a.Requires, Mail: slices.Clone(a.Mail), Balance: a.Balance,
		Period: ledger.Period{End: a.Period.End, Spent: now.Spent, Tokens: now.Tokens, Waived: now.Waived},
	}
}

// post moves money: e says what and why, and what follows from it is filled in. ErrInvalid, and nothing has changed,
// when the balance would leave its range.
func (a *Account) post(e ledger.Entry) (Entry, error) {
	after, err := a.Add(e.Microcents)
	if err != nil {
		return Entry{}, err
	}
	a.Balance = after
	a.Entries++
	e.Account, e.Seq, e.Book, e.Format, e.Prev = a.ID, a.Entries, e.Kind.Book(), ledger.EntryFormat, a.Head
	e.Credits, e.Accrued = after.Credits, after.Accrued
	a.Head = e.Hash()
	return Entry{e, a.Head}, nil
}

// NoAccount is what a store says of an account that is not there.
func NoAccount(id string) error { return fmt.Errorf("%w: account %q", ledger.ErrNotFound, id) }

// NoKey is what a store says of a key that is not there, or is another account's.
func NoKey(id, account string) error {
	return fmt.Errorf("%w: key %q of account %q", ledger.ErrNotFound, id, account)
}

// NoPrice is what a store says of a version of a route's price.
func NoPrice(route string, version int64) error {
	return fmt.Errorf("%w: version %d of the price of route %q", ledger.ErrNotFound, version, route)
}

// NoRequest is what a store says of a request that neither runs nor is on record.
func NoRequest() error { return fmt.Errorf("%w: a request with this id", ledger.ErrNotFound) }
