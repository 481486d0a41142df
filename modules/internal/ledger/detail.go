package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Detail hashes what a request was when it was settled, whatever came later: the Detail of its charge's Entry. It
// covers everything on record but what the entry says itself (the amounts, the price versions' names) and what later
// entries do.
func (r *RequestRecord) Detail() Digest {
	b := append(make([]byte, 0, 1024), "fareway ledger request 1\n"...)
	b = appendTexts(b, r.ID, r.Account, r.Key, r.Owner, r.Endpoint, r.Profile, r.Reason)
	b = appendNumbers(b, r.Held, int64(r.Status), truth(r.Free), truth(r.ServiceLimit), r.Surcharge,
		r.Created.UnixNano(), r.Settled.UnixNano(), int64(len(r.Attempts)))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		outcome, usage := a.Outcome, a.Usage
		if !a.Receipt.IsZero() || outcome == Closed { // what was proven later was not known then
			outcome, usage = Unproven, llm.Usage{}
		}
		b = a.append(b, outcome, &usage)
	}
	return sha256.Sum256(b)
}

// Detail hashes what an attempt is since a receipt proved it, or since it was closed: the Detail of the Entry of that.
func (a *AttemptRecord) Detail() Digest {
	b := append(make([]byte, 0, 512), "fareway ledger attempt 1\n"...)
	b = appendNumbers(b, truth(!a.Receipt.IsZero()))
	return sha256.Sum256(a.append(b, a.Outcome, &a.Usage))
}

func (a *AttemptRecord) append(b []byte, outcome Outcome, u *llm.Usage) []byte {
	b = appendTexts(b, a.ID, a.Route, a.Provider, a.Model, string(outcome))
	b = appendNumbers(b, a.PriceVersion, a.Worst, a.Created.UnixNano(), truth(u.Estimated))
	b = appendCounts(b, u)
	if a.Estimate == nil {
		b = append(b, 0)
	} else {
		b = appendCounts(append(b, 1), a.Estimate)
	}
	b = appendTiers(appendTiers(appendPrice(appendPrice(b, a.Price), a.Cost), 1, a.Price.Tiers), 2, a.Cost.Tiers)
	if a.Key != "" { // it adds nothing otherwise: there was none before there were keys
		b = appendTexts(appendNumbers(b, detailKey), a.Key)
	}
	if a.Operator { // likewise
		b = appendNumbers(b, detailOperator)
	}
	return b
}

// These mark an attempt's key, and one that is the operator's, as appendTiers marks whose tiers follow.
const (
	detailKey      = 3
	detailOperator = 4
)

func appendPrice(b []byte, p config.Price) []byte {
	return appendNumbers(b, p.Input, p.CacheRead, p.CacheWrite, p.Output)
}

// appendTiers adds nothing for a price without tiers: there was none before there were tiers.
func appendTiers(b []byte, whose int64, tiers []config.Tier) []byte {
	if len(tiers) == 0 {
		return b
	}
	b = appendNumbers(b, whose, int64(len(tiers)))
	for _, t := range tiers {
		b = appendNumbers(b, t.Above, t.Input, t.CacheRead, t.CacheWrite, t.Output)
	}
	return b
}

// appendCounts tells a count that was not reported from one of 0.
func appendCounts(b []byte, u *llm.Usage) []byte {
	for _, n := range [...]*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
		if n == nil {
			b = append(b, 0)
		} else {
			b = appendNumbers(append(b, 1), *n)
		}
	}
	return b
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	b = slices.Grow(b, 8*len(numbers))
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
