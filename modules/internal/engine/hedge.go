package engine

import (
	"math"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
)

// What came of a hedge.
const (
	HedgeStarted    = "started"
	HedgeWon        = "won"         // the second call answered
	HedgeLimited    = "limited"     // there was none: hedge_share was used up
	HedgeBusy       = "busy"        // likewise: the other route takes no more at the moment, or does not serve
	HedgeNotCovered = "not_covered" // likewise: the hold could not be raised, or the ledger was away
)

// HedgeAfter is for how long a call shows nothing before it is late; false where nobody knows yet.
func (g *Generation) HedgeAfter(route string, c health.Call, h config.Hedge) (time.Duration, bool) {
	if h.After > 0 {
		return h.After, true
	}
	after, known := g.routes[route].state.FirstToken(c, h.Quantile)
	return after, known && after < math.MaxInt64
}

// Hedgeable counts a request whose profile has hedges.
func (r *requests) Hedgeable(p *config.Profile) { r.healths.hedges[p.Name].Request(p.HedgeShare) }

// MayHedge counts a second call, if the profile's hedge_share has one left.
func (r *requests) MayHedge(p *config.Profile) bool { return r.healths.hedges[p.Name].Take() }
