package exchange

import (
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/llm"
)

// pace is how the tokens of an attempt came. A reader's batch has one time: of most tokens nobody asks the clock.
type pace struct {
	now         time.Time // when the batch that is taken was read
	first, last time.Time // when tokens came; zero before the first
	longest     time.Duration
	reasoning   bool // was seen
}

// note notes a token, or several that came as one.
func (p *pace) note(reasoning bool) {
	if p.first.IsZero() {
		p.first = p.now
	} else {
		p.longest = max(p.longest, p.now.Sub(p.last))
	}
	p.last, p.reasoning = p.now, p.reasoning || reasoning
}

// mean is the time between two tokens, 0 where they came at once. Those of reasoning that the upstream keeps to itself
// came before what was seen.
func (p *pace) mean(u *llm.Usage) time.Duration {
	if u == nil {
		return 0
	}
	seen := llm.Tokens(u.Output)
	if !p.reasoning {
		seen -= llm.Tokens(u.Reasoning)
	}
	if seen < 2 {
		return 0
	}
	return p.last.Sub(p.first) / time.Duration(seen-1)
}

// times are how long the attempt took, when it has ended.
func (a *attempt) times() engine.AttemptTimes {
	return engine.AttemptTimes{All: a.took, FirstToken: a.firstAfter, InterToken: a.pace.mean(a.usage),
		LongestPause: a.pace.longest}
}
