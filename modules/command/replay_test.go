package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/decisions"
)

// TestPrintReplay: a replay, as people read it.
func TestPrintReplay(t *testing.T) {
	t.Parallel()
	side := func(charged, cost int64, quality float64, routes ...decisions.RouteShare) decisions.Side {
		return decisions.Side{Charged: charged, Cost: cost, Margin: charged - cost, Quality: quality, Routes: routes}
	}
	c := &decisions.Comparison{
		Since: time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), Requests: 12_345, Unread: 7, Unpaid: 1, Charged: 200_000_000,
		Cost: 100_000_000,
		Before: side(200_000_000, 100_000_000, 0.8, decisions.RouteShare{Route: "large", Requests: 12_000},
			decisions.RouteShare{Route: "gone", Requests: 345}),
		After: side(150_000_000, 50_000_000, 0.76, decisions.RouteShare{Route: "large", Requests: 12_340}),
		Shifts: []decisions.Shift{{From: "gone", To: "large", Requests: 340}, {From: "gone", To: "", Requests: 5},
			{From: "", To: "large", Requests: 1}},
	}
	c.After.Refused = []decisions.RefusedHere{{Reason: "too large", Requests: 5}}
	c.After.Unjudged = []decisions.Unjudged{{Strategy: "careful", Why: "nobody knows: request.difficulty", Requests: 2}}
	c.After.Shadows, c.After.ShadowCost = 123, 1_000_000
	var b strings.Builder
	printReplay(&b, c)
	lines := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 0 {
				list = append(list, strings.Join(fields, " "))
			}
		}
		return list
	}
	require.Equal(t, lines(`
12,345 requests since 2026-11-16 00:00:00 UTC, routed again by what serves and by this:
SERVES NEW
expected charges, US$ 2.000000 1.500000 -25.0%
expected cost, US$ 1.000000 0.500000 -50.0%
expected margin, US$ 1.000000 1.000000
shadows besides, US$ 0.000000 0.010000
shadow calls 0 123
expected quality 0.8000 0.7600 -5.0%
refused 0 5
ROUTE SERVES NEW
large 12,000 12,340
gone 345 0
Requests that would go elsewhere:
gone -> large: 340
gone -> refused: 5
refused -> large: 1
Refused by this, 5 requests: too large.
Strategy careful was passed over for 2 requests: its `+"`when`"+` asks what is not recorded (nobody knows: `+
		`request.difficulty).
Really they were charged US$2.000000 and cost US$1.000000. Expected is what the tokens that were used come to by `+
		`today's prices.
Judged by what the file says of routes alone: 7 requests, for which no quality was predicted.
Left out: 1 request that credits or limits refused.
`), lines(b.String()))

	require.Equal(t, "\r[===============               ] 500 of 1,000 requests", progress(500, 1000, "request"))
	require.Equal(t, "\r[==============================] 1,001 of 1,000 requests", progress(1001, 1000, "request"))
	require.Equal(t, "\r[                              ] 0 of 0 requests", progress(0, 0, "request"))
}
