package config

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Price is what tokens of each class cost, in microcents per million of them (GAP-48).
type Price struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	// Tiers are the prices of whole requests by their input, from the lowest bound on.
	Tiers []Tier `json:"tiers,omitempty"`
}

// Tier is what all tokens of a request cost whose input, cached or not, is at least Above tokens.
type Tier struct {
	Above      int64 `json:"above"`
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
}

// price is the tier as a price without tiers.
func (t Tier) price() Price {
	return Price{Input: t.Input, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Output: t.Output}
}

// At is what a request costs whose input is so many tokens, cached ones included: a price without tiers. from is the
// bound of the tier, 0 where none is reached.
func (p Price) At(input int64) (at Price, from int64) {
	at = p
	at.Tiers = nil
	for _, t := range p.Tiers {
		if input < t.Above {
			break
		}
		at, from = t.price(), t.Above
	}
	return at, from
}

// Equal reports whether two prices are the same.
func (p Price) Equal(o Price) bool {
	return p.Input == o.Input && p.CacheRead == o.CacheRead && p.CacheWrite == o.CacheWrite && p.Output == o.Output &&
		slices.Equal(p.Tiers, o.Tiers)
}

// Dated is a price that begins at a time.
type Dated struct {
	From  time.Time `json:"from"` // 00:00 UTC of a day
	Price Price     `json:"price"`
}

// In is what a route charges at a time, and what it costs the operator.
func (r *Route) In(now time.Time) (price, cost Price) {
	return inForce(r.Price, r.LaterPrices, now), inForce(r.Cost, r.LaterCosts, now)
}

func inForce(p Price, later []Dated, now time.Time) Price {
	for _, d := range later {
		if now.Before(d.From) {
			break
		}
		p = d.Price
	}
	return p
}

// NextPrice is when the first price after now begins, the zero time when none does.
func (r *Route) NextPrice(now time.Time) (next time.Time) {
	for _, later := range [...][]Dated{r.LaterPrices, r.LaterCosts} {
		for _, d := range later {
			if now.Before(d.From) && (next.IsZero() || d.From.Before(next)) {
				next = d.From
			}
		}
	}
	return next
}

// prices reads the blocks of prices by class: one that is in force at first, and those that begin on a day. ok is
// false when there is none of the first kind. Of the route the bounds of tokens are read, which are 0 where nothing
// says them; u is what its model usually costs.
func (s *section) prices(name string, g *grammar, r *Route, u usualPrice) (first Price, later []Dated, ok bool) {
	days := make(map[string]hcl.Range)
	var at hcl.Range // of the first
	for _, block := range s.blocks[name] {
		if len(block.Labels) == 0 {
			if ok {
				s.fail(block.DefRange(), fmt.Sprintf("Second %s block without a day", name),
					fmt.Sprintf("The first is %s. Join them, or give this one the day on which it begins:\n"+
						"%s \"2027-01-01\" {", s.place(at), name))
				continue
			}
			first, ok, at = s.priceOf(block, g, r, u), true, block.DefRange()
			continue
		}
		from, good := s.day(block, days)
		if p := s.priceOf(block, g, r, u); good {
			later = append(later, Dated{From: from, Price: p})
		}
	}
	if !ok && len(s.blocks[name]) > 0 {
		s.fail(s.blocks[name][0].DefRange(), "Missing "+name+" block without a day",
			"This one begins on its day. Add one without a label, which holds until then.")
	}
	slices.SortFunc(later, func(a, b Dated) int { return a.From.Compare(b.From) })
	return first, later, ok
}

// day reads a block's label, the day on which it begins.
func (s *section) day(block *hclsyntax.Block, taken map[string]hcl.Range) (time.Time, bool) {
	label, at := block.Labels[0], block.LabelRanges[0]
	from, err := time.Parse(time.DateOnly, label)
	if err != nil {
		s.fail(at, "Invalid day", fmt.Sprintf("The label of a %s block is the day on which it begins, at 00:00 UTC, "+
			"written like \"2027-01-01\".", block.Type))
		return from, false
	}
	return from, s.first(block, taken)
}

// priceOf reads one block of prices. Reading from and writing to an upstream's cache cost as much as input unless the
// block says otherwise.
func (s *section) priceOf(block *hclsyntax.Block, g *grammar, r *Route, u usualPrice) Price {
	b := s.inner(block, g)
	p := b.classes(block, r, u)
	bounds := make(map[string]hcl.Range)
	for _, inner := range b.blocks["above"] {
		label, at := inner.Labels[0], inner.LabelRanges[0]
		above, err := strconv.ParseInt(label, 10, 64)
		t := b.inner(inner, &tierGrammar).classes(inner, r, u)
		if err != nil || above < 1 || above > maxTokens || label[0] == '+' || label[0] == '0' {
			s.fail(at, "Invalid number of tokens", fmt.Sprintf("The label is the number of input tokens from which on these "+
				"prices hold for all tokens of a request: 1 to %d, in digits, such as \"272000\".", int64(maxTokens)))
			continue
		}
		if r.ContextWindow > 0 && above >= r.ContextWindow {
			s.warn(at, "No request is so long", fmt.Sprintf("The route's context_window is %d tokens: these prices never hold. "+
				"Is one of the two a slip?", r.ContextWindow))
		}
		if s.first(inner, bounds) {
			p.Tiers = append(p.Tiers, Tier{above, t.Input, t.CacheRead, t.CacheWrite, t.Output})
		}
	}
	slices.SortFunc(p.Tiers, func(a, b Tier) int { return cmp.Compare(a.Above, b.Above) })
	return p
}

// classes reads the price of each class. The longest request and the longest reply of the route have to come to an
// amount at each.
func (s *section) classes(block *hclsyntax.Block, r *Route, u usualPrice) (p Price) {
	whole := true
	read := func(name string, target *int64, bound string, tokens int64) {
		v, ok := s.price(name, target)
		if !ok {
			return
		}
		u.compare(s, v, *target)
		if _, ok := amount(*target, tokens); !ok {
			s.tooDear(v.at, name+" times "+bound)
			whole = false
		}
	}
	const window, output = "context_window", "max_output"
	read("input", &p.Input, window, r.ContextWindow)
	read("output", &p.Output, output, r.MaxOutput)
	p.CacheRead, p.CacheWrite = p.Input, p.Input
	read("cache_read", &p.CacheRead, window, r.ContextWindow)
	read("cache_write", &p.CacheWrite, window, r.ContextWindow)
	if whole {
		in, _ := amount(max(p.Input, p.CacheRead, p.CacheWrite), r.ContextWindow)
		out, _ := amount(p.Output, r.MaxOutput)
		if in > math.MaxInt64-out {
			s.tooDear(block.DefRange(), "the dearest input times "+window+" and output times "+output+" together")
		}
	}
	return p
}

// amount is so many tokens at a price, in millionths of a microcent; false where that passes an int64.
func amount(price, tokens int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(max(0, price)), uint64(max(0, tokens)))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}

// tooDear refuses what one request could come to.
func (s *section) tooDear(at hcl.Range, what string) {
	s.fail(at, "Price and tokens are too large together", fmt.Sprintf("One request could come to more than the largest "+
		"amount, US$%d: %s would pass it. Prices are in US dollars per million tokens; is one of them a slip?",
		math.MaxInt64/microcentsPerDollar/tokensPerPrice, what))
}
