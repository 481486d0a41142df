package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// EntryKind says what moved money.
type EntryKind string

const (
	TopUp      EntryKind = "top_up"
	Charged    EntryKind = "charge"
	Adjustment EntryKind = "adjustment" // a correction, with its reason
)

// Entry is one movement of an account's money, and a link of the account's hash chain. Entries are never
// changed and never removed. Whatever moves no money (a hold, a settlement at zero) makes no entry.
type Entry struct {
	Account    string
	Seq        int64 // 1 for the account's first entry, without gaps
	Kind       EntryKind
	Request    string // of a charge, or ""
	Reference  string // of a top-up, or ""
	Reason     string
	Microcents int64 // what it adds to the account's worth: negative for a charge
	Credits    int64 // the balance after it
	Accrued    int64 // the accrued remainder after it
	Created    time.Time
	Prev       [32]byte // Hash of the entry before it, zero for the first
}

// Hash covers every field, in an encoding in which no two entries look alike: a version, then numbers as
// eight bytes and texts after their length. Changing it makes all older ledgers fail their verification.
func (e Entry) Hash() [32]byte {
	b := make([]byte, 0, 512)
	b = append(b, "fareway ledger entry 1\n"...)
	b = append(b, e.Prev[:]...)
	for _, s := range [...]string{e.Account, string(e.Kind), e.Request, e.Reference, e.Reason} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range [...]int64{e.Seq, e.Microcents, e.Credits, e.Accrued, e.Created.UnixNano()} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return sha256.Sum256(b)
}
