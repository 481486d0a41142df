package ledger

import (
	"errors"
	"math"
	"time"
)

// Room is the most that a request can come to for its account and its key to cover it now. What it holds already is in
// it, and math.MaxInt64 is no limit.
type Room struct {
	Microcents int64
	Tokens     int64 // input and output
}

// Refusal is why an account or its key does not cover a request, and what they do cover: the error of a Hold, a Begin
// or a Check. Nothing was held.
type Refusal struct {
	Why error // ErrNothingLeft, ErrHeld, ErrInsufficient, ErrSpendCap, ErrTokenBudget, ErrKeySpendCap or ErrKeyHeld
	// Left is what is left of what Why is about, in microcents, or in tokens of a token budget; not below 0.
	Left int64
	Room Room // by all limits
	Sum  Sum
}

// Sum is what Left of a Refusal comes from: Limit less Used and Held, in its unit. Where it is about the balance, Limit
// is that, Used what was used and is not debited yet, and Left in whole credits. What the request itself holds already
// is in Held of a balance.
type Sum struct {
	Limit, Used, Held int64
	Ends              time.Time // when Used begins anew; zero where it does not, or that is no help
}

func (r *Refusal) Error() string { return r.Why.Error() }
func (r *Refusal) Unwrap() error { return r.Why }

// Bounds are what bounds a request. Less than nothing counts as nothing.
type Bounds struct {
	Available int64 // microcents that can be held besides, and 0 where no request is admitted
	Held      int64 // microcents that the request holds
	// SpendCap, TokenBudget and KeyCap are what is left of each, nil where there is no such limit. What others hold is
	// left out of the key's only.
	SpendCap, TokenBudget, KeyCap *int64
}

// Refuse is the refusal for a reason.
func (b Bounds) Refuse(why error) *Refusal {
	left := func(limit *int64) int64 {
		if limit == nil {
			return math.MaxInt64
		}
		return max(0, *limit)
	}
	available := max(0, b.Available)
	r := &Refusal{Why: why, Left: available, Room: Room{
		Microcents: min(b.Held+available, left(b.SpendCap), left(b.KeyCap)),
		Tokens:     left(b.TokenBudget),
	}}
	if b.KeyCap != nil && b.Held > *b.KeyCap { // a cap that came later: what is held is beyond it already
		r.Room.Microcents = 0
	}
	switch {
	case errors.Is(why, ErrSpendCap):
		r.Left = left(b.SpendCap)
	case errors.Is(why, ErrTokenBudget):
		r.Left = left(b.TokenBudget)
	case errors.Is(why, ErrKeySpendCap):
		r.Left = left(b.KeyCap)
	}
	return r
}
