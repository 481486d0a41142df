package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Books is the ledger for reading: what operators, auditors and the admin API see of it. Lists are given row by row
// to each, from one snapshot and in bounded memory, whatever the size of the ledger; an error of each ends the list
// and is returned.
type Books interface {
	// Account finds an account by id or by name.
	Account(ctx context.Context, idOrName string) (Account, error)
	// Accounts lists them in the order of their creation: those behind the one with the id after, or all where it is "".
	// No account has that id: ErrNotFound.
	Accounts(ctx context.Context, after string, each func(Account) error) error
	// Keys lists keys with their AccountName.
	Keys(ctx context.Context, q KeyQuery, each func(Key) error) error
	// Plans are the names of the plans that accounts are on, without "".
	Plans(ctx context.Context) ([]string, error)

	// Verify recomputes every balance, hold, counter and charge, the hash chains and the checkpoints. kept are
	// checkpoints that were kept elsewhere: each must still be the ledger's.
	Verify(ctx context.Context, kept ...Checkpoint) (Report, error)
	// VerifyAs is Verify in another way.
	VerifyAs(ctx context.Context, how Verification) (Report, error)
	// Entries lists the journal, oldest first.
	Entries(ctx context.Context, q Query, each func(Entry) error) error
	// Latest gives the entries of an account, the newest first, each with the request that it settled, until each returns
	// an error. It costs what it gives, and next to nothing for what it passes over.
	Latest(ctx context.Context, q LatestQuery, each func(Movement) error) error
	Checkpoints(ctx context.Context, each func(Checkpoint) error) error
	// LatestCheckpoints gives those before a number (0: all), the newest first, and so many at most.
	LatestCheckpoints(ctx context.Context, before int64, most int, each func(Checkpoint) error) error
	// Usage sums the settled requests in groups of q.By, ordered by them: accounts by name, keys by account and name.
	// Without groups there is one row. Requests whose detail was pruned are in it by the sums of their days: where Since
	// or Until is in the middle of a day, those of that day are left out; and those that were pruned before there were
	// such sums have no day, route, tokens or cost. An account may have thousands of keys: who wants pages of usage by key
	// asks Keys for a page of them and then for the usage of these, q.Keys; the account's total is asked for without.
	Usage(ctx context.Context, q UsageQuery, each func(UsageRow) error) error
	// Request is the whole record of one request, running or settled.
	Request(ctx context.Context, id string) (RequestRecord, error)
	// Pruned is what the journal still has of a request whose detail was pruned. It reads the whole journal, so ask it
	// after Request. ErrNotFound where the request is not pruned, or is none.
	Pruned(ctx context.Context, id string) (PrunedRequest, error)
	// PrunedBefore is since when the detail of every request has to be there; zero: nothing was pruned.
	PrunedBefore(ctx context.Context) (time.Time, error)
	// Audit lists what operators did, oldest first.
	Audit(ctx context.Context, q Query, each func(Act) error) error
}

// Query narrows a list. The zero Query is everything.
type Query struct {
	Account      string    // account id
	Since, Until time.Time // from Since on and before Until; zero: without a bound
	Checkpoint   int64     // of entries: those that this checkpoint covers; 0: all
	// Recent, of an account's entries: those behind the last one that is older than Since, if the clock was set back.
	// They are found without a look at older ones.
	Recent bool
}

// KeyQuery says which keys are listed, and in which order: that of their creation.
type KeyQuery struct {
	Account string // account id; "": of all accounts
	Newest  bool   // the newest first
	// After is the id of a key: those behind that one, in the order of the list. No key has that id: ErrNotFound.
	After string
	// Named is for those alone that have this as their id or, of an account's, as their name.
	Named string
}

// LatestQuery says which entries are wanted.
type LatestQuery struct {
	Account      string    // account id
	Since, Until time.Time // from Since on and before Until; zero: without a bound. It ends at the first older one
	// Before is the Seq of one: those before it; 0: all. Until, a little after the time of that one, only helps to find
	// it then.
	Before int64
	// Moved is for those alone that no use made: top-ups, refunds, adjustments and allotments. They are found without a
	// look at the charges between them.
	Moved bool
	// Key (an id), Route and Profile are of the requests that are looked for: a store may pass over entries that are no
	// charges of such, and says so in Movement.Passed, but it need not: whoever asks looks at what is given.
	Key, Route, Profile string
	// Covered is for each with the checkpoint that covers it, which takes a look of its own.
	Covered bool
}

// Movement is an entry, and of a charge its request.
type Movement struct {
	Entry
	Settled *RequestRecord // without its Entries; nil of other entries, and where the detail was pruned
	// Passed is how many entries were looked at and passed over since the one that was given before. There are only so
	// many: one that was looked for in vain is given then, too, so that whoever asks can say that it is enough.
	Passed int
	// Checkpoint is the first that covers the entry; nil where none does yet, and where it was not asked for.
	Checkpoint *Checkpoint
}

// ByUse reports whether use made an entry of this kind, and nobody's act.
func (k EntryKind) ByUse() bool { return k == Charged || k == Receipt || k == Closing }

// Dimension is what usage can be grouped by.
type Dimension string

const (
	ByAccount Dimension = "account"
	ByKey     Dimension = "key"
	ByRoute   Dimension = "route"
	ByDay     Dimension = "day"     // of the settlement, in UTC
	ByProfile Dimension = "profile" // that the request ran with
)

// UsageQuery narrows and groups usage. Since and Until are about the settlement.
type UsageQuery struct {
	Query
	Keys    []string // ids of keys: what is of any of them; none: of all. ErrNotFound where one of them is none
	Route   string   // "": of all
	Profile string   // "": of all
	By      []Dimension
}

// UsageRow is the sum of a group.
type UsageRow struct {
	Account, AccountName string // with ByAccount or ByKey
	Key, KeyName         string // with ByKey
	Route                string // with ByRoute
	Day                  string // "2026-11-20", with ByDay
	// Profile is that of the requests, with ByProfile; "" of what was pruned before there were sums by profile.
	Profile string

	// Requests are settled requests. Grouped by route, a request counts for each route that it was tried on.
	Requests int64
	Attempts int64
	Tokens   llm.Usage // summed classes; a class that was never reported is nil
	// Microcents is what was charged. Grouped or narrowed by route, this and the two below are the shares of the
	// route's attempts: each amount of a request is divided over its attempts in proportion to what they come to by
	// themselves in whole microcents (all of it falls to the last where that is nothing), so that the rows of the
	// routes come to exactly the whole.
	Microcents int64
	Waived     int64 // left free by fair use
	Over       int64 // beyond what was held, and not charged (GAP-110)
	Refunded   int64
	Cost       int64 // what the attempts cost the operator, microcents, each attempt rounded down
	Pending    int64 // requests that wait for a receipt
	Pruned     int64 // of Requests, those whose detail was pruned
}

// RequestRecord is everything that the ledger knows of a request: enough to do its arithmetic again by hand.
type RequestRecord struct {
	ID                string
	Account, Key      string // ids
	Endpoint, Profile string
	Owner             string // the boot id of the process that admitted it
	Running           bool   // nothing below Held is known yet
	Held              int64  // microcents; released when it is settled
	Created, Settled  time.Time
	Status            int
	Reason            string
	Free              bool
	ServiceLimit      bool
	Surcharge         int64 // microcents, as are the following
	Microcents        int64 // charged, later receipts included
	Waived            int64
	Over              int64 // beyond what was held, and not charged (GAP-110)
	Refunded          int64
	Pending           bool
	Attempts          []AttemptRecord
	Entries           []Entry // those that moved money for it, oldest first
}

// PrunedRequest is what the movements of money say of a request whose detail was pruned.
type PrunedRequest struct {
	ID         string
	Account    string // id
	Settled    time.Time
	Reason     string // of its settlement
	Prices     string // of its settlement, see Entry.Prices
	Microcents int64  // charged, later receipts included
	Waived     int64
	Over       int64
	Refunded   int64
	Tokens     int64   // input and output that counted against the token budget
	Entries    []Entry // oldest first
}

// Add adds a movement of the request's.
func (p *PrunedRequest) Add(e Entry) {
	switch p.Account = e.Account; e.Kind {
	case Refund:
		p.Refunded += e.Microcents
	case Charged:
		p.Settled, p.Reason, p.Prices = e.Created, e.Reason, e.Prices
		fallthrough
	default:
		p.Microcents -= e.Microcents
	}
	p.Waived += e.Waived
	p.Over += e.Over
	p.Tokens += e.Tokens
	p.Entries = append(p.Entries, e)
}

// Has reports whether the request has a refund already, by its reference and its figures; one of 0 microcents is of
// all that was left.
func (p *PrunedRequest) Has(refund Correction) bool {
	left := int64(0)
	for _, e := range p.Entries {
		left -= e.Microcents // what is charged is below zero
		if e.Kind == Refund && e.Reference == refund.Reference && refund.Reference != "" {
			return e.Microcents == refund.Microcents || refund.Microcents == 0 && left == 0
		}
	}
	return false
}

// PrunedError says of a request that is asked for that its detail was pruned, and what the journal still has of it. It
// is an ErrNotFound.
type PrunedError struct{ PrunedRequest }

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the detail of request %q was pruned; the journal still has %d microcents that it was charged",
		e.ID, e.Microcents)
}

func (e *PrunedError) Unwrap() error { return ErrNotFound }

// AttemptRecord is an attempt with its price. The charge of a request is the sum over its attempts, but the
// operator's, of tokens x price over the four classes, divided by a million once and rounded down, and the surcharge.
type AttemptRecord struct {
	Attempt
	Outcome Outcome // "" while it runs
	Usage   llm.Usage
	Price   config.Price // microcents per million tokens, of the attempt's price version
	Cost    config.Price // what the operator pays, the same way
	Created time.Time
	Receipt time.Time // when a later receipt came; zero: none did
	// Estimate is what it is charged for if no receipt comes; nil: nothing. It stays when one has.
	Estimate *llm.Usage
	Operator bool // see Result.Operator
}

// Verification says how a ledger is verified. The zero Verification looks at everything.
type Verification struct {
	Kept []Checkpoint // each must still be the ledger's
	// From is a checkpoint that was kept when the ledger was verified: it must still be the ledger's, and what it is over
	// is taken as it is. Nor is the file's structure looked at.
	From *Checkpoint
	// Progress is told now and then how many entries and requests were looked at, of about how many.
	Progress func(done, of int64)
}

// Report is the result of Verify.
type Report struct {
	OK bool `json:"ok"`
	// Stopped: what disagrees ended it, and what rests on that was not looked at. Accounts are then those whose entries
	// were.
	Stopped bool `json:"stopped,omitempty"`
	// From is the number of the checkpoint that it began at. Entries and Requests are those since.
	From        int64 `json:"from_checkpoint,omitempty"`
	Accounts    int64 `json:"accounts"`
	Entries     int64 `json:"entries"`
	Requests    int64 `json:"requests"` // those whose detail is kept
	Holds       int64 `json:"holds"`    // live holds, those of running requests
	Pending     int64 `json:"pending"`  // attempts that wait for a receipt
	Checkpoints int64 `json:"checkpoints"`
	// Sums is the trial balance: what each account of the double entry (see Entry) holds, in microcents. All together
	// are zero.
	Sums map[string]int64 `json:"sums"`
	// Witnessed: there is a witness beside the ledger, so that a missing end would be seen; Loss is that it is (GAP-133).
	Witnessed bool  `json:"witnessed"`
	Loss      *Loss `json:"loss,omitempty"`
	// PowerCut is what power cuts have taken that were free to, which is booked; nil: nothing. A Loss that says PowerCut
	// is booked by the next start.
	PowerCut *PowerCuts `json:"power_cuts,omitempty"`
	Problem  string     `json:"problem,omitempty"`
	Entry    string     `json:"entry,omitempty"` // the first entry, hold or request that disagrees
}

// PowerCuts are those that have taken the end of a ledger, where an operator let them (durability "process").
type PowerCuts struct {
	Times int64     `json:"times"`
	Last  time.Time `json:"last"` // when the last one was booked
	Lost  string    `json:"lost"` // by it, as far as anything still told
}

// Act is one administrative act, and a link of the audit trail's hash chain.
//
// Acts are numbered and chained by account, and those about none among themselves.
type Act struct {
	N       int64     `json:"n,omitempty"` // its place among all acts, in format 1; 0 since
	Seq     int64     `json:"seq"`         // 1 for the account's first act, without gaps
	Created time.Time `json:"time"`
	Actor   string    `json:"actor"`   // see WithActor
	Action  string    `json:"action"`  // "key.create", "account.set_state", "credit.add", ...
	Account string    `json:"account"` // account id, "" when it is about none
	// AccountName is the account's name today.
	AccountName string `json:"account_name,omitempty"`
	Subject     string `json:"subject"` // id of the account, key, request that it changed
	Before      string `json:"before"`  // JSON object of what changed; "" for what was made
	After       string `json:"after"`
	// Prev is the Hash of the account's act before it, in format 1 of the act before it in the whole trail; zero for
	// the first.
	Prev   Digest `json:"prev"`
	Format int64  `json:"format"` // of the hash
}

// ActFormat is that of the acts that are made now.
const ActFormat = 2

// Hash covers every field but AccountName, like Entry.Hash.
func (a Act) Hash() Digest {
	texts := []string{a.Actor, a.Action, a.Account, a.Subject, a.Before, a.After}
	b, n := append(make([]byte, 0, 512), "fareway ledger act 2\n"...), a.Seq
	if a.Format == 1 {
		b, n = append(b[:0], "fareway ledger act 1\n"...), a.N
	}
	return sha256.Sum256(hashed(b, a.Prev, texts, []int64{n, a.Created.UnixNano()}))
}

type actorKey struct{}

// WithActor returns a context whose operations the audit trail puts down to this actor.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf is the actor of a context, "gateway" for what nobody asked for.
func ActorOf(ctx context.Context) string {
	if a, ok := ctx.Value(actorKey{}).(string); ok && a != "" {
		return a
	}
	return "gateway"
}
