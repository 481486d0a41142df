package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestEstimatedUsage charges what the provider counted itself, for an upstream that reports no usage (GAP-108).
func TestEstimatedUsage(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "local", Input: "0", Metering: "estimate"}}})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-108 BILL-09 never more output than was asked for "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				reply := script(upstream.Usage{}, "length", upstream.Text(strings.Repeat("zq", 50)))
				reply.Usage = upstream.UsageNever
				c.Answers(reply)
				a := c.Ask(sh, allowance(sh, 5), mode.Field)
				require.EqualValues(t, 5*1_500, outcomeOf(t, sh, a).Billed(t), "its upstream counts in other tokens")
				r := c.Record(t, a)
				require.EqualValues(t, 5*1_500, r.Held)
				require.EqualValues(t, 5, *r.Attempts[0].Usage.Output)
				require.True(t, r.Attempts[0].Usage.Estimated)
				require.Equal(t, c.Credits*ledger.MicrocentsPerCredit-5*1_500, c.Net())
			})
		}
	}
}
