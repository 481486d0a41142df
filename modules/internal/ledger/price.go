package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// ErrUsage: the numbers that a provider reported cannot be charged: a negative count, or more than any
// model could use. It is the provider's error, never the client's.
var ErrUsage = errors.New("usage cannot be charged")

const (
	// MaxTokens bounds one class of one attempt.
	MaxTokens = 1 << 40
	// MaxCharge bounds one attempt, in microcents: ten million US dollars.
	MaxCharge = MaxTopUp * MicrocentsPerCredit
	// tokensPerPrice is how many tokens a config.Price is for.
	tokensPerPrice = 1_000_000
)

// Tally sums what the attempts of one request cost, exactly: the division by a million tokens happens once,
// in Microcents, over all of them (GAP-48). The zero Tally is empty.
type Tally struct {
	hi, lo uint64 // microcents x tokensPerPrice, 128 bits
}

// Add adds an attempt's usage at the price in force when it began, in the tier of its prompt. A class that was not
// reported counts 0; Reasoning is a part of Output and not counted again. ErrUsage leaves the tally as it was.
func (t *Tally) Add(u llm.Usage, p config.Price) error {
	p, _ = p.At(u.Prompt())
	var part Tally
	for _, c := range [...]struct {
		name   string
		tokens *int64
		price  int64
	}{
		{"input", u.Input, p.Input},
		{"cache read", u.CacheRead, p.CacheRead},
		{"cache write", u.CacheWrite, p.CacheWrite},
		{"output", u.Output, p.Output},
		{"reasoning", u.Reasoning, 0},
	} {
		n := llm.Tokens(c.tokens)
		if n < 0 || n > MaxTokens || c.price < 0 {
			return fmt.Errorf("pricing %d %s tokens at %d: %w", n, c.name, c.price, ErrUsage)
		}
		part.add(bits.Mul64(uint64(n), uint64(c.price)))
	}
	if m, err := part.Microcents(); err != nil || m > MaxCharge {
		return fmt.Errorf("pricing %d prompt and %d output tokens: %w: above %d microcents",
			u.Prompt(), llm.Tokens(u.Output), ErrUsage, int64(MaxCharge))
	}
	t.add(part.hi, part.lo)
	return nil
}

// add cannot overflow: four products below 2^103 an attempt, and no request has 2^23 attempts.
func (t *Tally) add(hi, lo uint64) {
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, lo, 0)
	t.hi, _ = bits.Add64(t.hi, hi, carry)
}

// addMicrocents adds an amount of money.
func (t *Tally) addMicrocents(n int64) { t.add(bits.Mul64(uint64(n), tokensPerPrice)) }

// less reports whether the tally is less than another.
func (t *Tally) less(o Tally) bool { return t.hi < o.hi || t.hi == o.hi && t.lo < o.lo }

// Microcents is the charge, rounded down: never more than was used. ErrUsage when it is not an int64.
func (t Tally) Microcents() (int64, error) {
	if t.hi >= tokensPerPrice {
		return 0, fmt.Errorf("summing a charge: %w: above any balance", ErrUsage)
	}
	q, _ := bits.Div64(t.hi, t.lo, tokensPerPrice)
	if q > math.MaxInt64 {
		return 0, fmt.Errorf("summing a charge: %w: above any balance", ErrUsage)
	}
	return int64(q), nil
}

// Cost is what one attempt costs by itself, in microcents, rounded down.
func Cost(u llm.Usage, p config.Price) (int64, error) {
	var t Tally
	if err := t.Add(u, p); err != nil {
		return 0, err
	}
	return t.Microcents()
}

// HoldFor is the most that a call can cost, in microcents, rounded up: a bound on the prompt at its dearest
// class, and the whole output allowance (GAP-49), in the dearest tier that the bound can reach. Numbers that make no
// sense give a hold that no balance covers, never one that is too small.
func HoldFor(boundTokens, allowance int64, p config.Price) int64 {
	most, from := int64(0), int64(0)
	for _, t := range p.Tiers {
		if t.Above > boundTokens {
			break
		}
		at, _ := p.At(from)
		most, from = max(most, holdAt(t.Above-1, allowance, at)), t.Above
	}
	at, _ := p.At(from)
	return max(most, holdAt(boundTokens, allowance, at))
}

// holdAt is HoldFor in one tier.
func holdAt(boundTokens, allowance int64, p config.Price) int64 {
	dearest := max(p.Input, p.CacheRead, p.CacheWrite)
	if boundTokens < 0 || allowance < 0 || dearest < 0 || p.Output < 0 {
		return math.MaxInt64
	}
	var t Tally
	t.add(bits.Mul64(uint64(boundTokens), uint64(dearest)))
	t.add(bits.Mul64(uint64(allowance), uint64(p.Output)))
	t.add(0, tokensPerPrice-1)
	m, err := t.Microcents()
	if err != nil {
		return math.MaxInt64
	}
	return m
}
