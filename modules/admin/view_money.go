package admin

import (
	"encoding/json"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Credit is the result of a top-up. Applied is false when the account had seen the reference before: then
// nothing was changed.
type Credit struct {
	Account           string `json:"account"`
	Credits           int64  `json:"credits"`
	Reference         string `json:"reference,omitempty"`
	Applied           bool   `json:"applied"`
	BalanceCredits    int64  `json:"balance_credits"`
	AvailableCredits  int64  `json:"available_credits"`
	AccruedMicrocents int64  `json:"accrued_usage_microcents"`
}

// Correction is the result of an adjustment or a refund. Applied is as in Credit.
type Correction struct {
	Account           string `json:"account"`
	Request           string `json:"request,omitempty"` // of a refund
	Microcents        int64  `json:"microcents"`        // what it added to the account's worth
	Pending           bool   `json:"pending,omitempty"` // the request waits for a receipt, which may charge it again
	Reference         string `json:"reference,omitempty"`
	Applied           bool   `json:"applied"`
	BalanceCredits    int64  `json:"balance_credits"`
	AvailableCredits  int64  `json:"available_credits"`
	AccruedMicrocents int64  `json:"accrued_usage_microcents"`
}

func viewCorrection(account, request string, microcents int64, reference string, applied bool,
	b ledger.Balance) Correction {
	return Correction{
		Account: account, Request: request, Microcents: microcents, Reference: reference, Applied: applied,
		BalanceCredits: b.Credits, AvailableCredits: b.Available(), AccruedMicrocents: b.Accrued,
	}
}

// Entry is an entry of the journal with the hash of its content, which is the next one's prev in its account.
type Entry struct {
	ledger.Entry
	Hash ledger.Digest `json:"hash"`
}

// Act is an administrative act with the hash of its content, which is the next one's prev.
type Act struct {
	N         int64     `json:"n,omitempty"` // only of old acts, see ledger.Act
	Seq       int64     `json:"seq"`
	Time      time.Time `json:"time"`
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	Account   string    `json:"account,omitempty"` // the account's name today
	AccountID string    `json:"account_id,omitempty"`
	Subject   string    `json:"subject"`
	// Before and After are objects with what changed; null for what was not there before, or is not there after.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Prev   ledger.Digest   `json:"prev"`
	Hash   ledger.Digest   `json:"hash"`
	Format int64           `json:"format"`
}

func viewAct(a ledger.Act) Act {
	return Act{
		N: a.N, Seq: a.Seq, Format: a.Format, Time: a.Created.UTC(),
		Actor: a.Actor, Action: a.Action, Account: a.AccountName, AccountID: a.Account,
		Subject: a.Subject, Before: object(a.Before), After: object(a.After), Prev: a.Prev, Hash: a.Hash(),
	}
}

// object is JSON text as it is, or null when there is none.
func object(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// Pruned is what went.
type Pruned struct {
	Before   time.Time `json:"before"`
	Requests int64     `json:"requests"`
	// The database's file, before and after free room was given back; FreeAtStart: only the gateway's next start can.
	FileBefore  int64 `json:"file_before_bytes"`
	File        int64 `json:"file_bytes"`
	FreeAtStart bool  `json:"free_at_start,omitempty"`
}

// KeptCheckpoint is a checkpoint as it is kept elsewhere: the line says what it is.
type KeptCheckpoint struct {
	Checkpoint ledger.Checkpoint `json:"checkpoint"`
}

// NewCredit tops an account up.
type NewCredit struct {
	Account   string `json:"account"` // name or id
	Credits   int64  `json:"credits"`
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// NewAdjustment corrects a balance.
type NewAdjustment struct {
	Account    string `json:"account"`    // name or id
	Microcents int64  `json:"microcents"` // negative takes away
	Reference  string `json:"reference,omitempty"`
	Reason     string `json:"reason"`
}

// NewRefund gives a request's charge back.
type NewRefund struct {
	Request    string `json:"request"`
	Microcents int64  `json:"microcents,omitempty"` // 0: all that is left of the charge
	Reference  string `json:"reference,omitempty"`
	Reason     string `json:"reason"`
}

// Verification asks for the ledger to be recomputed.
type Verification struct {
	Checkpoints []ledger.Checkpoint `json:"checkpoints,omitempty"` // kept elsewhere, each to be compared
	// From is one of them, of a ledger that was clean then: what it is over is taken as it is.
	From *ledger.Checkpoint `json:"from,omitempty"`
	// Progress asks for JSON lines, of VerifyLine.
	Progress bool `json:"progress,omitempty"`
}

// VerifyLine is a line of a verification that says how far it is: entries and requests, of about how many. The last
// one has what it found.
type VerifyLine struct {
	Done     int64     `json:"done"`
	Of       int64     `json:"of"`
	Verified *Verified `json:"verified,omitempty"`
}

// Pruning removes the detail of old requests.
type Pruning struct {
	Before time.Time `json:"before"`
}
