package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// usualHedgeShare is a hedge_share that an upstream hardly notices.
const usualHedgeShare = 0.05

// Hedge is when a call that shows nothing gets a second one beside it, on another route (Dean and Barroso, "The Tail
// at Scale", 2013). The zero value is never.
type Hedge struct {
	// Quantile of the route's own first tokens, 0 to 1: the call is late when so large a share of them came sooner. 0:
	// it is after After.
	Quantile float64
	After    time.Duration
}

// String is it as the configuration has it, "" for never.
func (h Hedge) String() string {
	switch {
	case h.Quantile > 0:
		return fmt.Sprintf("p%.0f", h.Quantile*100)
	case h.After > 0:
		return h.After.String()
	}
	return ""
}

// MarshalText is String.
func (h Hedge) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// quantilePattern has those of which a few dozen first tokens tell something.
var quantilePattern = regexp.MustCompile(`^p([5-9][0-9])$`)

// hedge reads when a call is late, and how many may be.
func (s *section) hedge(p *Profile) {
	share := s.attributes["hedge_share"]
	if s.attributes["hedge"] == nil {
		if share != nil {
			s.fail(share.NameRange, "hedge_share without hedge", "Nothing says when a call is late. Remove the line, or add "+
				"one such as: hedge = \"p95\"")
		}
		return
	}
	p.HedgeShare = usualHedgeShare
	s.share("hedge_share", &p.HedgeShare)
	if v, ok := s.read("hedge"); ok {
		s.late(v, &p.Hedge)
	}
}

func (s *section) late(v value, h *Hedge) {
	const either = "a share of the route's first tokens, from \"p50\" to \"p99\", or a duration, as in \"800ms\""
	if v.Type() != cty.String {
		s.refuseType(v, either)
		return
	}
	if m := quantilePattern.FindStringSubmatch(v.AsString()); m != nil {
		percent, _ := strconv.Atoi(m[1]) // two digits
		h.Quantile = float64(percent) / 100
		return
	}
	if _, known := ParseDuration(v.AsString()); !known {
		s.refuse(v, "must be "+either)
		return
	}
	var problem string
	if h.After, problem = duration(v.AsString(), s.grammar.rule("hedge").kind.longest); problem != "" {
		s.refuse(v, problem)
	}
}
