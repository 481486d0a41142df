// Package audit verifies a ledger: it recomputes what a store has and names what disagrees first. It is given rows, in
// orders that let it compare them as they come, and knows no database. What is decided about money package book
// decides; this package checks that what is on record is what it would have decided, and, by the hash chains, the
// checkpoints and the audit trail, that it is what was recorded.
//
// # What a store does
//
// It gives the rows of one moment: Rows. Each method is a query in the order that it asks for, and none of them
// judges. Entries and requests are many, so they may be read at once on several connections of that moment
// (Ledger.Beside); all else is read on one, several iterators at a time.
//
// # What it costs
//
// Entries and requests are looked at once, each by itself, with what it needs of others looked up. A store reads them
// once more for their sums, which are compared account by account, in the order of accounts, and entries for those
// that operators made and for the heads of checkpoints; a sum that differs has them read again, to be named. What is
// remembered is what one account has of keys and of acts, all prices, processes and days, a bit for each account, and
// a table of the last entries of accounts. Sums of days are compared as sums of random multiples, see days. Two
// findings take more, to be named: attempts that wait and are not listed take the whole list, and a day whose sums
// differ all sums of the day.
package audit

import (
	"errors"
	"iter"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Rows are what a ledger has, at one moment.
//
// Accounts and keys have numbers, from 1 on in the order of their making, by which rows name them, 0 for none. Entries
// and acts have places, from 1 on without gaps, in which those of an account follow one another. No two rows have the
// same number, place or id.
//
// A store that has no place for an entry among those of all accounts says so (Head.ByAccount). It names an entry by its
// account and its number there, and gives entries in the order of their accounts, in any order of these, and of their
// numbers. Where a verification begins behind a checkpoint (ledger.Verification.From), the place of an entry that this
// does not cover is larger by what the checkpoint says that it is over, so that it shows which are new.
type Rows interface {
	// Head is what the ledger counts of itself.
	Head() (Head, error)
	// Owners are the boot ids of the processes that opened it, in any order.
	Owners() iter.Seq2[string, error]
	// Prices are in the order of their routes and versions.
	Prices() iter.Seq2[Price, error]

	// Entries are those from a place to another, in the order of their places; where moved is set only those that
	// operators made: top-ups, refunds and adjustments.
	Entries(first, last int64, moved bool) iter.Seq2[Entry, error]
	// Entry finds an entry of an account, by its id, at a place. The account is for stores with Head.ByAccount: others
	// find the entry there whosever it is.
	Entry(account string, place int64) (e Entry, found bool, err error)
	// LaterEntries are the receipts, closings and refunds of a request, in the order of their places. The account, by
	// its id, is for stores with Head.ByAccount.
	LaterEntries(account, request string) iter.Seq2[Entry, error]
	// ChargeFrom is the request of the first charge from a place on; "" where there is none.
	ChargeFrom(place int64) (request string, err error)
	// HasAllotment reports whether an account has an allotment of this reference.
	HasAllotment(account *Account, reference string) (bool, error)
	// Books are what the entries up to a place have moved into each book, in microcents, in any order.
	Books(last int64) iter.Seq2[BookSum, error]

	// Requests are settled ones, with their attempts, in the order of their ids. The next one takes the place of the one
	// before it.
	Requests(Span) iter.Seq2[*Request, error]
	// FindRequest finds a settled one by its id; nil where there is none.
	FindRequest(id string) (*Request, error)
	// Strays are requests that have attempts and are not settled, in the order of their ids.
	Strays() iter.Seq2[string, error]
	// Holds are the attempts that run, in the order of their requests, their numbers and their rows.
	Holds() iter.Seq2[Hold, error]
	// Waiting are the attempts that are listed as waiting for a receipt, in any order.
	Waiting() iter.Seq2[Waiting, error]

	// Accounts are in the order of their numbers. Behind them are balances that no account has, without an id.
	Accounts() iter.Seq2[Account, error]
	// Keys are in the order of their accounts and of their numbers.
	Keys() iter.Seq2[Key, error]
	// EntrySums are what the entries of each account come to, in the order of the accounts.
	EntrySums() iter.Seq2[EntrySum, error]
	// RequestSums are what the settled requests of each key come to, in the order of their accounts and of the keys.
	RequestSums() iter.Seq2[RequestSum, error]
	// Pruned are what the requests of keys came to whose detail is gone, in the order of the keys' accounts and of the
	// keys; the account of a key that there is not is 0. PrunedDays are the same, of the sums of days.
	Pruned() iter.Seq2[RequestSum, error]
	PrunedDays() iter.Seq2[RequestSum, error]
	// Days are the sums of days of requests that are not pruned, in the order of the days.
	Days() iter.Seq2[Day, error]

	// Acts are those of the audit trail, in the order of their places; by account, in the order of the accounts and of
	// their places, first those of no account. Where moved is set they are only those about movements of money.
	// Those about movements come in the order in which Entries has these.
	Acts(byAccount, moved bool) iter.Seq2[Act, error]
	// Checkpoints are in the order of their numbers.
	Checkpoints() iter.Seq2[ledger.Checkpoint, error]
	// Heads are the ends of the accounts' chains of entries that have grown behind a place up to another, in the order of
	// the accounts' ids; TrailHeads those of acts, with "" for those about none.
	book.Chains
}

// Ledger is a ledger to be verified.
type Ledger struct {
	Rows
	// Beside are more rows of the same moment. With some, parts of the ledger are read on them at once.
	Beside []Rows
	// What a store looks at itself, nil for nothing; what it finds it says with Disagree. Form is looked at after Head,
	// Owners and Prices were read and before all else, and Loss as soon as entries and requests were looked at; Storage
	// while they are, on rows of Beside, and told at the end, followed by Schema.
	Form, Schema func() error
	Loss         func() (loss *ledger.Loss, where string, err error)
	Storage      func(Rows) error
}

// Head is what a ledger counts of itself, and how much it has.
type Head struct {
	// ByAccount: entries have no place but in their account, see Rows. LastEntry is then how many there are, about.
	ByAccount bool
	LastEntry int64 // its place
	Attempts  int64 // of settled requests, all that there are
	Requests  int64 // settled ever, about: for progress
	// Pruned is from when on every settled request has to be there; zero: nothing was pruned.
	Pruned time.Time
	// Rows are how many Holds there are, Held is what they hold and Marks the sum of their marks.
	Rows, Held, Marks int64
	Summed            int64 // the place of the last charge whose request is in the sums of days; -1: there are no sums
	Unprofiled        Unprofiled
	Trail             book.Trail
	Checkpoints       int64
	Checkpoint        ledger.Digest // of the last
}

// Unprofiled says which requests are in the sums of days without their profile, as UnknownProfile: a ledger that got
// sums by profile later adds it to those of before bit by bit, in the order of their ids.
type Unprofiled struct {
	Entry int64   // those whose charge lies up to here, and those without one
	After *string // and whose ids are behind this one; nil: none
}

// UnknownProfile is none that a request can have.
const UnknownProfile = "?"

// ProfileOf is a request's profile in the sums of days.
func (u *Unprofiled) ProfileOf(r *Request) string {
	if u.After != nil && r.Entry <= u.Entry && r.ID > *u.After {
		return UnknownProfile
	}
	return r.Profile
}

// Price is a version of a route's price.
type Price struct {
	Route string
	book.Price
}

// Entry is an entry as it lies. Its N is its place in all formats.
type Entry struct {
	ledger.Entry
	Hash   ledger.Digest
	Before int64 // the place of its account's entry before it, 0 for none
	Number int64 // of its account; Account is "" where there is none of it
	Since  time.Time
	// Numbered is the number among all entries that is in its hash, of format 2, where that is not its place.
	Numbered *int64
}

// BookSum is what entries have moved into a book.
type BookSum struct {
	Book       ledger.Book
	Microcents int64
}

// Span narrows requests.
type Span struct {
	First, End string // ids, from the first on and before the end; "" for no end
	After      int64  // 0, or only those that have entries behind this place
	Pending    bool   // only those that wait for a receipt
	// Strangers: those whose key is none of their account's are looked for. A store with Head.ByAccount may give only
	// those, and fills in AccountNumber and KeyNumber here alone.
	Strangers bool
}

// Request is a settled request with its attempts, without its entries and without what prices say.
type Request struct {
	ledger.RequestRecord
	AccountNumber, KeyNumber int64
	Tokens                   int64 // that count against the token budget
	Entry                    int64 // the place of its charge, 0 for none
}

// Hold is an attempt that runs, or a request that was held before its first, whose Seq is 0.
type Hold struct {
	book.Hold
	KeyAccount int64 // of the key, 0 where there is none
	Settled    bool  // there is a settled request of this id
}

// Waiting is an attempt that is listed.
type Waiting struct {
	Request         string
	Seq             int64
	Provider, Route string
	Created         time.Time
}

// Account is an account with its balance, without what it holds.
type Account struct {
	book.Account
	Number int64
	// NoBalance: it has none.
	NoBalance bool
	Last      *int64 // the place of its last entry
	// Line is the number of the key that paid last, LineSpent what the key's row does not say yet of what that spent.
	Line      *int64
	LineSpent int64
	// The period's parts as they are kept, nil for none. Account.Period and Requires are not filled.
	PeriodNumber *int64
	PeriodEnd    *time.Time
	Allotted     *bool
	Required     book.Required // as it is kept
}

// Key is a key as it lies. Its Account, SpendCap and Spent are not filled.
type Key struct {
	book.FreshKey
	Number, AccountNumber, Root int64
	book.Line                   // as its own row has it, without its account's LineSpent
}

// EntrySum is what the entries of an account come to.
type EntrySum struct{ Account, Entries, Spent, Refunded int64 }

// RequestSum is what settled requests of a key come to. Pending are those of them that wait, of days only.
type RequestSum struct{ Account, Key, Requests, Tokens, Charge, Waived, Refunded, Pending int64 }

// Day is what the requests of a key came to on a day (book.DayOf) by a route and with a profile.
type Day struct {
	Day, Key       int64
	Route, Profile string
	book.Usage
}

// Act is an act as it lies.
type Act struct {
	ledger.Act
	Place  int64
	Hash   ledger.Digest
	Number int64 // of its account, 0 for none; Account is "" where there is none of it
}

// terms are what a price version says.
type terms struct{ price, cost config.Price }

// errEnough: who reads rows needs no more of them.
var errEnough = errors.New("enough was read")

// Given are the rows that read gives, for stores that read with a function for each row. It stops read by an error.
func Given[T any](read func(give func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := read(func(row T) error {
			if !yield(row, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			var none T
			yield(none, err)
		}
	}
}
