// Package ledger is the money of the gateway: prepaid balances, holds and settlements, in integer
// microcents, over a store that survives a crash at any moment. The store is the authority; nothing outside
// it remembers a balance. It is for the engine and its admin API only.
//
// The rules are the contract's "Credits and metering" and decisions GAP-48 to GAP-60. Available credits are
// balance - reserved - (1 if anything is accrued); a request is admitted when they are at least 1 and its
// hold in microcents is at most available x 1,000,000 (GAP-49).
package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	// ErrInvalid: the caller asked for something that makes no sense, such as a top-up of nothing.
	ErrInvalid = errors.New("invalid")
	// ErrInsufficient: the available credits do not cover a hold. Nothing was held.
	ErrInsufficient = errors.New("insufficient credits")
	// ErrUnavailable: the store cannot be written or read at the moment. Nothing was changed. A hold or a
	// settlement may be repeated as it is; a top-up without a reference should be looked for first, for a
	// disk that fails in the middle of a commit can bring it back after a restart.
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
	Balance Balance
}

// Key is an API key without its secret.
type Key struct {
	ID      string // "key_" and 24 lower-case hex characters
	Account string // account id
	Name    string // unique within the account
	Last4   string
	Revoked bool
	Created time.Time
}

// Principal is the account and key that a request acts for.
type Principal struct {
	Account Account // Balance is not filled
	Key     Key
}

// MaxTopUp is the largest single top-up in credits: ten million US dollars, far above any real one and far
// below anything that could overflow.
const MaxTopUp = 1_000_000_000

// Credit is a top-up. A Reference that the account has seen before changes nothing.
type Credit struct {
	Account   string // account id
	Credits   int64  // 1 to MaxTopUp
	Reference string // "" for none
	Reason    string
}

// Hold sets money aside for one request, with the request's first attempt.
type Hold struct {
	// Request is the request's id. A hold that is repeated while the request runs changes nothing; the
	// id of a request that is settled, or that belongs to another account, is ErrExists.
	Request    string
	Account    string // account id
	Key        string // key id
	Endpoint   string // "chat", "responses", "messages"
	Profile    string
	Microcents int64
	Attempt    Attempt
}

// Attempt is one call to one route, recorded before it is made.
type Attempt struct {
	ID           string
	Route        string
	Provider     string
	Model        string // upstream model
	PriceVersion int64  // the version in force when it begins
}

// Outcome says how an attempt ended.
type Outcome string

const (
	Finished Outcome = "finished" // the upstream ended its reply
	Failed   Outcome = "failed"   // any failure, after which Usage may still prove work
	Unproven Outcome = "unproven" // ended without usage; a later receipt may add it (GAP-56)
	NotMade  Outcome = "not_made" // the call was never sent upstream
)

// Result is how an attempt ended and what it proved. Proven usage is charged whatever the outcome; an
// attempt that Finished without usage is recorded as Unproven, and so is one whose usage cannot be priced
// (ErrUsage), without that usage.
type Result struct {
	Attempt string
	Outcome Outcome
	Usage   *llm.Usage // nil when nothing is proven
}

// Settlement ends a request: it releases the hold and charges the proven usage of all attempts, once. A
// settlement of a request that is settled already changes nothing and returns the first one's Charge.
type Settlement struct {
	Request string
	Status  int    // HTTP status that the client got, or would have got
	Reason  string // short and without client text: "ok", "client_left", "upstream_error", ...
	// Free: a failure of the service; usage is recorded and nothing is charged, now or later (GAP-55).
	Free bool
	// Surcharge is what the request costs beside its tokens, in microcents: safety screening (GAP-59).
	Surcharge int64
	// Results holds one Result for each attempt; an attempt that is missing here counts as Unproven.
	Results []Result
}

// Charge is what a settlement did.
type Charge struct {
	Microcents int64
	Pending    bool    // an attempt is unproven: a later receipt may add to it
	Balance    Balance // the account's, now
}

// Report is the result of Verify.
type Report struct {
	OK       bool   `json:"ok"`
	Accounts int64  `json:"accounts"`
	Entries  int64  `json:"entries"`
	Requests int64  `json:"requests"`
	Holds    int64  `json:"holds"` // live holds, those of running requests
	Problem  string `json:"problem,omitempty"`
	Entry    string `json:"entry,omitempty"` // the first entry, hold or request that disagrees
}

// Store keeps the ledger. Every method is one transaction, durable when it returns, and safe for concurrent
// use. Methods return ErrNotFound, ErrExists, ErrInvalid, ErrInsufficient or ErrUnavailable, wrapped.
type Store interface {
	// CreateAccount makes an active account with a balance of 0.
	CreateAccount(ctx context.Context, name, plan string) (Account, error)
	// Account finds an account by id or by name.
	Account(ctx context.Context, idOrName string) (Account, error)
	Accounts(ctx context.Context) ([]Account, error)
	// SetState takes an account id; it acts on the next request, running ones finish (GAP-14).
	SetState(ctx context.Context, account string, state State) (Account, error)

	// CreateKey stores a key by the SHA-256 of its text.
	CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string) (Key, error)
	// Keys lists the keys of an account, or of all accounts when it is "".
	Keys(ctx context.Context, account string) ([]Key, error)
	RevokeKey(ctx context.Context, id string) (Key, error)
	// Lookup finds who a key's hash belongs to. A revoked key is found, with Revoked set.
	Lookup(ctx context.Context, hash [32]byte) (Principal, error)

	// AddCredit tops up. applied is false when the reference was seen before.
	AddCredit(ctx context.Context, c Credit) (b Balance, applied bool, err error)
	Balance(ctx context.Context, account string) (Balance, error)

	// PriceVersion returns the version number of a route's price, a new one when the price has changed.
	PriceVersion(ctx context.Context, route string, price config.Price) (int64, error)

	// Hold admits a request or returns ErrInsufficient.
	Hold(ctx context.Context, h Hold) (Balance, error)
	// Begin records a further attempt of a running request, and raises its hold to total microcents when
	// total is more; ErrInsufficient when the balance does not allow it, ErrNotFound when the request does
	// not run (any more). An attempt that is repeated changes nothing.
	Begin(ctx context.Context, request string, a Attempt, total int64) error
	// Settle ends a request. It does not fail for what a provider reported: see Result.
	Settle(ctx context.Context, s Settlement) (Charge, error)

	// Verify recomputes every balance, hold and charge, and the hash chains.
	Verify(ctx context.Context) (Report, error)
	Close() error
}
