package ledger

import (
	"crypto/sha256"
	"time"
)

// EntryKind says what moved money.
type EntryKind string

const (
	TopUp      EntryKind = "top_up"
	Charged    EntryKind = "charge"     // a settlement
	Receipt    EntryKind = "receipt"    // what a later receipt added to a request's charge
	Closing    EntryKind = "closing"    // what an attempt that nobody proved in time was taken to have used
	Refund     EntryKind = "refund"     // of a request's charge
	Adjustment EntryKind = "adjustment" // a correction, with its reason
	Allotment  EntryKind = "allotment"  // the plan's credits for a period
)

// Name is what people call entries of the kind.
func (k EntryKind) Name() string {
	switch k {
	case TopUp:
		return "top-up"
	case Adjustment:
		return "correction"
	case Allotment:
		return "credits of the plan"
	case Closing:
		return "closing without proof"
	}
	return string(k)
}

// Book is the other side of an entry: what the account gains, this one loses. Together with the accounts all
// books are zero at any time.
type Book string

const (
	Payments    Book = "payments"    // of top-ups
	Revenue     Book = "revenue"     // of charges, receipts, closings and refunds
	Adjustments Book = "adjustments" // of adjustments
	Allotments  Book = "allotments"  // of allotments
)

// Book is where the other side of entries of this kind is.
func (k EntryKind) Book() Book {
	switch k {
	case TopUp:
		return Payments
	case Charged, Receipt, Closing, Refund:
		return Revenue
	case Allotment:
		return Allotments
	default:
		return Adjustments
	}
}

// EntryFormat is that of the entries that are made now.
const EntryFormat = 5

// Entry is one movement of money between an account and a Book, and a link of the account's hash chain. Entries are
// never changed and never removed. A settlement, a receipt and a closing make one also where they move nothing, for
// their entry vouches for what is on record of the request; a hold makes none. Entries are numbered by account, and
// by nothing else.
type Entry struct {
	// N was the entry's place among those of all accounts, up to format 2; 0 since.
	N       int64     `json:"n,omitempty"`
	Account string    `json:"account"`
	Seq     int64     `json:"seq"` // 1 for the account's first entry, without gaps
	Kind    EntryKind `json:"kind"`
	Book    Book      `json:"book"`
	Request string    `json:"request,omitempty"` // of a charge, receipt, closing or refund
	// Reference is of a top-up, refund or adjustment; of an allotment the beginning of its period.
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// Prices are the price versions that made it: of a charge those of all attempts with usage, in order and each once,
	// "small@3 deep@1"; of a receipt or closing its attempt's.
	Prices string `json:"prices,omitempty"`
	// what it adds to the account's worth and takes from the book: negative for a charge
	Microcents int64 `json:"microcents"`
	// Of a charge, receipt or closing since format 3: what it left free and what was used beyond the hold, both in
	// microcents, the tokens that it counted against the token budget, and the hash of what it is about, which is
	// RequestRecord.Detail or AttemptRecord.Detail.
	Waived  int64     `json:"waived_microcents,omitempty"`
	Over    int64     `json:"over_microcents,omitempty"`
	Tokens  int64     `json:"tokens,omitempty"`
	Detail  Digest    `json:"detail,omitzero"`
	Credits int64     `json:"credits"` // the balance after it
	Accrued int64     `json:"accrued"` // the accrued remainder after it
	Created time.Time `json:"time"`
	// Format is that of the hash: 1 knows neither Book nor Prices nor N, 2 nothing of Waived to Detail, 3 knows no N.
	// What was used is judged by the rules of its time: up to 3 the hold alone bounded a charge, since 4 each attempt's
	// worst does as well (GAP-123). Up to 4 fair use left a part free as a whole or not at all; since 5 what fits is
	// (GAP-135).
	Format int64  `json:"format"`
	Prev   Digest `json:"prev"` // Hash of the account's entry before it, zero for the first
}

// Hash covers every field, in an encoding in which no two entries look alike: a version, then numbers as
// eight bytes and texts after their length. Changing it makes all older ledgers fail their verification.
func (e Entry) Hash() Digest {
	b := make([]byte, 0, 512)
	texts := [...]string{e.Account, string(e.Kind), e.Request, e.Reference, e.Reason, string(e.Book), e.Prices}
	numbers := [...]int64{e.Seq, e.Microcents, e.Credits, e.Accrued, e.Created.UnixNano()}
	switch e.Format {
	case 1:
		b = append(b, "fareway ledger entry 1\n"...)
		b = hashed(b, e.Prev, texts[:5], numbers[:])
	case 2:
		b = append(b, "fareway ledger entry 2\n"...)
		b = appendNumbers(hashed(b, e.Prev, texts[:], numbers[:]), e.N)
	default:
		b = append(append(append(b, "fareway ledger entry "...), '0'+byte(e.Format)), '\n')
		b = appendNumbers(hashed(b, e.Prev, texts[:], numbers[:]), e.Waived, e.Over, e.Tokens)
		b = append(b, e.Detail[:]...)
	}
	return sha256.Sum256(b)
}

func hashed(b []byte, prev Digest, texts []string, numbers []int64) []byte {
	return appendNumbers(appendTexts(append(b, prev[:]...), texts...), numbers...)
}
