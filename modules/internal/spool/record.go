package spool

import (
	"encoding/json"
	"fmt"
	"time"

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
	Time    time.Time `json:"time,omitzero"` // when it was kept
}

// Attempt is an attempt of the settlement's request, with its price.
type Attempt struct {
	ID           string `json:"id"`
	Route        string `json:"route"`
	Provider     string `json:"provider"`
	Model        string `json:"model"`
	PriceVersion int64  `json:"price_version"`
	Price        Price  `json:"price"`
}

// Price is in microcents per million tokens.
type Price struct {
	Input      int64  `json:"input"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Output     int64  `json:"output"`
	Tiers      []Tier `json:"tiers,omitempty"`
}

// Tier is the price of a request with so many tokens of input and more.
type Tier struct {
	Above      int64 `json:"above"`
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
}

func (r *Record) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the settlement of request %q: %w", r.Settlement.Request, err)
	}
	return b, nil
}

func decode(payload []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("decoding a settlement: %w", err)
	}
	return r, nil
}
