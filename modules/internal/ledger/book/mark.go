package book

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Hold is a running request's attempt as a row of its own. Seq 0 is a request that was held before its first attempt.
type Hold struct {
	Request                  string
	Seq                      int64
	AccountNumber, KeyNumber int64
	Owner, Endpoint, Profile string
	Hold                     int64 // microcents: all that the request holds in its first row, and 0 in others
	ledger.Attempt
	Created time.Time
	Beside  bool
}

// Mark is a hash of the row, as a number. Rows come and go with their requests, so that no chain can have them: the
// sum of their marks shows that none was changed, removed or put in. Those of an older ledger have none. scratch is
// memory to use.
func (h *Hold) Mark(scratch *[]byte) int64 {
	if h.Worst < 0 {
		return 0
	}
	b := (*scratch)[:0]
	for _, s := range [...]string{h.Request, h.Owner, h.Endpoint, h.Profile, h.Route, h.Provider, h.Model} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	for _, n := range [...]int64{
		h.Seq, h.AccountNumber, h.KeyNumber, h.Hold, h.PriceVersion, h.Created.UnixNano(), h.Worst,
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if h.Beside { // rows of an older ledger are none
		b = append(b, 1)
	}
	*scratch = b
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
