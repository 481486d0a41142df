package command

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/requestlog"
)

// TestPrintRefused: what a 402 or 429 came from is printed as arithmetic, in its unit.
func TestPrintRefused(t *testing.T) {
	t.Parallel()
	resets := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		refused *requestlog.Refused
		want    string
	}{
		"nothing": {nil, ""},
		"a cap": {&requestlog.Refused{By: "spend_cap", Unit: "microcents", Needed: 3_000_001, Limit: 9_000_000,
			Used: 6_500_000, Left: 2_500_000, Allowance: 1234, Resets: &resets}, `
spend cap          9.000000 credits
- used             6.500000
- held             0.000000
= left             2.500000
needed             3.000001 at most
would have fitted  an output allowance of 1,234 tokens
resets             2026-12-01 09:30:00 UTC
`},
		"the balance": {&requestlog.Refused{By: "balance", Unit: "microcents", Limit: 2_000_000, Used: 1, Held: 500_000}, `
balance      2.000000 credits
- used       0.000001
- held       0.500000
= available  0.000000, in whole credits
`},
		"a rate": {&requestlog.Refused{By: "key_requests_per_minute", Unit: "requests", Needed: 1, Limit: 600, Used: 600,
			Resets: &resets}, `
requests a minute of the key  600 requests
- used                        600
= left                        0
needed                        1 at most
resets                        2026-12-01 09:30:00 UTC
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			printRefused(&b, tc.refused)
			require.Equal(t, tc.want, b.String())
		})
	}
}
