package admin

import (
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// Verified is the result of a verification.
type Verified struct {
	ledger.Report
	Spool Spool `json:"spool"`
}

// Spool is the state of the spool beside the ledger.
type Spool struct {
	Waiting int64 `json:"waiting"` // settlements that the ledger has not taken yet
	// Since is when the first of those was decided: the ledger has all that was settled before.
	Since     *time.Time `json:"since,omitempty"`
	Undecided int64      `json:"undecided"` // items that could not be applied or read, and wait for an operator
	Aside     string     `json:"aside"`     // the file with those; it need not exist
}

func viewSpool(s engine.SpoolState) Spool {
	return Spool{Waiting: s.Settlements, Since: optionalTime(s.Since),
		Undecided: s.Undecided + int64(len(s.Damaged)), Aside: s.Aside}
}

// Aside is an item that was kept aside: a settlement, or what is damaged.
type Aside struct {
	ID    string     `json:"id"`
	State string     `json:"state"` // undecided, applied, discarded
	Kind  spool.Kind `json:"kind"`  // damaged, unknown_request, refused, differs
	Why   string     `json:"why"`
	File  string     `json:"file"` // that has all of it
	Time  *time.Time `json:"time,omitempty"`

	Request   string `json:"request,omitempty"`
	Account   string `json:"account,omitempty"` // the account's name today
	AccountID string `json:"account_id,omitempty"`
	KeyID     string `json:"key_id,omitempty"`
	// Microcents is what the settlement comes to; null when nobody knows any more.
	Microcents *int64          `json:"microcents,omitempty"`
	Settlement *spool.Record   `json:"settlement,omitempty"`
	Damage     *Damage         `json:"damage,omitempty"`
	Decision   *spool.Decision `json:"decision,omitempty"`
}

// Damage is a damaged part of a file. What is there is in the aside.
type Damage struct {
	File     string   `json:"file"`
	Offset   int64    `json:"offset"`
	Bytes    int      `json:"bytes"`
	Lost     int64    `json:"lost"`     // settlements that are not whole for it, as far as is known
	Requests []string `json:"requests"` // whose ids can still be read
}

func newAsideView(item spool.Item, file string) Aside {
	v := Aside{
		ID: item.ID, State: "undecided", Kind: item.Kind, Why: item.Why, File: file,
		Settlement: item.Record, Decision: item.Decision,
	}
	if item.Decision != nil {
		v.State = string(item.Decision.Outcome)
	}
	if !item.Time.IsZero() {
		v.Time = &item.Time
	}
	if r := item.Record; r != nil {
		v.Request, v.AccountID, v.KeyID, v.Microcents = r.Settlement.Request, r.Account, r.Key, r.Charge
	}
	if d := item.Damage; d != nil {
		v.Damage = &Damage{File: d.File, Offset: d.Offset, Bytes: len(d.Bytes), Lost: d.Lost,
			Requests: append([]string{}, d.Requests...)}
	}
	return v
}

// Decision says why an operator decides something about the ledger.
type Decision struct {
	Reason string `json:"reason"`
}

// AcceptedLoss is what the ledger goes on without.
type AcceptedLoss struct {
	ledger.Loss
	Text string `json:"text"` // the same in words
}
