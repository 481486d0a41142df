// Package ledger is the money of the gateway: prepaid balances, holds and settlements, in integer
// microcents, over a store that survives a crash at any moment. The store is the authority; nothing outside
// it remembers a balance. It is for the engine and its admin API only.
//
// The rules are CONTRACT.md's "Credits and metering" and decisions GAP-48 to GAP-60. Available credits are balance -
// reserved - (1 if anything is accrued); a request is admitted when they are at least 1 and its hold in microcents is
// at most available x 1,000,000 (GAP-49). Who is refused is told what would be covered (Refusal), and may hold for
// less (GAP-137).
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	// ErrReference: the account has the reference of a movement, of another one. Nothing was moved.
	ErrReference = fmt.Errorf("%w with other figures", ErrExists)
	// ErrInvalid: the caller asked for something that makes no sense, such as a top-up of nothing.
	ErrInvalid = errors.New("invalid")
	// ErrInsufficient: the available credits do not cover a hold. Nothing was held.
	ErrInsufficient = errors.New("insufficient credits")
	// ErrNothingLeft and ErrHeld are ErrInsufficient: of an account that has not a credit left, whatever runs, and of
	// one whose credits would cover the hold if other running requests did not hold them.
	ErrNothingLeft = fmt.Errorf("%w: nothing is left", ErrInsufficient)
	ErrHeld        = fmt.Errorf("%w: running requests hold them", ErrInsufficient)
	// ErrSpendCap, ErrTokenBudget, ErrKeySpendCap: what was settled in the account's period has reached the
	// limit, or this request at its worst would cross it (GAP-53). Nothing was held.
	ErrSpendCap    = errors.New("spend cap reached")
	ErrTokenBudget = errors.New("token budget reached")
	ErrKeySpendCap = errors.New("spend cap of the key reached")
	// ErrKeyHeld is an ErrKeySpendCap that ends with the key's running requests: what is spent would allow this one.
	ErrKeyHeld = fmt.Errorf("%w with what its running requests hold", ErrKeySpendCap)
	// ErrUnavailable: the store cannot be written or read at the moment, or is too slow. Nothing was changed, or
	// what was will be taken back: a hold may be repeated as it is, at once, and later it may be ErrExists. A
	// settlement may always be repeated. A top-up without a reference should be looked for first, for a disk that
	// fails in the middle of a commit can bring it back.
	ErrUnavailable = errors.New("ledger unavailable")
)

// State is the state of an account (GAP-14).
type State string

const (
	Active    State = "active"
	Suspended State = "suspended"
	Inactive  State = "inactive"
)

// Account is a prepaid account.
type Account struct {
	ID      string // "acct_" and 24 lower-case hex characters
	Name    string // unique
	Plan    string // a plan of the configuration, or ""
	State   State
	Created time.Time
	// Limits and Profile are what was set for the account itself; "" is no profile. Where nothing was, its plan
	// decides.
	Limits  Limits
	Profile string
	// Requires is what routes must be, besides what its plan requires.
	Requires config.Requires
	// Mail are the addresses of who is told what is about the account. They are personal: not for logs, nor for the
	// trail, which has them masked.
	Mail    []string
	Balance Balance
	Period  Period
}

// Key is an API key without its secret.
type Key struct {
	ID      string // "key_" and 24 lower-case hex characters
	Account string // account id
	// AccountName is the account's name, in Books.Keys only: a list of a million keys looks up no account for each.
	AccountName string
	Name        string // unique within the account
	Last4       string
	Revoked     bool
	Created     time.Time
	Expires     time.Time // zero: never
	// SpendCap bounds what the key may spend in the account's period, in microcents; 0: no cap. Spent is what
	// it has. A key and those that replaced it share both.
	SpendCap, Spent int64
}

// Usable reports whether the key opens its account at this moment.
func (k Key) Usable(now time.Time) bool {
	return !k.Revoked && (k.Expires.IsZero() || now.Before(k.Expires))
}

// KeyChange says what is to change of a key; nil leaves it.
type KeyChange struct {
	Name     *string
	Expires  *time.Time // the zero time: never; otherwise before MaxExpiry
	SpendCap *int64     // microcents; 0: no cap
}

// RequiresChange says what is to change of what an account requires of routes; nil leaves it.
type RequiresChange struct {
	Regions   *[]string // none: wherever
	Retention *string   // "none" or a duration; "": however long
}

// MaxExpiry is later than any key's expiry: times are kept in nanoseconds, which an int64 counts until 2262.
var MaxExpiry = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

// Principal is the account and key that a request acts for.
type Principal struct {
	Account Account // Balance, Period and Mail are not filled
	Key     Key     // Spent is not filled
}

// MaxTopUp is the largest single top-up in credits: ten million US dollars, far above any real one and far
// below anything that could overflow.
const MaxTopUp = 1_000_000_000

// Credit is a top-up. A Reference that the account has seen before changes nothing, and is ErrReference with other
// figures.
type Credit struct {
	Account   string // account id
	Credits   int64  // 1 to MaxTopUp
	Reference string // "" for none
	Reason    string
}

// Correction moves money by an operator's decision. With a Request it is a refund of what that request was
// charged, at most what is left of it; without one an adjustment, up or down. A Reference is as
// that of a Credit; a refund of all that is left repeats one that left nothing.
type Correction struct {
	Account    string // account id; may be "" for a refund
	Request    string
	Microcents int64 // up is positive; of a refund 1 to what is left, or 0 for all of that
	Reference  string
	Reason     string // not empty
}

// Hold sets money aside for one request, with the request's first attempt where that is known already.
type Hold struct {
	// Request is the request's id. A hold that is repeated while the request runs changes nothing; the
	// id of a request that is settled, or that belongs to another account, is ErrExists.
	Request    string
	Account    string // account id
	Key        string // key id
	Endpoint   string // "chat", "responses", "messages", or Shadow
	Profile    string
	Microcents int64 // the most that the request can cost
	Tokens     int64 // the most that it can use, input and output, for the token budget
	// Attempt is the first one. The zero Attempt is none yet: Begin records it, or the request ends without one.
	Attempt Attempt
	// Headroom, above 1, refuses the hold also where one that many times as large would be refused: who sized it
	// roughly sizes it exactly then.
	Headroom int64
	// WriteBehind: its caller need not wait until the hold is durable. A crash would lose nothing of the first attempt
	// that could ever be proven (GAP-132).
	WriteBehind bool
}

// Attempt is one call to one route, recorded before it is made.
type Attempt struct {
	ID           string // the request's id, "." and the attempt's number from 1 on: AttemptID
	Route        string
	Provider     string
	Model        string // upstream model
	PriceVersion int64  // the version in force when it begins
	// Worst is the most that the attempt may cost, in microcents. It bounds what a receipt or its Estimate may add once
	// the hold is gone (GAP-110). Below zero: not known, of a ledger from before; the request's hold bounds it then.
	Worst int64
	// Key is the name of the provider's key that it was made with, "" where the provider has none. Its Result says it.
	Key string
}

// Next is a further attempt of a running request.
type Next struct {
	Request string
	Attempt Attempt
	// Microcents and Tokens are what the request can come to with this attempt: what is proven so far, and
	// the most that the attempt can add. The hold is raised to Microcents when that is more.
	Microcents, Tokens int64
	// Beside: it is made beside an attempt that runs, and the account pays for one of them. Where nobody says how it
	// ended, as after a crash, it is the operator's.
	Beside bool
	// WriteBehind is as that of a Hold.
	WriteBehind bool
}

// Outcome says how an attempt ended.
type Outcome string

const (
	Finished Outcome = "finished" // the upstream ended its reply
	Failed   Outcome = "failed"   // any failure, after which Usage may still prove work
	// Unproven: ended without usage; a later receipt may add it (GAP-56). It stays so when that has come:
	// AttemptRecord.Receipt tells.
	Unproven Outcome = "unproven"
	NotMade  Outcome = "not_made" // the call was never sent upstream
	// Closed: no receipt came within receipt_age, and none is taken any more. Only the ledger sets it. Usage is then
	// what the attempt was taken to have used, if it had an Estimate.
	Closed Outcome = "closed"
)

// Result is how an attempt ended and what it proved. Proven usage is charged whatever the outcome; an
// attempt that Finished without usage is recorded as Unproven, and so is one whose usage cannot be priced
// (ErrUsage), without that usage. One that is Unproven and has usage is recorded as Failed: it is proven.
type Result struct {
	Attempt string     `json:"attempt"`
	Outcome Outcome    `json:"outcome"`
	Usage   *llm.Usage `json:"usage,omitempty"` // nil when nothing is proven
	// Estimate is what an attempt that ends Unproven is taken to have used if no receipt comes (GAP-113): CloseUnproven
	// charges it then, marked as estimated, at most the attempt's Worst. Of its classes Input and Output count, and
	// without both it is none. It is left out of any other attempt, and where it cannot be priced.
	Estimate *llm.Usage `json:"estimate,omitempty"`
	Key      string     `json:"key,omitempty"` // see Attempt.Key
	// Reference is what Store.Refer says, which may have been lost.
	Reference string `json:"reference,omitempty"`
	// Operator: what it used is the operator's and never the account's, for it lost to one that was made beside
	// it. No receipt is waited for: where it is Unproven, or Finished without usage, it is recorded as Failed.
	Operator bool `json:"operator,omitempty"`
}

// Settlement ends a request: it releases the hold and charges the proven usage of all attempts but the
// operator's, once, at most the hold (GAP-110). A settlement of a request that is settled already changes nothing and
// returns the first one's Charge.
type Settlement struct {
	Request string `json:"request"`
	Status  int    `json:"status"` // HTTP status that the client got, or would have got
	Reason  string `json:"reason"` // short and without client text: "ok", "client_left", "upstream_error", ...
	// Free: a failure of the service; usage is recorded and nothing is charged, now or later (GAP-55).
	Free bool `json:"free,omitempty"`
	// ServiceLimit: the request ended at a limit that the service set. What fits in what remains of the account's
	// fair-use allowance is free, and what goes beyond is charged, in the order of settlement (GAP-54, GAP-135).
	ServiceLimit bool `json:"service_limit,omitempty"`
	// Surcharge is what the request costs beside its tokens, in microcents: safety screening (GAP-59).
	Surcharge int64 `json:"surcharge,omitempty"`
	// Results holds one Result for each attempt; an attempt that is missing here counts as Unproven, and one that was
	// made beside another (Next.Beside) as Failed and the operator's.
	Results []Result `json:"results"`
}

// Charge is what a settlement or a receipt did.
type Charge struct {
	Microcents int64 // what the request is charged in all
	Added      int64 // of that, what this receipt added; 0 for a settlement
	Waived     int64 // what fair use left free
	// Over is what the usage comes to beyond what was held: recorded, not charged, and the operator's (GAP-110). Of a
	// receipt OverAdded is what this one added to it.
	Over, OverAdded int64
	Pending         bool    // an attempt is unproven: a later receipt may add to it
	Balance         Balance // the account's, now
}

// Closings are what CloseUnproven did.
type Closings struct {
	Attempts int64
	// Charged and Over are what it charged, and left to the operator, by route, in microcents; nothing is in neither.
	Charged, Over map[string]int64
}

// Waiting is an attempt that waits for a receipt.
type Waiting struct {
	Attempt string // its id
	Route   string
	Created time.Time
	// Reference is what its upstream is asked by, "" where it said none. Key is that of the provider that it was made
	// with, "" where there is none, or nobody said.
	Reference, Key string
}

// Shrunk is what Shrink did, in bytes of the store.
type Shrunk struct {
	Before, After int64
	// Waits: much is free, and only the next start can give it back.
	Waits bool
}

// Store keeps the ledger. Every method is one transaction, durable when it returns, and safe for concurrent
// use. Methods return ErrNotFound, ErrExists, ErrInvalid, ErrUnavailable or what they name, wrapped.
//
// Before an operation looks at an account, the account's periods that are over are ended (see Period). Whatever
// an operator decides is recorded in the audit trail in the same transaction, with the actor of the context.
type Store interface {
	Books

	// Ping returns ErrUnavailable when the store would not take an operation now. It is for readiness: it costs next
	// to nothing, and looks further where an operation has failed for the store's sake since it last said nil.
	Ping(ctx context.Context) error

	// Recover releases the holds of owners that are provably gone; their requests are settled at nothing, their
	// attempts wait for receipts (GAP-99). Call it after opening and before the first Hold, after the settlements of
	// the spool have been repeated. Owners that handed the ledger over and still settle what they run are living; it
	// is called again when one of them has ended. It returns how many requests there were.
	Recover(ctx context.Context, living ...string) (requests int64, err error)

	// CreateAccount makes an active account with a balance of 0, or of its plan's credits for the first period.
	CreateAccount(ctx context.Context, name, plan string) (Account, error)
	RenameAccount(ctx context.Context, account, name string) (Account, error)
	// SetPlan takes the name of a plan of the configuration, or "".
	SetPlan(ctx context.Context, account, plan string) (Account, error)
	// SetLimit sets a limit for one account, over its plan; nil gives it back to the plan.
	SetLimit(ctx context.Context, account string, limit Limit, value *int64) (Account, error)
	// SetProfile takes the routing profile of requests that name none, or "" for the plan's.
	SetProfile(ctx context.Context, account, profile string) (Account, error)
	// SetRequires takes what routes must be besides what the plan requires; ErrInvalid where config.ParseRequires
	// refuses.
	SetRequires(ctx context.Context, account string, change RequiresChange) (Account, error)
	// SetMail takes the addresses of who is told what is about the account, none for nobody; ErrInvalid where
	// config.ParseOwners refuses.
	SetMail(ctx context.Context, account string, addresses []string) (Account, error)
	// SetState acts on the next request, running ones finish (GAP-14).
	SetState(ctx context.Context, account string, state State) (Account, error)

	// CreateKey stores a key by the SHA-256 of its text. Of the change, nil is a key that never expires and
	// has no cap; its Name is not used.
	CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string, change KeyChange) (Key, error)
	ChangeKey(ctx context.Context, id string, change KeyChange) (Key, error)
	// RotateKey makes a key that takes the name, the expiry and the spend cap of another, which goes on for the
	// overlap (0: ends now) under its name with "~1" (or "~2", ...) behind it. ErrInvalid for a key that has ended.
	RotateKey(ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration) (fresh, old Key,
		err error)
	RevokeKey(ctx context.Context, id string) (Key, error)
	// Lookup finds who a key's hash belongs to. A key that is revoked or has expired is found, too.
	Lookup(ctx context.Context, hash [32]byte) (Principal, error)

	// AddCredit tops up. applied is false when the reference was seen before.
	AddCredit(ctx context.Context, c Credit) (b Balance, applied bool, err error)
	// Correct adjusts or refunds. applied is false when the reference was seen before. ErrInvalid for a refund
	// of more than the request was charged.
	Correct(ctx context.Context, c Correction) (b Balance, applied bool, err error)

	// RecordAct adds an act to the audit trail about something outside the store: of an account's (its id, "" for
	// none; one that is not known counts as none), with what it says for people.
	RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error

	// PriceVersion returns the version number of a route's price and of what it costs the operator, a new one
	// when either has changed.
	PriceVersion(ctx context.Context, route string, price, cost config.Price) (int64, error)

	// Check, Hold and Begin refuse with a Refusal, which says what would be covered.

	// Check returns what Hold would refuse with, and holds nothing. With amounts of 0 it tells whether the
	// account is exhausted already (GAP-01 step 15).
	Check(ctx context.Context, account, key string, microcents, tokens int64) error
	// Hold admits a request or returns ErrInsufficient (ErrNothingLeft, ErrHeld), ErrSpendCap, ErrTokenBudget or
	// ErrKeySpendCap.
	Hold(ctx context.Context, h Hold) (Balance, error)
	// Begin records a further attempt of a running request, or its first, or returns what Hold does. ErrNotFound when the
	// request does not run (any more). An attempt that is repeated changes nothing.
	Begin(ctx context.Context, n Next) error
	// Refer notes what the upstream of a running attempt is asked by for its receipt, which is needed after a crash
	// (GAP-56). It does not wait: it is in one of the next commits, or lost with a store that cannot be written.
	Refer(attempt, reference string)
	// Settle ends a request. It does not fail for what a provider reported: see Result.
	Settle(ctx context.Context, s Settlement) (Charge, error)

	// Waiting lists attempts of a provider that wait for a receipt, those that began first before the others,
	// after the attempt with the id after ("": from the first), at most limit.
	Waiting(ctx context.Context, provider, after string, limit int) ([]Waiting, error)
	// CountWaiting counts all attempts that wait for a receipt, by provider; who has none is not in it.
	CountWaiting(ctx context.Context) (map[string]int64, error)
	// AddReceipt charges what an attempt is proven to have used, once: applied is false when it does not wait
	// (any more). ErrUsage when the usage cannot be priced; the attempt goes on waiting.
	AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (c Charge, applied bool, err error)
	// CloseUnproven closes the attempts that wait and began before then: at their Estimate, or at zero without one. The
	// request's fair use (Settlement.ServiceLimit) holds for that, too.
	CloseUnproven(ctx context.Context, before time.Time) (Closings, error)

	// Loss is what the ledger does not have of what was seen of it, nil when nothing is known to be missing. While it is
	// set, a Hold of more than nothing, AddCredit and Correct are ErrLost (GAP-133).
	Loss() *Loss
	// AcceptLoss goes on without what is missing: by an operator's decision, with its reason on the audit trail.
	// ErrInvalid when nothing is.
	AcceptLoss(ctx context.Context, reason string) (Loss, error)

	// EndPeriods ends and begins the periods, and adds the credits, that are due to accounts that nothing else has
	// looked at. It returns how many accounts there were.
	EndPeriods(ctx context.Context) (accounts int64, err error)
	// MakeCheckpoint records a checkpoint over the entries since the last one, and returns the newest.
	MakeCheckpoint(ctx context.Context) (Checkpoint, error)
	// Learn gives fold what is kept of outcomes, in the order of route, model and kind, and keeps in its place what fold
	// returns, each route, model and kind once. It may call fold again, with what is kept then.
	Learn(ctx context.Context, fold func(kept []Learned) []Learned) error
	// Prune removes the detail (request and attempts) of requests that were settled before then and wait for
	// nothing. Entries stay.
	Prune(ctx context.Context, before time.Time) (requests int64, err error)
	// Shrink gives the room that is free in the store back to the file system, beside the running operations.
	Shrink(ctx context.Context) (Shrunk, error)

	Close() error
}
