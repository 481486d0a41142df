package spool

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Record is a settlement, with what it takes to charge its account when the ledger does not know its request: an
// older copy of the database was put back, say. Records of a spool of before (format 1) have the settlement only.
type Record struct {
	Settlement ledger.Settlement `json:"settlement"`
	Account    string            `json:"account,omitempty"` // id
	Key        string            `json:"key,omitempty"`     // id
	Attempts   []Attempt         `json:"attempts,omitempty"`
	// Charge is what the settlement comes to, in microcents, and what its client was told, unless the settlement is
	// at a limit of the service; nil when nobody knows any more.
	Charge *int64 `json:"charge,omitempty"`
	// Pending: Charge may grow by a later receipt.
	Pending bool      `json:"pending,omitempty"`
	Time    time.Time `json:"time,omitzero"` // when it was decided, or kept
	// Hold is what was held for the request; nil in records of before, whose request the ledger has.
	Hold *Hold `json:"hold,omitempty"`
}

// Hold is what a settlement ends, and what it comes to beside the record's Charge.
type Hold struct {
	Owner      string    `json:"owner"`
	Endpoint   string    `json:"endpoint"`
	Profile    string    `json:"profile"`
	Microcents int64     `json:"microcents"`
	Created    time.Time `json:"created"`
	Kept       bool      `json:"kept,omitempty"` // the ledger has had it
	Waived     int64     `json:"waived,omitempty"`
	Over       int64     `json:"over,omitempty"`
	Tokens     int64     `json:"tokens,omitempty"`
}

// Attempt is an attempt of the settlement's request, with its price.
type Attempt struct {
	ID           string       `json:"id"`
	Route        string       `json:"route"`
	Provider     string       `json:"provider"`
	Model        string       `json:"model"`
	PriceVersion int64        `json:"price_version"`
	Price        config.Price `json:"price"`
	// What follows is of a record with a Hold.
	Cost      config.Price `json:"cost,omitzero"`
	Worst     int64        `json:"worst,omitempty"`
	Created   time.Time    `json:"created,omitzero"`
	Beside    bool         `json:"beside,omitempty"`
	Reference string       `json:"reference,omitempty"`
	NotMade   bool         `json:"not_made,omitempty"`
}

func decodeJSON(payload []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("decoding a settlement: %w", err)
	}
	return r, nil
}

// encodeJSON is how a record is kept aside, and what it is named by there.
func (r *Record) encodeJSON() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the settlement of request %q: %w", r.Settlement.Request, err)
	}
	return b, nil
}
