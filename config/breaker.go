package config

import (
	"time"

	"github.com/zclconf/go-cty/cty"
)

// maxBreakerFailures bounds failures: so many of the latest attempts on a route are remembered.
const maxBreakerFailures = 64

// maxRetriesPerSecond is more than any gateway tries again for nothing.
const maxRetriesPerSecond = 10_000

// autoConcurrent is the max_concurrent that adapts.
const autoConcurrent = "auto"

// usualBreaker is what an empty breaker block says. Without any block there is none: what a gateway does with failures
// does not change because a new version knows more of them.
func usualBreaker() Breaker {
	return Breaker{Failures: 5, Window: 30 * time.Second, OpenFor: 15 * time.Second, Outliers: true, RetryAfter: true}
}

// breaker decodes the block that holds for all routes.
func (l *loader) breaker(file *section) Breaker {
	var b Breaker
	for _, block := range file.blocks["breaker"] {
		b = usualBreaker()
		l.open(block, &breakerGrammar).breakerInto(&b)
	}
	return b
}

// ownBreaker decodes a route's own block: what it leaves out is as for all.
func (s *section) ownBreaker(all Breaker) *Breaker {
	var own *Breaker
	for _, block := range s.blocks["breaker"] {
		if own = new(all); all == (Breaker{}) {
			*own = usualBreaker()
		}
		s.inner(block, &breakerGrammar).breakerInto(own)
	}
	return own
}

func (s *section) breakerInto(b *Breaker) {
	s.integer("failures", &b.Failures)
	s.duration("window", &b.Window)
	s.duration("open_for", &b.OpenFor)
	s.flag("outliers", &b.Outliers)
	s.flag("retry_after", &b.RetryAfter)
}

var usualRetryBudget = RetryBudget{Ratio: 0.2, MinPerSecond: 10}

func (l *loader) retryBudget(file *section) RetryBudget {
	b := RetryBudget{Ratio: 1, MinPerSecond: maxRetriesPerSecond}
	if len(file.blocks["breaker"]) > 0 {
		b = usualRetryBudget
	}
	for _, block := range file.blocks["retry_budget"] {
		b = usualRetryBudget
		s := l.open(block, &retryBudgetGrammar)
		s.fraction("ratio", &b.Ratio)
		s.integer("min_per_second", &b.MinPerSecond)
	}
	return b
}

// concurrent reads how many attempts a route takes at a time.
func (s *section) concurrent(r *Route) {
	v, ok := s.read("max_concurrent")
	switch {
	case !ok:
	case v.Type() == cty.String && v.AsString() == autoConcurrent:
		r.AutoConcurrent = true
	case v.Type() == cty.String && !v.outside:
		s.refuse(v, "must be a whole number without quotes, or \"auto\"")
	default:
		s.integer("max_concurrent", &r.MaxConcurrent)
	}
}

// BreakerOf is what holds for a route.
func (c *Config) BreakerOf(r *Route) Breaker {
	if r.Breaker != nil {
		return *r.Breaker
	}
	return c.Breaker
}
